"""Exact constants, interned: a constant is a small integer in the lanes' arrays.

The ids below `FINITE` are no numbers: undefined; unknown (a symbolic value met an infinity where
its sign would decide); NaN; NaN from a division by zero; +inf; -inf. `SYMBOLIC` (-1) marks a lane
whose value only the domain knows. The ids from `CASED` on are no constants either: what such a lane
is depends on inputs (`canon.cases`).
"""

from __future__ import annotations

from fractions import Fraction

from kcheck.canon.known import LOG2_10 as _LOG2_10
from kcheck.canon.known import LOG2E as _LOG2E
from kcheck.canon.known import Known, Number, approximation, known
from kcheck.canon.literals import identify

SYMBOLIC = -1
UNDEF, UNKNOWN, NAN, NAN_DIV, PINF, NINF = range(6)
FINITE = 6
ZERO, ONE = 6, 7
CASED = 1 << 24
# before the name of a function: a value that is below all numbers where an indicator is 1
MASKED = "masked"
# before the name of an input: the atom that is its element at an index
GATHER = "gather "
# before the name of a function of the bits of integers, whose value is an integer
BITS = "bits "

LOG2E, LN2 = known(1, {_LOG2E: 1}), known(1, {_LOG2E: -1})
LOG2_10, LOG10_2 = known(1, {_LOG2_10: 1}), known(1, {_LOG2_10: -1})


class Constants:
    """The table id -> rational; ids below `FINITE` hold 0 as a placeholder.

    `known`: the irrational ones; their `values` are approximations (`canon.known`) that serve to
    compare them.
    """

    def __init__(self) -> None:
        self.values: list[Fraction] = [Fraction(0)] * FINITE
        self.known: dict[int, Known] = {}
        self._ids: dict[Number, int] = {}
        for value in (0, 1):
            self.intern(Fraction(value))

    def intern(self, value: Number) -> int:
        """The id of a number."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(approximation(value))
            if isinstance(value, Known):
                self.known[found] = value
        return found

    def literal(self, value: Fraction, fmt: str) -> int:
        """The id of the number that a float literal of a format was rounded from."""
        return self.intern(identify(value, fmt))

    def number(self, ident: int) -> Number:
        """The number of an id from `FINITE` on."""
        return self.known.get(ident, self.values[ident])
