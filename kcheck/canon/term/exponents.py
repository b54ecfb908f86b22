"""Positive factors of terms: exponentials 2^h, and irrational constants.

h is a sparse linear combination of monomials times constants; all of it is interned as a whole. A
constant is a product of powers of bases: prime numbers (or what counts as one), and the symbols of
`canon.known`. Of a number the integer part of the power goes into the coefficient (2^{h+c} =
2^c 2^h), the rest stays, so that 2^{p/q} are independent for different p/q in [0, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.known import ROOTS, SYMBOLS, Known, Number
from kcheck.canon.term.rationals import ONE, ZERO, Ids, Rationals, uniform

Coords = NDArray[np.int64]
# base (a number above 1, or -1 - i for symbol i) -> power
Powers = Mapping[int, Fraction]
# integer parts beyond stay in the exponent
_MOST = 1 << 12


class Row(NamedTuple):
    """One factor: the exponent's coordinates by rising `kinds`, `coords`; the constant's id.

    `coords`: keys of monomials; `kinds`: ids of factors that are constants, 0 for 1; `coefs`: ids
    of rationals that are not zero.
    """

    coords: Coords
    kinds: Coords
    coefs: Ids
    constant: int


class Exponents:
    """The table id -> factor; 0 is 1."""

    def __init__(self, rationals: Rationals) -> None:
        self._q = rationals
        self.rows: list[Row] = []
        self._ids: dict[bytes, int] = {}
        # id -> base and power, by rising base; of a number the power lies in [0, 1) (or far off)
        self.constants: list[tuple[tuple[int, Fraction], ...]] = []
        self._constant_ids: dict[tuple[tuple[int, Fraction], ...], int] = {}
        self._constant_sums: dict[tuple[int, int], tuple[int, int]] = {}
        self._sums: dict[tuple[int, int], tuple[int, int]] = {}
        self._negs: dict[int, tuple[int, int]] = {}
        none = np.zeros(0, np.int64)
        self.intern(none, none, none.astype(np.int32), {})

    def intern(
        self, coords: Coords, kinds: Coords, coefs: Ids, constant: Powers
    ) -> tuple[int, int]:
        """The id, and the coefficient (id) that the integer parts of powers of numbers give."""
        made, factor = self._constant(constant)
        return self._interned(Row(coords, kinds, coefs, made)), factor

    def _interned(self, row: Row) -> int:
        size = row.constant.to_bytes(4, "little")
        key = row.coords.tobytes() + row.kinds.tobytes() + row.coefs.tobytes() + size
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.rows)
            self.rows.append(row)
        return found

    def _constant(self, powers: Powers) -> tuple[int, int]:
        """The id of a constant, and a coefficient."""
        factor, left = ONE, []
        for base, power in sorted(powers.items()):
            whole = power.numerator // power.denominator
            if base > 0 and whole and abs(whole) <= _MOST:
                factor = self._q.product(factor, self._q.intern(Fraction(base) ** whole))
                power -= whole
            if power:
                left.append((base, power))
        key = tuple(left)
        found = self._constant_ids.get(key)
        if found is None:
            found = self._constant_ids[key] = len(self.constants)
            self.constants.append(key)
        return found, factor

    def of(self, constant: Powers) -> tuple[int, int]:
        """A factor that is a constant, and a coefficient."""
        none = np.zeros(0, np.int64)
        return self.intern(none, none, none.astype(np.int32), constant)

    def number(self, value: Number) -> tuple[int, int]:
        """A number (not 0) as coefficient and factor."""
        if not isinstance(value, Known):
            return self._q.intern(Fraction(value)), 0
        powers = {
            int(ROOTS[s]) if s in ROOTS else -1 - SYMBOLS.index(s): Fraction(n, 1 + (s in ROOTS))
            for s, n in value.powers
        }
        x, factor = self.of(powers)
        return self._q.product(factor, self._q.intern(value.factor)), x

    def parted(self, x: int) -> tuple[int, int]:
        """A factor as one that is a constant times one that has none."""
        row = self.rows[x]
        if not row.constant or not row.coords.size:
            return (x, 0) if row.constant else (0, x)
        return self.of(dict(self.constants[row.constant]))[0], self._interned(
            row._replace(constant=0)
        )

    def negative(self, x: int) -> tuple[int, int]:
        """1 over a factor, and a coefficient."""
        found = self._negs.get(x)
        if found is None:
            found = self._negs[x] = self.scaled(x, Fraction(-1))
        return found

    def scaled(self, x: int, power: Fraction) -> tuple[int, int]:
        """A factor to a rational power, and a coefficient."""
        coords, kinds, coefs, constant = self.rows[x]
        if power == 0:
            return 0, ONE
        made = self._q.each(coefs, lambda c: c * power)
        bases = {base: n * power for base, n in self.constants[constant]}
        return self.intern(coords, kinds, made, bases)

    def product(self, x: int, y: int) -> tuple[int, int]:
        """The product of two factors, and a coefficient."""
        if (x, y) not in self._sums:
            self._add([(x, y)])
        return self._sums[x, y]

    def mul(self, x: Coords, y: Coords) -> tuple[Ids | None, Coords]:
        """Products, element by element: coefficients (None: all 1) and ids."""
        if not x.any():
            return None, y
        if not y.any():
            return None, x
        if uniform(x, int(x[0])) and uniform(y, int(y[0])):
            z, coef = self.product(int(x[0]), int(y[0]))
            each = None if coef == ONE else np.full(x.size, coef, np.int32)
            return each, np.full(x.size, z, np.int64)
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
        """Products of factors, many at once."""
        rows = [self.rows[i] for pair in pairs for i in pair]
        sizes = [len(row.coords) for row in rows]
        which = np.repeat(np.arange(len(rows)) // 2, sizes)
        coords, kinds, coefs = (np.concatenate([row[k] for row in rows]) for k in range(3))
        order = np.lexsort((coords, kinds, which) if kinds.any() else (coords, which))
        which, coords, kinds, coefs = which[order], coords[order], kinds[order], coefs[order]
        new = np.ones(which.size, bool)
        new[1:] = (which[1:] != which[:-1]) | (coords[1:] != coords[:-1])
        new[1:] |= kinds[1:] != kinds[:-1]
        starts = np.flatnonzero(new)
        if starts.size:
            coefs = self._q.sums(coefs, starts)
        keep = coefs != ZERO
        at, coefs = starts[keep], coefs[keep]
        which, coords, kinds = which[at], coords[at], kinds[at]
        ends = np.searchsorted(which, np.arange(len(pairs) + 1))
        for i, pair in enumerate(pairs):
            part = slice(ends[i], ends[i + 1])
            constant, factor = self._both(rows[2 * i].constant, rows[2 * i + 1].constant)
            row = Row(coords[part].copy(), kinds[part].copy(), coefs[part].copy(), constant)
            self._sums[pair] = self._interned(row), factor

    def _both(self, a: int, b: int) -> tuple[int, int]:
        """The product of two constants, and a coefficient."""
        if not a or not b:
            return a + b, ONE
        found = self._constant_sums.get((a, b))
        if found is None:
            powers = dict(self.constants[a])
            for base, n in self.constants[b]:
                powers[base] = powers.get(base, Fraction(0)) + n
            found = self._constant_sums[a, b] = self._constant(powers)
        return found
