"""What is seen counts, whatever comes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcheck import limits
from kcheck.check import equivalent, safe
from kcheck.limits import LimitReached
from kcheck.race_runs import RaceRuns
from kcheck.report.text import finding_lines, verdict_text
from kcheck.semantics.slow import SlowMachine
from kcheck.semantics.slow.races import Monitor
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, launch_of, out, symbol
from tests.snippets import on_floats
from tests.test_limits import Countdown

SHARED = ".shared .align 4 .b8 s[512];"
PARAMS = [symbol("x", "f32", 64), symbol("y", "f32", 64), out("z", "f32", 64)]
# all threads store to one cell of shared memory, different values
RACE = "mov.b32 %r1, s; cvt.rn.f32.u32 %f9, %tid.x; st.shared.f32 [%r1], %f9;"
# each thread reads half of a float that it stored
REFUSED = (
    "mov.b32 %r1, s; shl.b32 %r2, %tid.x, 2; add.u32 %r1, %r1, %r2; bar.sync 0;"
    "st.shared.f32 [%r1], %f1; ld.shared.u16 %h1, [%r1]; cvt.u32.u16 %r3, %h1;"
)
END = "add.f32 %f3, %f1, %f2;"
FAR = "mov.b32 %r1, s; ld.shared.f32 %f9, [%r1+512];"


def on(body: str) -> str:
    return entry(f"{SHARED} {on_floats(body + END)}", PARAMS)


def checked(body: str, **more: Any) -> Verdict:
    return safe(on(body), launch=launch_of(PARAMS, block=64), seed=1, **more)


def reasons(verdict: Verdict) -> list[tuple[str, str]]:
    return [(f.reason, f.confirmed) for f in verdict.findings]


def test_a_race_before_a_refusal_refutes() -> None:
    assert reasons(checked(REFUSED)) == [("unsupported.reinterpret", "")]
    verdict = checked(RACE + REFUSED)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert reasons(verdict) == [("race.write-write", "schedules"), ("unsupported.reinterpret", "")]
    assert {f.side for f in verdict.findings[:1]} == {"kernel"}
    pair = equivalent(on(""), on(RACE + REFUSED), launch=launch_of(PARAMS, block=64), seed=1)
    assert (pair.verdict, pair.reason, pair.findings[0].side) == (
        "refuted",
        "race.write-write",
        "subject",
    )


def test_the_order_of_reasons_holds_before_a_refusal() -> None:
    verdict = checked(RACE + FAR + REFUSED)
    assert verdict.reason == "bounds.shared"
    assert reasons(verdict)[:2] == [
        ("bounds.shared", "execution"),
        ("race.write-write", "schedules"),
    ]


def test_a_budget_of_the_run_keeps_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcheck.semantics.machine.BUDGET", 1000)
    loop = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400; @%p1 bra L;"
    verdict = checked(RACE + loop)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert [f.reason for f in verdict.findings] == ["race.write-write", "budget.time"]


def test_a_limit_names_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """At whichever look it is reached, in the execution, too."""
    counter = Countdown(1 << 30)
    monkeypatch.setattr(limits, "check", counter)
    checked(RACE + REFUSED)
    total = (1 << 30) - counter.left
    told = set()
    for n in range(total):
        monkeypatch.setattr(limits, "check", Countdown(n))
        verdict = checked(RACE + REFUSED)
        told.add((verdict.verdict, verdict.reason, *reasons(verdict)))
        if ("race.write-write", "no") in reasons(verdict):
            assert "seen, not confirmed" in verdict_text(verdict)
    race, limit = "race.write-write", ("budget.time", "")
    assert told == {
        ("undecided", "budget.time", limit),
        ("undecided", "budget.time", limit, (race, "no")),
        ("refuted", race, (race, "definition"), ("unsupported.reinterpret", "")),
    }


def test_what_the_slow_evaluator_does_not_see_refutes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Monitor, "_report", lambda *more: None)
    verdict = checked(RACE)
    assert (verdict.verdict, verdict.reason) == ("error", "unconfirmed.race.write-write")
    assert reasons(verdict) == [("race.write-write", "no")]
    beside = checked(FAR + RACE)  # another defect is certain
    assert (beside.verdict, beside.reason) == ("refuted", "bounds.shared")
    assert reasons(beside)[1:] == [("race.write-write", "no")]


def test_without_time_for_schedules_the_definition_confirms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kcheck.race_runs.BUDGET", 10)
    (finding,) = checked(RACE).findings
    assert finding.confirmed == "definition"
    assert "by its definition" in finding_lines(finding)[-1]


@pytest.mark.parametrize("threads", [64, 32])
def test_both_orders_across_ctas(threads: int) -> None:
    """The second CTA begins once the first thread came to its store; each pair is listed once."""
    params = [out("z", "u32", 64)]
    body = (
        "bar.sync 0; mov.u32 %r1, 0; shl.b32 %r2, %tid.x, 2; cvt.u64.u32 %d1, %r2;"
        "add.u64 %d1, %d1, %pz; L: st.global.u32 [%d1], %gid; bar.sync 0;"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 40; @%p1 bra L;"
    )
    launch = launch_of(params, 2, threads)
    verdict = safe(entry(body, params), launch=launch, seed=1)
    (finding,) = verdict.findings
    assert (verdict.reason, finding.confirmed) == ("race.global", "schedules")
    assert "same value" not in finding.message


def test_both_orders_where_ctas_meet_later() -> None:
    """What the second CTA writes first is what the other writes in its third turn."""
    params = [out("z", "u32", 192)]
    body = (
        "mov.u32 %r1, 0; mov.u32 %r3, %ctaid.x; shl.b32 %r3, %r3, 6; add.u32 %r2, %tid.x, %r3;"
        "shl.b32 %r2, %r2, 2; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %pz;"
        "L: st.global.u32 [%d1], %gid; add.u64 %d1, %d1, 128;"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 4; @%p1 bra L;"
    )
    verdict = safe(entry(body, params), launch=launch_of(params, 2), seed=1)
    (finding,) = verdict.findings
    assert (verdict.reason, finding.confirmed) == ("race.global", "schedules")


def test_what_was_seen_before_a_limit_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two races that the second evaluator's run had come to."""
    watch = SlowMachine.watch

    def cut(machine: SlowMachine, enough: Callable[[Monitor], bool]) -> bool:
        watch(machine, lambda monitor: bool(monitor.races))
        raise LimitReached("time", "the time limit of the test is reached")

    monkeypatch.setattr(SlowMachine, "watch", cut)
    verdict = checked(RACE + "bar.sync 0; add.u32 %r1, %r1, 256;" + "st.shared.f32 [%r1], %f9;")
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert [by for _, by in reasons(verdict)] == ["definition", "no"]


def test_equal_values_of_two_ctas_are_said_to_be_equal() -> None:
    """A race all the same: the lanes of one instruction are of one CTA (DESIGN.md 5)."""
    params = [out("z", "u32", 64)]
    verdict = safe(entry("st.global.u32 [%pz], 7;", params), launch=launch_of(params, 2), seed=1)
    (finding,) = verdict.findings
    assert (verdict.verdict, finding.reason) == ("refuted", "race.global")
    assert "; both store the same value here" in finding.message


def test_runs_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two races of one CTA are confirmed by one run."""
    made = []
    run = RaceRuns._run

    def counted(*arguments: Any) -> None:
        made.append(1)
        run(*arguments)

    monkeypatch.setattr(RaceRuns, "_run", counted)
    body = RACE + "ld.shared.f32 %f8, [%r1]; st.shared.f32 [%r1], %f8;"
    verdict = checked(body)
    assert len(verdict.findings) > 2
    assert all(f.confirmed == "schedules" for f in verdict.findings)
    assert len(made) == 1
