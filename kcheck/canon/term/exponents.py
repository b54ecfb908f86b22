"""Exponentials 2^h: h is a sparse linear combination of monomials, interned as a whole.

The integer part of a constant summand of h goes into the coefficient (2^{h+c} = 2^c 2^h), the rest
stays, so that 2^{p/q} are independent for different p/q in [0, 1).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.rationals import ONE, ZERO, Ids, Rationals

Coords = NDArray[np.int64]
# integer parts beyond stay in the exponent
_MOST = 1 << 12


class Exponents:
    """The table id -> (coordinates, coefficients, constant); 0 is 2^0 = 1.

    Coordinates are keys of monomials in rising order, coefficients ids of rationals that are not
    zero, constants ids of rationals in [0, 1) (or very large).
    """

    def __init__(self, rationals: Rationals) -> None:
        self._q = rationals
        self.rows: list[tuple[Coords, Ids, int]] = []
        self._ids: dict[bytes, int] = {}
        self._sums: dict[tuple[int, int], tuple[int, int]] = {}
        self._negs: dict[int, tuple[int, int]] = {}
        self.intern(np.zeros(0, np.int64), np.zeros(0, np.int32), Fraction(0))

    def intern(self, coords: Coords, coefs: Ids, constant: Fraction) -> tuple[int, int]:
        """The id, and the coefficient (id) that the integer part of the constant gives."""
        whole = constant.numerator // constant.denominator
        factor = ONE
        if abs(whole) <= _MOST:
            constant -= whole
            factor = self._q.intern(Fraction(2) ** whole)
        rest = self._q.intern(constant)
        key = coords.tobytes() + coefs.tobytes() + rest.to_bytes(4, "little")
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.rows)
            self.rows.append((coords, coefs, rest))
        return found, factor

    def negative(self, x: int) -> tuple[int, int]:
        """1 / 2^h, and a coefficient."""
        found = self._negs.get(x)
        if found is None:
            coords, coefs, rest = self.rows[x]
            made = self.intern(coords, self._q.neg(coefs), -self._q.values[rest])
            found = self._negs[x] = made
        return found

    def scaled(self, x: int, factor: Fraction) -> tuple[int, int]:
        """(2^h)^factor, and a coefficient."""
        coords, coefs, rest = self.rows[x]
        if factor == 0:
            return 0, ONE
        made = self._q.each(coefs, lambda c: c * factor)
        return self.intern(coords, made, self._q.values[rest] * factor)

    def mul(self, x: Coords, y: Coords) -> tuple[Ids | None, Coords]:
        """Products, element by element: coefficients (None: all 1) and ids."""
        if not x.any():
            return None, y
        if not y.any():
            return None, x
        used, index = np.unique(x << 32 | y, return_inverse=True)
        codes = used.tolist()
        pairs = [(code >> 32, code & 0xFFFFFFFF) for code in codes]
        new = [pair for pair in pairs if pair not in self._sums]
        if new:
            self._add(new)
        made = np.array([self._sums[pair] for pair in pairs])[index]
        coefs = made[:, 1].astype(np.int32)
        return (None if (coefs == ONE).all() else coefs), made[:, 0]

    def _add(self, pairs: list[tuple[int, int]]) -> None:
        """Sums of exponents, many at once."""
        rows = [self.rows[i] for pair in pairs for i in pair]
        sizes = [len(row[0]) for row in rows]
        which = np.repeat(np.arange(len(rows)) // 2, sizes)
        coords = np.concatenate([row[0] for row in rows])
        coefs = np.concatenate([row[1] for row in rows])
        order = np.lexsort((coords, which))
        which, coords, coefs = which[order], coords[order], coefs[order]
        new = np.ones(which.size, bool)
        new[1:] = (which[1:] != which[:-1]) | (coords[1:] != coords[:-1])
        starts = np.flatnonzero(new)
        if starts.size:
            coefs = self._q.sums(coefs, starts)
        keep = coefs != ZERO
        which, coords, coefs = which[starts][keep], coords[starts][keep], coefs[keep]
        ends = np.searchsorted(which, np.arange(len(pairs) + 1))
        for i, pair in enumerate(pairs):
            part = slice(ends[i], ends[i + 1])
            constant = sum((self._q.values[row[2]] for row in rows[2 * i : 2 * i + 2]), Fraction(0))
            self._sums[pair] = self.intern(coords[part].copy(), coefs[part].copy(), constant)
