"""One schedule stands for all (DESIGN.md 5): random programs under random schedules."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.slow import Double, SlowMachine, SlowResult, confirm_race
from tests.semantics.programs import Program, programs

PAIRING = "race.barrier-pairing"
DIVERGENT = "deadlock.divergent"
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def run(program: Program, seed: int | None) -> SlowResult:
    kernel = lower(parse(program.text))
    return SlowMachine(kernel, program.launch, program.inputs, Double, seed=seed, races=True).run()


def pairs(result: SlowResult) -> set[tuple[tuple[int, int], str]]:
    """The races, but for those that hang on the values stored."""
    return {(r.lines, r.reason) for r in result.races if r.first.instr is not r.second.instr}


def deadlocks(result: SlowResult) -> set[str]:
    return {f.reason for f in result.findings if f.reason.startswith("deadlock")}


@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(programs(), st.integers(0, 10**6))
def test_the_verdict_does_not_hang_on_the_schedule(program: Program, seed: int) -> None:
    results = [run(program, s) for s in (None, seed, seed + 1)]
    assert len({bool(r.races) for r in results}) == 1
    paired = [PAIRING in {race.reason for race in r.races} for r in results]
    assert len(set(paired)) == 1
    if not paired[0]:
        stuck = deadlocks(results[0])
        assert all(deadlocks(r) == stuck for r in results)
        assert stuck <= {DIVERGENT} if program.splits else not stuck
        assert pairs(results[0]) == pairs(results[1]) == pairs(results[2])


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(programs(), st.integers(0, 10**6))
def test_programs_without_races_have_one_outcome(program: Program, seed: int) -> None:
    first = run(program, None)
    if first.races:
        return
    for s in range(seed, seed + 20):
        assert run(program, s).outputs == first.outputs


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(programs())
def test_races_are_confirmed(program: Program) -> None:
    """Both orders of a plain race can be brought about, unless threads leave early: a barrier then
    waits for their exit, which no schedule can turn around but which orders nothing. So it is with
    lanes of one warp that meet at `bar.arrive`.
    """
    result = run(program, None)
    if any(race.reason == PAIRING for race in result.races):
        return
    kernel = lower(parse(program.text))
    for race in result.races[:1]:
        found = confirm_race(kernel, program.launch, program.inputs, Double, None, race)
        assert found
        threads = (side.thread[0] // 32 for side in (race.first, race.second))
        met = "bar.arrive" in program.text and len(set(threads)) == 1
        assert found.orders in (None, 2) or "bra END" in program.text or met


def test_the_programs_are_of_all_kinds() -> None:
    """Some have no race, and the common reasons occur."""
    reasons: Counter[str] = Counter()

    @settings(max_examples=80, deadline=None, suppress_health_check=SLOW, derandomize=True)
    @given(programs())
    def collect(program: Program) -> None:
        found = {race.reason for race in run(program, None).races}
        reasons.update(found or {"none"})

    collect()
    wanted = {"none", "race.read-write", "race.unordered", "race.async", "race.global", PAIRING}
    assert wanted <= set(reasons)
