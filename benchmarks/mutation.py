"""Small changes of a PTX text, each of one operand, immediate, predicate, opcode or suffix.

A mutant is still sensible PTX: every opcode is a form that kcheck knows, and a register is only
replaced by one that is declared with the same type, used as the same kind of number and assigned
on every path to the instruction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.registers import Registers
from kcheck.ptx_frontend.blocks import leaves
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.printer import print_instr
from kcheck.ptx_frontend.tree import (
    Block,
    Flt,
    Guard,
    Imm,
    Instr,
    Mem,
    Operand,
    Reg,
    Sym,
    Vec,
    type_bytes,
)

KINDS = ("register", "immediate", "predicate", "opcode", "suffix")

# words that stand for another operation; a pair goes both ways
_OPERATIONS = (
    ("add", "sub"),
    ("min", "max"),
    ("and", "or"),
    ("or", "xor"),
    ("shl", "shr"),
    ("neg", "abs"),
    ("ex2", "lg2"),
    ("sqrt", "rsqrt"),
    ("div", "mul"),
    ("lo", "hi"),
    ("lt", "le"),
    ("gt", "ge"),
    ("lt", "gt"),
    ("eq", "ne"),
    ("equ", "neu"),
    ("ltu", "leu"),
    ("gtu", "geu"),
    ("bfly", "down"),
    ("up", "down"),
    ("any", "all"),
)
# words that stand for another type, rounding or cache policy
_SUFFIXES = (
    ("rn", "rz"),
    ("rni", "rzi"),
    ("rmi", "rpi"),
    ("s16", "u16"),
    ("s32", "u32"),
    ("s64", "u64"),
    ("f16", "bf16"),
    ("ca", "cg"),
)
# conversions, too, from or to another width
_CONVERSIONS = (("s32", "s16"), ("u32", "u16"), ("s32", "s64"))
# operations to whose result the sign of the type means nothing: such a change is no mutant
_SIGNLESS = frozenset({"add", "sub", "mul", "mad", "shl", "mov", "ld", "st", "selp"})
# words that may be left out or put in
_DROPPED = ("sat", "ftz", "trans", "nc", "relu", "L2::128B")
_ADDED = ("sat", "trans")
# immediates that have a meaning of their own: (form, role) -> what they may become
_CLOSED = {
    ("bar.sync", "id"): (0, 1, 2),
    ("bar.sync", "count"): (32, 64, 96, 128),
    ("cp.async", "size"): (4, 8, 16),
    ("cp.async.wait", "n"): (0, 1, 2, 3),
    ("bit.lop3", "lut"): (0x96, 0xE8, 0xF8, 0x78, 0xFE, 0x80),
}


@dataclass(frozen=True)
class Mutation:
    """`text` is the whole PTX; `before` and `after` are the instruction at `line`."""

    kind: str
    line: int
    before: str
    after: str
    text: str

    @property
    def key(self) -> str:
        """What names the mutation among those of one text."""
        return f"{self.line}: {self.before} -> {self.after}"


def mutations(text: str, rng: random.Random, count: int) -> list[Mutation]:
    """`count` different mutations, the kinds in turn; fewer if the text has no more."""
    module = parse(text)
    kernel = lower(module)
    registers = Registers(kernel)
    (entry,) = module.entries
    assert entry.body is not None
    sites: dict[str, list[tuple[Instr, list[Instr]]]] = {kind: [] for kind in KINDS}
    for instr in _instructions(entry.body):
        if match(instr.opcode) is None or leaves(instr):
            continue
        for kind in KINDS:
            changed = [new for new in _CHANGES[kind](instr, kernel, registers) if new != instr]
            if changed:
                rng.shuffle(changed)
                sites[kind].append((instr, changed))
    for found in sites.values():
        rng.shuffle(found)
    return list(_in_turn(sites, text, count))


def _in_turn(
    sites: dict[str, list[tuple[Instr, list[Instr]]]], text: str, count: int
) -> Iterator[Mutation]:
    """One mutation of each kind in turn, each time at the next instruction."""
    seen: set[str] = set()
    while any(sites.values()):
        for kind, found in sites.items():
            while found:
                instr, changed = found.pop(0)
                mutation = _mutation(kind, instr, changed.pop(), text)
                if changed:
                    found.append((instr, changed))
                if mutation.key not in seen:
                    seen.add(mutation.key)
                    yield mutation
                    break
            if len(seen) == count:
                return


def _mutation(kind: str, old: Instr, new: Instr, text: str) -> Mutation:
    start, end = old.span.start, old.span.end
    after = print_instr(new)
    terminated = text[start:end].rstrip().endswith(";")
    put = after if terminated else after[:-1]
    before = print_instr(old)
    return Mutation(kind, old.span.line, before, after, text[:start] + put + text[end:])


def _instructions(block: Block) -> Iterator[Instr]:
    for statement in block.body:
        if isinstance(statement, Block):
            yield from _instructions(statement)
        elif isinstance(statement, Instr):
            yield statement


# the kinds: each gives the instructions that one could become


def _registers(instr: Instr, kernel: Kernel, registers: Registers) -> Iterator[Instr]:
    at = registers.index(instr)
    if at is None:
        return
    if instr.guard is not None:
        for name in registers.alternatives(at, instr.guard.reg.name):
            yield replace(instr, guard=Guard(Reg(name), instr.guard.negated))
    if instr.opcode[:2] == ("ld", "param"):
        yield from _parameters(instr, kernel)
    for i, operand in registers.sources(instr):
        for changed in _other_registers(operand, at, registers):
            yield _with(instr, i, changed)


def _parameters(instr: Instr, kernel: Kernel) -> Iterator[Instr]:
    source = instr.operands[1]
    if not isinstance(source, Mem) or not isinstance(source.base, Sym) or source.offset:
        return
    types = {p.name: (p.type, p.shape) for p in kernel.params}
    for name, declared in types.items():
        if name != source.base.name and declared == types.get(source.base.name):
            yield _with(instr, 1, Mem(Sym(name)))


def _other_registers(operand: Operand, at: int, registers: Registers) -> Iterator[Operand]:
    match operand:
        case Reg(name):
            yield from (Reg(other) for other in registers.alternatives(at, name))
        case Mem(base=Reg(name)):
            for other in registers.alternatives(at, name):
                yield replace(operand, base=Reg(other))
        case Vec(items):
            for i, item in enumerate(items):
                for changed in _other_registers(item, at, registers):
                    yield Vec((*items[:i], changed, *items[i + 1 :]))


def _immediates(instr: Instr, kernel: Kernel, registers: Registers) -> Iterator[Instr]:
    found = match(instr.opcode)
    assert found is not None
    roles = found.form.roles
    for i, operand in enumerate(instr.operands):
        role = roles[i] if i < len(roles) else ""
        if isinstance(operand, Imm):
            v = operand.value
            values = _CLOSED.get((found.form.name, role), (v + 1, v - 1, 2 * v, 1 - bool(v)))
            yield from (_with(instr, i, Imm(value)) for value in dict.fromkeys(values))
        elif isinstance(operand, Flt):
            sign = 1 << (operand.width - 1)
            one = {32: 0x3F800000, 64: 0x3FF0000000000000}[operand.width]
            for bits in (operand.bits ^ sign, 0) if operand.bits & (sign - 1) else (one,):
                yield _with(instr, i, Flt(bits, operand.width))
        elif isinstance(operand, Mem) and isinstance(operand.base, Reg):
            width = 16 if instr.opcode[0] == "ldmatrix" else _width(instr)
            for step in (width, -width, 4 * width):
                yield _with(instr, i, replace(operand, offset=operand.offset + step))


def _width(instr: Instr) -> int:
    """Bytes of an element that the instruction accesses."""
    for word in reversed(instr.opcode):
        try:
            return type_bytes(word)
        except KeyError:
            continue
    return 4


def _predicates(instr: Instr, kernel: Kernel, registers: Registers) -> Iterator[Instr]:
    if instr.guard is not None:
        yield replace(instr, guard=Guard(instr.guard.reg, not instr.guard.negated))
        yield replace(instr, guard=None)
        return
    if instr.opcode[0] == "selp":  # a selp with its arms exchanged has its predicate negated
        d, a, b, p = instr.operands
        yield replace(instr, operands=(d, b, a, p))


def _words(
    instr: Instr, pairs: tuple[tuple[str, str], ...], alone: tuple[tuple[str, str], ...] = ()
) -> Iterator[Instr]:
    every = (*pairs, *((b, a) for a, b in pairs), *alone)
    for i, word in enumerate(instr.opcode):
        for old, new in every:
            changed = (*instr.opcode[:i], *([new] if new else []), *instr.opcode[i + 1 :])
            if word == old and match(changed) is not None:
                yield replace(instr, opcode=changed)


def _opcodes(instr: Instr, kernel: Kernel, registers: Registers) -> Iterator[Instr]:
    yield from _words(instr, _OPERATIONS)


def _suffixes(instr: Instr, kernel: Kernel, registers: Registers) -> Iterator[Instr]:
    pairs = _SUFFIXES + (_CONVERSIONS if instr.opcode[0] == "cvt" else ())
    for new in _words(instr, pairs, tuple((word, "") for word in _DROPPED)):
        word = next((a for a, b in zip(instr.opcode, new.opcode, strict=False) if a != b), "")
        narrow = not {"wide", "hi"} & set(instr.opcode)
        if instr.opcode[0] not in _SIGNLESS or not _signed(word) or not narrow:
            yield new
    last = len(instr.opcode) - 1
    for word in _ADDED:
        opcode = (*instr.opcode[:last], word, instr.opcode[last])
        real = word != "sat" or instr.opcode[last][0] == "f"
        if real and word not in instr.opcode and match(opcode) is not None:
            yield replace(instr, opcode=opcode)


def _signed(word: str) -> bool:
    return word[:1] in ("s", "u") and word[1:].isdigit()


def _with(instr: Instr, i: int, operand: Operand) -> Instr:
    return replace(instr, operands=(*instr.operands[:i], operand, *instr.operands[i + 1 :]))


_CHANGES = {
    "register": _registers,
    "immediate": _immediates,
    "predicate": _predicates,
    "opcode": _opcodes,
    "suffix": _suffixes,
}
