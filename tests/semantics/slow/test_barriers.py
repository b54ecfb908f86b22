"""CTA and warp barriers, deadlocks, schedules."""

from __future__ import annotations

from typing import Any

import pytest

from kcheck.launch import Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.slow import BudgetExceeded, Double, SlowMachine, SlowResult, Unsupported
from tests.semantics.slow.harness import launch_of, module, run

SETUP = """
    .reg .b32 i, w, n, r, s; .reg .b64 x; .reg .pred p, q; .shared .b32 t[256];
    mov.u32 i, %tid.x; shr.u32 w, i, 5; mad.wide.u32 x, i, 4, O;
    mov.u32 s, t; mad.lo.u32 s, i, 4, s; mov.u32 n, %ntid.x;
"""


def go(body: str, threads: int, seed: int | None = None) -> SlowResult:
    out = Tensor("O", "u32", (threads,), "out")
    return run(module(["O"], SETUP + body + "ret;"), [out], {}, threads, Double, seed)


def one_finding(body: str, threads: int) -> Any:
    (finding,) = go(body, threads).findings
    return finding


REVERSE = """
    st.shared.u32 [s], i; bar.sync 0;
    sub.u32 r, n, i; sub.u32 r, r, 1; mov.u32 s, t; mad.lo.u32 r, r, 4, s;
    ld.shared.u32 r, [r]; st.global.u32 [x], r;
"""


@pytest.mark.parametrize("seed", [None, *range(5)])
@pytest.mark.parametrize("threads", [1, 48, 96])
def test_a_barrier_holds_in_every_schedule(threads: int, seed: int | None) -> None:
    result = go(REVERSE, threads, seed)
    assert result.outputs["O"] == list(range(threads - 1, -1, -1))


def test_without_the_barrier_schedules_differ() -> None:
    racy = REVERSE.replace("bar.sync 0;", "")
    results = {str(go(racy, 64, seed).outputs["O"]) for seed in range(5)}
    assert len(results) > 1


def test_exited_threads_are_not_waited_for() -> None:
    result = go("setp.ge.u32 p, i, 40; @p ret; bar.sync 0; st.global.u32 [x], i;", 96)
    assert result.findings == []
    assert result.outputs["O"][:40] == list(range(40))


def test_whole_warps_may_skip_a_named_barrier() -> None:
    body = "setp.lt.u32 p, i, 64; @p bar.sync 3, 64; bar.sync 0; st.global.u32 [x], i;"
    assert go(body, 128).findings == []


def test_producers_arrive_and_go_on() -> None:
    body = """
        setp.ge.u32 p, i, 32; @p bra WAIT;
        st.shared.u32 [s], 7; bar.arrive 1, 64; ret;
        WAIT: bar.sync 1, 64; ld.shared.u32 r, [s+-128]; st.global.u32 [x], r;
    """
    for seed in (None, 3, 4):
        result = go(body, 64, seed)
        assert result.findings == []
        assert result.outputs["O"][32:] == [7] * 32


def test_a_count_that_is_never_met() -> None:
    finding = one_finding("setp.lt.u32 p, i, 64; @p bar.sync 1, 128;", 128)
    assert finding.reason == "deadlock.barrier"
    assert finding.instr.name == "bar.sync"
    assert "threads 0-63 wait at" in finding.message


def test_part_of_a_warp_at_two_barriers() -> None:
    body = "setp.lt.u32 p, i, 16; @p bra A; bar.sync 0; bra B; A: bar.sync 0; B:"
    finding = one_finding(body, 32)
    assert finding.reason == "deadlock.divergent"
    assert "threads 0-15 wait at" in finding.message
    assert "threads 16-31 wait at" in finding.message


def test_unaligned_barriers_may_diverge() -> None:
    body = "setp.lt.u32 p, i, 16; @p bra A; barrier.sync 0; bra B; A: barrier.sync 0; B:"
    assert go(body, 32).findings == []


def test_part_of_a_warp_at_a_shuffle() -> None:
    body = "setp.lt.u32 p, i, 16; @!p bar.sync 0; @p shfl.sync.idx.b32 r, i, 0, 31, -1;"
    findings = go(body, 32).findings
    assert {finding.reason for finding in findings} == {"deadlock.divergent"}


def test_warp_barriers_meet_by_mask() -> None:
    body = """
        setp.lt.u32 p, i, 16; @p bra A; bar.warp.sync 0xffff0000; bra B;
        A: st.shared.u32 [s], i; bar.warp.sync 0xffff; xor.b32 r, i, 1; mov.u32 s, t;
        mad.lo.u32 r, r, 4, s; ld.shared.u32 r, [r]; st.global.u32 [x], r; B:
    """
    for seed in (None, 1, 2, 3):
        result = go(body, 32, seed)
        assert result.outputs["O"][:16] == [i ^ 1 for i in range(16)]


def test_a_lane_has_to_be_in_its_mask() -> None:
    assert one_finding("bar.warp.sync 0xffff;", 32).reason == "undefined.convergence"


def test_counts_of_one_barrier_have_to_agree() -> None:
    body = "setp.lt.u32 p, i, 32; @p bar.sync 1, 64; @!p bar.sync 1, 96;"
    with pytest.raises(Unsupported, match="barrier-count"):
        go(body, 64)
    with pytest.raises(Unsupported, match="barrier-count"):
        go("bar.sync 1, 48;", 64)


def test_a_loop_without_end_meets_the_budget() -> None:
    text = module(["O"], "L: bra L;")
    launch = launch_of(text, [Tensor("O", "u32", (1,), "out")], 1)
    machine = SlowMachine(lower(parse(text)), launch, {}, Double, budget=1000)
    with pytest.raises(BudgetExceeded, match="budget"):
        machine.run()


def test_loops_and_branches_on_data() -> None:
    """Collatz steps per thread: every lane takes its own way."""
    body = """
        .reg .b32 a, c; add.u32 a, i, 1; mov.u32 c, 0;
        L: setp.eq.u32 p, a, 1; @p bra E; add.u32 c, c, 1; and.b32 r, a, 1; setp.eq.u32 q, r, 0;
        @q bra H; mad.lo.u32 a, a, 3, 1; bra.uni L; H: shr.u32 a, a, 1; bra L;
        E: bar.sync 0; st.global.u32 [x], c;
    """

    def steps(a: int) -> int:
        return 0 if a == 1 else 1 + steps(3 * a + 1 if a % 2 else a // 2)

    assert go(body, 64).outputs["O"] == [steps(i + 1) for i in range(64)]
