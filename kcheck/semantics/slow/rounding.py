"""Float64 operations rounded down; up is the mirror image.

Exact results stay exact: the rounding error of a sum or product is itself a float64 (Knuth's
two-sum, Dekker's two-product) as long as nothing overflows or underflows, and its sign says on
which side the rounded result lies. Lower bounds are never +inf.
"""

from __future__ import annotations

import math

INF = math.inf
TOP = math.nextafter(INF, 0.0)
TINY = 5e-324
_SPLIT = 134217729.0  # 2^27 + 1
_SAFE = 1e140


def below(x: float) -> float:
    """The next float64 towards -inf."""
    return math.nextafter(x, -INF)


def above(x: float) -> float:
    """The next float64 towards +inf."""
    return math.nextafter(x, INF)


def sum_down(a: float, b: float) -> float:
    """A float64 <= a + b."""
    s = a + b
    if s - s != 0.0:
        return TOP if s > 0 else -INF
    t = s - a
    error = (a - (s - t)) + (b - t)
    return s if error >= 0 else below(s)


def sum_up(a: float, b: float) -> float:
    """A float64 >= a + b."""
    return -sum_down(-a, -b)


def product_error(a: float, b: float, p: float) -> float | None:
    """a b - p for p = fl(a b), exactly; None where it may not be a float64."""
    if not (abs(a) < _SAFE and abs(b) < _SAFE and abs(p) > 1 / _SAFE):
        return None
    t = _SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl


def product_down(a: float, b: float) -> float:
    """A float64 <= a b; 0 times an infinite bound is 0."""
    if a == 0.0 or b == 0.0:
        return 0.0
    p = a * b
    if math.isinf(p):
        return TOP if p > 0 else -INF
    error = product_error(a, b, p)
    if error is None:
        return below(p) if p else 0.0 if (a > 0) == (b > 0) else -TINY
    return p if error >= 0 else below(p)


def quotient_down(a: float, b: float) -> float:
    """A float64 <= a / b, b not 0."""
    if a == 0.0:
        return 0.0
    if math.isinf(b):
        return 0.0 if (a > 0) == (b > 0) else -TINY if math.isfinite(a) else -INF
    q = a / b
    if math.isinf(q):
        return TOP if q > 0 else -INF
    p = q * b
    error = product_error(q, b, p)
    if error is None:
        return below(q)
    rest = (a - p) - error  # a - q b; a - p is exact, both lie within a factor of 2
    return q if rest == 0 or (rest > 0) == (b > 0) else below(q)
