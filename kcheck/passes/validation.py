"""What a validated compile is asked for, and what it raises."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kcheck.contents import contents
from kcheck.report.text import verdict_text
from kcheck.verdict import Finding, Location, UsageError, Verdict

UNDECIDED = ("warn", "error", "ignore")
ENGINES = ("auto", "term", "field")


@dataclass(frozen=True)
class Validate:
    """How to validate a compile.

    `reference`: what the kernel must equal: None (the same program without optimizations),
    another prim_func, the path of a PTX file with its launch file, or a function of the inputs
    (`lambda A, B: A @ B`). `every_rung`: prove each optimization by itself. `bisect`: name the
    optimization at fault. `engine`, `time_limit` (seconds), `memory_limit` (MB), `strict`,
    `mask_literals`: as `equivalent` has them. `shapes`: numbers for symbolic extents; the verdict
    is for these. `inputs`: what is known of buffers and scalars, by name, in the words of a launch
    file: `{"index": {"range": [0, 511]}, "seed": {"values": [7]}}`; values may be arrays.
    `on_undecided`: what to do where there is no answer, or kcheck fails: warn, error or ignore.
    `report`: the folder that gets a folder for each kernel that is not proved.
    UsageError for what is none of these.
    """

    reference: Any = None
    every_rung: bool = False
    bisect: bool = True
    engine: str = "auto"
    time_limit: float | None = None
    memory_limit: float | None = None
    strict: bool = False
    mask_literals: tuple[float, ...] = ()
    shapes: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    on_undecided: str = "warn"
    report: str | Path = "kcheck-reports"
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _plain(self.inputs))
        for name, value, known in (
            ("on_undecided", self.on_undecided, UNDECIDED),
            ("engine", self.engine, ENGINES),
        ):
            if value not in known:
                raise UsageError(f"Validate: {name}={value!r}: expected {', '.join(known)}")

    @property
    def key(self) -> str:
        """A text that says all that a verdict depends on, the reference apart."""
        apart = {"reference", "report", "on_undecided", "every_rung", "bisect"}
        return json.dumps(
            {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart},
            sort_keys=True,
            default=str,
        )


def _plain(inputs: Any) -> dict[str, dict[str, Any]]:
    """Inputs whose text says all of them, which arrays and names of files do not. UsageError."""
    expected = 'expected {"name": {"range": [0, 9]}}'
    if not isinstance(inputs, Mapping):
        raise UsageError(f"Validate: inputs={inputs!r}: {expected}")
    for name, keys in inputs.items():
        if not isinstance(name, str) or not isinstance(keys, Mapping):
            raise UsageError(f"Validate: inputs: {name!r}: {keys!r}: {expected}")
    return {
        name: {str(key): _said(value, f"{name}: {key}") for key, value in keys.items()}
        for name, keys in inputs.items()
    }


def _said(value: Any, where: str) -> Any:
    if isinstance(value, (str, Path)) and where.endswith(": values"):
        try:
            return contents(str(value))
        except (OSError, ValueError, EOFError) as error:
            message = f"{where}: {value}: {error}; expected a list, an array or a .npy file"
            raise UsageError(f"Validate: inputs: {message}") from error
    return value.tolist() if hasattr(value, "tolist") else value


@dataclass(frozen=True)
class Step:
    """One comparison: a rung against what stands before it. `changed`: lines of PTX."""

    rung: str
    changed: int
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """What came of validating one kernel.

    `rung`: the optimization that is at fault, or None. `steps`: the comparisons made, in order.
    `seconds`: wall time by what it was spent on. `cached`: the verdict was known.
    """

    kernel: str
    verdict: Verdict
    rung: str | None = None
    steps: tuple[Step, ...] = ()
    folder: Path | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    cached: bool = False

    @property
    def headline(self) -> str:
        """One line: the kernel, the optimization, the reason and the places."""
        where = f"{self.kernel}: {self.rung}" if self.rung else self.kernel
        finding = main_finding(self.verdict)
        if finding is None:
            return f"{where}: {self.verdict.verdict} {self.verdict.reason or ''}".rstrip()
        places = dict.fromkeys(sourced(place) for place in _places(finding))
        at = f" ({', '.join(places)})" if places else ""
        return f"{where}: {finding.reason}: {finding.message}{at}"

    def report(self) -> str:
        """The headline, then the verdict with all findings."""
        folder = [f"files: {self.folder}"] if self.folder else []
        return "\n".join([self.headline, verdict_text(self.verdict), *folder])


def main_finding(verdict: Verdict) -> Finding | None:
    """The finding that gave the verdict its reason."""
    first = [f for f in verdict.findings if f.reason == verdict.reason]
    return next(iter([*first, *verdict.findings]), None)


def _places(finding: Finding) -> list[Location]:
    """Where a finding lies: where values begin to differ, if that is known."""
    found = finding.first_difference
    if found is not None:
        made = [place for place in (found.subject_at, found.reference_at) if place is not None]
        if made:
            return made
    return list(finding.locations)


def sourced(place: Location) -> str:
    """The place in the source where it is known, else in the PTX."""
    return place.source[0] if place.source else f"{place.file}:{place.line}"


class ValidationError(Exception):
    """The compiled kernel is wrong, or, if so asked, could not be proved right.

    `verdict`: with all findings and the witness. `rung`: the optimization that is at fault.
    `folder`: the files: PTX, CUDA and launches of both sides, the report, the witness.
    """

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.verdict = outcome.verdict
        self.rung = outcome.rung
        self.folder = outcome.folder
        files = f"; files: {outcome.folder}" if outcome.folder else ""
        super().__init__(outcome.headline + files)

    def report(self) -> str:
        """All that is known, as text."""
        return self.outcome.report()


class ValidationWarning(UserWarning):
    """A compiled kernel could not be proved right, and not refuted."""


def digest(*texts: str) -> str:
    """The SHA-256 of texts, as hexadecimal digits; no two lists of texts have one by design."""
    state = hashlib.sha256()
    for text in texts:
        data = text.encode()
        state.update(f"{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()
