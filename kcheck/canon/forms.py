"""Sparse linear forms: a constant plus rational multiples of a few atoms, interned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Collision
from kcheck.canon.interning import Ids

# constant, ((atom, coefficient), ...) by rising atom
Form = tuple[Fraction, tuple[tuple[int, Fraction], ...]]

_TERMS = 4  # longer forms are given up
_HUGE = 1 << 32  # no sensible exponent of 2
_EMPTY = (np.iinfo(np.int32).max, -1)


class Forms:
    """Ids of forms. 0 is the zero form; -1 - a is the atom a alone, without an entry.

    What is not zero is not zero modulo any of `primes`, else Collision.
    """

    def __init__(self, primes: Iterable[int] = ()) -> None:
        self._modulus = math.prod(primes)
        self._forms: list[Form] = []
        self._ids: dict[Form, int] = {}
        self._memo: dict[tuple[str, int, int], int] = {}
        self._ranges = np.zeros((2, 1024), np.int32)
        self._terms = np.zeros(1024, np.int64)
        self._nonzero = np.zeros(1024, bool)
        self.intern((Fraction(0), ()))

    def __getitem__(self, ident: int) -> Form:
        if ident < 0:
            return Fraction(0), ((-1 - ident, Fraction(1)),)
        return self._forms[ident]

    def intern(self, form: Form) -> int:
        """The id of a form."""
        constant, terms = form
        if not constant and len(terms) == 1 and terms[0][1] == 1:
            return -1 - terms[0][0]
        if form not in self._ids:
            for number in (constant, *(factor for _, factor in terms)):
                if number and math.gcd(number.numerator, self._modulus) > 1:
                    raise Collision(f"a prime divides the constant {number}")
            ident = self._ids[form] = len(self._forms)
            self._forms.append(form)
            if ident == self._terms.size:
                self._ranges = np.concatenate([self._ranges, self._ranges], axis=1)
                self._terms = np.concatenate([self._terms, self._terms])
                self._nonzero = np.concatenate([self._nonzero, self._nonzero])
            self._ranges[:, ident] = (terms[0][0], terms[-1][0]) if terms else _EMPTY
            self._terms[ident] = len(terms)
            self._nonzero[ident] = bool(constant or terms)
        return self._ids[form]

    def constants(self, values: list[Fraction]) -> Ids:
        """Ids of constants."""
        return np.array([self.intern((v, ())) for v in values], np.int64)

    def has_atoms(self, ids: Ids) -> NDArray[np.bool_]:
        """Where a form has an atom."""
        atoms: NDArray[np.bool_] = (ids < 0) | (self._terms[np.maximum(ids, 0)] > 0)
        return atoms

    def nonzero(self, ids: Ids) -> NDArray[np.bool_]:
        """Where a form is not zero."""
        nonzero: NDArray[np.bool_] = (ids < 0) | self._nonzero[np.maximum(ids, 0)]
        return nonzero

    def ranges(self, ids: Ids) -> NDArray[np.int32]:
        """The least and greatest atom, (2, *lanes); (2^31 - 1, -1) without atoms."""
        atom = (-1 - ids).astype(np.int32)
        return np.where(ids < 0, atom, self._ranges[:, np.maximum(ids, 0)])

    def add(self, a: Ids, b: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Sums, and the lanes where one became too long: only its constant is left there."""
        if not a.any():
            return b, np.zeros(1, bool)
        if not b.any():
            return a, np.zeros(1, bool)
        out = self._pairs("add", self._add, a, b)
        lost = self.has_atoms(a) & self.has_atoms(b) & (out >= 0)
        if lost.any():
            # a sum whose atoms all cancel is not lost
            cancelled = self._pairs("cancel", self._cancels, a, b) > 0
            lost &= (self._terms[np.maximum(out, 0)] == 0) & ~cancelled
        return out, lost

    def without_huge(self, a: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Forms without constants of `_HUGE` or more, and where one was dropped."""
        used, index = np.unique(a, return_inverse=True)
        left = [self._without_huge(form) for form in used.tolist()]
        out = np.array(left, np.int64)
        return out[index].reshape(a.shape), (out != used)[index].reshape(a.shape)

    def _without_huge(self, ident: int) -> int:
        constant, terms = self[ident]
        return self.intern((Fraction(0), terms)) if abs(constant) >= _HUGE else ident

    def scale(self, a: Ids, constant: Ids, invert: bool = False) -> Ids:
        """Multiples by the constants (ids of forms without atoms), or by their inverses."""
        if not a.any():
            return np.broadcast_to(a, np.broadcast_shapes(a.shape, constant.shape))
        if invert:
            return self._pairs("div", self._divide, a, constant)
        return self._pairs("mul", self._scale, a, constant)

    def _pairs(self, name: str, op: Callable[[int, int], int], a: Ids, b: Ids) -> Ids:
        a, b = np.broadcast_arrays(a, b)
        codes = (a << 32) + (b & 0xFFFFFFFF)
        used, index = np.unique(codes, return_inverse=True)
        out = []
        for code in used.tolist():
            low = code & 0xFFFFFFFF
            key = (name, code >> 32, low - (1 << 32) if low >> 31 else low)
            if key not in self._memo:
                self._memo[key] = op(key[1], key[2])
            out.append(self._memo[key])
        return np.array(out, np.int64)[index].reshape(a.shape)

    def _sum(self, a: int, b: int) -> Form:
        (c, x), (d, y) = self[a], self[b]
        terms = dict(x)
        for atom, q in y:
            terms[atom] = terms.get(atom, Fraction(0)) + q
        return c + d, tuple(sorted((atom, q) for atom, q in terms.items() if q))

    def _add(self, a: int, b: int) -> int:
        constant, terms = self._sum(a, b)
        return self.intern((constant, terms if len(terms) <= _TERMS else ()))

    def _cancels(self, a: int, b: int) -> int:
        return int(not self._sum(a, b)[1])

    def _scale(self, a: int, constant: int) -> int:
        factor, _ = self[constant]
        c, terms = self[a]
        return self.intern((c * factor, tuple((x, q * factor) for x, q in terms if factor)))

    def _divide(self, a: int, constant: int) -> int:
        factor, _ = self[constant]
        c, terms = self[a]
        if not factor:
            return 0  # division by zero: the lane is no number
        return self.intern((c / factor, tuple((x, q / factor) for x, q in terms)))
