"""A sample of benchmarks/barriers.py: kernels that lack one synchronization."""

from __future__ import annotations

import pytest

from benchmarks.barriers import Mutant, judge, mutants, schedules
from tests.corpus import DATA

# kernel -> the outcomes of its mutants, in the order of their lines
OUTCOMES = {
    "cases/01-partial-warp-missing-sync/fix": ["race.read-write"],
    "cases/03-divergent-barrier-warp-aligned/fix": ["race.read-write"] * 2,
    "cases/06-cp-async-wait-too-lax-in-tail/fix": ["race.async"] * 4 + ["race.read-write"] * 2,
    "cases/22-inplace-neighbour-update/fix": ["race.read-write"],
    "triton/row_sum/b64_w2": ["race.read-write"],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(name: str) -> None:
    path = DATA / f"{name}.ptx"
    found = [judge(path, mutant) for mutant in mutants(path.read_text())]
    assert found == OUTCOMES[name]


def test_schedules_can_tell() -> None:
    """Random schedules of a racy mutant differ: `spared` is no empty word."""
    path = DATA / "cases/07-tiled-matmul-missing-trailing-sync/fix.ptx"
    outcomes = [schedules(path, mutant) for mutant in mutants(path.read_text())]
    assert any(outcome.startswith("DIFFERS") for outcome in outcomes)
    unchanged = Mutant(0, "nothing", path.read_text())
    assert schedules(path, unchanged) == "spared"
