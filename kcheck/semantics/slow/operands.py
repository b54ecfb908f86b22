"""Operands bound to register slots, once per kernel.

Operands are read and written by *kind*: `u32`, `s16` (Python ints), `f32`, `bf16` (numbers),
`b32` (units as they are), `pred` (bools). Reading Undef as anything but `b` gives ABSORB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import (
    Flt,
    Imm,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Sym,
    Vec,
    type_bytes,
)
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.formats import BITS
from kcheck.semantics.slow.layout import narrow_literal
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.special import special
from kcheck.semantics.slow.state import Context, Thread
from kcheck.semantics.slow.units import (
    UNDEF,
    Pack,
    Pointer,
    Real,
    Undef,
    Unit,
    Unstable,
    as_int,
    as_real,
    concat,
    slice_bits,
)

Slots = dict[str, str]
Get = Callable[[Thread], Unit]
Load = Callable[[Thread], Any]
Put = Callable[[Thread, Any], None]


class Absorb:
    """What reading Undef gives."""


ABSORB = Absorb()


def kind_bits(kind: str) -> int:
    """Bits of a kind or PTX type."""
    return type_bytes(kind) * 8


class Decoder:
    """Binds operands to register slots."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.numbers = context.numbers
        self.slots = {name: i for i, name in enumerate(context.kernel.registers)}
        self.types = context.kernel.registers

    # reading ---------------------------------------------------------------------------------

    def raw(self, operand: Operand, bits: int) -> Get:
        """Reads an operand as a unit of `bits` bits."""
        if isinstance(operand, Reg) and operand.name in self.slots:
            return self._register(self.slots[operand.name], self.width(operand), bits)
        if isinstance(operand, Reg):
            return special(operand.name)
        if isinstance(operand, Vec):
            return self._packed(operand, bits)
        constant = self._constant(operand, bits)
        return lambda t: constant

    def _register(self, slot: int, width: int, bits: int) -> Get:
        if width <= bits:
            return lambda t: t.regs[slot]

        def low(t: Thread) -> Unit:
            unit = t.regs[slot]
            return unit if isinstance(unit, Undef) else slice_bits(unit, 0, bits)

        return low

    def width(self, register: Reg) -> int:
        """Bits of a register."""
        return kind_bits(self.types[register.name])

    def _packed(self, operand: Vec, bits: int) -> Get:
        each = bits // len(operand.items)
        gets = [self.raw(item, each) for item in operand.items]
        return lambda t: concat((get(t), each) for get in gets)

    def _constant(self, operand: Operand, bits: int) -> Unit:
        if isinstance(operand, Imm):
            return operand.value & ((1 << bits) - 1)
        if isinstance(operand, Flt):
            if operand.width == bits:
                return operand.bits
            if operand.width == 64 and bits == 32:
                return narrow_literal(operand.bits)
        if isinstance(operand, Sym) and operand.name in self.context.layout.symbols:
            base = self.context.layout.symbols[operand.name][1]
            return Pointer(base + operand.offset, base.home)
        raise Unsupported("unsupported.operand")

    def load(self, operand: Operand, kind: str) -> Load:
        """Reads an operand as a kind."""
        if kind == "pred":
            return self._predicate(operand)
        bits = kind_bits(kind)
        get = self.raw(operand, bits)
        if kind[0] == "b" and kind not in BITS:
            return get
        if kind in BITS:
            return self._real(operand, get, kind)
        return self._integer(get, bits, kind[0] == "s")

    def _predicate(self, operand: Operand) -> Load:
        if isinstance(operand, Imm):
            constant = operand.value != 0
            return lambda t: constant
        negated = isinstance(operand, Not)
        register = operand.reg if isinstance(operand, Not) else operand
        if not isinstance(register, Reg) or register.name not in self.slots:
            raise Unsupported("unsupported.operand")
        slot = self.slots[register.name]

        def read(t: Thread) -> Any:
            unit = t.regs[slot]
            if isinstance(unit, Unstable):
                raise Unsupported("unstable")
            return ABSORB if isinstance(unit, Undef) else unit != negated

        return read

    def _integer(self, get: Get, bits: int, signed: bool) -> Load:
        mask, half = (1 << bits) - 1, 1 << (bits - 1)

        def read(t: Thread) -> Any:
            unit = get(t)
            value = unit & mask if type(unit) is int else as_int(unit, bits)
            if isinstance(value, Undef):
                return ABSORB
            return value - (mask + 1) if signed and value & half else value

        return read

    def _real(self, operand: Operand, get: Get, fmt: str) -> Load:
        numbers = self.numbers
        if isinstance(operand, Imm) and operand.value:
            raise Unsupported("unsupported.operand")  # is 1 a number or bits?
        decoded: dict[int, Number] = {}

        def read(t: Thread) -> Any:
            unit = get(t)
            if type(unit) is Real and unit.fmt == fmt:
                return unit.number
            if type(unit) is int:
                number = decoded.get(unit)
                if number is not None:
                    return number
            value = as_real(unit, fmt, numbers)
            if isinstance(value, Undef):
                return ABSORB
            if type(unit) is int:
                decoded[unit] = value
            return value

        return read

    # writing ---------------------------------------------------------------------------------

    def store(self, operand: Operand, kind: str) -> Put:
        """Writes a value of a kind, or ABSORB; wider registers are extended by the kind's sign."""
        if isinstance(operand, Sink):
            return lambda t, value: None
        if isinstance(operand, Vec):
            return self._unpacked(operand, kind)
        if not isinstance(operand, Reg) or operand.name not in self.slots:
            raise Unsupported("unsupported.operand")
        slot, width = self.slots[operand.name], self.width(operand)
        if kind == "pred":
            return lambda t, value: t.regs.__setitem__(slot, UNDEF if value is ABSORB else value)
        bits = kind_bits(kind)
        if kind in BITS or kind[0] == "b":
            return self._unit(slot, kind, bits, width)
        mask, half = (1 << bits) - 1, 1 << (bits - 1)
        extension = ((1 << width) - 1) & ~mask if kind[0] == "s" else 0

        def write(t: Thread, value: Any) -> None:
            if value is ABSORB:
                t.regs[slot] = UNDEF
            elif isinstance(value, int):
                bits_of = value & mask
                if extension and bits_of & half:
                    bits_of |= extension
                t.regs[slot] = Pointer(bits_of, value.home) if type(value) is Pointer else bits_of
            elif extension:
                sign = as_int(value, bits)
                write(t, ABSORB if isinstance(sign, Undef) else sign)
            else:
                t.regs[slot] = _extended(value, bits, width)

        return write

    def _unit(self, slot: int, kind: str, bits: int, width: int) -> Put:
        fmt = kind if kind in BITS else ""

        def write(t: Thread, value: Any) -> None:
            if value is ABSORB:
                value = UNDEF
            elif fmt and isinstance(value, Number):
                value = Real(fmt, value.rounded(fmt))
            t.regs[slot] = value if width <= bits else _extended(value, bits, width)

        return write

    def _unpacked(self, operand: Vec, kind: str) -> Put:
        each = kind_bits(kind) // len(operand.items)
        puts = [self.store(item, f"b{each}") for item in operand.items]

        def write(t: Thread, value: Any) -> None:
            for i, put in enumerate(puts):
                put(t, slice_bits(value, i * each, each))

        return write

    def two_predicates(self, operand: Operand) -> Put:
        """Writes (p, q) into `p|q`, or p into `p`."""
        pair = operand if isinstance(operand, Pair) else Pair(operand, Sink())  # type: ignore[arg-type]
        first, second = self.store(pair.first, "pred"), self.store(pair.second, "pred")

        def write(t: Thread, value: Any) -> None:
            p, q = (ABSORB, ABSORB) if value is ABSORB else value
            first(t, p)
            second(t, q)

        return write


def _extended(value: Unit, bits: int, width: int) -> Unit:
    if width <= bits or isinstance(value, (int, Undef, Unstable)):
        return value
    if isinstance(value, Pack) and value.bits > bits:
        return value
    return concat(((value, bits), (0, width - bits)))
