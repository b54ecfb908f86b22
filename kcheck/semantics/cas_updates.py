"""What a CAS loop does to cells: an addition, a maximum or a minimum, of all or a part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Flt, Instr, Operand, Reg, type_bytes
from kcheck.semantics.cas_words import Change, Unclear
from kcheck.semantics.extremes import extreme
from kcheck.semantics.values import FMT_BYTES, Bool, Int, Pred, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.cas_choices import Choice
    from kcheck.semantics.cas_loops import CasLoop
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine, Step


def cas_apply(d: Decoder, loop: CasLoop) -> Callable[[Machine, Place], None]:
    """What a loop does at a place; raises Unsupported when it is done."""
    fmt = loop.fmt.removesuffix("x2")
    packed = fmt != loop.fmt
    sources = [_source(d, op, loop.fmt) for op in loop.operands]
    inputs = [(name, d.reg(Reg(name)), d.kernel.registers[name]) for name in loop.inputs]

    def operand(m: Machine, half: int) -> Real[Any]:
        """What is added, or compared: a value or the product of two."""
        held = [m.regs[slot] for slot in sources]
        values = [m.real(m.halves(x)[half] if packed else x, fmt) for x in held]
        x = values[0] if len(values) == 1 else m.reals.mul(*values)
        return Real(x.v, x.c, x.kind, fmt)

    def apply(m: Machine, place: Place) -> None:
        for change, lanes in _changes(m, loop, inputs, place):
            size = FMT_BYTES[change.fmt]
            for half in range(2 if packed else 1):
                at = (change.first + half * size) // place.region.memory.granule
                x = operand(m, half)
                x.fmt = change.fmt
                part = replace(place, cell=place.cell + at, mask=lanes)
                if loop.operation == "add":
                    part.region.memory.add(part.cell, size, x, lanes)
                else:
                    extreme(m, part, x, size, loop.operation == "max")

    return apply


def _source(d: Decoder, op: Operand, fmt: str) -> int:
    return d.real(op, fmt) if isinstance(op, Flt) else d.integer(op, type_bytes(fmt))


def _changes(
    m: Machine, loop: CasLoop, inputs: list[tuple[str, int, str]], place: Place
) -> Iterator[tuple[Change, Bool | None]]:
    """What becomes of the cell, and in which lanes, by what decides which part of it is meant."""
    if not inputs:
        yield loop.change({}), place.mask
        return
    rows = np.stack([_numbers(m, slot, kind) for _, slot, kind in inputs])
    group = m.group() if place.mask is None else place.mask
    for column in np.unique(rows[:, group], axis=1).T:
        known = {name: int(x) for (name, _, _), x in zip(inputs, column, strict=True)}
        try:
            change = loop.change(known)
        except Unclear:
            raise Unsupported(
                "spin", "which part of its cell a loop changes can't be told"
            ) from None
        yield change, group & (rows == column[:, None]).all(0)


def _numbers(m: Machine, slot: int, kind: str) -> Any:
    x = m.regs[slot]
    if kind == "pred":
        p: Pred = m.predicate(x)
        numbers = m.concrete(p, "predicate").astype(np.uint64)
    else:
        found = m.integer(x, type_bytes(kind))
        if found.u is not None:
            raise Unsupported("undefined", "an undefined value moves bits in a loop")
        numbers = found.a.astype(np.uint64)
    return np.broadcast_to(numbers, (m.lanes,))


# loops that choose


def going_on(d: Decoder, instr: Instr, seen: str, holds: bool) -> Step:
    """A comparison that lets a choosing loop go on where it `holds`: up to the CAS, which marks
    what was seen as done.
    """
    dst, slot = d.dest(instr.operands[0]), d.reg(Reg(seen))

    def compare(m: Machine) -> None:
        mark = m.regs[slot]
        if type(mark) is not Int or mark.u is not None:
            raise Unsupported("unstable", "a loop compares what is not in its cell")
        p = Pred((mark.a == 0) == holds)
        m.regs[dst] = p if m.mask is None else m.merge(m.regs[dst], p)

    return compare


def choice_apply(d: Decoder, choice: Choice) -> Callable[[Machine, Place], None]:
    """What a choosing loop does at a place."""
    slot, size = d.reg(choice.operand), FMT_BYTES[choice.fmt]

    def apply(m: Machine, place: Place) -> None:
        x = m.real(m.regs[slot], choice.fmt)
        extreme(m, place, x, size, choice.operation == "max")

    return apply
