"""Races as findings: both accesses, and the missing edge in words (DESIGN.md 5)."""

from __future__ import annotations

from dataclasses import replace

from kcheck.confirm import flat, location
from kcheck.launch import Launch, unflatten
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.race_runs import OF_GRID, Confirmed
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
# words of opcodes that order accesses to memory; the slow evaluator's monitor knows more of that
_ORDERING = frozenset({"acquire", "release", "acq_rel", "membar", "fence", "volatile", "relaxed"})


def orders_memory(kernel: Kernel) -> bool:
    """Does the kernel synchronize by fences, strong accesses or tickets?"""
    ordering = any(not _ORDERING.isdisjoint(instr.opcode) for instr in kernel.code)
    return ordering or plan_of(kernel).grid


def race_finding(side: Subject, name: str, race: Race, confirmed: Confirmed) -> Finding:
    """A race as a finding; `name`: reference or subject."""
    kernel, launch, seen = side.kernel, side.launch, confirmed.seen
    # of races of the grid the lane executor does not keep what the threads had passed, and of two
    # atomics that are one maximum it does not know which one races
    if seen is not None and (race.reason in OF_GRID or _others(kernel, race, seen)):
        race = _example(side, race, seen)
    first, second = (_who(launch, who) for who in (race.first_who, race.second_who))
    places = (
        location(kernel, race.first, *first),
        location(kernel, race.second, *second),
    )
    said = message(kernel, launch, race)
    if seen is not None or race.reason not in OF_GRID:
        said += _synced(kernel, race)
    if seen is not None and seen.equal:
        said += "; both store the same value here"
    return Finding(race.reason, said, name, places, race.count, confirmed=confirmed.by or "no")


def _others(kernel: Kernel, race: Race, seen: SlowRace) -> bool:
    """Did the slow evaluator see it between two other accesses?"""
    known = {id(kernel.code[at]) for at in (race.first, race.second)}
    return race.reason != PAIRING and known != {id(seen.first.instr), id(seen.second.instr)}


def _example(side: Subject, race: Race, seen: SlowRace) -> Race:
    """The threads in which the slow evaluator saw it, and what barriers they had passed.

    Its reason goes with them: what it saw may be another race of the two instructions.
    """
    at = {id(instr): i for i, instr in enumerate(side.kernel.code)}
    two = (seen.first, seen.second)
    first, second = (at[id(one.instr)] for one in two)
    launch = side.launch
    who = [(linear(one.thread, launch.block), flat(one.cta, launch)) for one in two]
    synced = [-1 if one.last is None else at[id(one.last)] for one in two]
    count = race.count if seen.reason == race.reason else seen.count
    return replace(
        race, reason=seen.reason, count=count, first=first, second=second,
        first_who=who[0], second_who=who[1], offset=seen.byte, synced=(synced[0], synced[1]),
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
