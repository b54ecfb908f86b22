"""Rational numbers: every result is exact, or Inexact is raised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from kcheck.semantics.slow.errors import Inexact
from kcheck.semantics.slow.numbers import Number, to_integer

LARGEST_EXPONENT = 1 << 14


class Exact(Number):
    """A `fractions.Fraction`; exp2 of integers, log2 of powers of 2, sqrt of squares only."""

    __slots__ = ("value",)

    value: Fraction

    @classmethod
    def _finite(cls, value: Fraction) -> Exact:
        number = cls.__new__(cls)
        number.special = None
        number.reason = ""
        number.value = value
        return number

    def exact(self) -> Fraction | float:
        return self.value if self.special is None else self.special

    def bounds(self) -> tuple[float, float]:
        if self.special is not None:
            return self.special, self.special
        try:
            near = float(self.value)
        except OverflowError:
            top = math.nextafter(math.inf, 0)
            return (top, math.inf) if self.value > 0 else (-math.inf, -top)
        low = near if near <= self.value else math.nextafter(near, -math.inf)
        return low, near if near >= self.value else math.nextafter(near, math.inf)

    def sign(self) -> int:
        return (self.value > 0) - (self.value < 0)

    def _integer(self, mode: str) -> int:
        return to_integer(self.value, mode)

    def _negated(self) -> Exact:
        return self._finite(-self.value)

    def _add(self, other: Exact) -> Exact:
        return self._finite(self.value + other.value)

    def _mul(self, other: Exact) -> Exact:
        return self._finite(self.value * other.value)

    def _div(self, other: Exact) -> Exact:
        return self._finite(self.value / other.value)

    def _order(self, other: Exact) -> int:
        return (self.value > other.value) - (self.value < other.value)

    def _exp2(self) -> Exact:
        n = self.value.numerator
        if self.value.denominator != 1 or abs(n) > LARGEST_EXPONENT:
            raise Inexact()
        return self._finite(Fraction(1 << n) if n >= 0 else Fraction(1, 1 << -n))

    def _log2(self) -> Exact:
        up = self.value.numerator.bit_length() - 1
        down = self.value.denominator.bit_length() - 1
        if self.value != Fraction(1 << up, 1 << down):
            raise Inexact()
        return self._finite(Fraction(up - down))

    def _sqrt(self) -> Exact:
        root = Fraction(math.isqrt(self.value.numerator), math.isqrt(self.value.denominator))
        if root * root != self.value:
            raise Inexact()
        return self._finite(root)

    def _tanh(self) -> Exact:
        return self._only_at_zero(Fraction(0))

    def _sin(self) -> Exact:
        return self._only_at_zero(Fraction(0))

    def _cos(self) -> Exact:
        return self._only_at_zero(Fraction(1))

    def _only_at_zero(self, value: Fraction) -> Exact:
        if self.value:
            raise Inexact()
        return self._finite(value)

    @classmethod
    def dot(cls, xs: Sequence[Exact], ys: Sequence[Exact], start: Exact) -> Exact:
        if start.special is not None or any(x.special is not None for x in (*xs, *ys)):
            return super().dot(xs, ys, start)
        # one common denominator: reducing every partial sum would cost most of the time
        terms = [
            (x.value.numerator * y.value.numerator, x.value.denominator * y.value.denominator)
            for x, y in zip(xs, ys, strict=True)
        ]
        terms.append((start.value.numerator, start.value.denominator))
        common = math.lcm(*(d for _, d in terms))
        return cls._finite(Fraction(sum(n * (common // d) for n, d in terms), common))
