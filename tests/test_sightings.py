"""What is seen counts, whatever comes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcheck import field_runs, limits
from kcheck.canon.domain import Collision
from kcheck.check import equivalent, safe
from kcheck.launch import Tensor
from kcheck.limits import LimitReached
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.race_runs import RaceRuns
from kcheck.report.text import finding_lines, verdict_text
from kcheck.semantics.race_reports import Race
from kcheck.semantics.slow import SlowMachine
from kcheck.semantics.slow.races import Monitor
from kcheck.verdict import Verdict
from kcheck.witness import Subject
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


def test_no_barrier_between_a_race_and_a_refusal() -> None:
    """The first thread of a schedule is refused before any other came to its store."""
    body = RACE + "\nbrkpt;"
    text = on(body)
    verdict = checked(body)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    finding = verdict.findings[0]
    assert finding.confirmed == "schedules"
    (line,) = (n for n, each in enumerate(text.splitlines(), 1) if RACE in each)
    assert {(place.line, place.text.split()[0]) for place in finding.locations} == {
        (line, "st.shared.f32")
    }
    assert reasons(verdict)[-1] == ("unsupported.brkpt", "")


def test_no_barrier_between_a_race_of_two_ctas_and_a_refusal() -> None:
    params = [out("z", "u32", 64)]
    text = entry("st.global.u32 [%pz], %ctaid.x; brkpt;", params)
    verdict = safe(text, launch=launch_of(params, grid=2, block=32), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    assert reasons(verdict) == [("race.global", "schedules"), ("unsupported.brkpt", "")]
    assert [p.text for p in verdict.findings[0].locations] == ["st.global.u32 [%pz], %ctaid.x"] * 2


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

    def cut(machine: SlowMachine, enough: Callable[[Monitor], bool], *_: object) -> bool:
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


# an output of integers that only the domain knows: it cannot be read
UNREADABLE = [symbol("i", "s32", 64), out("z", "f32", 64)]


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        ("st.shared.f32 [s], %f9; st.global.b32 [%z], %r5;", "race.write-write", "st.shared"),
        ("st.global.b32 [%z], %r5; st.global.b32 [%z+4], %r5;", "bounds.global", "[%z+4]"),
    ],
)
def test_an_output_that_cannot_be_read_hides_nothing(body: str, reason: str, place: str) -> None:
    text = entry(
        f"{SHARED} cvt.rn.f32.u32 %f9, %tid.x;\nld.global.u32 %r5, [%i];\n"
        + body.replace("; ", ";\n"),
        UNREADABLE,
    )
    verdict = safe(text, launch=launch_of(UNREADABLE, block=64), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", reason)
    assert verdict.findings[-1].reason == "unsupported.reinterpret"
    found = verdict.findings[0].locations[0]
    assert place in found.text
    assert found.text in text.splitlines()[found.line - 1]


def test_a_race_before_the_last_seed_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = field_runs._execute

    def cut(*arguments: Any) -> None:
        execute(*arguments)
        raise Collision("a prime divides a constant")

    monkeypatch.setattr(field_runs, "_execute", cut)
    assert checked("").reason == "budget.seeds"
    verdict = checked(RACE)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert reasons(verdict) == [("race.write-write", "schedules"), ("budget.seeds", "")]
    assert "st.shared.f32" in verdict.findings[0].locations[0].text


MANY = [symbol("x", "f32", 4096), out("z", "f32", 4100)]
SUMS = [symbol("x", "f32", 4096), Tensor("a", "f32", (4,), "inout")]


def test_the_example_of_a_race_of_the_grid_is_one() -> None:
    """The two instructions race within a CTA, too."""
    body = (
        "ld.global.f32 %f1, [%x];\nred.global.add.f32 [%pa], %f1;\n"
        "setp.eq.u32 %p1, %gid, 4000;\n@%p1 st.global.f32 [%pa], %f1;"
    )
    verdict = safe(entry(body, SUMS), launch=launch_of(SUMS, 64, 64), seed=1)
    assert verdict.verdict == "refuted"
    assert "race.global" in {f.reason for f in verdict.findings}
    for finding in verdict.findings:
        first, second = finding.locations
        assert (finding.reason == "race.global") == (first.cta != second.cta)
        assert {first.text.split()[0], second.text.split()[0]} == {"red.global.add.f32", "@%p1"}


def test_another_race_of_the_two_instructions_has_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the second evaluator saw is told as what it was."""
    add = Monitor._add

    def renamed(monitor: Monitor, reason: str, *more: Any) -> None:
        add(monitor, "race.read-write" if reason == "race.global" else reason, *more)

    monkeypatch.setattr(Monitor, "_add", renamed)
    params = [out("z", "u32", 64)]
    text = entry("st.global.u32 [%pz], %gid;", params)
    (finding,) = safe(text, launch=launch_of(params, 2, 1), seed=1).findings
    assert finding.reason == "race.read-write"
    assert "no barrier between" in finding.message


def test_values_that_are_equal_by_the_first_input_only_are_not_said_to_be_equal() -> None:
    body = "ld.global.f32 %f1, [%x]; st.global.f32 [%z], %f1; st.global.f32 [%z+4], %f1;"
    verdict = safe(entry(body, MANY), launch=launch_of(MANY, 64, 64), seed=1)
    assert [(f.reason, f.confirmed) for f in verdict.findings] == [
        ("race.write-write", "schedules"),
        ("race.global", "schedules"),
    ]
    assert not any("same value" in f.message for f in verdict.findings)


@pytest.mark.parametrize(
    ("reason", "cta", "sure"),
    [("race.write-write", 0, True), ("race.global", 1, False), ("race.nc", 0, False)],
)
@pytest.mark.parametrize("strict", [True, False])
def test_strictly_equal_values_are_a_race_within_a_cta_only(
    reason: str, cta: int, sure: bool, strict: bool
) -> None:
    """The lane executor's word alone confirms nothing, whatever it says of that instruction."""
    params = [out("z", "u32", 64)]
    text = entry(f"{SHARED} mov.u32 %r1, s; st.shared.u32 [%r1], 5; st.global.u32 [%z], 1;", params)
    side = Subject(lower(parse(text)), launch_of(params, 2, 32))
    (at,) = (i for i, instr in enumerate(side.kernel.code) if instr.name == "st.shared.u32")
    race = Race(reason, at, at, (0, 0), (1, cta), "s", 0)
    found = RaceRuns(side, 1, [race], strict).confirm(race)
    assert found.sure is (sure and strict)
    assert found.by == ("definition" if found.sure else "")


def guarded(bound: str) -> Verdict:
    """Where a predicate on an input holds, a thread stores to a cell that another stored to."""
    body = (
        "mov.b32 %r1, s; shl.b32 %r2, %tid.x, 2; add.u32 %r2, %r2, %r1; st.shared.f32 [%r2], %f1;"
        f"xor.b32 %r2, %r2, 128;\nsetp.{bound}; @%p1 st.shared.f32 [%r2], %f1;\n"
    )
    return checked(body)


def test_a_race_under_a_predicate_that_held_on_no_input_is_open() -> None:
    verdict = guarded("eq.f32 %p1, %f1, 0f42F6E979")  # 123.456
    assert (verdict.verdict, verdict.reason) == ("undecided", "unconfirmed.race.write-write")
    assert "makes the guards" in verdict.next_steps[0]
    (finding,) = verdict.findings
    assert finding.confirmed == "no"
    assert any("@%p1 st.shared" in place.text for place in finding.locations)


def test_more_inputs_are_tried_for_a_race_under_a_predicate() -> None:
    verdict = guarded("lt.f32 %p1, %f1, 0fC2C80000")  # -100
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert any("@%p1 st.shared" in place.text for place in verdict.findings[0].locations)
