"""Loads, stores, atomics, asynchronous copies (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from typing import Any

from kcheck.ptx_frontend.tree import Imm, Instr, Operand, Vec
from kcheck.semantics.slow.address import Accessor, note_undef
from kcheck.semantics.slow.decode import as_unit, handles
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.formats import BITS
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import (
    UNDEF,
    Undef,
    Unit,
    Unstable,
    as_int,
    as_real,
    concat,
    slice_bits,
)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vec) else (operand,)


def _counted(operand: Operand, slots: Slots) -> tuple[Operand, ...]:
    items = _items(operand)
    if len(items) != int(slots.get("vec", "")[1:] or 1):
        raise Unsupported("unsupported.operand")
    return items


@handles("ld")
def _ld(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    kind = slots["type"]
    width = kind_bits(kind) // 8
    items = _counted(target, slots)
    puts = [decoder.store(item, kind) for item in items]
    accessor = Accessor(decoder, instr, source, slots.get("space", ""), width * len(items), False)

    def step(t: Thread) -> None:
        place = accessor.place(t)
        for i, put in enumerate(puts):
            put(
                t, ABSORB if place is None else _defined(place[0].read(place[1] + i * width, width))
            )

    return step


def _defined(unit: Unit) -> Any:
    return ABSORB if isinstance(unit, Undef) else unit


@handles("st")
def _st(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    kind = slots["type"]
    width = kind_bits(kind) // 8
    items = _counted(source, slots)
    gets = [decoder.raw(item, width * 8) for item in items]
    accessor = Accessor(decoder, instr, target, slots["space"], width * len(items), True)

    def step(t: Thread) -> None:
        place = accessor.place(t)
        if place is None:
            return
        memory, offset, home = place
        for i, get in enumerate(gets):
            unit = get(t)
            if isinstance(unit, Unstable):
                raise Unsupported("unstable")
            memory.write(offset + i * width, width, unit)
            note_undef(t, instr, home, offset + i * width, unit)

    return step


@handles("prefetch", "fence", "cp.async.commit", "cp.async.wait", "nanosleep")
def _nothing(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Orders or hints: one thread at a time has no need of it."""
    return lambda t: None


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


@handles("atom.add", "red.add")
def _atom_add(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    *targets, place_of, source = instr.operands
    kind = slots["type"]
    width = kind_bits(kind) // 8
    put = decoder.store(targets[0], f"b{width * 8}") if targets else None
    get = decoder.raw(source, width * 8)
    accessor = Accessor(decoder, instr, place_of, slots["space"], width, True)
    unstable = Unstable(instr.name)

    def step(t: Thread) -> None:
        place = accessor.place(t)
        if place is not None:
            memory, offset, home = place
            total = added(memory.read(offset, width), get(t), kind, decoder.numbers)
            memory.write(offset, width, total)
            note_undef(t, instr, home, offset, total)
        if put is not None:
            put(t, unstable)

    return step


@handles("cp.async")
def _cp_async(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Done at issue; the bytes past src-size are zero."""
    target, source, size, *rest = instr.operands
    if not isinstance(size, Imm):
        raise Unsupported("unsupported.operand")
    nbytes = size.value
    writer = Accessor(decoder, instr, target, "shared", nbytes, True)
    reader = Accessor(decoder, instr, source, "global", nbytes, False)
    count = decoder.load(rest[0], "u32") if rest else None

    def step(t: Thread) -> None:
        used = nbytes if count is None else count(t)
        if used is ABSORB or used > nbytes:
            t.cta.find("undefined.size", "the source size is undefined", instr, t)
            return
        to = writer.place(t)
        come = reader.place(t, used) if used else None
        if to is None:
            return
        memory, offset, _ = to
        if come is not None:
            memory.copy(offset, come[0], come[1], used)
        elif used:
            memory.write_each(offset, used, UNDEF)
        memory.write_each(offset + used, nbytes - used, 0)

    return step
