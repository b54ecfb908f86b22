"""mma on bytes, which sums integers (PTX ISA 9.7.14.5, mma with .s8 and .u8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.constants import UNDEF
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Instr, Vec
from kcheck.semantics import fragments
from kcheck.semantics.decode import Decoder, put
from kcheck.semantics.integers import view as read
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.symbolic_integers import as_symbolic, is_symbolic, view
from kcheck.semantics.values import Array, Bool, Int, Mixed, Symbolic, Unsupported, either
from kcheck.semantics.warp_builders import arranged, matrix_of, spread, whole_warps
from kcheck.semantics.words import Source, limits

Slots = dict[str, str]


def mma(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """The builder. `.satfinite` clamps the sum, else it wraps."""
    shape = fragments.SHAPES[slots["shape"], "s8"]
    vectors = [op.items for op in instr.operands if isinstance(op, Vec)]
    if len(vectors) != 4:
        raise Unsupported("operand", "mma needs vectors of registers")
    dsts = [d.dest(op) for op in vectors[0]]
    a, b, c = ([d.integer(op, 4) for op in items] for items in vectors[1:])
    signs = slots["a"] == "s8", slots["b"] == "s8"
    low, high = limits(32, True) if slots["satfinite"] else (None, None)

    def concrete(m: Machine) -> None:
        x, xbad = _bytes(m, a, signs[0], shape.a)
        y, ybad = _bytes(m, b, signs[1], shape.b)
        product = x @ y
        bad = None if xbad is None and ybad is None else spread(xbad, ybad, product.shape)
        for dst, slot, (rows, cols) in zip(dsts, c, shape.c, strict=True):
            start = m.integer(m.regs[slot], 4)
            total = read(start.a, "s32").astype(np.int64) + product[:, rows, cols].reshape(-1)
            total = total if low is None else np.clip(total, low, high)
            u = start.u if bad is None else either(start.u, bad[:, rows, cols].reshape(-1))
            put(m, dst, Int(total.astype(np.uint32), None, u))

    def symbolic(m: Machine) -> None:
        reals = m.reals
        x, xbad = matrix_of(m, _parts(m, a, signs[0]), shape.a)
        y, ybad = matrix_of(m, _parts(m, b, signs[1]), shape.b)
        product = m.domain.matmul(x, y)
        bad = None if xbad is None and ybad is None else spread(xbad, ybad, product.shape)
        for dst, slot, (rows, cols) in zip(dsts, c, shape.c, strict=True):
            start, u = _number(m, m.regs[slot], 0, 32, True), None
            v = product.reshape((-1, *product.shape[-2:]))[:, rows, cols].reshape((m.lanes,))
            total = reals.add(reals.symbolic(v), start)
            if low is not None and high is not None:
                total = reals.clamp(total, low, high)
            if total.c is not None and (total.c == UNDEF).any():
                u = np.broadcast_to(total.c == UNDEF, (m.lanes,))
            u = u if bad is None else either(u, bad[:, rows, cols].reshape(-1))
            put(m, dst, Symbolic(4, Source(total), u=u))

    def run(m: Machine) -> None:
        whole_warps(m, "mma")
        registers = [m.regs[s] for s in (*a, *b, *c)]
        (symbolic if any(_open(x) for x in registers) else concrete)(m)

    return run


def _open(x: Any) -> bool:
    return any(map(_open, (v for _, v in x.parts))) if type(x) is Mixed else is_symbolic(x)


def _bytes(
    m: Machine, slots: list[int], signed: bool, index: tuple[Array, Array]
) -> tuple[Array, Bool | None]:
    """A (warps, rows, columns) matrix of numbers, and its undefined elements or None."""
    words = [m.integer(m.regs[s], 4) for s in slots]
    if any(w.p is not None for w in words):
        raise Unsupported("pointer-bits", "an address is multiplied")
    bits = np.stack([np.broadcast_to(w.a, (m.lanes,)) for w in words])
    parts = np.stack([bits >> np.uint32(8 * i) for i in range(4)], axis=1).astype(np.uint8)
    numbers = read(parts, "s8" if signed else "u8").astype(np.int64).reshape(-1, m.lanes)
    bad = None
    if any(w.u is not None for w in words):
        gone = [np.broadcast_to(False if w.u is None else w.u, (m.lanes,)) for w in words]
        bad = arranged(m, np.repeat(np.stack(gone), 4, axis=0), index)
    return arranged(m, numbers, index), bad


def _parts(m: Machine, slots: list[int], signed: bool) -> list[Real[Any]]:
    """The bytes of a fragment, in order."""
    return [_number(m, m.regs[s], 8 * i, 8, signed) for s in slots for i in range(4)]


def _number(m: Machine, x: Any, low: int, bits: int, signed: bool) -> Real[Any]:
    """Some bits of a register as a number; undefined lanes are constants `UNDEF`."""

    def one(xs: list[Any]) -> Real[Any]:
        whole = as_symbolic(m, xs[0], 4)
        if whole is None:
            m.integer(xs[0], 4)  # says what it is
            raise Unsupported("pointer-bits", "an address is multiplied")
        part = whole
        if bits < 32:
            part = Symbolic(bits // 8, None, word=whole.bits.field(low, bits, bits))
        n = view(m, part, signed)
        u = m.live(whole.u)
        if u is None:
            return Real(n.v, n.c, n.kind)
        ids = np.where(u, UNDEF, np.broadcast_to(m.reals.ids(n, (m.lanes,)), (m.lanes,)))
        return m.reals.mixed(n.v, ids.astype(np.int32))

    number: Real[Any] = m.by_part([x], one)
    return number
