"""Races as findings: both accesses, and the missing edge in words (DESIGN.md 5)."""

from __future__ import annotations

from kcheck.confirm import SlowRuns, location
from kcheck.launch import Launch, unflatten
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.plan import plan_of
from kcheck.semantics.race_reports import Race
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


def race_finding(side: Subject, name: str, race: Race) -> Finding:
    """A race as a finding; `name`: reference or subject."""
    kernel, launch = side.kernel, side.launch
    first, second = (_who(launch, who) for who in (race.first_who, race.second_who))
    places = (
        location(kernel, race.first, *first),
        location(kernel, race.second, *second),
    )
    return Finding(race.reason, message(kernel, launch, race), name, places, race.count)


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
        + _synced(kernel, race)
    )


def _synced(kernel: Kernel, race: Race) -> str:
    """What either thread had passed last."""
    if race.synced == (-1, -1):
        return ""
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


def confirm_race(runs: SlowRuns, race: Race, strict: bool = False) -> bool | None:
    """Does the slow evaluator's own monitor see the pair? None: it can't tell.

    `strict`: that several lanes stored equal values in one instruction is enough.
    """
    ctas = sorted({race.first_who[1], race.second_who[1]})
    code = runs.side.kernel.code
    wanted = {code[race.first].span.start, code[race.second].span.start}
    answer: bool | None = None
    for result in runs.of(ctas):
        answer = any(
            {r.first.instr.span.start, r.second.instr.span.start} == wanted for r in result.races
        )
        if answer or (strict and race.first == race.second and race.first in result.same):
            return True
    return answer
