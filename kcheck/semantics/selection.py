"""Values chosen by predicates: concrete ones lane by lane, symbolic ones as selects.

A symbolic predicate makes one real of two (`Reals.select`); of two integers, or two values of
different kinds, it makes a `Choice`, through which later operations go case by case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import UNDEF
from kcheck.canon.lanes import Real
from kcheck.semantics.integers import SIGNED
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.predicates import select_predicate
from kcheck.semantics.symbolic_integers import as_symbolic, congruent, is_symbolic, made
from kcheck.semantics.symbolic_integers import stored as integer_stored
from kcheck.semantics.units import real_width, undefined
from kcheck.semantics.values import (
    FMT_BYTES,
    Bool,
    Choice,
    Int,
    Mixed,
    Packed,
    Pred,
    Symbolic,
    Unsupported,
)

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine


def choose(m: Machine, b: Any, x: Any, y: Any, size: int) -> Any:
    """`x` where the concrete `b` holds, else `y`, whatever their kinds."""
    x = undefined(size) if x is None else x
    y = undefined(size) if y is None else y
    b = np.broadcast_to(b, (m.lanes,))
    mask, notmask = m.mask, m.notmask
    m.mask, m.notmask = b, ~b
    try:
        return m.merge(y, x)
    finally:
        m.mask, m.notmask = mask, notmask


def select(m: Machine, p: Pred, x: Any, y: Any, size: int, fmt: str = "") -> Any:
    """`x` where p holds, else `y`; `size` bytes. `fmt`: the float format, if it is known."""
    if p.s is None or m.live(p.s) is None:
        return choose(m, p.b, x, y, size)
    if x is y:
        return x
    group = m.group()
    open_lanes = np.broadcast_to(p.s, group.shape) & group
    if (open_lanes == group).all():
        return m.by_part([x, y], lambda xs: _open(m, p, xs[0], xs[1], size, fmt))
    chosen = choose(m, p.b, x, y, size)
    selected = within(
        m,
        open_lanes,
        lambda: m.by_part([x, y], lambda xs: _open(m, p, xs[0], xs[1], size, fmt)),
    )
    return choose(m, open_lanes, selected, chosen, size)


def within(m: Machine, lanes: Bool, run: Callable[[], Any]) -> Any:
    """What `run` gives while the group is these lanes."""
    mask, notmask = m.mask, m.notmask
    m.mask, m.notmask = lanes, ~lanes
    try:
        return run()
    finally:
        m.mask, m.notmask = mask, notmask


def _open(m: Machine, p: Pred, x: Any, y: Any, size: int, fmt: str) -> Any:
    """The select where p is symbolic in all lanes of the group."""
    if x is y:
        return x
    if type(x) is Pred or type(y) is Pred:
        return select_predicate(m, p, m.predicate(x), m.predicate(y))
    if type(x) is Packed or type(y) is Packed:
        pairs = zip(m.halves(x), m.halves(y), strict=True)
        halves = [select(m, p, a, b, 2) for a, b in pairs]
        if any(type(half) is Choice for half in halves):
            raise Unsupported("symbolic-int", "a tensor value chooses bits of half of a word")
        return Packed(*halves)
    if is_symbolic(x) or is_symbolic(y):
        arms = [as_symbolic(m, v, size) for v in (x, y)]
        if arms[0] is not None and arms[1] is not None:
            return _symbolic(m, p, arms[0], arms[1])
    formats = {v.fmt for v in (x, y) if type(v) is Real} or ({fmt} if fmt else set())
    kind = formats.pop() if len(formats) == 1 else ""
    if kind in FMT_BYTES:
        result = m.reals.select(m.indicator(p), m.real(x, kind), m.real(y, kind))
        result.fmt = kind
        return result
    x = undefined(size) if x is None else x
    y = undefined(size) if y is None else y
    return x if _same_bits(m, x, y) else Choice(p, x, y)


def _symbolic(m: Machine, p: Pred, x: Symbolic, y: Symbolic) -> Symbolic:
    n = m.reals.select(m.indicator(p), congruent(m, x), congruent(m, y))
    return made(m, n, x.size, x, y, step=math.gcd(x.step, y.step))


def _same_bits(m: Machine, x: Any, y: Any) -> bool:
    """Integers that agree in all lanes of the group."""
    if type(x) is not Int or type(y) is not Int or x.a.itemsize != y.a.itemsize:
        return False
    if m.live(x.u) is not None or m.live(y.u) is not None:
        return False
    differ = np.broadcast_to(x.a != y.a, (m.lanes,))
    return not (differ if m.mask is None else differ & m.mask).any()


def cases(m: Machine, xs: list[Any], f: Callable[[list[Any]], Any], size: int) -> Any:
    """f of registers, applied to each value that a `Choice` among them may be.

    `size`: bytes of the result (1 for a predicate).
    """
    if any(type(x) is Mixed and any(type(v) is Choice for _, v in x.parts) for x in xs):
        return m.by_part(xs, lambda parts: cases(m, parts, f, size))
    at = next((x for x in xs if type(x) is Choice), None)
    if at is None:
        return f(xs)
    arms = [cases(m, [_arm(x, at.p, yes) for x in xs], f, size) for yes in (True, False)]
    return select(m, at.p, arms[0], arms[1], size)


def _arm(x: Any, p: Pred, yes: bool) -> Any:
    """A register where p is known."""
    if type(x) is not Choice or x.p is not p:
        return x
    return x.yes if yes else x.no


def stored(m: Machine, x: Any, size: int) -> Any:
    """What depends on inputs as memory holds it: an integer of `size` bytes; all else as it is."""
    if type(x) is Mixed:
        return Mixed([(part, stored(m, v, size)) for part, v in x.parts])
    if type(x) is not Real and is_symbolic(x):
        return integer_stored(m, x, size)
    if type(x) is not Choice:
        return x
    formats = {v.fmt for v in _leaves(x) if type(v) is Real} or {f"s{8 * size}"}
    if len(formats) > 1:
        raise Unsupported("symbolic-int", f"one of {', '.join(sorted(formats))} is chosen")
    fmt = formats.pop()
    real = _number(m, x, fmt, size)
    real.fmt = fmt
    return real


def _leaves(x: Any) -> list[Any]:
    return [*_leaves(x.yes), *_leaves(x.no)] if type(x) is Choice else [x]


def _number(m: Machine, x: Any, fmt: str, size: int) -> Real[Any]:
    """An integer, or a choice of integers, as reals."""
    if type(x) is Choice:
        return m.select_reals(x.p, *(_number(m, v, fmt, size) for v in (x.yes, x.no)))
    if type(x) is Real:
        if real_width(x.fmt) != size or x.fmt in FMT_BYTES:
            raise Unsupported("reinterpret", f"an {x.fmt} is one of the integers chosen from")
        return m.real(x, x.fmt)
    bits = m.integer(x, size)
    keep_bits(m, [bits], "chosen by a tensor value")
    ids = m.reals.integers(bits.a if fmt[0] == "u" else bits.a.view(SIGNED[size]))
    if bits.u is not None:
        ids = np.where(bits.u, UNDEF, ids).astype(np.int32)
    return m.reals.from_ids(ids)
