"""Where the kernels of tests/data lie, and how tests name them."""

from __future__ import annotations

from pathlib import Path

from kcheck.check import equivalent
from kcheck.verdict import Verdict

DATA = Path(__file__).parent / "data"
TILELANG = DATA / "tilelang"
CASES = DATA / "cases"
TRITON = DATA / "triton"
# pairs of TileLang kernels that are declared equal
DECLARED = 33


def verdict_of(
    folder: Path, reference: str, subject: str, *, safety: bool = True, engine: str = "auto"
) -> Verdict:
    """The verdict on two files of a folder (without `.ptx`); `safety`: look for races too."""
    paths = (folder / f"{reference}.ptx", folder / f"{subject}.ptx")
    return equivalent(*paths, safety=safety, engine=engine, seed=1)


def races_of(verdict: Verdict) -> set[tuple[int, ...]]:
    """The lines of both accesses of each race, in order."""
    return {
        tuple(sorted(place.line for place in finding.locations))
        for finding in verdict.findings
        if finding.reason.startswith("race.")
    }
