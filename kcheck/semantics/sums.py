"""Atomic additions under a predicate on tensor values: they add p ? x : 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import ONE, ZERO
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.forms import match
from kcheck.semantics.access import Address, address
from kcheck.semantics.predicates import negate
from kcheck.semantics.updates import atomic_code, places, untracked
from kcheck.semantics.values import FMT_BYTES, Array, Bool, Int, Mixed, Pred, Unsupported

if TYPE_CHECKING:
    from kcheck.ptx_frontend.tree import Guard
    from kcheck.semantics.arm_sums import ArmSum
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine, Step
    from kcheck.semantics.memory import Memory

# what each lane adds at least and at most
Bounds = tuple[Any, Any]


def sum_under(d: Decoder, at: int, counts: bool = False) -> Callable[[Machine, Pred], None]:
    """The addition at an instruction, where a predicate on tensor values holds.

    `counts`: each lane adds 1, at the place that any lane of its warp names. Raises Unsupported.
    """
    instr = d.kernel.code[at]
    found = match(instr.opcode)
    assert found is not None
    t, space, scope = (found.slots[name] for name in ("type", "space", "scope"))
    target, source = instr.operands[-2:]
    where, size = address(d, target, space), FMT_BYTES.get(t, 4)
    slot = d.real(source, t) if t in FMT_BYTES else d.integer(source, 4)
    code = atomic_code("add", t, scope)

    def run(m: Machine, p: Pred) -> None:
        lanes = m.group() & (p.b if p.s is None else p.b | p.s)
        if m.arms is not None:
            raise Unsupported("predicated", f"{instr.name} under several predicates")
        if m.live(p.u) is not None:
            raise Unsupported("predicated", f"{instr.name} under an undefined predicate")
        if not lanes.any():
            return
        outer, conditional, here = m.mask, m.conditional, m.at
        m.at, m.conditional = at, True
        m.enter(lanes)
        if counts and not _one_place(m, where):
            raise Unsupported("predicated", f"{instr.name} at several places under a predicate")
        value, bounds = _value(m, p, None if counts else m.regs[slot], t)
        for place in places(m, where, size, code):
            untracked(m, place, size)
            memory = place.region.memory
            if t in FMT_BYTES:
                memory.add(place.cell, size, value, place.mask)
            else:
                _count(memory, place.cell, value, place.mask, bounds)
        m.enter(outer)
        m.at, m.conditional = here, conditional

    return run


def _value(m: Machine, p: Pred, x: Any, t: str) -> tuple[Real[Any], Bounds]:
    """p ? x : 0, and between which integers it lies. `x`: a register, or None for 1."""
    zero = m.reals.uniform(ZERO)
    low = high = np.zeros(1, np.int64)
    if t in FMT_BYTES:
        full = m.real(x, t)
    elif x is None:
        full, high = m.reals.uniform(ONE), low + 1
    else:
        bits = m.integer(x, 4)
        if bits.u is not None or bits.p is not None:
            raise Unsupported("symbolic-int", "what is added under a predicate is no number")
        numbers = bits.a.view(np.int32) if t == "s32" else bits.a
        full = m.reals.from_ids(m.reals.integers(numbers))
        low, high = np.minimum(numbers, 0).astype(np.int64), np.maximum(numbers, 0).astype(np.int64)
    value = m.select_reals(p, full, zero)
    value.fmt = t
    return value, (low, high)


def _one_place(m: Machine, where: Address) -> bool:
    """Do all lanes of the group that share a warp name one place?"""
    x = m.regs[where.slot]
    if type(x) is not Int or x.u is not None or isinstance(x.p, np.ndarray):
        return False
    group = m.group().reshape(-1, 32)
    numbers = np.broadcast_to(x.a, (m.lanes,)).reshape(-1, 32)
    first = np.take_along_axis(numbers, group.argmax(1)[:, None], 1)
    return bool(((numbers == first) | ~group).all())


def in_arm(
    d: Decoder, found: ArmSum, guard: Guard, maps: list[tuple[int, Step]]
) -> Callable[[Machine], bool]:
    """Do the addition in an arm of a branch at once; False where no tensor value decides it."""
    slot, add = d.reg(guard.reg), sum_under(d, found.at, found.counts)
    holds = found.taken != guard.negated

    def run(m: Machine) -> bool:
        p, at = m.regs[slot], m.at
        if m.arms is not None or type(p) not in (Pred, Mixed):
            return False
        p = m.predicate(p)
        if p.s is None or m.live(p.s) is None or m.live(p.u) is not None:
            return False
        for m.at, step in maps:
            step(m)
        m.at = at
        add(m, p if holds else negate(m, p))
        return True

    return run


def _count(memory: Memory, cell: Array, value: Real[Any], mask: Bool | None, ends: Bounds) -> None:
    """Atomically add integers that tensor values choose; cells may repeat.

    Raises Unsupported where a sum could leave its type.
    """
    active = cell if mask is None else cell[mask]
    low, high = (np.broadcast_to(e, cell.shape) for e in ends)
    cells, index = np.unique(active, return_inverse=True)
    held = memory.load_bytes(cells, 0, 4, None)
    if isinstance(held, Int) and held.u is None and held.p is None:
        numbers = held.a.view(np.int32) if value.fmt == "s32" else held.a
        sums = np.stack([numbers, numbers]).astype(np.int64)
    elif isinstance(held, Real) and all(int(c) in memory.sums for c in cells):
        sums = np.array([memory.sums[int(c)] for c in cells], np.int64).T
    else:
        raise Unsupported("symbolic-int", "what is counted up under a predicate is unknown")
    for total, part in zip(sums, (low, high), strict=True):
        np.add.at(total, index, part if mask is None else part[mask])
    least, most = (-(1 << 31), (1 << 31) - 1) if value.fmt == "s32" else (0, (1 << 32) - 1)
    if (sums[0] < least).any() or (sums[1] > most).any():
        raise Unsupported("symbolic-int", "a sum under a predicate may leave its type")
    memory.add(cell, 4, value, mask)
    memory.sums.update(zip(cells.tolist(), sums.T.tolist(), strict=True))
