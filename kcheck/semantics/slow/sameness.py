"""When two units hold the same value."""

from __future__ import annotations

from kcheck.semantics.slow.errors import Unevaluated
from kcheck.semantics.slow.exact import Exact
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.units import Pack, Part, Real, Undef, Unit, as_int

# relative distance under which floats that were summed up in different orders count as equal
CLOSE = 2.0**-40


def same_units(a: Unit, b: Unit) -> bool:
    """Do two units of one width hold the same bits? Numbers are compared as reals.

    Undefined bits are not known to be the same.
    """
    if isinstance(a, Undef) or isinstance(b, Undef):
        return False
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, Real) and isinstance(b, Real):
        return a.fmt == b.fmt and same_numbers(a.number, b.number)
    if isinstance(a, Part) and isinstance(b, Part):
        return a.low == b.low and a.bits == b.bits and same_units(a.real, b.real)
    if isinstance(a, Pack) and isinstance(b, Pack) and _widths(a) == _widths(b):
        pairs = zip(a.pieces, b.pieces, strict=True)
        return all(same_units(x, y) for (x, _), (y, _) in pairs)
    return _same_bits(a, b)


def _widths(pack: Pack) -> list[int]:
    return [bits for _, bits in pack.pieces]


def _same_bits(a: Unit, b: Unit) -> bool:
    try:
        x, y = as_int(a, 64), as_int(b, 64)
    except Unevaluated:
        return False
    return not isinstance(x, Undef) and x == y


def same_numbers(a: Number, b: Number) -> bool:
    """Equal exactly, or, where they are not known exactly, as far as can be told."""
    if isinstance(a, Exact) and isinstance(b, Exact) and not a.is_nan:
        return a.exact() == b.exact()
    (low, high), (floor, top) = a.bounds(), b.bounds()
    if low != low or floor != floor:  # a nan
        return a.is_nan and b.is_nan
    slack = CLOSE * max(abs(low), abs(high), abs(floor), abs(top))
    if slack != slack or slack == float("inf"):
        return (low, high) == (floor, top)
    return low - slack <= top and floor - slack <= high
