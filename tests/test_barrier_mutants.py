"""A sample of benchmarks/barriers.py: kernels that lack one synchronization."""

from __future__ import annotations

import pytest

from benchmarks.barriers import DIFFERS, REFUTED, SPARED, Mutant, judge, mutants, schedules
from benchmarks.needless import needless
from tests.corpus import DATA

# kernel -> the outcomes of its mutants, in the order of their lines
OUTCOMES = {
    "cases/01-partial-warp-missing-sync/fix": ["race.read-write"],
    "cases/03-divergent-barrier-warp-aligned/fix": ["race.read-write"] * 2,
    "cases/06-cp-async-wait-too-lax-in-tail/fix": ["race.async"] * 4 + ["race.read-write"] * 2,
    "cases/22-inplace-neighbour-update/fix": ["race.read-write"],
    "triton/row_sum/b64_w2": ["race.read-write"],
    # without the last barrier no schedule is evaluated to its end: halves are read as floats
    "triton/layernorm_tail/onepass_w4": ["race.read-write"] * 5,
}  # fmt: skip


OWN = "each cell that both sides access, one of them to write, is one thread's own"
NEEDED = "its two sides share cells that some synchronization must order"


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(name: str) -> None:
    path = DATA / f"{name}.ptx"
    found = [judge(path, mutant) for mutant in mutants(path.read_text())]
    assert found == [(REFUTED, reason) for reason in OUTCOMES[name]]


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("cases/04-warp-tree-no-syncwarp/fix", [NEEDED] * 5 + [OWN]),
        ("cases/09-tree-reduce-non-pow2/fix", [NEEDED] * 5 + [OWN] * 2),
    ],
)
def test_barriers_that_order_nothing(name: str, reasons: list[str]) -> None:
    path = DATA / f"{name}.ptx"
    each = list(mutants(path.read_text()))
    assert [needless(path, mutant.line) for mutant in each] == reasons
    outcomes = [judge(path, mutant)[0] for mutant in each]
    assert outcomes == [REFUTED if reason == NEEDED else SPARED for reason in reasons]


NONE, LATER = "no copy is under way there", "nobody accesses what it completes before a later wait"


def test_waits_that_complete_nothing() -> None:
    """The pipeline of this kernel is longer than its loop."""
    path = DATA / "triton/matmul_splitk/split2_b32x32x32_w4_s2.ptx"
    lines = {184: NONE, 225: LATER, 226: NONE, 277: NONE}
    assert {line: needless(path, line) for line in lines} == lines


def test_schedules_can_tell() -> None:
    """Random schedules of a racy mutant differ: that they agree is no empty word."""
    path = DATA / "cases/07-tiled-matmul-missing-trailing-sync/fix.ptx"
    outcomes = [schedules(path, mutant)[0] for mutant in mutants(path.read_text())]
    assert DIFFERS in outcomes
    unchanged = Mutant(0, "nothing", path.read_text())
    assert schedules(path, unchanged) == (SPARED, "")
