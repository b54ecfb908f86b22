"""Integer instructions on floats: what compilers do to signs and to halves of a word.

Each trick gets the source registers and returns the result, or None if it does not apply; then
the sources must be concrete bits. Everything here is exact on the bit patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.semantics.values import FMT_BYTES, Int, Mixed, Packed

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

Trick = Callable[["Machine", list[Any]], Any]


def uniform(x: Any) -> int | None:
    """The one number that a concrete register holds in all lanes."""
    if type(x) is not Int or x.u is not None or not (x.a == x.a.flat[0]).all():
        return None
    return int(x.a.flat[0])


def _floaty(x: Any) -> bool:
    return type(x) is Packed or (type(x) is Real and x.fmt in FMT_BYTES)


def _split(xs: list[Any]) -> tuple[Any, int] | None:
    """A float register and a literal, in either order."""
    for x, y in (xs, xs[::-1]):
        mask = uniform(y)
        if _floaty(x) and mask is not None:
            return x, mask
    return None


def _fmt(r: Any, fmt: str) -> Any:
    r.fmt = fmt
    return r


def _zero() -> Int:
    return Int(np.zeros(1, np.uint16))


def _on_sign(m: Machine, x: Any, mask: int, keep: int, flip: Callable[[Any], Any]) -> Any:
    """Apply `flip` to the float (or halves) whose sign bit `mask` has; `keep`: the neutral mask.

    `mask` restricted to each float must be its sign bit alone or neutral; for `and` both are
    given complemented by the caller.
    """
    if type(x) is Packed:
        lo = _on_sign(m, m.halves(x)[0], mask & 0xFFFF, keep & 0xFFFF, flip)
        hi = _on_sign(m, m.halves(x)[1], mask >> 16, keep & 0xFFFF, flip)
        return None if lo is None or hi is None else Packed(lo, hi)
    if mask == keep:
        return x
    if type(x) is not Real:
        return None
    sign = 1 << (8 * FMT_BYTES[x.fmt] - 1)
    if mask != keep ^ sign:
        return None
    return _fmt(flip(m.real(x, x.fmt)), x.fmt)


def _xor(m: Machine, xs: list[Any]) -> Any:
    found = _split(xs)
    return None if found is None else _on_sign(m, found[0], found[1], 0, m.reals.neg)


def _ones(x: Any) -> int:
    size = 4 if type(x) is Packed else FMT_BYTES[x.fmt]
    return int((1 << 8 * size) - 1)


def _and(m: Machine, xs: list[Any]) -> Any:
    found = _split(xs)
    if found is None:
        return None
    x, mask = found
    if mask == 0:
        return None
    if type(x) is Packed and mask in (0xFFFF, 0xFFFF0000):
        lo, hi = m.halves(x)
        return Packed(lo, _zero()) if mask == 0xFFFF else Packed(_zero(), hi)
    return _on_sign(m, x, mask, _ones(x), m.reals.abs)


def _is_zero(x: Any) -> bool:
    return uniform(x) == 0


def _or(m: Machine, xs: list[Any]) -> Any:
    if all(type(x) is Packed or type(x) is Int for x in xs) and any(type(x) is Packed for x in xs):
        pairs = [m.halves(x) for x in xs]
        halves = []
        for a, b in zip(*pairs, strict=True):
            if not (_is_zero(a) or _is_zero(b)):
                break
            halves.append(b if _is_zero(a) else a)
        else:
            return Packed(halves[0], halves[1])
    found = _split(xs)
    if found is None:
        return None

    def negative(r: Any) -> Any:
        return m.reals.neg(m.reals.abs(r))

    return _on_sign(m, found[0], found[1], 0, negative)


def _shift(up: bool) -> Trick:
    def trick(m: Machine, xs: list[Any]) -> Any:
        if type(xs[0]) is not Packed or uniform(xs[1]) != 16:
            return None
        lo, hi = m.halves(xs[0])
        return Packed(_zero(), lo) if up else Packed(hi, _zero())

    return trick


def _prmt(m: Machine, xs: list[Any]) -> Any:
    """Whole halves of two words."""
    selector = uniform(xs[2])
    if selector is None or not any(type(x) is Packed for x in xs[:2]):
        return None
    halves = [*m.halves(xs[0]), *m.halves(xs[1])]
    out = []
    for pair in (selector & 0xFF, selector >> 8 & 0xFF):
        low, high = pair & 15, pair >> 4
        if low % 2 or high != low + 1 or low > 7:
            return None
        out.append(halves[low // 2])
    return Packed(out[0], out[1])


TRICKS: dict[str, Trick] = {
    "bit.xor": _xor,
    "bit.and": _and,
    "bit.or": _or,
    "bit.shl": _shift(True),
    "bit.shr": _shift(False),
    "bit.prmt": _prmt,
}


def resized(m: Machine, x: Any, source: int, target: int) -> Any:
    """A float moved by an integer conversion between 2 and 4 bytes, or None."""
    if type(x) is Mixed:
        return None
    if source == 4 and target == 2 and type(x) is Packed:
        return m.halves(x)[0]
    if source == 2 and target == 4 and type(x) is Real and FMT_BYTES.get(x.fmt) == 2:
        return Packed(x, _zero())
    if source == target and type(x) is Real and FMT_BYTES.get(x.fmt) == source:
        return x
    return None
