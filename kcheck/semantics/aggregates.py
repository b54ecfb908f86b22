"""Updates that one lane makes for all active lanes of its warp."""

from __future__ import annotations

from kcheck.ptx_frontend.tree import Imm, Instr, Reg
from kcheck.semantics.flow import Flow


def is_aggregate(flow: Flow, pc: int) -> bool:
    """Does a mask of active lanes only let one of them add their number?

    Then the sum does not depend on how the schedule groups the lanes.
    """
    elections: set[int] = set()
    counts: set[int] = set()
    for at in _readers(flow, pc):
        name, opcode = flow.names[at], flow.code[at].opcode
        if name == "int.popc":
            counts.add(at)
        elif name == "int.brev":
            firsts = _readers(flow, at)
            if not all("shiftamt" in flow.code[use].opcode for use in firsts):
                return False
            elections |= {test for use in firsts for test in _readers(flow, use)}
        elif name == "int.bfind" and "shiftamt" not in opcode:
            elections |= _readers(flow, at)
        else:
            return False
    updates = {update for at in counts for update in _readers(flow, at)}
    if not updates or len(elections) != 1:
        return False
    return all(
        flow.names[at] in ("atom.add", "red.add") and _only_elected(flow, pc, at, *elections)
        for at in updates
    )


def _readers(flow: Flow, pc: int) -> set[int]:
    return {use.pc for name in flow.defs[pc] for use in flow.reached(pc, name)}


def _only_elected(flow: Flow, pc: int, update: int, test: int) -> bool:
    """Does nobody get from the mask at `pc` to the update but who is elected by a comparison?"""
    compare = flow.code[test]
    if flow.names[test] != "int.setp" or compare.opcode[1] not in ("eq", "ne"):
        return False
    if not any(_is_lane(flow, operand) for operand in compare.operands[1:]):
        return False
    (elected,) = flow.defs[test] or {""}
    if not all(use.role == "guard" for use in flow.reached(test, elected)):
        return False
    equal = compare.opcode[1] == "eq"
    seen: set[int] = set()
    todo = [pc]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        guard = flow.code[at].guard
        chosen = guard is not None and guard.reg.name == elected
        if at == update:
            if guard is None or not chosen or guard.negated == equal:
                return False
            continue
        after = flow.successors[at]
        if guard is not None and chosen and flow.names[at] == "bra":
            taken = guard.negated != equal  # by the elected lane
            after = after[1:] if taken else after[:1]
        todo += after
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
