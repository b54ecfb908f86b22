"""Sums of terms: rational coefficient x monomial x exponential, in a normal form.

A sum ("poly") is sorted, like terms are added, zeros dropped, and it is interned as a whole; id 0
is the empty sum. Exponentials of distinct exponents (modulo constants) are independent over the
rational functions, so a sum is zero only if it is empty (docs/exact-proofs.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.exponents import Exponents
from kcheck.canon.term.monomials import ATOMS, LOW, SHIFT, Keys, Monomials, Powers, Term
from kcheck.canon.term.rationals import MINUS, ONE, ZERO, Ids, Rationals, uniform
from kcheck.canon.term.terms import Terms

Rows = NDArray[np.int64]
Generator = tuple[Any, ...]
# atoms whose products with one another have laws (Algebra._laws)
_LAWFUL = frozenset({"positive", "sqrt", "form", "inverse", "zero"})
# of s > 0, of s = 0
INDICATORS = frozenset({"positive", "zero"})
# a named sum, and one over it: an atom of its own, so that products with it stay short
SIGNS = {"form": 1, "inverse": -1}
UNIT: Term = (ONE, 0, 0)
NOTHING: Term = (ZERO, 0, 0)


class Algebra:
    """The tables of one proof. `atoms`: what each generator from ATOMS on stands for.

    `promises`: generators of inputs that are positive.
    """

    def __init__(self, promises: list[range] | None = None) -> None:
        self.promises: list[range] = [] if promises is None else promises
        self.q = Rationals()
        self.monomials = Monomials(self._laws)
        self.exponents = Exponents(self.q)
        self.atoms: list[Generator] = []
        self._atom_ids: dict[Generator, int] = {}
        self.polys: list[tuple[Ids, Keys, Keys]] = []
        self._poly_ids: dict[bytes, int] = {}
        self._leads: dict[int, Term] = {}
        self._multiples: dict[tuple[int, int], int] = {}
        none = np.zeros(0, np.int64)
        self.intern(none.astype(np.int32), none, none)
        self.one = self.poly([UNIT])

    # generators

    def atom(self, *what: Any) -> int:
        """The generator for (kind, ...)."""
        found = self._atom_ids.get(what)
        if found is None:
            found = self._atom_ids[what] = ATOMS + len(self.atoms)
            self.atoms.append(what)
            self.monomials.note_atom(found, what[0] in _LAWFUL)
        return found

    def kind(self, generator: int) -> Generator:
        """(kind, ...) of an atom; ("input",) of an input."""
        return self.atoms[generator - ATOMS] if generator >= ATOMS else ("input",)

    def _laws(self, powers: Powers) -> Term:
        """A product of powers of distinct generators: of a square root only the power 1 stays, a
        named sum and its inverse cancel; see `_truths` for indicators.
        """
        out: Term = UNIT
        plain: dict[int, int] = {}
        forms: dict[int, int] = {}
        truths: list[int] = []
        for g, n in powers:
            kind, *rest = self.kind(g)
            if kind in INDICATORS:
                truths.append(g)
            elif kind in SIGNS:
                forms[rest[0]] = forms.get(rest[0], 0) + SIGNS[kind] * n
            elif kind == "sqrt":
                if n % 2:
                    plain[g] = 1
                if n // 2:
                    out = self.times(out, self.power(self.lazy(rest[0]), n // 2))
            else:
                plain[g] = n
        kept = self._truths(truths)
        if kept is None:
            return NOTHING
        plain |= dict.fromkeys(kept, 1)
        for poly, n in forms.items():
            if n:
                plain[self.atom("form" if n > 0 else "inverse", poly)] = abs(n)
        key = self.monomials.key(tuple(sorted(plain.items())))
        if out == UNIT:
            return ONE, key, 0
        return self.times((ONE, key, 0), out)

    def _truths(self, indicators: list[int]) -> list[int] | None:
        """Indicators whose product is that of the given ones; None if it is 0.

        Of s > a and s > b one implies the other; s = a decides all others of s.
        """
        if len(indicators) < 2:
            return indicators
        over: dict[int, tuple[Fraction, int]] = {}
        at: dict[int, tuple[Fraction, int]] = {}
        for g in indicators:
            kind, poly = self.kind(g)
            rest, value = self.apart(poly)
            bound = -value, g
            if kind == "positive":
                over[rest] = max(over.get(rest, bound), bound)
            elif at.setdefault(rest, bound)[0] != -value:
                return None
        if any(rest in over and over[rest][0] >= bound for rest, (bound, _) in at.items()):
            return None
        return [g for _, g in (over | at).values()]

    def apart(self, poly: int) -> tuple[int, Fraction]:
        """A sum as one without a number, and the number."""
        c, p, x = self.polys[poly]
        number = (p == 0) & (x == 0)
        if not number.any():
            return poly, Fraction(0)
        rest = self.intern(c[~number], p[~number], x[~number])
        return rest, self.q.values[int(c[number][0])]

    def inner(self, generator: int) -> list[int]:
        """The sums that an atom is made of."""
        what = self.kind(generator)
        if what[0] == "max":
            members: list[int] = np.frombuffer(what[1], np.int32).tolist()
            return members
        return list(what[1:])

    def promised(self, generator: int) -> bool:
        """Is an input positive?"""
        return any(generator in inputs for inputs in self.promises)

    # terms

    def times(self, a: Term, b: Term) -> Term:
        """The product of two terms."""
        c = self.q.product(a[0], b[0])
        if a[1] and b[1]:
            extra, p, y = self.monomials.multiply(a[1], b[1])
            c = self.q.product(c, extra)
        else:
            p, y = a[1] + b[1], 0
        x = 0
        for z in (a[2], b[2], y):
            if z and x:
                x, factor = self.exponents.product(x, z)
                c = self.q.product(c, factor)
            else:
                x += z
        return c, p, x

    def power(self, a: Term, n: int) -> Term:
        """An integer power of a term (not 0)."""
        c = self.q.intern(self.q.values[a[0]] ** n)
        x, factor = self.exponents.scaled(a[2], Fraction(n)) if a[2] else (0, ONE)
        powers = tuple((g, n * k) for g, k in self.monomials.powers(a[1]))
        return self.times((self.q.product(c, factor), 0, x), self._laws(powers))

    def multiply(self, t: Terms, c: Ids, p: Keys, x: Keys) -> Terms:
        """Terms times terms, row by row."""
        coefs = self.q.mul(t.c, c)
        extra, keys, exps = self.monomials.mul(t.p, p)
        if extra is not None:
            coefs = self.q.mul(coefs, extra)
        extra, sums = self.exponents.mul(t.x, x)
        if extra is not None:
            coefs = self.q.mul(coefs, extra)
        if exps is not None:
            extra, sums = self.exponents.mul(sums, exps)
            if extra is not None:
                coefs = self.q.mul(coefs, extra)
        return Terms(t.r, coefs, keys, sums)

    # sums

    def combine(self, t: Terms) -> Terms:
        """Sorted by root, exponential, monomial; like terms added, zeros dropped."""
        if not t.r.size:
            return t
        flat = uniform(t.x, int(t.x[0]))
        packed = _packed(t.r, t.p) if flat else None
        if packed is not None:
            if _cancels(packed, t.c):
                return Terms.joined([])
            order = packed.argsort()
        else:
            order = np.lexsort((t.p, t.r) if flat else (t.p, t.x, t.r))
        r, c, p, x = t.pick(order)
        new = np.ones(r.size, bool)
        new[1:] = (r[1:] != r[:-1]) | (p[1:] != p[:-1]) | (x[1:] != x[:-1])
        starts = np.flatnonzero(new)
        c = self.q.sums(c, starts)
        keep = c != ZERO
        at = starts[keep]
        return Terms(r[at], c[keep], p[at], x[at])

    def intern(self, c: Ids, p: Keys, x: Keys) -> int:
        """The id of a sum in normal form."""
        key = p.tobytes() + x.tobytes() + c.tobytes()
        found = self._poly_ids.get(key)
        if found is None:
            found = self._poly_ids[key] = len(self.polys)
            self.polys.append((c, p, x))
        return found

    def interned(self, t: Terms, roots: int) -> NDArray[np.int32]:
        """The ids of the sums of roots 0, 1, ...; `t` is in normal form."""
        ends = np.searchsorted(t.r, np.arange(roots + 1)).tolist()
        columns = t.c, t.p, t.x
        parts = itertools.pairwise(ends)
        ids = [self.intern(*(column[a:b].copy() for column in columns)) for a, b in parts]
        return np.array(ids, np.int32)

    def poly(self, terms: Iterable[Term]) -> int:
        """The id of a sum of a few terms."""
        rows = np.array([(0, *t) for t in terms], np.int64).reshape(-1, 4)
        return self._interned_one(
            Terms(rows[:, 0], rows[:, 1].astype(np.int32), rows[:, 2], rows[:, 3])
        )

    def _interned_one(self, t: Terms) -> int:
        return self.intern(*self.combine(t)[1:])

    @staticmethod
    def spread(term: Term, n: int) -> tuple[Ids, Keys, Keys]:
        """A term as `n` rows."""
        c, p, x = term
        return np.full(n, c, np.int32), np.full(n, p, np.int64), np.full(n, x, np.int64)

    def number(self, value: Fraction | int) -> int:
        """The id of a constant sum."""
        return self.poly([(self.q.intern(Fraction(value)), 0, 0)])

    def terms(self, poly: int) -> list[Term]:
        """The terms of a sum."""
        return list(zip(*(column.tolist() for column in self.polys[poly]), strict=True))

    def size(self, poly: int) -> int:
        """How many terms a sum has."""
        return int(self.polys[poly][0].size)

    def single(self, poly: int) -> Term | None:
        """The term of a sum that has one."""
        return self.terms(poly)[0] if self.size(poly) == 1 else None

    def scaled(self, poly: int, term: Term) -> int:
        """A sum times a term."""
        if term == UNIT or poly == 0:
            return poly
        if term[1:] == (0, 0):
            return self._times_number(poly, term[0])
        c, p, x = self.polys[poly]
        t = Terms(np.zeros(c.size, np.int64), c, p, x)
        return self._interned_one(self.multiply(t, *self.spread(term, c.size)))

    def _times_number(self, poly: int, number: int) -> int:
        """A sum times a number: the same terms in the same order."""
        found = self._multiples.get((poly, number))
        if found is None:
            c, p, x = self.polys[poly]
            made = self.intern(self.q.mul(c, np.full(c.size, number, np.int32)), p, x)
            found = self._multiples[poly, number] = made
        return found

    def sum(self, *polys: int) -> int:
        """A sum of sums."""
        parts = [self.polys[poly] for poly in polys if poly]
        if len(parts) < 2:
            return self.intern(*parts[0]) if parts else 0
        c, p, x = (np.concatenate([part[k] for part in parts]) for k in range(3))
        return self._interned_one(Terms(np.zeros(c.size, np.int64), c, p, x))

    def minus(self, poly: int) -> int:
        """The negative of a sum."""
        return self._times_number(poly, MINUS) if poly else poly

    def product(self, a: int, b: int) -> int:
        """The product of two small sums."""
        return self.poly(self.times(s, t) for s in self.terms(a) for t in self.terms(b))

    def constant(self, poly: int) -> Fraction | None:
        """The number that a sum is, if it is one."""
        if poly == 0:
            return Fraction(0)
        term = self.single(poly)
        return self.q.values[term[0]] if term is not None and term[1:] == (0, 0) else None

    def common(self, polys: Iterable[int]) -> int:
        """An exponential, or a constant, that all terms of some sums have as a factor."""
        found = {x for poly in polys for x in np.unique(self.polys[poly][2]).tolist()}
        if len(found) < 2:
            return found.pop() if found else 0
        rows = self.exponents.rows
        shared = set.intersection(*(set(self.exponents.constants[rows[x].constant]) for x in found))
        return self.exponents.of(dict(shared))[0] if shared else 0

    # the factor of one chosen term

    def lead(self, poly: int) -> Term:
        """The greatest term of a sum that is not zero, in an order that products keep.

        Of terms that differ by constants only, the one that leaves the least rest.
        """
        found = self._leads.get(poly)
        if found is None:
            terms = self._foremost(poly)
            if len(terms) > 1:
                terms = [terms[i] for i in self.greatest([self._vector(t) for t in terms])]
            found = min(terms, key=lambda t: self._rest(poly, t)) if len(terms) > 1 else terms[0]
            self._leads[poly] = found
        return found

    def _foremost(self, poly: int) -> list[Term]:
        """The terms with the greatest monomial if that is plain to see, else all terms."""
        c, p, x = self.polys[poly]
        if c.size > 1 and int(p.min()) >= 0 and not self.monomials.any_lawful(p):
            high, low = p >> SHIFT, p & LOW
            # its generators, none counting as the last: a lower one is greater
            first, last = np.where(low, low, high), np.where(low, high, 0)
            order = (first - 1 & LOW) << SHIFT | (last - 1 & LOW)
            rows = np.flatnonzero(order == order.min())
            c, p, x = c[rows], p[rows], x[rows]
        return list(zip(c.tolist(), p.tolist(), x.tolist(), strict=True))

    def _rest(self, poly: int, by: Term) -> list[Term]:
        """The terms of a sum over number and exponential of one."""
        return self.terms(self.scaled(poly, self.power((by[0], 0, by[2]), -1)))

    def _vector(self, term: Term) -> dict[tuple[int, int], Fraction]:
        """Powers of generators, and coefficients of exponents, as one vector."""
        vector: dict[tuple[int, int], Fraction] = {}
        for g, n in self.monomials.powers(term[1]):
            kind, *inner = self.kind(g)
            if kind == "inverse":
                g, n = self.atom("form", *inner), -n
            vector[0, g] = Fraction(n)
        coords, kinds, coefs, _ = self.exponents.rows[term[2]]
        columns = (column.tolist() for column in (coords, kinds, coefs))
        for key, kind, c in zip(*columns, strict=True):
            vector[1 + kind, key] = self.q.values[c]
        return vector

    @staticmethod
    def greatest(vectors: list[dict[Any, Fraction]]) -> list[int]:
        """The places of the lexicographically greatest vector; absent coordinates are 0."""
        holders: dict[Any, list[int]] = {}
        for i, vector in enumerate(vectors):
            for key in vector:
                holders.setdefault(key, []).append(i)
        left = set(range(len(vectors)))
        for key in sorted(holders):
            if len(left) == 1:
                break
            have = [i for i in holders[key] if i in left]
            if not have:
                continue
            top = max(vectors[i][key] for i in have)
            if len(have) < len(left) and top <= 0:
                if top < 0:
                    left.difference_update(have)
                else:
                    left.difference_update(i for i in have if vectors[i][key] < 0)
            else:
                left = {i for i in have if vectors[i][key] == top}
        return sorted(left)

    def lazy(self, poly: int) -> Term:
        """A sum as one term: number and exponential of its lead times a generator for the rest.

        What can be 0, an indicator or an input, stays inside: s = p x (s/p) is false where p is 0.
        """
        term = self.single(poly)
        if term is not None:
            return term
        c, _, x = self.lead(poly)
        lead = c, 0, x
        rest = self.scaled(poly, self.power(lead, -1))
        return self.times(lead, (ONE, self.atom("form", rest) << SHIFT, 0))

    def form_power(self, key: int, poly: int) -> int:
        """The power of a named sum in a monomial."""
        return sum(
            SIGNS[self.kind(g)[0]] * n
            for g, n in self.monomials.powers(key)
            if self.kind(g)[0] in SIGNS and self.kind(g)[1] == poly
        )

    def restricted(self, poly: int, generator: int, value: bool) -> int:
        """A sum where an indicator is 1 or 0."""
        out = []
        for c, p, x in self.terms(poly):
            powers = self.monomials.powers(p)
            inside = any(g == generator for g, _ in powers)
            if inside and value:
                key = self.monomials.key(tuple(q for q in powers if q[0] != generator))
                out.append((c, key, x))
            elif not inside:
                out.append((c, p, x))
        return self.poly(out)


def _packed(r: Rows, p: Keys) -> Keys | None:
    """Root and monomial in one word in the order of both, if they fit."""
    high, low = p >> SHIFT, p & LOW
    if int(p.min()) < 0:
        return None
    width = int(high.max()).bit_length()
    if 2 * width + int(r.max()).bit_length() > 62:
        return None
    return (r << width | high) << width | low


def _cancels(keys: Keys, c: Ids) -> bool:
    """Is every term there once with 1 and once with -1?"""
    plus = c == ONE
    if 2 * int(plus.sum()) != c.size or not (c[~plus] == MINUS).all():
        return False
    return bool((np.sort(keys[plus]) == np.sort(keys[~plus])).all())


def opposite(term: Term, q: Rationals) -> Term:
    """The negative of a term."""
    return q.product(term[0], MINUS), term[1], term[2]
