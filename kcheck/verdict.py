"""What kcheck says in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# verdict -> exit code (usage errors exit 2)
EXIT = {"proved": 0, "refuted": 1, "undecided": 3, "proved-for-cta": 3, "error": 4}

# reasons of findings, worst first
ORDER = ("bounds", "deadlock", "race", "undefined", "value")


class UsageError(Exception):
    """Arguments or files that can't be used: one line that says what, where, and the mend."""


def number_text(x: float) -> str:
    """A number for people: integers in full as long as float64 has them all, else 9 digits."""
    whole = abs(x) < 2**53 and x == int(x)
    return f"{x:.0f}" if whole else f"{x:.9g}"


def element(buffer: str, index: Iterable[int]) -> str:
    """`C[3,17]`."""
    return f"{buffer}[{','.join(map(str, index))}]"


@dataclass(frozen=True)
class Location:
    """An access or instruction; `thread` and `cta` are (x, y, z) or None.

    `source`: the places that it was made from (`gemm.py:31`), the nearest to the user first.
    """

    file: str
    line: int
    text: str
    thread: tuple[int, int, int] | None = None
    cta: tuple[int, int, int] | None = None
    source: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """The first value in which two kernels differ, inside out: what each side has, as a formula,
    and the instruction that makes it (None: it is an input or a constant).
    """

    reference: str
    subject: str
    reference_at: Location | None = None
    subject_at: Location | None = None


@dataclass(frozen=True)
class Finding:
    """One defect. `reason` is dotted (`bounds.global`); `side`: reference, subject or both, and
    kernel where there is but one.

    `confirmed`: by what the slow evaluator confirmed it: `schedules` (two that order the two
    accesses of a race differently), `definition` (of a race, from its own log), `execution` (it
    meets the defect too); `no`: seen, not confirmed; "": there is nothing to confirm.
    """

    reason: str
    message: str
    side: str
    locations: tuple[Location, ...] = ()
    count: int = 1
    first_difference: Difference | None = None
    confirmed: str = ""


@dataclass(frozen=True)
class Witness:
    """An input on which the two outputs differ: enclosures `[low, high]` of both values.

    `inputs`: flat arrays by name. `entries`: (name, index, number) of what is not 0 in them, ()
    the index of a scalar. `path`: where the input is saved; `scripts`: programs beside it that run
    both kernels on it. `by_rounding`: literals that were rounded differently could explain it.
    """

    buffer: str
    index: tuple[int, ...]
    reference: tuple[float, float]
    subject: tuple[float, float]
    family: str
    inputs: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    path: str | None = None
    scripts: tuple[str, ...] = ()
    entries: tuple[tuple[str, tuple[int, ...], float], ...] = ()
    by_rounding: bool = False

    @property
    def gap(self) -> float:
        """How far the two values are apart at least; 0 where one may be infinite."""
        (low, high), (floor, top) = self.reference, self.subject
        gap = max(floor - high, low - top)
        return gap if 0 < gap < float("inf") else 0.0


@dataclass(frozen=True)
class Verdict:
    """The answer to one question. `error_bound_log2` is negative, or None (exact or no bound).

    `outputs`: (equal, compared) elements. `ctas`: CTAs executed. `next_steps`: what to try when
    the verdict is `undecided`.
    """

    verdict: str
    reason: str | None = None
    method: str | None = None
    error_bound_log2: float | None = None
    outputs: tuple[int, int] = (0, 0)
    ctas: int = 0
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    ledger: tuple[str, ...] = ()
    witness: Witness | None = None
    next_steps: tuple[str, ...] = ()
    kernels: tuple[str, str] = ("", "")
    statistics: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def exit_code(self) -> int:
        """The exit code of the command line (DESIGN.md 3)."""
        return EXIT[self.verdict]
