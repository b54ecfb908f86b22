"""Intervals in float64 with outward rounding: the true result lies inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from kcheck.semantics.slow.errors import Ambiguous
from kcheck.semantics.slow.numbers import Number, to_integer
from kcheck.semantics.slow.rounding import (
    INF,
    TINY,
    TOP,
    above,
    below,
    product_down,
    product_error,
    quotient_down,
    sum_down,
    sum_up,
)


class Enclosure(Number):
    """`low <= x <= high` for a finite real x; an infinite bound means no bound on that side."""

    __slots__ = ("high", "low")

    low: float
    high: float

    @classmethod
    def _finite(cls, value: Fraction) -> Enclosure:
        try:
            near = float(value)
        except OverflowError:
            return cls.between(TOP, INF) if value > 0 else cls.between(-INF, -TOP)
        low = near if near <= value else below(near)
        return cls.between(low, near if near >= value else above(near))

    @classmethod
    def between(cls, low: float, high: float) -> Enclosure:
        """The interval [low, high]."""
        number = cls.__new__(cls)
        number.special = None
        number.reason = ""
        number.low = low
        number.high = high
        return number

    def exact(self) -> Fraction | float | None:
        if self.special is not None:
            return self.special
        return Fraction(self.low) if self.low == self.high else None

    def bounds(self) -> tuple[float, float]:
        if self.special is not None:
            return self.special, self.special
        return self.low, self.high

    def sign(self) -> int:
        if self.low > 0:
            return 1
        if self.high < 0:
            return -1
        if self.low == self.high:
            return 0
        raise Ambiguous("ambiguous.sign")

    def _integer(self, mode: str) -> int:
        if math.isinf(self.low) or math.isinf(self.high):
            raise Ambiguous("ambiguous.round")
        low = to_integer(Fraction(self.low), mode)
        if low != to_integer(Fraction(self.high), mode):
            raise Ambiguous("ambiguous.round")
        return low

    def _negated(self) -> Enclosure:
        return self.between(-self.high, -self.low)

    def _add(self, other: Enclosure) -> Enclosure:
        return self.between(sum_down(self.low, other.low), sum_up(self.high, other.high))

    def _mul(self, other: Enclosure) -> Enclosure:
        a, b, c, d = self.low, self.high, other.low, other.high
        if a == b and c == d:
            return self.between(product_down(a, c), -product_down(-a, c))
        if a >= 0 and c >= 0:
            return self.between(product_down(a, c), -product_down(-b, d))
        if a >= 0 and d <= 0:
            return self.between(product_down(b, c), -product_down(-a, d))
        if b <= 0 and c >= 0:
            return self.between(product_down(a, d), -product_down(-b, c))
        low = min(product_down(x, y) for x in (a, b) for y in (c, d))
        return self.between(low, -min(product_down(-x, y) for x in (a, b) for y in (c, d)))

    def _div(self, other: Enclosure) -> Enclosure:
        corners = [(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        low = min(quotient_down(x, y) for x, y in corners)
        return self.between(low, -min(quotient_down(-x, y) for x, y in corners))

    def _order(self, other: Enclosure) -> int:
        if self.high < other.low:
            return -1
        if self.low > other.high:
            return 1
        if self.low == self.high == other.low == other.high:
            return 0
        raise Ambiguous("ambiguous.compare")

    def _greater(self, other: Enclosure) -> Enclosure:
        if self.low >= other.high:
            return self
        if other.low >= self.high:
            return other
        return self.between(max(self.low, other.low), max(self.high, other.high))

    def absolute(self) -> Enclosure:
        if self.special is not None or self.low >= 0 or self.high <= 0:
            return super().absolute()
        return self.between(0.0, max(-self.low, self.high))

    def _exp2(self) -> Enclosure:
        return self.between(_exp2_down(self.low), _exp2_up(self.high))

    def _log2(self) -> Enclosure:
        return self._monotonic(_log2, 2)

    def _sqrt(self) -> Enclosure:
        return self._monotonic(math.sqrt, 1)

    def _tanh(self) -> Enclosure:
        wide = self._monotonic(math.tanh, 4)
        return self.between(max(wide.low, -1.0), min(wide.high, 1.0))

    def _monotonic(self, function: Callable[[float], float], ulps: int) -> Enclosure:
        """An increasing library function that is off by less than `ulps` units."""
        low, high = function(self.low), function(self.high)
        if not _known(function, self.low, low):
            for _ in range(ulps):
                low = below(low)
        if not _known(function, self.high, high):
            for _ in range(ulps):
                high = above(high)
        return self.between(low, high)

    def _sin(self) -> Enclosure:
        return self._wave(math.sin, 0.5)

    def _cos(self) -> Enclosure:
        return self._wave(math.cos, 0.0)

    def _wave(self, function: Callable[[float], float], peak: float) -> Enclosure:
        """sin or cos, whose extrema lie at (k + peak) pi."""
        if self.low == self.high == 0.0:
            return self.of(function(0.0))
        if self.low < self.high and not (self.low > -1e6 and self.high < 1e6):
            return self.between(-1.0, 1.0)
        first, last = 0, -1  # no extremum that the ends don't enclose, at a point
        if self.low < self.high:
            first = math.ceil(self.low / math.pi - peak - 1e-9)
            last = math.floor(self.high / math.pi - peak + 1e-9)
        ends = sorted((function(self.low), function(self.high)))
        low, high = below(below(ends[0])), above(above(ends[1]))
        extrema = range(first, min(last, first + 1) + 1)
        if any(k % 2 for k in extrema):
            low = -1.0
        if any(k % 2 == 0 for k in extrema):
            high = 1.0
        return self.between(max(low, -1.0), min(high, 1.0))

    @classmethod
    def dot(cls, xs: Sequence[Enclosure], ys: Sequence[Enclosure], start: Enclosure) -> Enclosure:
        """One rounding of each bound for the whole sum; products of points stay exact."""
        if start.special is not None:
            return super().dot(xs, ys, start)
        lows, highs = [start.low], [start.high]
        for x, y in zip(xs, ys, strict=True):
            if x.special is not None or y.special is not None:
                return super().dot(xs, ys, start)
            p = x.low * y.low
            error = None
            if x.low == x.high and y.low == y.high:
                error = product_error(x.low, y.low, p)
            if error is None:
                product = x._mul(y)
                lows.append(product.low)
                highs.append(product.high)
            else:
                lows += (p, error)
                highs += (p, error)
        try:
            return cls.between(_fsum_down(lows), -_fsum_down([-x for x in highs]))
        except (OverflowError, ValueError):  # beyond float64, or bounds of both infinities
            return super().dot(xs, ys, start)


def _fsum_down(terms: list[float]) -> float:
    total = math.fsum(terms)  # the nearest float64 to the exact sum
    if math.isinf(total):
        raise OverflowError
    return total if math.fsum([*terms, -total]) >= 0 else below(total)


def _log2(x: float) -> float:
    return math.log2(x) if x < INF else INF


def _known(function: Callable[[float], float], x: float, y: float) -> bool:
    """Is y the function's exact value at x?"""
    if math.isinf(x):
        return True
    if function is math.sqrt:
        return Fraction(y) ** 2 == Fraction(x)
    if function is _log2:
        return math.frexp(x)[0] == 0.5
    return x == 0.0


def _exp2_down(x: float) -> float:
    if x < -1074.0:
        return 0.0
    if x >= 1024.0:
        return TOP
    if x == math.floor(x):
        return math.ldexp(1.0, int(x))
    return max(0.0, below(below(2.0**x)))


def _exp2_up(x: float) -> float:
    if x < -1074.0:
        return 0.0 if x == -INF else TINY
    if x >= 1024.0:
        return INF
    if x == math.floor(x):
        return math.ldexp(1.0, int(x))
    return above(above(2.0**x))
