"""Arithmetic on the ids of exact constants, infinities and NaN: one function per operation.

An argument is an id of `canon.constants` or `SYMBOLIC` (a finite real that only the domain
knows). A result is an id, `SYMBOLIC` (the domain's result stands), or `TAKE_A`/`TAKE_B` (that
operand as it is). Undefined absorbs; NaN propagates except through max and min (IEEE 754
maximumNumber, PTX ISA 9.7.3 `max`); what would need the sign of a symbolic value beside an
infinity is `UNKNOWN`, which absorbs like undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from kcheck.canon.constants import (
    FINITE,
    NAN,
    NAN_DIV,
    NINF,
    ONE,
    PINF,
    SYMBOLIC,
    UNDEF,
    UNKNOWN,
    ZERO,
    Constants,
)
from kcheck.canon.known import SQRT_PI, Number, close, known, plus, root, times

TAKE_A, TAKE_B = -2, -3
_INFS = (PINF, NINF)
_FLIP = {PINF: NINF, NINF: PINF}
# exp2 of an integer stays an exact constant up to this magnitude
_EXP2_LIMIT = 4096


class Folding:
    """The operations over one table of constants."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.binary: dict[str, Callable[[int, int], int]] = {
            "add": self.add,
            "sub": self.sub,
            "mul": self.mul,
            "div": self.div,
            "max": self.maximum,
            "min": self.minimum,
            "max.nan": self.maximum_nan,
            "min.nan": self.minimum_nan,
        }
        self.unary: dict[str, Callable[[int], int]] = {
            "neg": self.neg,
            "abs": self.abs,
            "exp2": self.exp2,
            "lg2": self.lg2,
            "sqrt": self.sqrt,
            "tanh": self.tanh,
            "erf": self.tanh,  # 0 at 0, 1 and -1 at the infinities, too
            "atan": self.atan,
            "round": lambda a: self._integral(a, _half_away),
            "sin": lambda a: self._periodic(a, 0),
            "cos": lambda a: self._periodic(a, 1),
            "rint": lambda a: self._integral(a, round),
            "trunc": lambda a: self._integral(a, math.trunc),
            "floor": lambda a: self._integral(a, math.floor),
            "ceil": lambda a: self._integral(a, math.ceil),
        }

    def _number(self, value: Number | int | None) -> int:
        """The id of a result; None stands for what only the domain can hold."""
        if value is None:
            return SYMBOLIC
        return self.constants.intern(Fraction(value) if isinstance(value, int) else value)

    def _close(self, a: int, b: int) -> bool:
        """Two constants, one of them irrational, whose order is not known."""
        known, values = self.constants.known, self.constants.values
        return a != b and (a in known or b in known) and close(values[a], values[b])

    def _absorbed(self, *args: int) -> int | None:
        for bad in (UNDEF, UNKNOWN, NAN_DIV, NAN):
            if bad in args:
                return bad
        return None

    def neg(self, a: int) -> int:
        if a >= FINITE:
            return self._number(times(self.constants.number(a), Fraction(-1)))
        return _FLIP.get(a, a)

    def abs(self, a: int) -> int:
        if a >= FINITE:
            return self.neg(a) if self.constants.values[a] < 0 else a
        return PINF if a == NINF else a

    def add(self, a: int, b: int) -> int:
        absorbed = self._absorbed(a, b)
        if absorbed is not None:
            return absorbed
        if a in _INFS or b in _INFS:
            if a in _INFS and b in _INFS:
                return a if a == b else NAN
            return a if a in _INFS else b
        if a == ZERO:
            return b if b != SYMBOLIC else TAKE_B
        if b == ZERO:
            return a if a != SYMBOLIC else TAKE_A
        if SYMBOLIC in (a, b):
            return SYMBOLIC
        return self._number(plus(self.constants.number(a), self.constants.number(b)))

    def sub(self, a: int, b: int) -> int:
        if b == SYMBOLIC:
            folded = self.add(a, b)
            return SYMBOLIC if folded == TAKE_B else folded
        return self.add(a, self.neg(b))

    def _sign(self, a: int) -> int | None:
        if a == SYMBOLIC:
            return None
        if a in _INFS:
            return 1 if a == PINF else -1
        value = self.constants.values[a]
        return (value > 0) - (value < 0)

    def mul(self, a: int, b: int) -> int:
        absorbed = self._absorbed(a, b)
        if absorbed is not None:
            return absorbed
        if a in _INFS or b in _INFS:
            one, other = self._sign(a), self._sign(b)
            if one is None or other is None:
                return UNKNOWN
            sign = one * other
            return NAN if sign == 0 else PINF if sign > 0 else NINF
        if ZERO in (a, b):
            return ZERO
        if a == ONE:
            return b if b != SYMBOLIC else TAKE_B
        if b == ONE:
            return a if a != SYMBOLIC else TAKE_A
        if SYMBOLIC in (a, b):
            return SYMBOLIC
        return self._number(times(self.constants.number(a), self.constants.number(b)))

    def div(self, a: int, b: int) -> int:
        absorbed = self._absorbed(a, b)
        if absorbed is not None:
            return absorbed
        if b in _INFS:
            return NAN if a in _INFS else ZERO
        if b == ZERO:  # over the reals the sign of a zero is unknown, so no infinity
            return NAN_DIV
        if a in _INFS:
            sign = self._sign(b)
            return UNKNOWN if sign is None else a if sign > 0 else _FLIP[a]
        if b == ONE:
            return a if a != SYMBOLIC else TAKE_A
        if SYMBOLIC in (a, b):
            return SYMBOLIC
        return self._number(times(self.constants.number(a), self.constants.number(b), -1))

    def _larger(self, a: int, b: int, top: int, bottom: int, sign: int) -> int:
        if UNDEF in (a, b):
            return UNDEF
        if UNKNOWN in (a, b) or NAN_DIV in (a, b):
            return UNKNOWN  # a division by zero may have been an infinity, which may win or lose
        if a == NAN:
            return self._pick(b, TAKE_B)
        if b == NAN:
            return self._pick(a, TAKE_A)
        if top in (a, b):
            return top
        if a == bottom:
            return self._pick(b, TAKE_B)
        if b == bottom:
            return self._pick(a, TAKE_A)
        if SYMBOLIC in (a, b) or self._close(a, b):
            return SYMBOLIC
        values = self.constants.values
        return a if sign * (values[a] - values[b]) >= 0 else b

    @staticmethod
    def _pick(a: int, take: int) -> int:
        return take if a == SYMBOLIC else a

    def maximum(self, a: int, b: int) -> int:
        return self._larger(a, b, PINF, NINF, 1)

    def minimum(self, a: int, b: int) -> int:
        return self._larger(a, b, NINF, PINF, -1)

    def maximum_nan(self, a: int, b: int) -> int:
        absorbed = self._absorbed(a, b)
        return self.maximum(a, b) if absorbed is None else absorbed

    def minimum_nan(self, a: int, b: int) -> int:
        absorbed = self._absorbed(a, b)
        return self.minimum(a, b) if absorbed is None else absorbed

    def exp2(self, a: int) -> int:
        if a == NINF:
            return ZERO
        if a < FINITE:
            return a
        value = self.constants.values[a]  # of an irrational one the denominator is not 1
        if value.denominator != 1 or abs(value) > _EXP2_LIMIT:
            return SYMBOLIC
        return self._number(Fraction(2) ** value.numerator)

    def lg2(self, a: int) -> int:
        if a < FINITE:
            return NAN if a == NINF else a
        value = self.constants.values[a]
        if value <= 0:
            return NINF if value == 0 else NAN
        up, down = value.numerator, value.denominator
        if up & (up - 1) or down & (down - 1):
            return SYMBOLIC
        return self._number(up.bit_length() - down.bit_length())

    def sqrt(self, a: int) -> int:
        if a < FINITE:
            return NAN if a == NINF else a
        value = self.constants.values[a]
        if value < 0:
            return NAN
        return SYMBOLIC if a in self.constants.known else self._number(root(value))

    def tanh(self, a: int) -> int:
        if a in _INFS:
            return self._number(1 if a == PINF else -1)
        return a if a <= ZERO else SYMBOLIC

    def atan(self, a: int) -> int:
        if a in _INFS:
            return self._number(known(Fraction(1 if a == PINF else -1, 2), {SQRT_PI: 2}))
        return a if a <= ZERO else SYMBOLIC

    def _periodic(self, a: int, at_zero: int) -> int:
        if a in _INFS:
            return NAN
        if a == ZERO:
            return self._number(at_zero)
        return a if a < FINITE else SYMBOLIC

    def _integral(self, a: int, rule: Callable[[Fraction], int]) -> int:
        if a < FINITE:
            return a
        value = self.constants.values[a]
        if a in self.constants.known and close(2 * value, Fraction(round(2 * value))):
            return SYMBOLIC
        return self._number(rule(value))

    def compare(self, op: str, unordered: bool, a: int, b: int) -> int:
        """1, 0, 2 for undefined, 3 for unknown, or -1 where the domain must decide.

        op: lt, le, gt, ge, eq, ne; `unordered`: the result where an argument is NaN.
        """
        if UNDEF in (a, b):
            return 2
        if UNKNOWN in (a, b) or NAN_DIV in (a, b):
            return 3
        if NAN in (a, b):
            return int(unordered)
        if SYMBOLIC in (a, b) and not (a in _INFS or b in _INFS):
            return -1
        if a >= FINITE and b >= FINITE and self._close(a, b):
            return -1
        return int(_COMPARE[op](self._place(a), self._place(b)))

    def _place(self, a: int) -> tuple[int, Fraction]:
        """A key that orders -inf < all finite < +inf (symbolic only meets infinities here)."""
        if a in _INFS:
            return (1 if a == PINF else -1, Fraction(0))
        return (0, self.constants.values[a] if a != SYMBOLIC else Fraction(0))


def _half_away(value: Fraction) -> int:
    """To the nearest integer, ties away from 0."""
    return math.floor(value + Fraction(1, 2)) if value > 0 else math.ceil(value - Fraction(1, 2))


_COMPARE: dict[str, Callable[[tuple[int, Fraction], tuple[int, Fraction]], bool]] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}
