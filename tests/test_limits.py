"""Limits of time and memory: honest wherever they are reached."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from kcheck import limits
from kcheck.canon.term.domain import TermDomain
from kcheck.check import equivalent, safe
from kcheck.limits import LimitReached
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lexer import tokenize
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.source import Source
from kcheck.verdict import UsageError, Verdict
from tests.semantics.harness import entry, launch_of, out, symbol
from tests.snippets import FLOATS, on_floats

SUM, DIFFERENCE = (on_floats(f"{op}.f32 %f3, %f1, %f2;") for op in ("add", "sub"))
EXP = on_floats("ex2.approx.f32 %f4, %f1; ex2.approx.f32 %f5, %f2; mul.f32 %f3, %f4, %f5;")
FUSED = on_floats("add.f32 %f4, %f1, %f2; ex2.approx.f32 %f3, %f4;")
# lanes of two warps store to one cell of shared memory, unordered
RACE = "mov.b32 %r1, s; cvt.rn.f32.u32 %f9, %tid.x; st.shared.f32 [%r1], %f9;"
SHARED = ".shared .align 4 .b8 s[128];"


class Countdown:
    """Stands in for `limits.check`: the n-th look finds a limit passed, and each one after it."""

    def __init__(self, n: int, what: str = "time") -> None:
        self.left, self.what = n, what

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LimitReached(self.what, f"the {self.what} limit of the test is reached")


@cache
def read(text: str) -> Kernel:
    """A kernel that is read before its limits are."""
    return lower(parse(text))


def check(reference: str, subject: str, block: int = 32, **more: Any) -> Verdict:
    params = _params(block)
    kernels = (read(entry(f"{SHARED} {body}", params)) for body in (reference, subject))
    return equivalent(*kernels, launch=launch_of(params, block=block), seed=1, **more)


def _params(block: int) -> tuple[Any, ...]:
    return tuple(FLOATS) if block == 32 else tuple(_wide(block))


def _wide(n: int) -> list[Any]:
    return [symbol("x", "f32", n), symbol("y", "f32", n), out("z", "f32", n)]


def looks(monkeypatch: pytest.MonkeyPatch, one: str, other: str, block: int = 32) -> int:
    """How often a question looks at its limits."""
    for body in (one, other):
        read(entry(f"{SHARED} {body}", _params(block)))
    counter = Countdown(1 << 30)
    monkeypatch.setattr(limits, "check", counter)
    check(one, other, block=block)
    return (1 << 30) - counter.left


@pytest.mark.parametrize("what", ["time", "memory"])
def test_a_proof_cut_short_anywhere_says_so(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    total = looks(monkeypatch, EXP, FUSED)
    assert total > 20
    told = []
    for n in [*range(0, total, 3), total - 1]:
        monkeypatch.setattr(limits, "check", Countdown(n, what))
        verdict = check(EXP, FUSED)
        assert (verdict.verdict, verdict.reason) == ("undecided", f"budget.{what}")
        assert any(f"--{what}-limit" in step for step in verdict.next_steps)
        told.append(verdict.findings[0].message.split(" is reached while ")[1])
    assert told[0] == "executing the reference"
    known = "; no element differs in 4 trials; both kernels are safe"
    assert told[-1] == f"proving: normal forms{known}"


@pytest.mark.parametrize("n", [0, 5])
@pytest.mark.parametrize("ask", ["equivalent", "safe"])
def test_reading_looks_at_the_limits(ask: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known then, not even the kernels' names."""
    monkeypatch.setattr(limits, "check", Countdown(n))
    text = entry(SUM, tuple(FLOATS))
    verdict = _of_text(text) if ask == "equivalent" else _safe(text)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.time")
    assert verdict.findings[0].message.endswith("is reached while reading the kernels")
    assert any("--time-limit" in step for step in verdict.next_steps)


def _of_text(text: str) -> Verdict:
    return equivalent(text, text, launch=launch_of(tuple(FLOATS)))


def _safe(text: str) -> Verdict:
    return safe(text, launch=launch_of(tuple(FLOATS)))


@pytest.mark.parametrize("left", [3, 20])
def test_lexing_and_lowering_look_at_the_limits(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = entry("add.f32 %f3, %f1, %f2;" * 5000, tuple(FLOATS))
    monkeypatch.setattr(limits, "check", Countdown(left))
    with pytest.raises(LimitReached):
        tokenize(Source("text", text))
    monkeypatch.undo()
    module = parse(text)
    monkeypatch.setattr(limits, "check", Countdown(left))
    with pytest.raises(LimitReached):
        lower(module)


def test_products_look_at_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product of terms may meet thousands of new products of indicators."""
    monomials = TermDomain().algebra.monomials
    one, other = (monomials.key(((g, 2),)) for g in (1 << 30, (1 << 30) + 1))
    monkeypatch.setattr(limits, "check", Countdown(0))
    with pytest.raises(LimitReached):
        monomials.multiply(one, other)


def test_a_confirmed_defect_outlives_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is confirmed; before that the verdict is undecided, and nothing between."""
    bad = RACE + DIFFERENCE
    total = looks(monkeypatch, SUM, bad, block=64)
    told = []
    for n in range(total + 1):
        monkeypatch.setattr(limits, "check", Countdown(n))
        verdict = check(SUM, bad, block=64)
        found = tuple((f.reason, f.confirmed) for f in verdict.findings)
        told.append((verdict.verdict, verdict.reason, found))
    kinds = [k for i, k in enumerate(told) if i == 0 or told[i - 1] != k]
    race, short = "race.write-write", ("budget.time", "")
    mismatch = ("value.mismatch", "execution")
    early = [
        ("undecided", "budget.time", (short,)),
        ("undecided", "budget.time", (short, (race, "no"))),  # seen, not confirmed
        ("refuted", race, ((race, "definition"),)),  # no time for its schedules, nor for an input
        ("refuted", race, ((race, "schedules"),)),
    ]
    assert kinds == [*early, ("refuted", race, ((race, "schedules"), mismatch))]


def test_a_witness_is_kept_where_no_time_is_left_for_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = looks(monkeypatch, SUM, DIFFERENCE)
    told = []
    for n in range(total + 1):
        monkeypatch.setattr(limits, "check", Countdown(n))
        verdict = check(SUM, DIFFERENCE)
        told.append((verdict.verdict, bool(verdict.witness)))
        if verdict.verdict == "undecided" and n > total // 2:
            assert "32 elements differ over the field" in verdict.findings[0].message
    assert told[-1] == ("refuted", True)
    assert set(told) == {("undecided", False), ("refuted", True)}
    assert told.count(("refuted", True)) > 1


def test_time_limit_of_a_long_kernel() -> None:
    body = (
        "mov.u32 %r1, 0; mov.f32 %f3, %f1;"
        "L: fma.rn.f32 %f3, %f3, %f1, %f2; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400000;"
        "@%p1 bra L;"
    )
    started = time.monotonic()
    verdict = check(on_floats(body), on_floats(body), time_limit=0.3)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.time")
    assert "the time limit of 0.3 s is reached while executing the reference" in (
        verdict.findings[0].message
    )
    assert time.monotonic() - started < 10  # seconds of a loaded machine: far from the whole run
    alone = entry(on_floats(body), FLOATS)
    verdict = safe(alone, launch=launch_of(FLOATS), time_limit=0.3)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.time")


class Clock:
    """Stands in for the module `time`: each look takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """The time."""
        self.now += 1
        return self.now


LONG = (
    "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400000; @%p1 bra L;"
    "add.f32 %f3, %f1, %f2;"
)


@pytest.mark.parametrize("side", ["reference", "subject"])
def test_a_part_of_the_time_confirms_what_was_seen(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "time", Clock())
    race = on_floats(RACE + "\n" + LONG)
    pair = (race, SUM) if side == "reference" else (SUM, race)
    verdict = check(*pair, block=64, time_limit=2000)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    found, short = verdict.findings
    assert (found.reason, found.side) == ("race.write-write", side)
    assert found.confirmed in ("schedules", "definition")
    assert {place.text for place in found.locations} == {"st.shared.f32 [%r1], %f9"}
    assert "the time limit of 2000 s is reached but for 60 s" in short.message


def test_no_time_is_kept_where_nothing_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(limits, "time", clock)
    verdict = check(on_floats(LONG), SUM, time_limit=2000)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.time")
    assert "2000 s is reached while executing the reference" in verdict.findings[0].message
    assert 2000 < clock.now < 2010


def test_a_race_is_confirmed_before_a_proof_that_takes_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The field takes a round trip through a root for another function."""
    one = on_floats("sqrt.rn.f32 %f4, %f1; mul.f32 %f3, %f4, %f4;")
    other = on_floats(RACE + "mov.f32 %f3, %f1;")

    def endless(*_: Any) -> None:
        raise LimitReached("time", "the time limit of the test is reached")

    monkeypatch.setattr("kcheck.check.prove", endless)
    verdict = check(one, other, block=64)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    assert verdict.findings[0].confirmed == "schedules"
    verdict = check(one, on_floats("mov.f32 %f3, %f1;"), block=64)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.time")


def test_memory_limit_below_what_python_needs() -> None:
    verdict = check(SUM, SUM, memory_limit=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.memory")
    assert "MB used, 1 allowed" in verdict.findings[0].message


def test_refused_memory_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise MemoryError

    check(SUM, SUM)
    monkeypatch.setattr(limits, "check", refuse)
    for verdict in (check(SUM, SUM), _of_text(entry(SUM, tuple(FLOATS)))):
        assert (verdict.verdict, verdict.reason) == ("undecided", "budget.memory")


def test_limits_that_are_not_reached_change_nothing() -> None:
    verdict = check(SUM, SUM, time_limit=600, memory_limit=1 << 20)
    assert (verdict.verdict, verdict.method) == ("proved", "exact")


def test_limits_end_with_their_question() -> None:
    with limits.within(1e-9, None):
        time.sleep(0.001)
        with pytest.raises(LimitReached):
            limits.check()
    limits.check()


@pytest.mark.parametrize("bad", [0, -1.0, float("inf"), float("nan")])
def test_what_is_no_limit(bad: float) -> None:
    for name in ("time", "memory"):
        options: dict[str, Any] = {f"{name}_limit": bad}
        with pytest.raises(UsageError, match=rf"{name} limit .*: expected a positive number"):
            check(SUM, SUM, **options)
