"""Builders of redux and match (PTX ISA 9.7.13): concrete integers of the lanes of a mask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kcheck.ptx_frontend.tree import Instr, Pair
from kcheck.semantics import integers
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.values import Array, Bool, Int, Pred
from kcheck.semantics.warp_builders import by_mask, members

_BITS = np.arange(32, dtype=np.uint32)
# operation -> what lanes outside the mask contribute, by signedness, and the reduction
_REDUCE: dict[str, tuple[Callable[[bool], int], Callable[..., Array]]] = {
    "add": (lambda signed: 0, np.add.reduce),
    "min": (lambda signed: 0x7FFFFFFF if signed else 0xFFFFFFFF, np.minimum.reduce),
    "max": (lambda signed: 0x80000000 if signed else 0, np.maximum.reduce),
    "and": (lambda signed: 0xFFFFFFFF, np.bitwise_and.reduce),
    "or": (lambda signed: 0, np.bitwise_or.reduce),
    "xor": (lambda signed: 0, np.bitwise_xor.reduce),
}


def _warps(m: Machine, x: Array) -> Array:
    return np.broadcast_to(x, (m.lanes,)).reshape(-1, 32)


def _undefined(m: Machine, x: Int, here: Bool) -> Bool | None:
    """Warps in which a lane of the mask is undefined, as lanes."""
    if x.u is None:
        return None
    bad = (_warps(m, x.u) & here).any(1)
    return np.repeat(bad, 32) if bad.any() else None


def _redux(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    dst = d.dest(instr.operands[0])
    a, mask = (d.integer(op, 4) for op in instr.operands[1:])
    neutral, reduce = _REDUCE[slots["op"]]
    signed = integers.is_signed(slots["type"])

    def run(m: Machine) -> None:
        here = members(m, m.regs[mask]).reshape(-1, 32)
        x = m.integer(m.regs[a], 4)
        parts = np.where(here, _warps(m, x.a), np.uint32(neutral(signed)))
        total = reduce(integers.view(parts, slots["type"]), axis=1)
        bits = total.astype(np.int64).astype(np.uint32)
        put(m, dst, Int(np.repeat(bits, 32), None, _undefined(m, x, here)))

    return by_mask(mask, run)


def _match(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    """match.any: the lanes with my value; match.all: the mask if all agree, and a predicate."""
    target = instr.operands[0]
    first = d.dest(target.first if isinstance(target, Pair) else target)
    second = d.dest(target.second) if isinstance(target, Pair) else None
    size = integers.width(slots["type"])
    a, mask = d.integer(instr.operands[1], size), d.integer(instr.operands[2], 4)
    every = bool(slots.get("all"))

    def run(m: Machine) -> None:
        here = members(m, m.regs[mask]).reshape(-1, 32)
        x = m.integer(m.regs[a], size)
        values = _warps(m, x.a)
        same = (values[:, :, None] == values[:, None, :]) & here[:, None, :]
        lanes = (same.astype(np.uint64) << _BITS.astype(np.uint64)).sum(2).astype(np.uint32)
        u = _undefined(m, x, here)
        if every:
            agree = (same | ~here[:, None, :]).all(2)
            put(m, first, Int(np.where(agree, lanes, np.uint32(0)).reshape(-1), None, u))
            if second is not None:
                put(m, second, Pred(agree.reshape(-1), None, None, u))
            return
        put(m, first, Int(lanes.reshape(-1), None, u))

    return by_mask(mask, run)


COLLECTIVE_BUILDERS: dict[str, Builder] = {
    "redux": _redux,
    "match.any": _match,
    "match.all": _match,
}
