"""Upper bounds on the degree and the coefficients of quotients of polynomials."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class Size(NamedTuple):
    """A value is N / (2^shift D): N and D are integer polynomials in indeterminates x and in
    exponentials E = 2^h.

    `x` and `e` bound the total degrees of N in each, `den_x` and `den_e` those of D; `bits` and
    `den_bits` bound log2 of the sums of the coefficients' magnitudes. `shift` may be negative.
    """

    x: float = 0.0
    e: float = 0.0
    bits: float = 0.0
    den_x: float = 0.0
    den_e: float = 0.0
    den_bits: float = 0.0
    shift: float = 0.0

    def __add__(self, other: Size) -> Size:  # type: ignore[override]
        """The sum (or difference) of the values."""
        shift = max(self.shift, other.shift)
        bits, more = self.bits + shift - self.shift, other.bits + shift - other.shift
        if not (self._quotient or other._quotient):
            x, e = max(self.x, other.x), max(self.e, other.e)
            return Size(x, e, log_sum(bits, more), shift=shift)
        return Size(
            max(self.x + other.den_x, other.x + self.den_x),
            max(self.e + other.den_e, other.e + self.den_e),
            log_sum(bits + other.den_bits, more + self.den_bits),
            self.den_x + other.den_x,
            self.den_e + other.den_e,
            self.den_bits + other.den_bits,
            shift,
        )

    @property
    def _quotient(self) -> bool:
        return self.den_x > 0 or self.den_e > 0 or self.den_bits > 0

    def __mul__(self, other: Size) -> Size:  # type: ignore[override]
        """The product of the values."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    def inverse(self) -> Size:
        """The reciprocal of a value that is not zero."""
        bits = max(self.bits, 0.0)
        return Size(self.den_x, self.den_e, self.den_bits, self.x, self.e, bits, -self.shift)

    def sums(self, k: int) -> Size:
        """The sum of k values of this size."""
        if not self._quotient:
            return self._replace(bits=self.bits + math.log2(max(k, 1)))
        out = self
        for _ in range(k - 1):
            out = out + self
        return out

    def hull(self, other: Size) -> Size:
        """A bound for values of either size."""
        shift = max(self.shift, other.shift)
        out = Size(*(max(a, b) for a, b in zip(self, other, strict=True)))
        bits = max(self.bits + shift - self.shift, other.bits + shift - other.shift)
        return out._replace(bits=bits)

    def apart(self, other: Size) -> Zero:
        """The polynomial that is zero exactly where the two values agree."""
        difference = self + other
        return Zero(difference.x, difference.e, max(difference.bits, 0.0))


class Zero(NamedTuple):
    """An integer polynomial that is tested for zero: degrees in x and E, log2 of coefficients."""

    x: float = 0.0
    e: float = 0.0
    bits: float = 0.0

    def hull(self, other: Zero) -> Zero:
        """A bound for both."""
        return Zero(*(max(a, b) for a, b in zip(self, other, strict=True)))


SYMBOL = Size(x=1.0)
ZERO = Size(bits=-math.inf)


def log_sum(a: float, b: float) -> float:
    """log2(2^a + 2^b), rounded up."""
    high, low = max(a, b), min(a, b)
    if low == -math.inf:
        return high
    return high + math.log2(1 + 2.0 ** (low - high)) + 1e-12


def of_constants(values: Iterable[Fraction]) -> Size:
    """A bound for each of some rationals."""
    out = ZERO
    for value in values:
        shift = (value.denominator & -value.denominator).bit_length() - 1
        odd = value.denominator >> shift
        bits = log2(abs(value.numerator)) if value else -math.inf
        out = out.hull(Size(bits=bits, den_bits=log2(odd), shift=shift))
    return out


def log2(n: int) -> float:
    """log2 of a positive integer of any size, rounded up."""
    drop = max(n.bit_length() - 60, 0)
    return math.log2((n >> drop) + (drop > 0)) + drop + (1e-12 if n & (n - 1) else 0.0)
