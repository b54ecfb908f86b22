"""What stands for a real number: the protocol and its rules for infinities and NaN.

A number is finite (a subclass says how it is kept) or one of +inf, -inf, nan. The rules for the
latter are those of IEEE 754 and PTX (max(nan, x) = x), except that a zero has no sign: dividing
by it gives a nan whose `reason` is `division-by-zero`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeVar

from kcheck.semantics.slow.errors import Ambiguous, Unsupported

N = TypeVar("N", bound="Number")

# why a nan is one whose operand was divided by zero
DIVISION = "division-by-zero"
# ... and where it was made of infinities, as inf - inf is
INFINITIES = "nan"


class Number:
    """A real, an infinity or a nan. Operations with a leading `_` see finite operands only."""

    __slots__ = ("reason", "special")

    special: float | None
    reason: str
    # the sign of a zero counts as known
    positive_zero = False

    @classmethod
    def of(cls: type[N], value: Any) -> N:
        """From an int, float, Fraction, NumPy scalar or a number of this class."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Fraction):
            return cls._finite(value)
        if isinstance(value, int):
            return cls._finite(Fraction(value))
        if isinstance(value, Number):
            exact = value.exact()
            if exact is None:
                raise Unsupported("number")
            return cls.of(exact)
        number = float(value)
        if math.isfinite(number):
            return cls._finite(Fraction(number))
        return cls._special(number)

    @classmethod
    def nan(cls: type[N], reason: str) -> N:
        """Not a number, and why."""
        return cls._special(math.nan, reason)

    @classmethod
    def _special(cls: type[N], value: float, reason: str = INFINITIES) -> N:
        number = cls.__new__(cls)
        number.special = value
        number.reason = reason if math.isnan(value) else ""
        return number

    @classmethod
    def _finite(cls: type[N], value: Fraction) -> N:
        raise NotImplementedError

    # what a subclass keeps -------------------------------------------------------------------

    def exact(self) -> Fraction | float | None:
        """The number itself; None where it is known only within bounds."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, float]:
        """Floats `low <= x <= high`; (nan, nan) for a nan."""
        raise NotImplementedError

    def sign(self) -> int:
        """-1, 0 or 1 of a finite number; raises Ambiguous."""
        raise NotImplementedError

    def _integer(self, mode: str) -> int:
        raise NotImplementedError

    def _negated(self: N) -> N:
        raise NotImplementedError

    def _add(self: N, other: N) -> N:
        raise NotImplementedError

    def _mul(self: N, other: N) -> N:
        raise NotImplementedError

    def _div(self: N, other: N) -> N:
        raise NotImplementedError

    def _order(self: N, other: N) -> int:
        raise NotImplementedError

    def _greater(self: N, other: N) -> N:
        return self if self._order(other) >= 0 else other

    def _exp2(self: N) -> N:
        raise NotImplementedError

    def _log2(self: N) -> N:
        raise NotImplementedError

    def _sqrt(self: N) -> N:
        raise NotImplementedError

    def _tanh(self: N) -> N:
        raise NotImplementedError

    def _sin(self: N) -> N:
        raise NotImplementedError

    def _cos(self: N) -> N:
        raise NotImplementedError

    def rounded(self: N, fmt: str, mode: str = "rn") -> N:
        """As a register of a float format holds it: the number itself, for reals."""
        return self

    # the rules -------------------------------------------------------------------------------

    @property
    def is_nan(self) -> bool:
        """True for a nan."""
        return self.special is not None and math.isnan(self.special)

    def _proxy(self) -> float:
        """A float that behaves in sums and products with infinities as this number does."""
        return float(self.sign()) if self.special is None else self.special

    def _lift(self: N, value: float, *operands: N) -> N:
        """The result of an operation with a special operand: 0, an infinity, or a nan."""
        if math.isnan(value):
            return self.nan(next((x.reason for x in operands if x.is_nan), INFINITIES))
        return self._special(value) if math.isinf(value) else self.of(value)

    def neg(self: N) -> N:
        """-x."""
        if self.special is None:
            return self._negated()
        return self._special(-self.special, self.reason)

    def absolute(self: N) -> N:
        """|x|."""
        return self if self.is_nan else self.maximum(self.neg())

    def add(self: N, other: N) -> N:
        """x + y."""
        if self.special is None and other.special is None:
            return self._add(other)
        a = 0.0 if self.special is None else self.special
        b = 0.0 if other.special is None else other.special
        return self._lift(a + b, self, other)

    def sub(self: N, other: N) -> N:
        """x - y."""
        return self.add(other.neg())

    def mul(self: N, other: N) -> N:
        """x y."""
        if self.special is None and other.special is None:
            return self._mul(other)
        if self.is_nan or other.is_nan:
            return self._lift(math.nan, self, other)
        return self._lift(self._proxy() * other._proxy(), self, other)

    def fma(self: N, other: N, addend: N) -> N:
        """x y + z."""
        return self.mul(other).add(addend)

    def div(self: N, other: N) -> N:
        """x / y; a nan with the reason `division-by-zero` where y is 0."""
        if self.is_nan or other.is_nan:
            return self._lift(math.nan, self, other)
        if other.special is None:
            if other.sign() == 0:
                return self.nan(DIVISION)
            if self.special is None:
                return self._div(other)
            return self._special(self.special * other.sign())
        return self.nan(INFINITIES) if self.special is not None else self.of(0)

    def maximum(self: N, other: N) -> N:
        """max(x, y); of a nan and x it is x (PTX ISA, max without .NaN).

        A division by zero may have been an infinity on hardware: Ambiguous.
        """
        for one, another in ((self, other), (other, self)):
            if one.is_nan and one.reason == DIVISION:
                raise Ambiguous(DIVISION)
            if one.is_nan:
                return another
        if self.special is None and other.special is None:
            return self._greater(other)
        low = self.special == -math.inf or other.special == math.inf
        return other if low else self

    def minimum(self: N, other: N) -> N:
        """min(x, y); of a nan and x it is x."""
        return self.neg().maximum(other.neg()).neg()

    def order(self: N, other: N) -> int | None:
        """-1, 0, 1 as x < y, x = y, x > y; None if one is a nan; raises Ambiguous."""
        if DIVISION in (self.reason, other.reason):
            raise Ambiguous(DIVISION)
        if self.is_nan or other.is_nan:
            return None
        if self.special is None and other.special is None:
            return 0 if self is other else self._order(other)
        a = 0.0 if self.special is None else self.special
        b = 0.0 if other.special is None else other.special
        return (a > b) - (a < b)

    def clamp(self: N, low: Any, high: Any) -> N:
        """min(max(x, low), high); `low` for a nan."""
        return self.maximum(self.of(low)).minimum(self.of(high))

    def negative(self) -> bool:
        """x < 0, infinities included; a nan is not."""
        return not self.is_nan and (self.special or self._proxy()) < 0

    def exp2(self: N) -> N:
        """2^x."""
        if self.special is None:
            return self._exp2()
        return self.of(0) if self.special == -math.inf else self

    def log2(self: N) -> N:
        """log2(x); -inf at 0, a nan below."""
        if self.special is None:
            sign = self.sign()
            if sign > 0:
                return self._log2()
            return self._special(-math.inf) if sign == 0 else self.nan("log-of-negative")
        return self.nan("log-of-negative") if self.special == -math.inf else self

    def sqrt(self: N) -> N:
        """The square root; a nan below 0."""
        if self.special is None:
            sign = self.sign()
            if sign > 0:
                return self._sqrt()
            return self if sign == 0 else self.nan("sqrt-of-negative")
        return self.nan("sqrt-of-negative") if self.special == -math.inf else self

    def rsqrt(self: N) -> N:
        """1 / sqrt(x)."""
        return self.of(1).div(self.sqrt())

    def tanh(self: N) -> N:
        """tanh(x)."""
        if self.special is None:
            return self._tanh()
        return self if self.is_nan else self.of(math.copysign(1.0, self.special))

    def sin(self: N) -> N:
        """sin(x), x in radians."""
        return self._sin() if self.special is None else self.nan(INFINITIES)

    def cos(self: N) -> N:
        """cos(x), x in radians."""
        return self._cos() if self.special is None else self.nan(INFINITIES)

    def round(self: N, mode: str) -> N:
        """To an integer: `rni` nearest even, `rzi` to zero, `rmi` down, `rpi` up."""
        return self.of(self._integer(mode)) if self.special is None else self

    def integer(self, mode: str) -> int:
        """`round` as a Python int; of finite numbers only; raises Ambiguous."""
        return self._integer(mode)

    @classmethod
    def dot(cls: type[N], xs: Sequence[N], ys: Sequence[N], start: N) -> N:
        """start + sum of xs[i] ys[i]."""
        for x, y in zip(xs, ys, strict=True):
            start = x.fma(y, start)
        return start

    def __repr__(self) -> str:
        kept = self.exact()
        return f"{type(self).__name__}({self.bounds() if kept is None else kept})"


def to_integer(value: Fraction, mode: str) -> int:
    """A rational rounded by a PTX integer rounding mode."""
    if mode == "rni":
        return round(value)
    if mode == "rmi":
        return math.floor(value)
    if mode == "rpi":
        return math.ceil(value)
    return math.trunc(value)
