"""One kernel executed on given inputs: what `kcheck run` does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck.canon.ieee.approximate import Choice
from kcheck.evaluate import evaluate
from kcheck.evaluate_formats import evaluate_formats
from kcheck.loading import KernelLike, LaunchLike, load_kernel, load_one
from kcheck.preconditions import kept
from kcheck.question import SEED_BITS, Progress
from kcheck.semantics.execution import Refused
from kcheck.undecided import refused
from kcheck.verdict import Finding, UsageError
from kcheck.witness import Subject, unknown_inputs

ENGINES = ("enclosure", "ieee")
# the part of their allowed error that approximate instructions make
APPROX = {"nearest": 0.0, "high": 1.0, "low": -1.0, "random": 0.0}


@dataclass(frozen=True)
class RunResult:
    """What `run` gives: arrays (float64 or integers) by buffer name, figures, findings."""

    outputs: dict[str, Any]
    statistics: dict[str, Any]
    findings: tuple[Finding, ...]


def run(
    kernel: KernelLike,
    *,
    launch: LaunchLike = None,
    kernel_name: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int | None = None,
    ctas: list[int] | None = None,
    progress: Progress | None = None,
    engine: str = "enclosure",
    approx: str = "nearest",
) -> RunResult:
    """Execute one kernel on given or random inputs.

    `engine`: "enclosure", over the reals in float64 enclosures, whose centres are the outputs; or
    "ieee", in true formats (evaluate_formats.py), where `approx` says what approximate
    instructions return: "nearest", or the "high", "low" or (by the seed) "random" end of what
    their documented error allows. Outputs have the shape of the buffer, NaN where undefined or
    never written. Raises UsageError and PtxError for bad arguments.
    """
    if engine not in ENGINES or approx not in APPROX:
        known = f"{', '.join(ENGINES)}; {', '.join(APPROX)}"
        raise UsageError(f"engine {engine}, approx {approx}: there are {known}")
    if engine != "ieee" and approx != "nearest":
        raise UsageError(f"approx {approx}: approximate instructions err in engine ieee only")
    loaded = load_kernel(kernel, kernel_name)
    side = Subject(loaded, load_one(kernel, loaded, launch))
    started = time.monotonic()
    used = secrets.randbits(SEED_BITS) if seed is None else seed
    given = _inputs(side, inputs or {}, used)
    try:
        report = progress or (lambda stage, done: None)
        stage: Callable[[float], None] = lambda done: report(f"executing {loaded.name}", done)  # noqa: E731
        if engine == "ieee":
            choice = Choice(APPROX[approx], used if approx == "random" else None)
            outputs, findings, figures = evaluate_formats(side, given, ctas, stage, choice)
        else:
            outputs, findings, figures = evaluate(side, given, ctas, stage)
    except Refused as error:
        return RunResult({}, {"seed": used}, refused(error).findings)
    figures = {"seed": used, **figures, "seconds": round(time.monotonic() - started, 3)}
    return RunResult(outputs, figures, findings)


def _inputs(side: Subject, given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The given arrays, flattened, and small fractions for the others."""
    rng = np.random.default_rng(seed)
    sizes = unknown_inputs(side)
    for name, values in given.items():
        if name not in sizes:
            known = ", ".join(sizes) or "none"
            raise UsageError(f"input `{name}`: the kernel's open inputs are {known}")
        if np.asarray(values).size != sizes[name]:
            raise UsageError(
                f"input `{name}` has {np.asarray(values).size} elements; expected {sizes[name]}"
            )
    return {
        name: np.asarray(given[name], np.float64).reshape(-1)
        if name in given
        else kept({name: rng.integers(-127, 128, n) / 64.0}, side.launch)[name]
        for name, n in sizes.items()
    }
