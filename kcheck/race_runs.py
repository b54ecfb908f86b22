"""Races that the lane executor saw, looked for by the slow evaluator.

Its monitor has to see the pair: that is the definition of a race, recomputed from its own log. As
far as the budget reaches, two schedules then have to bring about both orders of the two accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kcheck.canon.families import draws
from kcheck.confirm import MANY_TRIES, TRIES
from kcheck.launch import unflatten
from kcheck.limits import LimitReached
from kcheck.preconditions import kept
from kcheck.semantics.race_reports import Race
from kcheck.semantics.sign_pairs import sign_pairs
from kcheck.semantics.slow import SlowMachine, Unevaluated
from kcheck.semantics.slow.confirm import BY_DEFINITION, Both, both_orders
from kcheck.semantics.slow.conflicts import Race as SlowRace
from kcheck.semantics.slow.races import PAIRING, Monitor, Who
from kcheck.witness import Subject, slow_machine, together, unknown_inputs

# instructions that the schedules of one kernel's races may take
BUDGET = 100_000
# races whose example the lane executor picks among CTAs: any CTAs show them
OF_GRID = frozenset({"race.global", "race.nc"})
# what lanes of one CTA have that store to one address in one instruction
AT_ONCE = frozenset({"race.write-write", "race.unordered"})
SCHEDULES, DEFINITION = "schedules", "definition"

Pair = frozenset[int] | str


@dataclass(frozen=True)
class Confirmed:
    """`sure`: is it a race for the slow evaluator too (None: it can't tell)? `seen`: as what;
    `by`: SCHEDULES, DEFINITION or "".
    """

    sure: bool | None
    seen: SlowRace | None = None
    by: str = ""


@dataclass
class _Run:
    """One run on some inputs: what it saw. `same`: instructions that stored equal values in
    several lanes; `ended`: it saw all that it looked for, or came to its end.
    """

    make: Callable[..., SlowMachine]
    ctas: list[int]
    races: list[SlowRace]
    same: set[int]
    ended: bool


class RaceRuns:
    """Runs of one side, each made once, that end when all of its `races` are seen."""

    def __init__(self, side: Subject, seed: int, races: Sequence[Race], strict: bool) -> None:
        self.side, self.seed, self.races, self.strict = side, seed, races, strict
        self.left = BUDGET
        # two atomics that the lane executor does at once, under the name of one of them
        self._mates = sign_pairs(side.kernel).mates
        self._made: dict[tuple[int, ...], list[_Run]] = {}

    def confirm(self, race: Race) -> Confirmed:
        """Does the slow evaluator see it too? LimitReached if a limit is passed before."""
        ctas = together(self.side, sorted({race.first_who[1], race.second_who[1]}))
        found = self._find(race, ctas)
        if found.seen is not None and found.seen.equal:
            equal = self._always_equal(race, found.seen, ctas)
            return replace(found, seen=replace(found.seen, equal=equal))
        return found

    def _find(self, race: Race, ctas: list[int]) -> Confirmed:
        for run in self._known(race, ctas):
            found = self._judge(race, run)
            # a run of other CTAs may know the two instructions from another kind of race only
            if found is not None and (
                found.seen is None or _kind(found.seen.reason) == _kind(race.reason)
            ):
                return found
        answer: bool | None = None
        for run in self._of(race, ctas, MANY_TRIES if race.conditional else TRIES):
            found = self._judge(race, run)
            if found is not None:
                return found
            if run.ended:
                answer = False
        # that a predicate held on none of the inputs that were tried contradicts nothing
        return Confirmed(None if race.conditional else answer)

    def _always_equal(self, race: Race, seen: SlowRace, ctas: list[int]) -> bool:
        """Do both store equal values on each of a few inputs, not just on one?"""
        if not unknown_inputs(self.side):
            return True
        try:
            for run in self._of(race, ctas, TRIES):
                again = [r for r in self._matching(race, run) if r.reason == seen.reason]
                if not again or not all(r.equal for r in again):
                    return False
        except (LimitReached, MemoryError):  # the next race will say so: this one is confirmed
            return False
        return True

    def _known(self, race: Race, ctas: list[int]) -> Iterator[_Run]:
        for runs in self._made.values():
            for run in runs:
                if race.reason in OF_GRID or set(ctas) <= set(run.ctas):
                    yield run

    def _of(self, race: Race, ctas: list[int], tries: int) -> Iterator[_Run]:
        """The runs of these CTAs on a few inputs, made as they are asked for.

        The threads of the first race that asks go ahead: they may be long in coming.
        """
        block, grid = self.side.launch.block, self.side.launch.grid
        ahead = frozenset(
            (unflatten(cta, grid), unflatten(thread, block))
            for thread, cta in (race.first_who, race.second_who)
        )
        made = self._made.setdefault(tuple(ctas), [])
        inputs = islice(draws(unknown_inputs(self.side), self.seed), tries)
        for i, (_, given) in enumerate(inputs):
            if i < len(made):
                yield made[i]
                continue
            try:
                self._run(kept(given, self.side.launch), ctas, ahead, made)
            except (LimitReached, MemoryError):
                yield made[i]  # what it has seen until then is seen
                raise
            yield made[i]

    def _run(
        self, inputs: dict[str, Any], ctas: list[int], ahead: frozenset[Who], made: list[_Run]
    ) -> None:
        place = len(made)
        for numbers in self.side.numbers:

            def make(numbers: Any = numbers, **more: Any) -> SlowMachine:
                return slow_machine(self.side, inputs, numbers, ctas, races=True, **more)

            run = _Run(make, ctas, [], set(), ended=False)
            made[place:] = [run]
            machine = make()
            try:
                machine.watch(self._enough(ctas), ahead)
                run.ended = True
                return
            except Unevaluated:
                continue
            finally:
                monitor = machine.context.monitor
                run.races = machine.races
                run.same = set(monitor.same) if monitor is not None else set()

    def _enough(self, ctas: list[int]) -> Callable[[Monitor], bool]:
        """Are all races seen that these CTAs can show?"""
        left = [
            {(pair, _kind(race.reason)) for pair in self._pairs(race)}
            for race in self.races
            if {race.first_who[1], race.second_who[1]} <= set(ctas)
        ]

        def enough(monitor: Monitor) -> bool:
            shown: set[tuple[Pair, str]] = set()
            if monitor.races:
                last = next(reversed(monitor.races.values()))
                shown = {(pair, _kind(last.reason)) for pair in (_pair_of(last), last.buffer)}
            if self.strict:
                code = self.side.kernel.code
                shown |= {(frozenset({code[at].span.start}), "") for at in monitor.same}
            left[:] = [wanted for wanted in left if wanted.isdisjoint(shown)]
            return not left

        return enough

    def _pairs(self, race: Race) -> set[Pair]:
        """What the slow evaluator may know it by."""
        code = self.side.kernel.code
        if race.reason == PAIRING:
            # which arrivals meet at a barrier hangs on the schedule, that they may does not
            return {race.region}
        firsts, seconds = ({at, self._mates.get(at, at)} for at in (race.first, race.second))
        return {
            frozenset({code[first].span.start, code[second].span.start})
            for first in firsts
            for second in seconds
        }

    def _judge(self, race: Race, run: _Run) -> Confirmed | None:
        """The race among those that a run saw, or None."""
        pairs = self._matching(race, run)
        found = next((r for r in pairs if r.reason == race.reason), pairs[0] if pairs else None)
        if found is not None:
            return Confirmed(True, found, self._by(found, run))
        at_once = race.first == race.second and race.reason in AT_ONCE
        if self.strict and at_once and race.first in run.same:
            return Confirmed(True, None, DEFINITION)
        return None

    def _matching(self, race: Race, run: _Run) -> list[SlowRace]:
        pairs = self._pairs(race)
        return [r for r in run.races if not pairs.isdisjoint((_pair_of(r), r.buffer))]

    def _by(self, race: SlowRace, run: _Run) -> str:
        """What confirms a race that the definition confirms."""
        if race.reason in BY_DEFINITION:
            return DEFINITION
        machines: list[SlowMachine] = []

        def make(first: Both, at: int) -> SlowMachine:
            self._spend(machines)
            machines.append(run.make(first=first, at=at, budget=self.left))
            return machines[-1]

        try:
            both = all(both_orders(self.side.kernel.code, race, make))
        except (LimitReached, MemoryError):  # the next race will say so: this one is confirmed
            both = False
        self._spend(machines)
        return SCHEDULES if both else DEFINITION

    def _spend(self, machines: list[SlowMachine]) -> None:
        while machines:
            self.left = max(self.left - machines.pop().steps_taken, 0)


def _kind(reason: str) -> str:
    """Of the grid, by name, or within one CTA: "" (there both evaluators may differ in names)."""
    return reason if reason in OF_GRID else ""


def _pair_of(race: SlowRace) -> Pair:
    if race.reason == PAIRING:
        return race.buffer
    return frozenset({race.first.instr.span.start, race.second.instr.span.start})
