"""Exact constants, interned: a constant is a small integer in the lanes' arrays.

The ids below `FINITE` are no numbers: undefined; unknown (a symbolic value met an infinity where
its sign would decide); NaN; NaN from a division by zero; +inf; -inf. `SYMBOLIC` (-1) marks a lane
whose value only the domain knows.
"""

from __future__ import annotations

from fractions import Fraction

SYMBOLIC = -1
UNDEF, UNKNOWN, NAN, NAN_DIV, PINF, NINF = range(6)
FINITE = 6
ZERO, ONE = 6, 7
# before the name of an input: the atom that is its element at an index
GATHER = "gather "
# before the name of a function of the bits of integers, whose value is an integer
BITS = "bits "


class Constants:
    """The table id -> exact rational; ids below `FINITE` hold 0 as a placeholder."""

    def __init__(self) -> None:
        self.values: list[Fraction] = [Fraction(0)] * FINITE
        self._ids: dict[Fraction, int] = {}
        for value in (0, 1):
            self.intern(Fraction(value))

    def intern(self, value: Fraction) -> int:
        """The id of a number."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found
