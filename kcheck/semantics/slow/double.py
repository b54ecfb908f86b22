"""Plain float64: fast, and as wrong as float64 is."""

from __future__ import annotations

import math
from fractions import Fraction

from kcheck.semantics.slow.numbers import Number, to_integer


class Double(Number):
    """A Python float; an overflow is an infinity."""

    __slots__ = ("value",)

    value: float

    @classmethod
    def _finite(cls, value: Fraction) -> Double:
        try:
            return cls._number(float(value))
        except OverflowError:
            return cls._special(math.inf if value > 0 else -math.inf)

    @classmethod
    def _number(cls, value: float) -> Double:
        if not math.isfinite(value):
            return cls._special(value)
        number = cls.__new__(cls)
        number.special = None
        number.reason = ""
        number.value = value
        return number

    def exact(self) -> Fraction | float:
        return Fraction(self.value) if self.special is None else self.special

    def bounds(self) -> tuple[float, float]:
        value = self.value if self.special is None else self.special
        return value, value

    def sign(self) -> int:
        return (self.value > 0) - (self.value < 0)

    def _integer(self, mode: str) -> int:
        return to_integer(Fraction(self.value), mode)

    def _negated(self) -> Double:
        return self._number(-self.value)

    def _add(self, other: Double) -> Double:
        return self._number(self.value + other.value)

    def _mul(self, other: Double) -> Double:
        return self._number(self.value * other.value)

    def _div(self, other: Double) -> Double:
        return self._number(self.value / other.value)

    def _order(self, other: Double) -> int:
        return (self.value > other.value) - (self.value < other.value)

    def _exp2(self) -> Double:
        try:
            return self._number(2.0**self.value)
        except OverflowError:
            return self._special(math.inf)

    def _log2(self) -> Double:
        return self._number(math.log2(self.value))

    def _sqrt(self) -> Double:
        return self._number(math.sqrt(self.value))

    def _tanh(self) -> Double:
        return self._number(math.tanh(self.value))

    def _sin(self) -> Double:
        return self._number(math.sin(self.value))

    def _cos(self) -> Double:
        return self._number(math.cos(self.value))
