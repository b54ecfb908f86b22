"""Exact coefficients: rational numbers known by small integers, in arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
ZERO, ONE, MINUS = range(3)

# numbers (by id) whose products are kept in a table
_TABLE = 1 << 9
# sums of machine integers stay below this
_SAFE = 2**62


class Rationals:
    """The table id -> number; arithmetic on arrays of ids, computed once per pair of numbers."""

    def __init__(self) -> None:
        self.values: list[Fraction] = []
        self._ids: dict[Fraction, int] = {}
        self._products: dict[tuple[int, int], int] = {}
        # the same for small ids; -1: not known yet
        self._table = np.full((_TABLE, _TABLE), -1, np.int32)
        for value in (0, 1, -1):
            self.intern(Fraction(value))

    def intern(self, value: Fraction) -> int:
        """The id of a number."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def product(self, a: int, b: int) -> int:
        """The id of the product of two numbers."""
        key = (a, b) if a < b else (b, a)
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self.intern(self.values[a] * self.values[b])
        return found

    def mul(self, a: Ids, b: Ids) -> Ids:
        """Products, element by element."""
        if uniform(a, ONE):
            return b
        if uniform(b, ONE):
            return a
        if max(int(a.max()), int(b.max())) >= _TABLE:
            return self._each_product(a, b)
        out: Ids = self._table[a, b]
        new = out < 0
        if new.any():
            a, b = a[new], b[new]
            out[new] = self._table[a, b] = self._each_product(a, b)
        return out

    def _each_product(self, a: Ids, b: Ids) -> Ids:
        codes = a.astype(np.int64) << 32 | b
        used, index = np.unique(codes, return_inverse=True)
        pairs = [self.product(code >> 32, code & 0xFFFFFFFF) for code in used.tolist()]
        return np.array(pairs, np.int32)[index]

    def each(self, a: Ids, f: Callable[[Fraction], Fraction]) -> Ids:
        """A function of the numbers, element by element."""
        used, index = np.unique(a, return_inverse=True)
        return np.array([self.intern(f(self.values[i])) for i in used.tolist()], np.int32)[index]

    def neg(self, a: Ids) -> Ids:
        """Negatives, element by element."""
        return self.each(a, lambda x: -x)

    def sums(self, a: Ids, starts: NDArray[np.int64]) -> Ids:
        """The sums of consecutive segments, each from its start to the next."""
        lengths = np.diff(starts, append=a.size)
        out = a[starts]
        several = lengths > 1
        if not several.any():
            return out
        chosen = a[np.repeat(several, lengths)]
        sizes = lengths[several]
        used, index = np.unique(chosen, return_inverse=True)
        numbers = [self.values[i] for i in used.tolist()]
        scale = math.lcm(*(x.denominator for x in numbers))
        scaled = [x.numerator * (scale // x.denominator) for x in numbers]
        small = max(map(abs, scaled)) * int(sizes.max()) < _SAFE
        table = np.array(scaled, np.int64 if small else object)
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        totals = np.add.reduceat(table[index], begins)
        used, index = np.unique(totals, return_inverse=True)
        ids = [self.intern(Fraction(int(t), scale)) for t in used.tolist()]
        out[several] = np.array(ids, np.int32)[index]
        return out


def uniform(a: NDArray[np.int32] | NDArray[np.int64], value: int) -> bool:
    """All elements are `value`."""
    return bool((a == value).all())
