"""barrier.red: both evaluators give the same counts, also where threads come apart."""

from __future__ import annotations

import pytest

from kcheck.canon.enclosure import EnclosureDomain
from tests.semantics.harness import body_same, entry, fast, kernel_of, launch_of, out, slow

COMES = {
    "together": "{0}",
    "in two groups": "setp.lt.u32 %p3, %r1, 40; @%p3 bra L; bra M; L: mov.u32 %r9, 1; M: {0}",
    "from two places": (
        "setp.lt.u32 %p3, %r1, 32; @%p3 bra L; {0} bra M; L: mov.u32 %r9, 1; {0} M:"
    ),
    "without those that left": "setp.ge.u32 %p3, %r1, 64; @%p3 bra E; {0}",
}
REDUCTIONS = {
    "popc": "barrier.red.popc.u32 %r2, 1, %p1; st.global.u32 [%z], %r2;",
    "not": "barrier.cta.red.popc.aligned.u32 %r2, 1, !%p1; st.global.u32 [%z], %r2;",
    "and": "bar.red.and.pred %p2, 0, %p1; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%z], %r2;",
    "or": "bar.red.or.pred %p2, 0, %p1; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%z], %r2;",
}


@pytest.mark.parametrize("comes", COMES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("bound", [0, 35, 200])
def test_counts(comes: str, reduction: str, bound: int) -> None:
    body = f"mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {bound};" + COMES[comes]
    outcome = body_same(
        body.format(REDUCTIONS[reduction]) + " E: ret;", [out("z", "u32", 192)], grid=2, block=96
    )
    voters = 64 if "left" in comes else 96
    votes = min(bound, voters)
    wanted = {
        "popc": votes, "not": voters - votes, "and": int(votes == voters), "or": int(votes > 0)
    }[reduction]  # fmt: skip
    assert outcome.outputs["z"][0] == wanted


def test_operations_must_agree() -> None:
    """The lane executor says so at the last arrival, the slow one at the first that differs."""
    body = (
        "setp.lt.u32 %p3, %gid, 32; mov.u32 %r2, 0; @%p3 bra L; bar.sync 0; bra M;"
        "L: bar.red.popc.u32 %r2, 0, %p3; M: st.global.u32 [%z], %r2; ret;"
    )
    params = [out("z", "u32", 64)]
    kernel, launch = kernel_of(entry(body, params)), launch_of(params, block=64)
    outcomes = fast(kernel, launch, EnclosureDomain({}))[0], slow(kernel, launch, {})
    assert [o.stopped and o.stopped[0] for o in outcomes] == ["barrier-count"] * 2
