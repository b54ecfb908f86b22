"""Builders of atom and red: read-modify-writes, all lanes of an instruction in some order.

The old value depends on that order: it is unstable (DESIGN.md 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics import integers
from kcheck.semantics.access import Place, address
from kcheck.semantics.cas_choices import Choice
from kcheck.semantics.cas_loops import CasLoop
from kcheck.semantics.cas_updates import cas_apply, choice_apply
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.extremes import on_bits
from kcheck.semantics.histories import in_turn
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.move_builders import type_size
from kcheck.semantics.updates import Given, atomic_code, places, untracked
from kcheck.semantics.values import FMT_BYTES, UNSIGNED, Array, Int, Unstable, Unsupported

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
                untracked(m, place, size)
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
    plan, kind = d.machine.plan, np.dtype(f"{'i' if integers.is_signed(t) else 'u'}{size}")
    draws, arrives = d.at in plan.tickets, d.at in plan.arrivals
    counts = draws or arrives  # what they do in turn is known (semantics.tickets, flags)
    commutes = op if code or op in ("inc", "dec") else ""
    floats = op in ("min", "max") and d.machine.arithmetic is None
    of_floats = on_bits(d, instr, slots) if floats else None

    def run(m: Machine) -> None:
        if of_floats is not None and of_floats(m):
            unstable(m, dst)
            return
        old = Int(np.zeros(m.lanes, UNSIGNED[size]))
        operand = m.integer(m.regs[slot], size)
        given = None if code or counts else Given(op, slots["scope"], (operand,))
        for place in places(m, at, size, code, given):
            if m.flags is not None and draws:
                m.flags.watch(place)
            if m.flags is not None and m.flags.watches(place):
                found = m.flags.histories(place, size)
                lanes = [lane for lane, _ in found]
                numbers = np.broadcast_to(operand.a, (m.lanes,))[lanes]
                olds, news = in_turn(found, numbers, apply, kind)
                m.flags.write(found, news, commutes, numbers.tolist())
                old.a[lanes] = [held or 0 for held in olds]
                if draws and m.tickets is not None and dst is not None:
                    m.tickets.draw(found, dst)
            place.region.memory.update(
                place.cell, size, operand, place.mask, apply, integers.is_signed(t)
            )
        if dst is not None and counts:
            put(m, dst, old)
        else:
            unstable(m, dst)

    return run


def _cas(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """Compare and swap of concrete integers, lane by lane."""
    loop = d.machine.plan.cas.get(d.at)
    if loop is not None:
        return cas_update(d, instr, slots, loop, cas_apply(d, loop))
    choice = d.machine.plan.choices.get(d.at)
    if choice is not None:
        return cas_chosen(d, instr, slots, choice, choice_apply(d, choice))
    ops = instr.operands
    size = type_size(slots["type"])
    at, dst = address(d, ops[1], slots["space"]), d.dest(ops[0])
    expected, wanted = (d.integer(op, size) for op in ops[2:])

    def run(m: Machine) -> None:
        old, new = m.integer(m.regs[expected], size), m.integer(m.regs[wanted], size)
        for place in places(m, at, size, 0, Given("cas", slots["scope"], (old, new))):
            untracked(m, place, size)
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


def cas_update(
    d: Decoder, instr: Instr, slots: Slots, loop: CasLoop, apply: Callable[[Machine, Place], None]
) -> Step:
    """A CAS loop that applies an operation, done at once: the first swap of each lane succeeds."""
    target, place_of, expected, _ = instr.operands
    size = type_size(slots["type"])
    at, dst = address(d, place_of, slots["space"]), d.dest(target)
    believed = d.reg(expected)
    cell = slots["type"] if loop.part else loop.fmt
    code = atomic_code(loop.operation, cell, slots["scope"], loop.part)

    def run(m: Machine) -> None:
        held = m.regs[believed]
        if type(held) is not Int:
            raise Unsupported("unstable", "a CAS loop starts from a value that is not in its cell")
        for place in places(m, at, size, code):
            untracked(m, place, size)
            apply(m, place)
        put(m, dst, held)

    return run


def cas_chosen(
    d: Decoder, instr: Instr, slots: Slots, choice: Choice, apply: Callable[[Machine, Place], None]
) -> Step:
    """A CAS loop that puts a value there if it is larger, or smaller, done at once."""
    target, place_of, expected, _ = instr.operands
    size = type_size(slots["type"])
    at, dst, believed = address(d, place_of, slots["space"]), d.dest(target), d.reg(expected)
    code = atomic_code(choice.operation, choice.fmt, slots["scope"])

    def run(m: Machine) -> None:
        held = m.regs[believed]
        if type(held) is not Int or (np.broadcast_to(held.a, (m.lanes,)) != 0)[m.group()].any():
            raise Unsupported("unstable", "a CAS loop starts from a value that is not in its cell")
        for place in places(m, at, size, code):
            untracked(m, place, size)
            apply(m, place)
        put(m, dst, Int(np.ones(1, UNSIGNED[size])))

    return run


ATOMIC_BUILDERS: dict[str, Builder] = {
    "atom.add": _add,
    "red.add": _add,
    "atom.op": _update,
    "red.op": _update,
    "atom.exch": _update,
    "atom.cas": _cas,
}
