"""Races as findings: both accesses, and the missing edge in words (DESIGN.md 5)."""

from __future__ import annotations

from dataclasses import replace

from kcheck.confirm import SlowRuns, flat, location
from kcheck.launch import Launch, unflatten
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.plan import plan_of
from kcheck.semantics.race_reports import Race
from kcheck.semantics.slow.conflicts import Race as SlowRace
from kcheck.semantics.slow.races import PAIRING, linear
from kcheck.verdict import Finding
from kcheck.witness import Subject

Triple = tuple[int, int, int]
_NOUNS = {
    "ld": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "ldmatrix": "matrix load",
    "cp": "asynchronous copy",
}
_WHY = {
    "race.async": "no cp.async.wait of the copy's thread completes it before the {second}",
    "race.global": "nothing orders the two CTAs",
    "race.nc": "ld.global.nc is only for bytes that the kernel does not write",
    "race.barrier-pairing": "whether the second arrival counts in this or the next use of the "
    "barrier depends on the schedule",
}
# of these the lane executor does not keep what the threads had passed
_OF_GRID = frozenset({"race.global", "race.nc"})
# words of opcodes that order accesses to memory; the slow evaluator's monitor knows more of that
_ORDERING = frozenset({"acquire", "release", "acq_rel", "membar", "fence", "volatile", "relaxed"})


def orders_memory(kernel: Kernel) -> bool:
    """Does the kernel synchronize by fences, strong accesses or tickets?"""
    ordering = any(not _ORDERING.isdisjoint(instr.opcode) for instr in kernel.code)
    return ordering or plan_of(kernel).grid


def race_finding(side: Subject, name: str, race: Race, seen: SlowRace | None = None) -> Finding:
    """A race as a finding; `name`: reference or subject. `seen`: by the slow evaluator."""
    kernel, launch = side.kernel, side.launch
    if seen is not None and race.reason in _OF_GRID:
        race = _example(side, race, seen)
    first, second = (_who(launch, who) for who in (race.first_who, race.second_who))
    places = (
        location(kernel, race.first, *first),
        location(kernel, race.second, *second),
    )
    said = message(kernel, launch, race)
    if seen is not None or race.reason not in _OF_GRID:
        said += _synced(kernel, race)
    return Finding(race.reason, said, name, places, race.count)


def _example(side: Subject, race: Race, seen: SlowRace) -> Race:
    """The threads in which the slow evaluator saw it, and what barriers they had passed."""
    at = {id(instr): i for i, instr in enumerate(side.kernel.code)}
    two = (seen.first, seen.second)
    first, second = (at[id(one.instr)] for one in two)
    launch = side.launch
    who = [(linear(one.thread, launch.block), flat(one.cta, launch)) for one in two]
    synced = [-1 if one.last is None else at[id(one.last)] for one in two]
    return replace(
        race, first=first, second=second, first_who=who[0], second_who=who[1],
        offset=seen.byte, synced=(synced[0], synced[1]),
    )  # fmt: skip


def message(kernel: Kernel, launch: Launch, race: Race) -> str:
    """What is between the two accesses: nothing."""
    one, two = kernel.code[race.first], kernel.code[race.second]
    first = _access(one, *_who(launch, race.first_who))
    second = _access(two, *_who(launch, race.second_who))
    where = f"{race.region} at byte {race.offset}" if one.opcode[0] in _NOUNS else race.region
    why = _WHY.get(race.reason, "no barrier between the {first} and the {second}")
    return (
        f"{where}: "
        + why.format(first=first, second=second)
        + (f" ({first} and {second})" if "{first}" not in why else "")
    )


def _synced(kernel: Kernel, race: Race) -> str:
    """The last barrier that each thread had passed."""
    if race.reason == PAIRING:
        return ""
    if race.synced == (-1, -1):
        return "; neither had passed a barrier"
    passed = [
        "no barrier" if at < 0 else f"{kernel.code[at].name} at line {kernel.code[at].span.line}"
        for at in race.synced
    ]
    return f"; the last that each had passed: {passed[0]}, {passed[1]}"


def _access(instr: Instr, thread: Triple, cta: Triple) -> str:
    noun = _NOUNS.get(instr.opcode[0], "arrival")
    return f"{noun} at line {instr.span.line} by thread {_short(thread)} of CTA {_short(cta)}"


def _short(index: Triple) -> str:
    x, y, z = index
    return f"({x},{y},{z})" if y or z else str(x)


def _who(launch: Launch, who: tuple[int, int]) -> tuple[Triple, Triple]:
    thread, cta = who
    return unflatten(thread, launch.block), unflatten(cta, launch.grid)


def confirm_race(
    runs: SlowRuns, race: Race, strict: bool = False
) -> tuple[bool | None, SlowRace | None]:
    """Does the slow evaluator's own monitor see the pair, and as what? None: it can't tell.

    `strict`: that several lanes stored equal values in one instruction is enough.
    """
    ctas = sorted({race.first_who[1], race.second_who[1]})
    answer: bool | None = None
    for result in runs.of(ctas):
        found = _seen(runs.side.kernel, race, result.races)
        if found is not None or (
            strict and race.first == race.second and race.first in result.same
        ):
            return True, found
        answer = False
    if answer is None:  # none came to its end: what they had seen is seen all the same
        found = _seen(runs.side.kernel, race, runs.cut_short(ctas))
        return (None if found is None else True), found
    return answer, None


def _seen(kernel: Kernel, race: Race, races: list[SlowRace]) -> SlowRace | None:
    """The race among those that the slow evaluator saw."""
    code = kernel.code
    wanted = {code[race.first].span.start, code[race.second].span.start}
    pairs = [r for r in races if {r.first.instr.span.start, r.second.instr.span.start} == wanted]
    if race.reason == PAIRING:
        # which arrivals meet at a barrier hangs on the schedule, that they may does not
        pairs += [r for r in races if (r.reason, r.buffer) == (PAIRING, race.region)]
    return next((r for r in pairs if r.reason == race.reason), pairs[0] if pairs else None)
