"""First rounds of a wait loop that stand before it: `if (flag != v) while (flag != v);`.

Compilers make them of loops that test first. If the test is that of the loop, what comes after
it knows as much as what comes after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx_frontend.tree import Operand, Reg, registers
from kcheck.semantics.flow import EFFECTS, Flow, Use

# comparisons with the operands exchanged, and negated
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "lo": "hi", "ls": "hs", "hi": "lo",
           "hs": "ls"}  # fmt: skip
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq", "lo": "hs",
           "ls": "hi", "hi": "ls", "hs": "lo"}  # fmt: skip
# what a loop or the way to it may hold besides its load, whatever a round before it holds
_PASSIVE = frozenset({"bra", "nanosleep"})
Part = tuple[int, frozenset[int]]


def peeled_rounds(flow: Flow, wait: int, loop: frozenset[int]) -> frozenset[int]:
    """The instructions of all rounds before the loop around the load at `wait`."""
    exits = [at for at in loop if any(after not in loop for after in flow.successors[at])]
    if len(exits) != 1 or flow.code[exits[0]].guard is None:
        return frozenset()
    if any(flow.names[at] in EFFECTS - _PASSIVE for at in loop - {wait}):
        return frozenset()
    found: frozenset[int] = frozenset()
    for pc in reversed(range(len(flow.code))):
        one, again = flow.code[pc], flow.code[wait]
        if pc in loop or one.opcode != again.opcode or one.operands[1:] != again.operands[1:]:
            continue
        around = _round(flow, pc, loop | found)
        kept = not any(flow.defs[at] & flow.uses[pc].keys() for at in around)
        inside = around | found | loop
        if around and kept and _same_test(flow, (pc, around), (wait, loop), (exits[0], inside)):
            found |= around
    return found


def _round(flow: Flow, pc: int, loop: frozenset[int]) -> frozenset[int]:
    """From a load to the branch that it decides, and on to the loop; empty if it is no round."""
    branch = pc + 1
    while branch < len(flow.code) and flow.names[branch] not in EFFECTS:
        branch += 1
    if branch == len(flow.code) or flow.names[branch] != "bra":
        return frozenset()
    if flow.code[branch].guard is None or len(flow.successors[branch]) != 2:
        return frozenset()
    if any(use != Use(branch, "guard") for use, _ in flow.ends(pc)):
        return frozenset()
    ways = [_way(flow, after, loop) for after in flow.successors[branch]]
    found = [way for way in ways if way is not None]
    around = frozenset({*range(pc, branch + 1), *found[0]}) if len(found) == 1 else frozenset()
    back = sum(after in around | loop for after in flow.successors[branch]) > 1
    return frozenset() if back else around


def _way(flow: Flow, start: int, loop: frozenset[int]) -> set[int] | None:
    """The instructions from here to the loop, if there is but one way and nothing happens on it."""
    found: set[int] = set()
    at = start
    while at not in loop:
        if at in found or at >= len(flow.code) or len(flow.successors[at]) != 1:
            return None
        if flow.names[at] in EFFECTS - _PASSIVE:
            return None
        found.add(at)
        (at,) = flow.successors[at]
    return found


def _same_test(flow: Flow, first: Part, again: Part, ends: Part) -> bool:
    """Do a round before a loop, and the loop, go on by the same test of what they load?

    `ends`: the branch that leaves the loop; all instructions of both.
    """
    leave, inside = ends
    branch = max(at for at in first[1] if flow.code[at].guard is not None)
    one, other = _slice(flow, first, branch), _slice(flow, again, leave)
    changed = {name for at in first[1] | again[1] for name in flow.defs[at]}
    if len(one) != len(other):
        return False
    same: dict[str, str] = {}
    tests = one[-1], other[-1]
    for a, b in zip(one[:-1], other[:-1], strict=True):
        x, y = flow.code[a], flow.code[b]
        if x.guard or y.guard or x.opcode != y.opcode:
            return False
        if len(flow.defs[a]) != 1 or len(flow.defs[b]) != 1:
            return False
        if not _same_operands(x.operands[1:], y.operands[1:], same, changed):
            return False
        same[next(iter(flow.defs[a]))] = next(iter(flow.defs[b]))
    if any(flow.names[at] != "int.setp" or len(flow.code[at].opcode) != 3 for at in tests):
        return False
    stays = _stays(flow, tests[0], branch, inside), _stays(flow, tests[1], leave, again[1])
    x, y = flow.code[tests[0]], flow.code[tests[1]]
    if x.opcode[2] != y.opcode[2] or x.guard or y.guard:
        return False
    exchanged = SWAPPED.get(stays[1], stays[1])
    return any(
        stays[0] == stay and _same_operands(x.operands[1:], operands, same, changed)
        for stay, operands in ((stays[1], y.operands[1:]), (exchanged, y.operands[:0:-1]))
    )


def _slice(flow: Flow, part: Part, branch: int) -> list[int]:
    """What decides a branch, from the load on."""
    guard = flow.code[branch].guard
    assert guard is not None
    load, within = part
    found = flow.sources([guard.reg.name], within) | {load}
    return sorted(found, key=lambda at: (at < load, at))


def _stays(flow: Flow, test: int, branch: int, inside: frozenset[int]) -> str:
    """The comparison that holds where the branch does not leave."""
    guard = flow.code[branch].guard
    assert guard is not None
    compare = flow.code[test].opcode[1]
    taken = flow.successors[branch][0] in inside
    return compare if taken != guard.negated else NEGATED.get(compare, "")


def _same_operands(
    one: tuple[Operand, ...], other: tuple[Operand, ...], same: Mapping[str, str], changed: set[str]
) -> bool:
    """Are they equal, registers that the parts write apart, which `same` pairs?"""
    if len(one) != len(other):
        return False
    for x, y in zip(one, other, strict=True):
        if isinstance(x, Reg) and x.name in same:
            if not isinstance(y, Reg) or same[x.name] != y.name:
                return False
        elif x != y or not changed.isdisjoint(registers(x)):
            return False
    return True
