"""Atomic read-modify-writes (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.address import Accessor, note_undef
from kcheck.semantics.slow.decode import as_unit, handles
from kcheck.semantics.slow.errors import Ambiguous, Unsupported
from kcheck.semantics.slow.exact import Exact
from kcheck.semantics.slow.formats import BITS
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.sameness import same_units
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import (
    UNDEF,
    Real,
    Undef,
    Unit,
    Unstable,
    as_int,
    as_real,
    bitwise,
    concat,
    slice_bits,
)

Combine = Callable[[Unit, Unit], Unit]

_BITWISE: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "inc": lambda old, top: 0 if old >= top else old + 1,
    "dec": lambda old, top: top if old == 0 or old > top else old - 1,
}


def added(old: Unit, new: Unit, kind: str, numbers: type[Number]) -> Unit:
    """The sum of two units of a type, also of packed halves."""
    if kind.endswith("x2"):
        halves = [
            added(slice_bits(old, at, 16), slice_bits(new, at, 16), kind[:-2], numbers)
            for at in (0, 16)
        ]
        return concat((half, 16) for half in halves)
    if kind in BITS:
        x, y = as_real(old, kind, numbers), as_real(new, kind, numbers)
        if isinstance(x, Undef) or isinstance(y, Undef):
            return UNDEF
        return as_unit(x.add(y), kind)
    bits = kind_bits(kind)
    a, b = as_int(old, bits), as_int(new, bits)
    return UNDEF if isinstance(a, Undef) or isinstance(b, Undef) else a + b & ((1 << bits) - 1)


def _integer(op: str, kind: str) -> Combine:
    function, bits = _INTEGER[op], kind_bits(kind)
    half = 1 << bits - 1 if kind[0] == "s" else 0

    def combine(old: Unit, new: Unit) -> Unit:
        if isinstance(old, Real) or isinstance(new, Real):
            return _float_bits(op, kind, old, new)
        a, b = as_int(old, bits), as_int(new, bits)
        if isinstance(a, Undef) or isinstance(b, Undef):
            return UNDEF
        signed = function((a ^ half) - half, (b ^ half) - half)
        return signed & ((1 << bits) - 1)

    return combine


def _float_bits(op: str, kind: str, old: Unit, new: Unit) -> Unit:
    """A minimum or maximum of the bits of numbers as integers.

    Those of numbers < 0 are less than the others as signed integers, larger as unsigned ones, and
    have the reverse order among themselves.
    """
    fmt = f"f{kind_bits(kind)}"
    number = new.number if isinstance(new, Real) else None
    if number is None or not isinstance(old, (Real, int, Undef)):
        raise Unsupported("reinterpret")
    if old == 1 << kind_bits(kind) - 1:  # -0.0: the least signed integer, of the largest unsigned
        larger = kind[0] == "s" or _is_negative(number)
        return Real(fmt, number) if (op == "max") == larger else old
    before = as_real(old, fmt, type(number))
    if isinstance(before, Undef):
        return UNDEF
    below = [_is_negative(x) for x in (before, number)]
    if below[0] != below[1]:
        wanted = (op == "max") == (kind[0] == "u")
        return Real(fmt, before if below[0] == wanted else number)
    largest = (op == "max") != below[0]
    return Real(fmt, before.maximum(number) if largest else before.minimum(number))


def _is_negative(number: Number) -> bool:
    return number.sign() < 0 if number.special is None else number.special < 0


def float_operation(op: str, kind: str, operand: Unit) -> str:
    """`max.bits` or `min.bits` if an integer maximum or minimum is one of float bits, else ""."""
    if op not in ("min", "max"):
        return ""
    if isinstance(operand, Real):
        negative = _is_negative(operand.number)
    elif isinstance(operand, int):
        negative = bool(operand >> kind_bits(kind) - 1 & 1)
    else:
        return ""
    if negative == (kind[0] == "u"):
        largest = (op == "max") != negative
        return "max.bits" if largest else "min.bits"
    return ""


def combination(op: str, kind: str, numbers: type[Number]) -> Combine:
    """What a read-modify-write puts into the cell, from the old value and the operand."""
    if op == "add":
        return lambda old, new: added(old, new, kind, numbers)
    if op in _BITWISE:
        function, bits = _BITWISE[op], kind_bits(kind)
        return lambda old, new: bitwise(function, (old, new), bits)
    if op == "exch":
        return lambda old, new: new
    return _integer(op, kind)


@handles("atom.add", "red.add", "atom.op", "red.op", "atom.exch")
def _atomic(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    *targets, place_of, source = instr.operands
    op = slots.get("op") or ("exch" if "exch" in instr.opcode else "add")
    kind = slots["type"]
    width = kind_bits(kind) // 8
    put = decoder.store(targets[0], f"b{width * 8}") if targets else None
    get = decoder.raw(source, width * 8)
    accessor = Accessor(decoder, instr, place_of, slots["space"], width, True)
    combine = combination(op, kind, decoder.numbers)
    unstable = Unstable(instr.name)

    def step(t: Thread) -> None:
        place = accessor.place(t)
        old: Unit = UNDEF
        if place is not None:
            memory, offset, home = place
            old, operand = memory.read(offset, width), get(t)
            _watch(t, place, width, op, kind, operand)
            total = combine(old, operand)
            memory.write(offset, width, total)
            note_undef(t, instr, home, offset, total)
        if put is not None:
            put(t, old if _concrete(t) else unstable)

    return step


def _concrete(t: Thread) -> bool:
    return t.cta.context.kinds[t.pc - 1].concrete


def _watch(t: Thread, place: tuple, width: int, op: str, kind: str, *operands: Unit) -> None:  # type: ignore[type-arg]
    """Tell the monitor, and which operations it may be exchanged with."""
    context = t.cta.context
    context.progress += 1
    if context.monitor is None:
        return
    named, names = context.kinds[t.pc - 1], set[str]()
    if named.operation and not named.given:
        names |= {named.operation, float_operation(op, kind, operands[0])}
    elif named.operation and all(isinstance(x, int) for x in operands):
        names.add(f"{named.operation}:{operands}")
    memory, offset, home = place
    context.monitor.update(t, memory, offset, width, home, frozenset(names - {""}))


@handles("atom.cas")
def _cas(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, place_of, *sources = instr.operands
    kind = slots["type"]
    width = kind_bits(kind) // 8
    put = decoder.store(target, kind)
    compare, new = (decoder.raw(source, width * 8) for source in sources)
    accessor = Accessor(decoder, instr, place_of, slots["space"], width, True)
    unstable = Unstable(instr.name)

    def step(t: Thread) -> None:
        place = accessor.place(t)
        if place is None:
            put(t, ABSORB)
            return
        memory, offset, home = place
        old, wanted = memory.read(offset, width), compare(t)
        unit = new(t)
        _watch(t, place, width, "cas", kind, wanted, unit)
        if _equal(old, wanted):
            memory.write(offset, width, unit)
            note_undef(t, instr, home, offset, unit)
        put(t, old if _concrete(t) else unstable)

    return step


def _equal(a: Unit, b: Unit) -> bool:
    """Are two units equal for certain? Raises Ambiguous if that can't be told."""
    if a is b:
        return True
    if isinstance(a, Real) and isinstance(b, Real) and not isinstance(a.number, Exact):
        (low, high), (floor, top) = a.number.bounds(), b.number.bounds()
        if a.number is not b.number and low != high and low <= top and floor <= high:
            raise Ambiguous
        return a.number is b.number or (low, high) == (floor, top)
    if isinstance(a, (Undef, Unstable)) or isinstance(b, (Undef, Unstable)):
        raise Unsupported("unsupported.undefined-cas")
    return same_units(a, b)
