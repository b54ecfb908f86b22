"""Predicates, concrete or symbolic: logic, and what a symbolic guard does (DESIGN.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import ONE, ZERO
from kcheck.semantics.values import FMT_BYTES, UNSIGNED, Int, Pred, Unsupported, either

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine


def negate(m: Machine, p: Pred) -> Pred:
    """not p."""
    if p.s is None:
        return Pred(~p.b, None, None, p.u)
    one = m.reals.value(m.reals.uniform(ONE))
    return Pred(~p.b, p.s, m.domain.sub(one, p.v), p.u)


def combine(m: Machine, op: str, p: Pred, q: Pred) -> Pred:
    """p op q for and, or, xor; a concrete operand that decides is enough."""
    u = either(p.u, q.u)
    b = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op](p.b, q.b)
    if p.s is None and q.s is None:
        return Pred(b, None, None, u)
    ps: Any = np.zeros(1, bool) if p.s is None else p.s
    qs: Any = np.zeros(1, bool) if q.s is None else q.s
    decisive = {"and": False, "or": True}.get(op)
    decided: Any = False
    if decisive is not None:
        decided = (~ps & (p.b == decisive)) | (~qs & (q.b == decisive))
        b = np.where(decided, decisive, b)
    s = (ps | qs) & ~np.asarray(decided)
    if not s.any():
        return Pred(b, None, None, u)
    x, y, d = m.indicator(p), m.indicator(q), m.domain
    product = d.mul(x, y)
    if op == "and":
        v = product
    else:
        v = d.sub(d.add(x, y), product)
        v = d.sub(v, product) if op == "xor" else v
    return Pred(b, s, v, u)


def as_number(m: Machine, p: Pred, dtype: str) -> Any:
    """The result of `set`: all ones, or 1.0, where p holds."""
    if p.s is not None and m.live(p.s) is not None:
        if dtype not in FMT_BYTES:
            raise Unsupported("symbolic-int", "set makes an integer of a tensor value")
        real = m.reals.symbolic(m.indicator(p))
        real.fmt = dtype
        real.u = p.u
        return real
    if dtype in FMT_BYTES and m.arithmetic is not None:
        zero, one = m.arithmetic.patterns([0.0, 1.0], dtype)
        return Int(np.where(p.b, one, zero), None, p.u)
    if dtype in FMT_BYTES:
        real = m.reals.from_ids(np.where(p.b, ONE, ZERO).astype(np.int32))
        real.fmt = dtype
        real.u = p.u
        return real
    word = UNSIGNED[int(dtype[1:]) // 8]
    return Int(np.where(p.b, ~word(0), word(0)), None, p.u)
