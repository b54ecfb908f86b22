"""Additions in one arm of a branch, by each lane or by one for its warp (DESIGN.md 5).

`if (p) atomicAdd(q, x)` adds x where p holds, and nothing elsewhere: the sum of p ? x : 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.aggregates import elected_ways, election
from kcheck.semantics.arms import MAPS, apart, arms_of
from kcheck.semantics.flow import ATOMICS, Flow


@dataclass(frozen=True)
class ArmSum:
    """The addition `at` in an arm of a branch: in the one that is taken (`taken`) or in the other.

    `maps`: what else is to be executed in the arms. `join`: where they meet. `counts`: one lane
    adds the number of lanes of its warp that are there.
    """

    at: int
    taken: bool
    maps: tuple[int, ...]
    join: int
    counts: bool = False


def arm_sums(kernel: Kernel) -> dict[int, ArmSum]:
    """All such branches of a kernel, by their index."""
    if not any(is_sum(kernel, at) for at in range(len(kernel.code))):
        return {}
    flow = Flow(kernel)
    elected: dict[int, int] = {}
    counted: set[int] = set()
    for at, name in enumerate(flow.names):
        found = election(flow, at) if name == "activemask" else None
        if found is not None:
            counted |= found[0]
            elected |= elected_ways(flow, found[1])
    sums: dict[int, ArmSum] = {}
    for at, instr in enumerate(kernel.code):
        if instr.opcode[0] == "bra" and instr.guard is not None and at not in elected:
            for ways in ({}, elected) if elected else ({},):
                made = _arm_sum(flow, at, ways, counted)
                if made is not None:
                    sums[at] = made
    return sums


def is_sum(kernel: Kernel, at: int) -> bool:
    """Is it an atomic addition of one number, in no order with anything?"""
    instr = kernel.code[at]
    found = match(instr.opcode)
    if found is None or found.form.name not in ("atom.add", "red.add"):
        return False
    slots = found.slots
    return slots["sem"] in ("", "relaxed") and slots["type"] in ("f32", "f64", "u32", "s32")


def _arm_sum(flow: Flow, at: int, elected: dict[int, int], counted: set[int]) -> ArmSum | None:
    found = arms_of(flow, at, elected)
    if found is None:
        return None
    arms, join = found
    atomics = [[pc for pc in arm if flow.names[pc] in ATOMICS] for arm in arms]
    if sorted(map(len, atomics)) != [0, 1]:
        return None
    taken = bool(atomics[0])
    (update,) = atomics[0 if taken else 1]
    if flow.names[update] not in ("atom.add", "red.add") or (update in counted) != bool(elected):
        return None
    if any(flow.reached(update, name) for name in flow.defs[update]):
        return None
    made = [[pc for pc in arm if flow.defs[pc] and pc != update] for arm in arms]
    if not apart(flow, arms, made):
        return None
    maps = tuple(pc for arm in arms for pc in arm if flow.names[pc] in MAPS)
    return ArmSum(update, taken, maps, join, bool(elected))
