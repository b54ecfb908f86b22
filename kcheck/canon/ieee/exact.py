"""Sums, products, quotients and roots without rounding error, as pairs of floats.

A pair (high, low) stands for high + low with |low| <= ulp(high) / 2, so that any rounding to at
most 53 bits is decided by `high` and the sign of `low`. `low` None: 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.ieee.formats import Floats

# 2^27 + 1: splits a significand of 53 bits into two of 26 (T. J. Dekker, 1971)
_SPLITTER = float((1 << 27) + 1)
# exponents further apart than this: the smaller operand only says which way to round
_FAR = 300


@dataclass
class Exact:
    """(high + low) * 2^scale, lane by lane; a `high` that is no finite number stands for itself.

    `low` has the right sign, and is 0 only where `high` is exact.
    """

    high: Floats
    low: Floats | None = None
    scale: NDArray[Any] | None = None


def two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """x + y rounded, and its error, which is exact (D. E. Knuth); no overflow must occur."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _split(x: Floats) -> tuple[Floats, Floats]:
    big = _SPLITTER * x
    high = big - (big - x)
    return high, x - high


def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """x * y rounded, and its error, exact if the product is far from under- and overflow."""
    product = x * y
    xh, xl = _split(x)
    yh, yl = _split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def to_odd(high: Floats, low: Floats) -> Floats:
    """high + low rounded to odd: of its two neighbours the one with an odd significand.

    A further rounding to at most 51 bits then gives what a single one gives (S. Boldo and
    G. Melquiond, Emulation of a FMA and correctly rounded sums, 2008).
    """
    bits = high.view(np.int64)
    move = ((low > 0) | (low < 0)) & (bits & 1 == 0)
    step = np.where((low > 0) == (high > 0), 1, -1)
    return np.where(move, bits + step, bits).view(np.float64)


def fused(x: Floats, y: Floats, z: Floats) -> Exact:
    """x * y + z for finite float64 of any size, without rounding error (Boldo and Melquiond).

    Operands are scaled to exponents near 0 first; the sign of a zero is lost.
    """
    (mx, ex), (my, ey), (mz, ez) = (np.frexp(a) for a in (x, y, z))
    scale = np.where(mx * my == 0, ez, ex + ey)
    scale = np.where(mz == 0, scale, np.maximum(scale, ez - _FAR))
    apart = ex + ey - scale
    # an operand far below the other one only has to keep its sign
    mx = np.ldexp(mx, np.clip(apart, -_FAR, 0))
    mz = np.ldexp(mz, np.maximum(ez - scale, -_FAR))
    product, rest = two_product(mx, my)
    middle, tail = two_sum(mz, rest)
    first, left = two_sum(product, middle)
    last = to_odd(*two_sum(tail, left))
    high, low = two_sum(first, last)
    return Exact(high, low, scale)


def quotient(x: Floats, y: Floats) -> Exact:
    """x / y for finite float64, y not 0: `low` has the sign of the error."""
    (mx, ex), (my, ey) = np.frexp(x), np.frexp(y)
    high = mx / my
    back, rest = two_product(high, my)
    error = (mx - back) - rest
    return Exact(high, np.sign(error) * np.sign(my) * 2.0**-60, ex - ey)


def root(x: Floats) -> Exact:
    """The square root of finite float64 x >= 0: `low` has the sign of the error."""
    m, e = np.frexp(x)
    odd = e & 1
    m, e = np.ldexp(m, odd), (e - odd) >> 1
    high = np.sqrt(m)
    back, rest = two_product(high, high)
    return Exact(high, np.sign((m - back) - rest) * 2.0**-60, e)
