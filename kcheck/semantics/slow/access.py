"""Loads, stores and fences (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from typing import Any

from kcheck.ptx_frontend.tree import Instr, Operand, Vec
from kcheck.semantics.slow.address import Accessor, note_undef
from kcheck.semantics.slow.decode import handles
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import SPINNING, Signal, Step, Thread
from kcheck.semantics.slow.units import UNDEF, Undef, Unit, Unstable


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

    def step(t: Thread) -> Signal | None:
        place = accessor.place(t)
        if place is None:
            for put in puts:
                put(t, ABSORB)
            return None
        memory, offset, home = place
        context = t.cta.context
        if context.monitor is not None:
            context.monitor.load(t, memory, offset, width * len(puts), home)
        unit: Unit = UNDEF
        for i, put in enumerate(puts):
            unit = memory.read(offset + i * width, width)
            put(t, _defined(unit))
        if context.kinds[t.pc - 1].strong:
            return _spins(t, unit)
        return None

    return step


def _spins(t: Thread, unit: Unit) -> Signal | None:
    """A strong load that gives again what it gave before lets others run."""
    here = t.pc, unit
    if t.spun == here:
        return SPINNING
    t.spun = here
    return None


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
        units = [get(t) for get in gets]
        if any(isinstance(unit, Unstable) for unit in units):
            raise Unsupported("unstable")
        context = t.cta.context
        context.progress += 1
        if context.monitor is not None:
            context.monitor.store(t, memory, offset, width * len(units), home, units)
        for i, unit in enumerate(units):
            memory.write(offset + i * width, width, unit)
            note_undef(t, instr, home, offset + i * width, unit)

    return step


@handles("prefetch", "nanosleep")
def _nothing(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Hints."""
    return lambda t: None


@handles("fence")
def _fence(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Orders nothing that one thread at a time could see; only a monitor wants to know."""

    def step(t: Thread) -> None:
        monitor = t.cta.context.monitor
        if monitor is not None:
            monitor.fence(t, instr)

    return step
