"""Updates that one lane makes for all active lanes of its warp."""

from __future__ import annotations

import itertools

from kcheck.ptx_frontend.tree import Imm, Instr, Reg
from kcheck.semantics.flow import EFFECTS, EXCHANGES, Flow

# what may keep a lane, or change who is there
_UNCERTAIN = (EFFECTS - {"bra", "ld", "st"}) | EXCHANGES | {"", "brx.idx"}
# what makes an address, and what is the same in all lanes of a warp
_MAPS = frozenset({"mov", "cvta", "cvt.int", "int.add", "int.mul", "int.mul.wide"}) | frozenset(
    {"int.mad", "int.mad.wide", "int.sub", "bit.and", "bit.or", "bit.shl", "bit.shr"}
)
_UNIFORM = frozenset(f"%{name}.{axis}" for name in ("ctaid", "nctaid", "ntid") for axis in "xyz")


def is_aggregate(flow: Flow, pc: int) -> bool:
    """Does a mask of active lanes only let one of them add their number, where all would add?"""
    found = election(flow, pc)
    return found is not None and all(_one_place(flow, at) for at in found[0])


def election(flow: Flow, pc: int) -> tuple[set[int], int] | None:
    """If a mask of active lanes only lets one of them add their number: the additions, and the
    comparison that elects it. Then the sum does not depend on how the schedule groups the lanes.
    """
    counts: set[int] = set()
    chains: list[tuple[int, ...]] = []
    for at in _readers(flow, pc):
        name, opcode = flow.names[at], flow.code[at].opcode
        if name == "int.popc":
            counts.add(at)
        elif name == "int.brev":
            firsts = _readers(flow, at)
            if not all({"shiftamt", "u32"} <= {*flow.code[use].opcode} for use in firsts):
                return None
            chains += [(pc, at, use, test) for use in firsts for test in _readers(flow, use)]
        elif name == "int.bfind" and "shiftamt" not in opcode and "u32" in opcode:
            chains += [(pc, at, test) for test in _readers(flow, at)]
        else:
            return None
    uses = [(at, u) for at in counts for name in flow.defs[at] for u in flow.reached(at, name)]
    updates = {use.pc for _, use in uses}
    elections = {chain[-1] for chain in chains}
    if not updates or len(elections) != 1:
        return None
    (test,) = elections
    sums = all(flow.names[use.pc] in ("atom.add", "red.add") and use.role == "a" for _, use in uses)
    if not sums or not all(_only_elected(flow, pc, at, test) for at in updates):
        return None
    for update in updates:
        way = _way(flow, pc, update, test)
        counted = [(pc, at, update) for at, use in uses if use.pc == update]
        if not all(_follows(flow, way, chain) for chain in chains + counted):
            return None
    return updates, test


def _way(flow: Flow, pc: int, update: int, test: int) -> list[int]:
    """The instructions from the mask to the update that the elected lane goes through for
    certain, both included; [] if anything else than the election decides that.
    """
    ways, (elected,) = elected_ways(flow, test), flow.defs[test]
    way = [pc]
    while way[-1] != update:
        at = way[-1]
        guard, after = flow.code[at].guard, flow.successors[at]
        chosen = at in ways and test in way
        if chosen:
            after = (ways[at],)
        if (guard is not None and not chosen) or len(after) != 1 or after[0] in way:
            return []
        if (at != pc and flow.names[at] in _UNCERTAIN) or (at != test and elected in flow.defs[at]):
            return []
        way += after
    guard = flow.code[update].guard
    equal = flow.code[test].opcode[1] == "eq"
    fits = guard is None or (guard.reg.name == elected and guard.negated != equal)
    return way if fits else []


def _follows(flow: Flow, way: list[int], chain: tuple[int, ...]) -> bool:
    """Does each of a chain of instructions on a way read what the one before it wrote?"""
    if not set(chain) <= set(way):
        return False
    for one, other in itertools.pairwise(chain):
        first, last = way.index(one), way.index(other)
        between = way[first + 1 : last]
        if first >= last or any(flow.defs[one] & flow.defs[at] for at in between):
            return False
    return True


def _one_place(flow: Flow, update: int) -> bool:
    """Does an update name the same place in all lanes, as its address hangs on no lane?"""
    names = [n for n, roles in flow.uses[update].items() if "address" in roles]
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        makers = [at for at, defs in enumerate(flow.defs) if name in defs]
        if not makers and name in _UNIFORM:
            continue
        if len(makers) != 1 or flow.code[makers[0]].guard is not None:
            return False
        (at,) = makers
        parameter = flow.names[at] == "ld" and "param" in flow.code[at].opcode[1]
        if flow.names[at] not in _MAPS and not parameter:
            return False
        if flow.sources(flow.uses[at], frozenset(range(len(flow.code)))) & {at}:
            return False  # it differs from round to round
        names += flow.uses[at]
    return True


def elected_ways(flow: Flow, test: int) -> dict[int, int]:
    """Branches on an election -> where the elected lane goes."""
    equal = flow.code[test].opcode[1] == "eq"
    ways: dict[int, int] = {}
    for name in flow.defs[test]:
        for use in flow.reached(test, name):
            guard = flow.code[use.pc].guard
            if flow.names[use.pc] == "bra" and guard is not None:
                taken = guard.negated != equal
                ways[use.pc] = flow.successors[use.pc][0 if taken else 1]
    return ways


def _readers(flow: Flow, pc: int) -> set[int]:
    return {use.pc for name in flow.defs[pc] for use in flow.reached(pc, name)}


def _only_elected(flow: Flow, pc: int, update: int, test: int) -> bool:
    """Does nobody get from the mask at `pc` to the update but who is elected by a comparison?"""
    compare = flow.code[test]
    if flow.names[test] != "int.setp" or compare.opcode[1] not in ("eq", "ne"):
        return False
    if not any(_is_lane(flow, operand) for operand in compare.operands[1:]):
        return False
    if len(flow.defs[test]) != 1:
        return False
    (elected,) = flow.defs[test]
    if not all(use.role == "guard" for use in flow.reached(test, elected)):
        return False
    equal = compare.opcode[1] == "eq"
    seen: set[tuple[int, bool]] = set()
    todo = [(pc, False)]
    while todo:
        at, tested = todo.pop()  # has this mask been compared?
        if (at, tested) in seen:
            continue
        seen.add((at, tested))
        guard = flow.code[at].guard
        chosen = guard is not None and guard.reg.name == elected and tested
        if at == update:
            if guard is None or not chosen or guard.negated == equal:
                return False
            continue
        after = flow.successors[at]
        if guard is not None and chosen and flow.names[at] == "bra":
            taken = guard.negated != equal  # by the elected lane
            after = after[1:] if taken else after[:1]
        if at in (test, pc) or elected in flow.defs[at]:
            tested = at == test
        todo += [(then, tested) for then in after]
    return True


def _is_lane(flow: Flow, operand: object) -> bool:
    """Is an operand the lane: %laneid, or %tid.x modulo 32?"""
    maker = _maker(flow, operand)
    if maker is None or maker.opcode[0] != "and":
        return maker is not None and maker.operands[1:] == (Reg("%laneid"),)
    thread, mask = maker.operands[1:]
    source = _maker(flow, thread)
    rows = source is not None and source.operands[1:] == (Reg("%tid.x"),)
    return rows and mask == Imm(31)


def _maker(flow: Flow, operand: object) -> Instr | None:
    """The only instruction that writes a register."""
    name = operand.name if isinstance(operand, Reg) else None
    makers = [at for at, names in enumerate(flow.defs) if name in names]
    return flow.code[makers[0]] if len(makers) == 1 else None
