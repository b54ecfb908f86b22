"""Aligned barriers that a part of a warp comes to: both evaluators, in several schedules."""

from __future__ import annotations

import pytest

from kcheck.check import safe
from kcheck.report.text import finding_lines
from tests.semantics.harness import body_same, entry, launch_of, out

PARAMS = [out("O", "u32", 64)]
STORE = "st.global.u32 [%O], 1;"
# what lanes do apart, at which lines a part of a warp is alone (none: all is well)
PROGRAMS = {
    # an early return, before and after work, in the middle of a warp
    "return": ("setp.ge.u32 %p1, %tid.x, 40; @%p1 ret; bar.sync 0; st.global.u32 [%O], 1;", ""),
    "work, then return": (
        f"setp.lt.u32 %p1, %tid.x, 40; @%p1 bra W; {STORE} ret; W: bar.sync 0; {STORE}",
        "",
    ),
    "work, then the common return": (
        f"setp.lt.u32 %p1, %tid.x, 40; @%p1 bra W; {STORE} bra E; W: bar.sync 0; {STORE} E:",
        "",
    ),
    "all of it guarded": (f"setp.ge.u32 %p1, %tid.x, 9; @%p1 bra E; bar.sync 0; {STORE} E:", ""),
    "a return from inside": (
        f"""setp.ge.u32 %p1, %tid.x, 32; @%p1 bra J; setp.ge.u32 %p1, %tid.x, 5; @%p1 ret;
        bar.sync 1, 32; J: {STORE}""",
        "",
    ),
    "nothing but moves behind it": (
        "setp.lt.u32 %p1, %tid.x, 9; @%p1 bar.sync 0; add.u32 %r1, %r1, 1;",
        "",
    ),
    "more leave after it": (
        f"""setp.ge.u32 %p1, %tid.x, 16; @%p1 bra E; bar.sync 0; setp.eq.u32 %p2, %tid.x, 3;
        @%p2 bra E; {STORE} E:""",
        "",
    ),
    # whole warps, and lanes that come by two ways
    "a warp skips it": (f"setp.lt.u32 %p1, %tid.x, 32; @%p1 bar.sync 1, 32; {STORE}", ""),
    "two conditions": (
        f"""setp.lt.u32 %p1, %tid.x, 9; @%p1 bra X; setp.ge.u32 %p1, %tid.x, 64; @%p1 bra J;
        X: bar.sync 0; J: {STORE}""",
        "",
    ),
    "rounds by warp": (
        f"""shr.u32 %r1, %tid.x, 5; L: bar.sync 0; sub.u32 %r1, %r1, 1;
        setp.ge.s32 %p1, %r1, 0; @%p1 bra L; {STORE}""",
        "",
    ),
    # each thread for itself
    "not aligned": (f"setp.lt.u32 %p1, %tid.x, 16; @%p1 barrier.sync 0; {STORE}", ""),
    "not aligned, counted": (
        f"setp.lt.u32 %p1, %tid.x, 16; @!%p1 bra J; barrier.sync 1, 32; J: {STORE}",
        "",
    ),
    # wrong
    "half a warp": (
        f"setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; bar.sync 0; J: {STORE}",
        "bar.sync 0",
    ),
    "under a guard": (
        f"setp.lt.u32 %p1, %tid.x, 16; @%p1 bar.sync 0; {STORE}",
        "@%p1 bar.sync 0",
    ),
    "aligned by name": (
        f"setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; barrier.sync.aligned 0; J: {STORE}",
        "barrier.sync.aligned 0",
    ),
    "a count that one warp fills": (
        f"setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; bar.sync 1, 32; J: {STORE}",
        "bar.sync 1, 32",
    ),
    "a vote": (
        f"""setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; bar.red.popc.u32 %r1, 0, %p1; J: {STORE}""",
        "bar.red.popc.u32 %r1, 0, %p1",
    ),
    "rounds by lane": (
        f"""and.b32 %r1, %tid.x, 1; L: bar.sync 0; sub.u32 %r1, %r1, 1;
        setp.ge.s32 %p1, %r1, 0; @%p1 bra L; {STORE}""",
        "bar.sync 0",
    ),
    "one arm of two": (
        f"""setp.ge.u32 %p1, %tid.x, 50; @%p1 bra E; {STORE} bar.sync 0; bra J;
        E: add.u32 %r1, %r1, 1; J: {STORE}""",
        "bar.sync 0",
    ),
    "inside a wider branch": (
        f"""setp.ge.u32 %p1, %tid.x, 48; @%p1 bra E; setp.ge.u32 %p2, %tid.x, 40; @%p2 bra J;
        bar.sync 0; J: {STORE} E:""",
        "bar.sync 0",
    ),
    "half a warp, of which one lane leaves": (
        f"""setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; bar.sync 0; setp.eq.u32 %p2, %tid.x, 3;
        @%p2 bra E; J: {STORE} E:""",
        "bar.sync 0",
    ),
    # arrivals
    "a warp arrives": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; bar.arrive 1, 64; bra J;
        S: bar.sync 1, 64; J: {STORE}""",
        "",
    ),
    "an elected lane arrives": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; setp.ne.u32 %p2, %tid.x, 32; @%p2 bra J;
        bar.arrive 1, 64; bra J; S: bar.sync 1, 64; J: {STORE}""",
        "bar.arrive 1, 64",
    ),
    "an elected lane arrives under a guard": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; setp.eq.u32 %p2, %tid.x, 32;
        @%p2 bar.arrive 1, 64; {STORE} ret; S: bar.sync 1, 64; {STORE}""",
        "@%p2 bar.arrive 1, 64",
    ),
    "an elected lane arrives, and all leave": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; {STORE} setp.eq.u32 %p2, %tid.x, 32;
        @%p2 bar.arrive 1, 64; ret; S: bar.sync 1, 64; {STORE}""",
        "",
    ),
    # it waits for the others of its warp, which leave
    "an elected lane arrives for itself": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; setp.eq.u32 %p2, %tid.x, 32;
        @%p2 barrier.arrive 1, 64; {STORE} ret; S: bar.sync 1, 64; {STORE}""",
        "",
    ),
    "halves of a warp arrive one after another": (
        f"""setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; setp.lt.u32 %p2, %tid.x, 48;
        @%p2 barrier.arrive 1, 64; @!%p2 barrier.arrive 1, 64; {STORE} ret;
        S: bar.sync 1, 64; {STORE}""",
        "",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_both_evaluators(name: str, seed: int | None) -> None:
    body, line = PROGRAMS[name]
    outcome = body_same(body + " ret;", PARAMS, block=64, seed=seed, outputs=not line)
    assert outcome.findings == ({("deadlock.divergent", line)} if line else set())


@pytest.mark.parametrize("name", PROGRAMS)
def test_through_safe(name: str) -> None:
    body, line = PROGRAMS[name]
    verdict = safe(entry(body + " ret;", PARAMS), launch=launch_of(PARAMS, block=64), seed=1)
    wanted = ("refuted", "deadlock.divergent") if line else ("proved", None)
    assert (verdict.verdict, verdict.reason) == wanted
    assert [p.text for f in verdict.findings for p in f.locations] == [line] * bool(line)


def test_the_report_names_both_parts() -> None:
    body = f"setp.ge.u32 %p1, %tid.x, 40; @%p1 bra J; bar.sync 0;\nJ: {STORE} ret;"
    verdict = safe(entry(body, PARAMS), launch=launch_of(PARAMS, block=64), seed=1)
    message = verdict.findings[0].message
    assert "only threads 32-39 of their warp" in message
    assert "threads 40-63 went on at line" in message


# lanes that arrive and wait for lanes of their warp that wait elsewhere
STUCK = [
    """setp.lt.u32 %p1, %tid.x, 32; @%p1 bra S; setp.eq.u32 %p2, %tid.x, 32;
    @%p2 barrier.arrive 1, 64; bar.sync 0; bra J; S: bar.sync 1, 64; bar.sync 0; J:""",
    """setp.eq.u32 %p2, %tid.x, 0; @%p2 barrier.arrive 1, 64; bar.warp.sync -1;""",
    """setp.eq.u32 %p2, %tid.x, 0; @%p2 bra A; barrier.sync 1, 64; bra J; A: barrier.arrive 1, 64;
    J:""",
]


@pytest.mark.parametrize("body", STUCK)
def test_an_arrival_waits_for_its_warp(body: str) -> None:
    body = f"{body} {STORE} ret;"
    verdict = safe(entry(body, PARAMS), launch=launch_of(PARAMS, block=64), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "deadlock.divergent")


def test_a_shuffle_from_a_lane_that_has_returned() -> None:
    """Its value is undefined; where nobody uses it, nothing is wrong."""
    shuffle = """setp.ge.u32 %p1, %tid.x, 40; @%p1 ret;
    shfl.sync.down.b32 %r1, 7, 8, 31, -1;"""
    outcome = body_same(f"{shuffle} st.global.u32 [%O], %r1; ret;", PARAMS, block=64)
    assert outcome.outputs["O"][32:41] == ["undef"] * 8 + ["unwritten"]
    used = f"{shuffle} setp.ge.u32 %p1, %tid.x, 32; @%p1 ret; st.global.u32 [%O], %r1; ret;"
    assert not body_same(used, PARAMS, block=64).findings


def test_lanes_that_go_round_for_ever_have_not_returned() -> None:
    body = "setp.ge.u32 %p1, %tid.x, 40; L: @%p1 bra L; bar.sync 0; st.global.u32 [%O], 1; ret;"
    verdict = safe(entry(body, PARAMS), launch=launch_of(PARAMS, block=64), time_limit=1.0)
    assert verdict.verdict == "undecided"
    assert (verdict.reason or "").startswith("budget.")


def test_one_kernel_has_no_sides() -> None:
    body = f"setp.ge.u32 %p1, %tid.x, 16; @%p1 bra J; bar.sync 0; J: {STORE} ret;"
    refuted = safe(entry(body, PARAMS), launch=launch_of(PARAMS, block=64), seed=1)
    refused = safe(entry("trap;", PARAMS), launch=launch_of(PARAMS, block=64), seed=1)
    assert {f.side for v in (refuted, refused) for f in v.findings} == {"kernel"}
    assert finding_lines(refuted.findings[0])[0].startswith("  deadlock.divergent: only threads")
