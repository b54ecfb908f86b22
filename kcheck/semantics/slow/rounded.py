"""Float arithmetic as the hardware does it: each result rounded to the format that holds it.

For code that works on the bits of computed floats, which real numbers do not have (the expansions
of library functions). Approximate instructions are taken as correctly rounded, subnormals are kept,
every zero is +0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from kcheck.semantics.slow.exact import Exact
from kcheck.semantics.slow.formats import FIELDS, largest
from kcheck.semantics.slow.numbers import to_integer

_MODES = {"rn": "rni", "rz": "rzi", "rm": "rmi", "rp": "rpi"}


class Rounded(Exact):
    """A rational that a float format holds, once it is stored."""

    __slots__ = ()

    positive_zero = True

    def rounded(self, fmt: str, mode: str = "rn") -> Rounded:
        """The nearest number of a format, or the next one in a direction; beyond it an infinity."""
        if self.special is not None or not self.value:
            return self
        exponent_bits, fraction_bits = FIELDS[fmt]
        least = 2 - (1 << exponent_bits - 1)
        size = abs(self.value)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > size
        unit = Fraction(2) ** (max(exponent, least) - fraction_bits)
        value = to_integer(self.value / unit, _MODES[mode]) * unit
        if abs(value) <= largest(fmt):
            return self._finite(value)
        inward = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        top = largest(fmt) if value > 0 else -largest(fmt)
        return self._finite(top) if inward else self._special(math.copysign(math.inf, value))

    @classmethod
    def _finite(cls, value: Fraction) -> Rounded:
        number = cls.__new__(cls)
        number.special = None
        number.reason = ""
        number.value = value
        return number

    def _by(self, function: Callable[[float], float]) -> Rounded:
        """By float64; what overflows is an infinity."""
        try:
            return self._finite(Fraction(function(float(self.value))))
        except OverflowError:
            return self._special(math.inf)

    def _exp2(self) -> Rounded:
        return self._by(lambda x: 2.0**x)

    def _log2(self) -> Rounded:
        return self._by(math.log2)

    def _sqrt(self) -> Rounded:
        return self._by(math.sqrt)

    def _tanh(self) -> Rounded:
        return self._by(math.tanh)

    def _sin(self) -> Rounded:
        return self._by(math.sin)

    def _cos(self) -> Rounded:
        return self._by(math.cos)
