"""Builders of atom and red: read-modify-writes, all lanes of an instruction in some order.

The old value depends on that order: it is unstable (DESIGN.md 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics import integers
from kcheck.semantics.access import Address, Place, address, resolve
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory_builders import note_writers
from kcheck.semantics.move_builders import type_size
from kcheck.semantics.races import atomic_code
from kcheck.semantics.values import FMT_BYTES, Array, Unstable, Unsupported

Slots = dict[str, str]
# what an operation leaves of an old and a new number; inc and dec wrap at the operand
_NEXT: dict[str, Callable[[int, int], int]] = {
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    "exch": lambda old, b: b,
}
_UFUNC: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def places(m: Machine, at: Address, size: int, code: int) -> list[Place]:
    """Where the group's lanes point; the access is noted with an atomic's `code`."""
    found = resolve(m, at, size, size, write=True)
    for place in found:
        if size < place.region.memory.granule:
            raise Unsupported("reinterpret", f"an atomic of {size} bytes in wider elements")
        note_writers(m, place, size)
        if m.races is not None:
            m.races.write(place, size, code)
    return found


def unstable(m: Machine, dst: int | None) -> None:
    """The old value goes to a register, if there is one."""
    if dst is not None:
        put(m, dst, Unstable("the old value of an atomic", m.at))


def _add(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """add of floats; of integers as the other operations."""
    t = slots["type"]
    fmt = t.removesuffix("x2")
    if fmt not in FMT_BYTES:
        return _update(d, instr, {**slots, "op": "add"})
    *dsts, target, source = instr.operands
    at = address(d, target, slots["space"])
    size = FMT_BYTES[fmt] * (2 if t.endswith("x2") else 1)
    slot = d.real(source, t) if t in ("f32", "f64") else d.integer(source, size)
    dst = d.dest(dsts[0]) if dsts else None
    code = atomic_code("add", t, slots["scope"])

    def run(m: Machine) -> None:
        for place in places(m, at, size, code):
            memory, x = place.region.memory, m.regs[slot]
            if t.endswith("x2"):
                step = 2 // memory.granule
                for i, half in enumerate(m.halves(x)):
                    memory.add(place.cell + i * step, 2, m.real(half, fmt), place.mask)
            else:
                memory.add(place.cell, size, m.real(x, fmt), place.mask)
        unstable(m, dst)

    return run


def reduction(op: str, t: str) -> Callable[[Array, Array, Array], None]:
    """Apply an operation of type `t` in place: (numbers of cells, index per lane, operands)."""
    if op in _UFUNC:
        return _UFUNC[op].at
    step = _NEXT[op]

    def one_by_one(cells: Array, index: Array, values: Array) -> None:
        for i, value in zip(index.tolist(), values.tolist(), strict=True):
            cells[i] = step(int(cells[i]), value)

    return one_by_one


def _update(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """Operations on concrete integers."""
    *dsts, target, source = instr.operands
    t, op = slots["type"], slots.get("op", "exch")
    size = type_size(t)
    at, slot = address(d, target, slots["space"]), d.integer(source, size)
    dst = d.dest(dsts[0]) if dsts else None
    code, apply = atomic_code(op, t, slots["scope"]), reduction(op, t)

    def run(m: Machine) -> None:
        for place in places(m, at, size, code):
            operand = m.integer(m.regs[slot], size)
            place.region.memory.update(
                place.cell, size, operand, place.mask, apply, integers.is_signed(t)
            )
        unstable(m, dst)

    return run


def _cas(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """Compare and swap of concrete integers, lane by lane."""
    ops = instr.operands
    size = type_size(slots["type"])
    at, dst = address(d, ops[1], slots["space"]), d.dest(ops[0])
    expected, wanted = (d.integer(op, size) for op in ops[2:])

    def run(m: Machine) -> None:
        for place in places(m, at, size, 0):
            old, new = m.integer(m.regs[expected], size), m.integer(m.regs[wanted], size)
            if old.u is not None:
                raise Unsupported("undefined", "a comparison with an undefined value")
            compare = np.broadcast_to(old.a, (m.lanes,))
            compare = compare if place.mask is None else compare[place.mask]

            def swap(cells: Array, index: Array, values: Array, compare: Any = compare) -> None:
                pairs = zip(index.tolist(), compare.tolist(), values.tolist(), strict=True)
                for i, seen, value in pairs:
                    if int(cells[i]) == seen:
                        cells[i] = value

            place.region.memory.update(place.cell, size, new, place.mask, swap, False)
        unstable(m, dst)

    return run


ATOMIC_BUILDERS: dict[str, Builder] = {
    "atom.add": _add,
    "red.add": _add,
    "atom.op": _update,
    "red.op": _update,
    "atom.exch": _update,
    "atom.cas": _cas,
}
