"""Rigorous interval arithmetic on float64 arrays: the real is finite and within [low, high].

Ends are rounded outward, and only where an operation was inexact, so that points (low = high)
stay points while results are representable. An end is never NaN; low is never +inf, high never
-inf. Sources: Dekker, A floating-point technique (1971), and Knuth for the exact errors of a sum
and a product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

MAX = float(np.finfo(np.float64).max)

# Library functions are within 4 ulp here; 2^-49 is 8 ulp at least.
_SLACK = 2.0**-49
_SPLIT = 134217729.0  # 2^27 + 1
_BIG, _SMALL = 2.0**990, 2.0**-960  # beyond these the error of a product is not exact


def point(value: Fraction) -> tuple[float, float]:
    """The tightest ends around a rational."""
    try:
        nearest = float(value)
    except OverflowError:
        return (MAX, np.inf) if value > 0 else (-np.inf, -MAX)
    exact = Fraction(nearest)
    low = nearest if exact <= value else math.nextafter(nearest, -math.inf)
    return low, nearest if exact >= value else math.nextafter(nearest, math.inf)


def outward(value: Floats, error: Floats) -> Ends:
    """Ends around value + error, where the rounding error is exact or else NaN."""
    low = np.where(error >= 0, value, np.nextafter(value, -np.inf))
    return low, np.where(error <= 0, value, np.nextafter(value, np.inf))


def _sum_error(x: Floats, y: Floats, total: Floats) -> Floats:
    z = total - x
    error: Floats = (x - (total - z)) + (y - z)
    return error


def _product_error(x: Floats, y: Floats, product: Floats) -> Floats:
    """x * y - product exactly, or NaN."""
    xh = _SPLIT * x
    xh = xh - (xh - x)
    yh = _SPLIT * y
    yh = yh - (yh - y)
    xl, yl = x - xh, y - yh
    error = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    size = np.abs(product)
    safe = (size > _SMALL) & (size < _BIG) & (np.abs(x) < _BIG) & (np.abs(y) < _BIG)
    return np.where((x == 0) | (y == 0), 0.0, np.where(safe, error, np.nan))


def add(a: Ends, b: Ends) -> Ends:
    """The sum."""
    low = a[0] + b[0]
    if _points(a) and _points(b):
        return outward(low, _sum_error(a[0], b[0], low))
    high = a[1] + b[1]
    return (
        outward(low, _sum_error(a[0], b[0], low))[0],
        outward(high, _sum_error(a[1], b[1], high))[1],
    )


def mul(a: Ends, b: Ends) -> Ends:
    """The product; an end 0 times an infinite end is 0."""
    return _corners(a, b, _product)


def _product(x: Floats, y: Floats) -> Ends:
    product = np.where((x == 0) | (y == 0), 0.0, x * y)
    return outward(product, _product_error(x, y, product))


def div(a: Ends, b: Ends) -> Ends:
    """The quotient; the whole line where the divisor's ends enclose 0."""
    straddles = (b[0] <= 0) & (b[1] >= 0)
    low, high = _corners(
        a, (np.where(straddles, 1.0, b[0]), np.where(straddles, 1.0, b[1])), _ratio
    )
    unknown = straddles | np.isnan(low) | np.isnan(high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _ratio(x: Floats, y: Floats) -> Ends:
    quotient = x / y
    product = quotient * y
    exact = (x == 0) | ((product == x) & (_product_error(quotient, y, product) == 0))
    return outward(quotient, np.where(exact, 0.0, np.nan))


def _corners(a: Ends, b: Ends, op: Callable[[Floats, Floats], Ends]) -> Ends:
    if _points(a) and _points(b):
        return op(a[0], b[0])
    ends = [op(x, y) for x in a for y in b]
    return (
        np.minimum.reduce(np.broadcast_arrays(*(e[0] for e in ends))),
        np.maximum.reduce(np.broadcast_arrays(*(e[1] for e in ends))),
    )


def _points(a: Ends) -> bool:
    return a[0] is a[1] or bool((a[0] == a[1]).all())


def matmul(a: Ends, b: Ends) -> Ends:
    """Batched products by midpoints and radii (Rump); exact for integers with small sums."""
    (x, dx), (y, dy) = _ball(a), _ball(b)
    centre = x @ y
    size = np.abs(x) @ np.abs(y)
    points = not dx.any() and not dy.any()
    if (
        points
        and (x == np.rint(x)).all()
        and (y == np.rint(y)).all()
        and size.max(initial=0) < 2**53
    ):
        return centre, centre
    k = x.shape[-1] + 8
    radius = np.abs(x) @ dy + dx @ (np.abs(y) + dy) + k * 2.0**-52 * size
    radius = radius * (1 + k * 2.0**-50) + k * 2.0**-1000
    low, high = np.nextafter(centre - radius, -np.inf), np.nextafter(centre + radius, np.inf)
    # an infinite end or an overflow on the way
    unknown = ~np.isfinite(low) | ~np.isfinite(high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _ball(a: Ends) -> Ends:
    """Centre and radius."""
    low, high = a
    centre = np.where(low == high, low, low * 0.5 + high * 0.5)
    radius = np.maximum(high - centre, centre - low)
    return centre, np.where(low == high, 0.0, np.nextafter(radius, np.inf))


def exp2(a: Ends) -> Ends:
    """2 to the power; exact at integers, [0, tiny] on underflow, [big, inf] on overflow."""
    low, high = np.exp2(a[0]), np.exp2(a[1])
    down = np.where(a[0] < -1020, 0.0, np.minimum(low, MAX) * (1 - _SLACK))
    up = np.maximum(high * (1 + _SLACK), 2.0**-1019)
    return _at_integers(a[0], down), _at_integers(a[1], up)


def _at_integers(x: Floats, otherwise: Floats) -> Floats:
    whole = (x == np.rint(x)) & (np.abs(x) < 1022)
    return np.where(whole, np.ldexp(1.0, np.where(whole, x, 0).astype(np.int64)), otherwise)


def log2(a: Ends) -> Ends:
    """The binary logarithm; exact at powers of 2; the whole line where negative is possible."""
    low, high = np.log2(a[0]), np.log2(a[1])
    wrong = (a[0] < 0) | (a[1] <= 0)
    return (
        np.where(wrong | (a[0] == 0), -np.inf, _at_powers(a[0], _below(low))),
        np.where(wrong, np.inf, _at_powers(a[1], _above(high))),
    )


def _at_powers(x: Floats, otherwise: Floats) -> Floats:
    fraction, exponent = np.frexp(x)
    return np.where(fraction == 0.5, exponent - 1.0, otherwise)


def _below(x: Floats) -> Floats:
    low: Floats = np.nextafter(x - np.abs(x) * _SLACK, -np.inf)
    return low


def _above(x: Floats) -> Floats:
    high: Floats = np.nextafter(x + np.abs(x) * _SLACK, np.inf)
    return high


def sqrt(a: Ends) -> Ends:
    """The square root; the whole line where negative is possible."""
    low, high = np.sqrt(a[0]), np.sqrt(a[1])
    exact = [s * s == x for s, x in ((low, a[0]), (high, a[1]))]
    exact = [
        e & (_product_error(s, s, s * s) == 0) for e, s in zip(exact, (low, high), strict=True)
    ]
    wrong = (a[0] < 0) | (a[1] < 0)
    down = np.where(exact[0], low, np.maximum(np.nextafter(low, -np.inf), 0))
    up = np.where(exact[1], high, np.nextafter(high, np.inf))
    return np.where(wrong, -np.inf, down), np.where(wrong, np.inf, up)


def tanh(a: Ends) -> Ends:
    """The hyperbolic tangent."""
    return _sigmoid(a, np.tanh)


def atan(a: Ends) -> Ends:
    """The inverse tangent."""
    low, high = np.arctan(a[0]), np.arctan(a[1])
    return np.where(a[0] == 0, 0.0, _below(low)), np.where(a[1] == 0, 0.0, _above(high))


def erf(a: Ends) -> Ends:
    """The error function."""
    return _sigmoid(a, _erf)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(a: Ends, function: Callable[[Floats], Floats]) -> Ends:
    """A rising odd function between -1 and 1."""
    low, high = function(a[0]), function(a[1])
    return (
        np.where(a[0] == 0, 0.0, np.maximum(_below(low), -1)),
        np.where(a[1] == 0, 0.0, np.minimum(_above(high), 1)),
    )


def wave(function: Callable[[Floats], Floats]) -> Callable[[Ends], Ends]:
    """Sine or cosine, whose slope is at most 1."""

    def enclose(a: Ends) -> Ends:
        centre, radius = _ball(a)
        value = function(centre)
        error = np.where(np.abs(centre) < 1, np.abs(value), 1.0) * _SLACK + radius
        low = np.maximum(np.nextafter(value - error, -np.inf), -1)
        high = np.minimum(np.nextafter(value + error, np.inf), 1)
        bad = np.isnan(low) | np.isnan(high)
        return np.where(bad, -1.0, low), np.where(bad, 1.0, high)

    return enclose


def half_away(x: Floats) -> Floats:
    """The nearest integer, ties away from 0; exact."""
    whole = np.trunc(x)
    away: Floats = np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return np.where(np.isinf(x), x, away)


def monotone(function: Callable[[Floats], Floats]) -> Callable[[Ends], Ends]:
    """A nondecreasing function that float64 computes exactly (rounding to integers)."""
    return lambda a: (function(a[0]), function(a[1]))
