"""Instructions to closures over register slots: done once per kernel and launch.

Each form of `ptx_frontend.forms` has a builder; an instruction without a form, or with operands
that its builder does not take, becomes a step that refuses itself when it is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.idioms import LIBRARY
from kcheck.ptx_frontend.tree import (
    Flt,
    Guard,
    Imm,
    Instr,
    Not,
    Operand,
    Reg,
    Sink,
    Sym,
    type_bytes,
)
from kcheck.semantics import special
from kcheck.semantics.arm_sums import arm_sums
from kcheck.semantics.branching import Branching
from kcheck.semantics.codec import literal_bits
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.sign_pairs import SignPairs, sign_pairs
from kcheck.semantics.values import FMT_BYTES, UNSIGNED, Int, Pred, Unsupported

Builder = Callable[["Decoder", Instr, dict[str, str]], Step]
# what an instruction does under a predicate (negated or not) that depends on tensor values
Guarded = Callable[[Machine, Pred, bool], None]
GuardBuilder = Callable[["Decoder", Instr, Step], Guarded]


class Decoder:
    """Slots for registers and constants, and the builders' view of operands."""

    def __init__(
        self, machine: Machine, builders: Mapping[str, Builder], guarded: GuardBuilder
    ) -> None:
        self.machine = machine
        self.builders = builders
        self.guarded = guarded
        self.kernel = machine.kernel
        self.registers: list[Any] = []
        self.specials: list[tuple[int, str]] = []
        self._slots: dict[Any, int] = {}
        # the instruction that is decoded
        self.at = 0
        self.branching = Branching(self)
        # in true formats a float is its bits: no pair is anything else than its atomics
        real = machine.arithmetic is None
        self.pairs = sign_pairs(self.kernel) if real else SignPairs()
        self.sums = arm_sums(self.kernel) if real else {}

    def _new(self, key: Any, value: Any) -> int:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self.registers)
            self.registers.append(value)
        return slot

    def reg(self, op: Operand) -> int:
        """The slot of a register operand."""
        if not isinstance(op, Reg):
            raise Unsupported("operand", f"a register is expected, not {op}")
        if op.name in self.kernel.registers:
            return self._new(op.name, None)
        if not special.known(op.name):
            raise Unsupported("special", f"special register {op.name}")
        seen = op.name in self._slots
        slot = self._new(op.name, None)
        if not seen:
            self.specials.append((slot, op.name))
        return slot

    def known_slot(self, name: str) -> int:
        """The slot of a declared register, -1 if no instruction names it."""
        return self._slots.get(name, -1)

    def dest(self, op: Operand) -> int:
        """The slot that a result goes to; a sink has one of its own."""
        return self._new("_", None) if isinstance(op, Sink) else self.reg(op)

    def bytes_of(self, op: Operand) -> int:
        """Bytes of a declared register."""
        if not isinstance(op, Reg) or op.name not in self.kernel.registers:
            raise Unsupported("operand", f"a register is expected, not {op}")
        return type_bytes(self.kernel.registers[op.name])

    def integer(self, op: Operand, size: int) -> int:
        """The slot of an integer operand of `size` bytes."""
        if isinstance(op, Reg):
            return self.reg(op)
        if isinstance(op, Imm):
            return self._int(op.value, size)
        if isinstance(op, Flt):
            return self._int(_literal(op, size), size)
        if isinstance(op, Sym):
            return self._symbol(op, size)
        raise Unsupported("operand", f"operand {op}")

    def _int(self, value: int, size: int) -> int:
        value &= (1 << 8 * size) - 1
        return self._new((value, size), Int(np.array([value], UNSIGNED[size])))

    def _symbol(self, op: Sym, size: int) -> int:
        regions = self.machine.regions
        ident = regions.symbols.get(op.name)
        if ident is None:
            raise Unsupported("symbol", f"the address of {op.name}")
        region = regions.items[ident]
        address = np.array([region.base + op.offset], np.int64).astype(UNSIGNED[size])
        return self._new((op, size), Int(address, ident))

    def real(self, op: Operand, fmt: str) -> int:
        """The slot of a float operand of a format; literals become exact constants.

        In true formats they are their bits.
        """
        if isinstance(op, Reg):
            return self.reg(op)
        if self.machine.arithmetic is not None:
            return self.integer(op, FMT_BYTES[fmt])
        if isinstance(op, Flt):
            machine = self.machine
            ident = machine.codec.ident(_literal(op, FMT_BYTES[fmt]), fmt)
            constant = machine.reals.uniform(ident)
            constant.fmt = fmt
            return self._new((op, fmt), constant)
        raise Unsupported("operand", f"a float is expected, not {op}")

    def predicate(self, op: Operand) -> tuple[int, bool]:
        """The slot of a predicate operand, and whether it is negated."""
        if isinstance(op, Not):
            return self.reg(op.reg), True
        if isinstance(op, Imm):
            return self._new(("p", bool(op.value)), Pred(np.array([bool(op.value)]))), False
        return self.reg(op), False


def _literal(op: Flt, size: int) -> int:
    bits = literal_bits(op.bits, op.width, size)
    if bits is None:
        raise Unsupported("operand", f"a literal of {op.width} bits for {size} bytes")
    return bits


def put(m: Machine, slot: int, value: Any) -> None:
    """Write a register under the group's mask."""
    m.regs[slot] = value if m.mask is None else m.merge(m.regs[slot], value)


def step(decoder: Decoder, instr: Instr) -> Step:
    """The closure of one instruction, its guard included."""
    try:
        run = unguarded(decoder, instr)
    except Unsupported as error:
        run = refusing(error)
        if instr.guard is not None:
            return _guarded(decoder, instr.guard, run, lambda m, p, negated: run(m))
    if instr.guard is None:
        return run
    return _guarded(decoder, instr.guard, run, decoder.guarded(decoder, instr, run))


def refusing(error: Unsupported) -> Step:
    """What refuses an instruction when it is reached."""

    def refuse(m: Machine) -> None:
        raise Unsupported(error.form, error.message)

    return refuse


def unguarded(decoder: Decoder, instr: Instr) -> Step:
    """The closure of one instruction without its guard. Unsupported."""
    if instr.opcode[0] == LIBRARY:
        return decoder.builders[instr.opcode[1]](decoder, instr, {})
    found = match(instr.opcode)
    builder = decoder.builders.get(found.form.name) if found else None
    if found is None or builder is None:
        raise Unsupported(instr.name, "the instruction is not supported")
    if not found.form.least <= len(instr.operands) <= len(found.form.roles):
        raise Unsupported(instr.name, f"{len(instr.operands)} operands")
    return builder(decoder, instr, found.slots)


def _guarded(
    decoder: Decoder, guard: Guard, run: Step, symbolic: Callable[[Machine, Pred, bool], None]
) -> Step:
    """`run` where the guard holds; `symbolic` is what a guard on tensor values does."""
    slot, negated = decoder.reg(guard.reg), guard.negated

    def guarded(m: Machine) -> None:
        p = m.regs[slot]
        if type(p) is Pred and p.s is not None and m.live(p.s) is not None:
            symbolic(m, p, negated)
            return
        b = m.concrete(p, "predicate")
        if negated:
            b = ~b
        under(m, b, run)

    return guarded


def under(m: Machine, b: Any, run: Step) -> None:
    """Run a step in the lanes of the group where `b` holds."""
    outer, notouter = m.mask, m.notmask
    if outer is not None:
        b = b & outer
    if b.all():
        run(m)
        return
    if not b.any():
        return
    if outer is not None and (b == outer).all():
        run(m)
        return
    m.mask, m.notmask = b, ~b
    try:
        run(m)
    finally:
        m.mask, m.notmask = outer, notouter
