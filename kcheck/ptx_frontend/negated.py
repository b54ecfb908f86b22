"""Negatives of an argument that nvcc has folded into the first steps of a function, unfolded.

Of y = -x it makes y * y = x * x, y * c = x * -c, y < c = x > -c, y + y = y - x. Each written with y
again is the same bit by bit, also of nan and zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kcheck.ptx_frontend.dataflow import UNDEFINED, DataFlow
from kcheck.ptx_frontend.library import plain
from kcheck.ptx_frontend.powers import SIGN, as_bits
from kcheck.ptx_frontend.tree import Flt, Instr, Operand, Reg

# a comparison -> that of the negatives
_TURNED = {
    **{"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"},
    **{"equ": "equ", "neu": "neu", "ltu": "gtu", "leu": "geu", "gtu": "ltu", "geu": "leu"},
}
_FOLDED = frozenset({"mul", "sub", "setp"})


def forms(flow: DataFlow, at: int) -> Iterator[tuple[Instr, int]]:
    """An instruction as it stands, then with negatives; and where to look at what it reads."""
    instr = flow.kernel.code[at]
    yield instr, at
    if instr.opcode[0] not in _FOLDED or instr.guard is not None or len(instr.operands) != 3:
        return
    for x in {o for o in instr.operands[1:] if isinstance(o, Reg)}:
        for y, place in _negatives(flow, at, x):
            other = _with(flow, at, x, y)
            if other is not None:
                yield other, place


def _negatives(flow: DataFlow, at: int, x: Reg) -> Iterator[tuple[Reg, int]]:
    """Registers that hold -x for the x that is read, and where.

    Of one definition, which precedes both, none is between them: where -x is known, it is that of
    the last x. Else both stand in one block.
    """
    defs = flow.reaching(at, x.name)
    for negation in {n for d in defs - {UNDEFINED} for n in flow.readers(d)}:
        instr = flow.kernel.code[negation]
        if plain(instr.opcode) != ("neg", "f32") or instr.guard is not None:
            continue
        y, source = instr.operands
        if source != x or flow.reaching(negation, x.name) != defs or not isinstance(y, Reg):
            continue
        place = max(at, negation + 1)
        if flow.block_of[place] != flow.block_of[at]:
            continue
        once = len(defs) == 1 and UNDEFINED not in defs
        known = flow.reaching(place, y.name) == {negation}
        if known and (once or _together(flow, at, negation, x)):
            yield y, place


def _together(flow: DataFlow, at: int, negation: int, x: Reg) -> bool:
    """In one block that does not write x in between."""
    block = flow.block_of[at]
    low, high = sorted((at, negation))
    written = flow.writes(x.name, block)
    return flow.block_of[negation] == block and not any(low <= d < high for d in written)


def _with(flow: DataFlow, at: int, x: Reg, y: Reg) -> Instr | None:
    """An instruction that reads x, with y = -x."""
    instr = flow.kernel.code[at]
    opcode, (result, a, b) = plain(instr.opcode), instr.operands
    if opcode == ("mul", "f32") and a == b:
        return replace(instr, operands=(result, y, y))
    if opcode == ("sub", "f32") and (a, b) == (y, x):
        words = tuple("add" if w == "sub" else w for w in instr.opcode)
        return replace(instr, opcode=words, operands=(result, y, y))
    if opcode == ("mul", "f32") and b == x:
        a, b = b, a
    negative = _negative(flow, at, b)
    if a != x or negative is None:
        return None
    if opcode == ("mul", "f32"):
        return replace(instr, operands=(result, y, negative))
    if opcode[0] == "setp" and opcode[2:] == ("f32",) and opcode[1] in _TURNED:
        words = tuple(_TURNED.get(w, w) for w in instr.opcode)
        return replace(instr, opcode=words, operands=(result, y, negative))
    return None


def _negative(flow: DataFlow, at: int, operand: Operand) -> Flt | None:
    """Of a literal."""
    value = flow.value(at, operand)
    return Flt(value.bits ^ SIGN, 32) if value is not None and value.bits is not None else None


def differences(flow: DataFlow) -> DataFlow:
    """y - 2 t, of which nvcc makes -2 t - x, as it was: where nothing else reads -2 t."""
    code = list(flow.kernel.code)
    for at, instr in enumerate(flow.kernel.code):
        if plain(instr.opcode) != ("sub", "f32") or instr.guard or flow.block_of[at] < 0:
            continue
        result, a, x = instr.operands
        before = _twice(flow, at, a)
        if before < 0 or not isinstance(x, Reg):
            continue
        for y, place in _negatives(flow, at, x):
            if place != at:
                continue
            twice = code[before]
            words = tuple("add" if w == "mul" else w for w in twice.opcode)
            t = twice.operands[1]
            code[before] = replace(twice, opcode=words, operands=(a, t, t))
            code[at] = replace(instr, operands=(result, y, a))
            break
    changed = tuple(code)
    return flow if changed == flow.kernel.code else DataFlow(replace(flow.kernel, code=changed))


def _twice(flow: DataFlow, at: int, a: Operand) -> int:
    """The instruction that computes a = -2 t for this one only, or -1."""
    defs = flow.reaching(at, a.name) if isinstance(a, Reg) else frozenset[int]()
    (before,) = defs if len(defs) == 1 else (UNDEFINED,)
    if before == UNDEFINED or flow.readers(before) != [at]:
        return -1
    instr = flow.kernel.code[before]
    fits = plain(instr.opcode) == ("mul", "f32") and instr.guard is None
    return before if fits and instr.operands[2] == Flt(as_bits(-2.0), 32) else -1
