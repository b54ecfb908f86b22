"""Which bytes of a word a CAS loop replaces: its moves, evaluated on bytes (DESIGN.md 5).

A register is a list of bytes: numbers, or places in what the cell holds ("old", i), or in the
result of the operation ("new", i). A float that was widened is one item ("wide", its bytes).
Registers that the loop does not change are numbers of one lane. Source: PTX ISA 9.7.8, 9.7.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Operand, Reg, Vec, type_bytes
from kcheck.semantics.flow import Flow

Bytes = list[Any]
HALF = 2


class Unclear(Exception):
    """The bytes can't be told."""


@dataclass(frozen=True)
class Change:
    """`first`: the first byte that is replaced, `fmt` the format of what is there."""

    first: int
    fmt: str


@dataclass
class Words:
    """The moves of one loop, evaluated for one lane.

    `core`: its operation. `old`: registers that hold what the cell is believed to hold, `width`
    bytes. `known`: the numbers of registers that the loop does not change.
    """

    flow: Flow
    loop: frozenset[int]
    core: int
    old: frozenset[str]
    width: int
    known: Mapping[str, int]
    seen: dict[str, Bytes] = field(default_factory=dict[str, Bytes])
    taken: list[tuple[Bytes, str]] = field(default_factory=list["tuple[Bytes, str]"])

    def change(self, new: Operand) -> Change:
        """What becomes of the word; raises Unclear."""
        made = self.value(new, self.width)
        places = [i for i, b in enumerate(made) if b != ("old", i)]
        if len(self.taken) != 1 or not places:
            raise Unclear
        (source, fmt), first = self.taken[0], places[0]
        n = len(source)
        if source != [("old", first + i) for i in range(n)]:
            raise Unclear
        if made[first : first + n] != [("new", i) for i in range(n)] or len(places) != n:
            raise Unclear
        return Change(first, fmt)

    def value(self, op: Operand, size: int) -> Bytes:
        """The bytes of an operand."""
        if isinstance(op, Imm):
            return list((op.value & (1 << 8 * size) - 1).to_bytes(size, "little"))
        if isinstance(op, Flt) and op.width == 8 * size:
            return list(op.bits.to_bytes(size, "little"))
        if not isinstance(op, Reg):
            raise Unclear
        if op.name in self.old:
            return [("old", i) for i in range(self.width)]
        if op.name not in self.seen:
            makers = [at for at in self.loop if op.name in self.flow.defs[at]]
            if len(makers) > 1:
                raise Unclear
            if makers:
                self.seen[op.name] = self._made(makers[0], op.name)
            elif op.name in self.known:
                self.seen[op.name] = list(self.known[op.name].to_bytes(8, "little"))
            else:
                raise Unclear
        found = self.seen[op.name]
        return found[:size] if len(found) >= size else found + [0] * (size - len(found))

    def _made(self, at: int, name: str) -> Bytes:
        instr = self.flow.code[at]
        if instr.guard is not None:
            raise Unclear
        if at == self.core:
            return self._core(instr)
        rule = RULES.get(self.flow.names[at])
        if rule is None:
            raise Unclear
        made, target = rule(self, instr), instr.operands[0]
        if not isinstance(target, Vec):
            return made
        n = len(made) // len(target.items)
        (place,) = (i for i, op in enumerate(target.items) if op == Reg(name))
        return made[n * place : n * (place + 1)]

    def _core(self, instr: Instr) -> Bytes:
        """The operation reads a part of the word, and gives as many bytes."""
        fmt = instr.opcode[-1]
        size = type_bytes(fmt.removesuffix("x2")) * (2 if fmt.endswith("x2") else 1)
        for op in instr.operands[1:]:
            if not isinstance(op, Reg) or (op.name not in self.old and op.name in self.known):
                continue
            try:
                read = self.value(op, size)
            except Unclear:
                continue
            if isinstance(read[0], tuple) and read[0][0] == "wide":
                self.taken.append((list(read[0][1]), read[0][2]))
                return [("sum", 0)] + [("rest", i) for i in range(1, size)]
            if fmt == "f32" and read[:HALF] == [0, 0] and read[HALF] != 0:
                self.taken.append((read[HALF:], "bf16"))
                return [("sum", 0)] + [("rest", i) for i in range(1, size)]
            if any(isinstance(b, tuple) for b in read):
                self.taken.append((read, fmt.removesuffix("x2")))
                return [("new", i) for i in range(size)]
        raise Unclear

    def number(self, op: Operand, size: int) -> int:
        """An operand that is a number."""
        found = self.value(op, size)
        if any(isinstance(b, tuple) for b in found):
            raise Unclear
        return int.from_bytes(bytes(found), "little")


def _size(instr: Instr) -> int:
    return 1 if instr.opcode[-1] == "pred" else type_bytes(instr.opcode[-1])


def _mov(w: Words, instr: Instr) -> Bytes:
    n, source = _size(instr), instr.operands[1]
    if not isinstance(source, Vec):
        return w.value(source, n)
    return [b for op in source.items for b in w.value(op, n // len(source.items))]


def _cvt(w: Words, instr: Instr) -> Bytes:
    """Without a sign, to more or fewer bytes."""
    target, source = instr.opcode[-2:]
    if source[0] not in "ub" or target[0] not in "usb":
        raise Unclear
    n, found = type_bytes(target), w.value(instr.operands[1], type_bytes(source))
    return found[:n] + [0] * (n - len(found))


def _cvt_float(w: Words, instr: Instr) -> Bytes:
    """Widened before the operation, narrowed after it: over the reals both change nothing."""
    target, source = instr.opcode[-2:]
    if "sat" in instr.opcode or "relu" in instr.opcode:
        raise Unclear
    read = w.value(instr.operands[1], type_bytes(source))
    if source in ("f16", "bf16") and target == "f32":
        return [("wide", tuple(read), source), *(("rest", i) for i in range(1, 4))]
    narrow = [fmt for _, fmt in w.taken]
    if source == "f32" and read[0] == ("sum", 0) and narrow == [target]:
        return [("new", 0), ("new", 1)]
    raise Unclear


def _selp(w: Words, instr: Instr) -> Bytes:
    _, a, b, p = instr.operands
    return w.value(a if w.number(p, 1) else b, _size(instr))


def _setp(w: Words, instr: Instr) -> Bytes:
    """A comparison of what the loop does not change."""
    n, (_, a, b) = _size(instr), instr.operands
    if instr.opcode[1] not in ("eq", "ne"):
        raise Unclear
    return [int((w.number(a, n) == w.number(b, n)) == (instr.opcode[1] == "eq"))]


def _bitwise(neutral: int, absorbing: int) -> Callable[[Words, Instr], Bytes]:
    def run(w: Words, instr: Instr) -> Bytes:
        n = _size(instr)
        pairs = zip(*(w.value(op, n) for op in instr.operands[1:]), strict=True)
        made: Bytes = []
        for x, y in pairs:
            if isinstance(x, int) and isinstance(y, int):
                made.append(x & y if neutral else x | y)
            elif absorbing in (x, y):
                made.append(absorbing)
            elif neutral in (x, y):
                made.append(y if x == neutral else x)
            else:
                raise Unclear
        return made

    return run


def _not(w: Words, instr: Instr) -> Bytes:
    n = _size(instr)
    return list((~w.number(instr.operands[1], n) & (1 << 8 * n) - 1).to_bytes(n, "little"))


def _shift(up: bool) -> Callable[[Words, Instr], Bytes]:
    def run(w: Words, instr: Instr) -> Bytes:
        n, by = _size(instr), w.number(instr.operands[2], 4)
        found = w.value(instr.operands[1], n)
        if by % 8 or instr.opcode[-1][0] == "s":
            raise Unclear
        zeros: Bytes = [0] * min(by // 8, n)
        return (zeros + found)[:n] if up else found[by // 8 :] + zeros

    return run


def _prmt(w: Words, instr: Instr) -> Bytes:
    _, a, b, selector = instr.operands
    both, by = w.value(a, 4) + w.value(b, 4), w.number(selector, 4)
    chosen = [by >> 4 * i & 15 for i in range(4)]
    if len(instr.opcode) > 2 or any(c > 7 for c in chosen):
        raise Unclear
    return [both[c] for c in chosen]


RULES: dict[str, Callable[[Words, Instr], Bytes]] = {
    "mov": _mov,
    "cvt.int": _cvt,
    "cvt.float": _cvt_float,
    "int.setp": _setp,
    "selp": _selp,
    "bit.and": _bitwise(0xFF, 0),
    "bit.or": _bitwise(0, 0xFF),
    "bit.not": _not,
    "bit.shl": _shift(True),
    "bit.shr": _shift(False),
    "bit.prmt": _prmt,
}
