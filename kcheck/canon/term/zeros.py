"""Sums where an indicator [s = 0] holds: there s is 0, and every function of it knows.

Products do not take s [s = 0] to be 0 by themselves, as they take s (1/s) to be 1: together these
would make [s = 0] vanish. Here the indicator is set to 1 first. What is divided by in arms that are
not taken is gone then, and what is left must not be 0 (docs/exact-proofs.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcheck.canon.constants import MASKED
from kcheck.canon.term.algebra import INDICATORS, opposite
from kcheck.canon.term.dag import BudgetSpent
from kcheck.canon.term.monomials import ATOMS, SHIFT, Powers, Term
from kcheck.canon.term.rationals import ONE

if TYPE_CHECKING:
    from kcheck.canon.term.functions import Functions

# terms that a sum may have here, and combinations of indicators
LONG, MANY = 1 << 12, 1 << 6
# indicators [s = 0] that are told apart one by one, and those that may come up meanwhile
FEW, DEEP = 4, 8


def ties(f: Functions, poly: int) -> set[int]:
    """The indicators [s = 0] in a sum."""
    return {g for g in f.generators(poly) if f.a.kind(g)[0] == "zero"}


def apart(f: Functions, poly: int, zeros: set[int]) -> Iterator[int]:
    """Sums that vanish only if `poly` does: `poly` where none of its indicators [s = 0] is 1, and
    where each combination of them that occurs is. BudgetSpent if these are too many.
    """
    a = f.a
    if len(zeros) <= FEW:
        yield from _cases(f, poly, ())
        return
    groups: dict[frozenset[int], list[Term]] = {}
    for c, p, x in a.terms(poly):
        powers = a.monomials.powers(p)
        held = frozenset(g for g, _ in powers if g in zeros)
        rest = a.monomials.key(tuple(q for q in powers if q[0] not in zeros))
        groups.setdefault(held, []).append((c, rest, x))
    if not _divided(f, poly):  # the sum is that of its parts, wherever each of these is evaluated
        cases = [(held, [held]) for held in groups]
    else:
        cases = [(case, [held for held in groups if held <= case]) for case in _unions(groups)]
    for case, parts in sorted(cases, key=lambda each: len(each[0])):
        total = a.poly(term for held in parts for term in groups[held])
        yield _where_all(f, total, case)


def _cases(f: Functions, poly: int, unequal: tuple[int, ...]) -> Iterator[int]:
    """One indicator after the other; `unequal`: sums that are not 0 in this case."""
    a = f.a
    zeros = ties(f, poly)
    if not zeros:
        yield poly
        return
    if len(unequal) > DEEP:
        raise BudgetSpent("too many combinations of values that are equal or not")
    g = min(zeros)
    s = a.inner(g)[0]
    yield from _cases(f, a.restricted(poly, g, False), (*unequal, s))
    found = _solved(f, s)
    if found is not None:
        unequal = tuple(map(Substitution(f, *found).of, unequal))
    poly = where_zero(f, poly, g)
    for other in unequal:
        again = f.zero(other)
        if again == a.one:
            return  # one of them is 0 after all
        powers = a.monomials.powers(a.terms(again)[0][1]) if a.size(again) == 1 else ()
        if len(powers) == 1 and again == a.poly([(ONE, powers[0][0] << SHIFT, 0)]):
            poly = a.restricted(poly, powers[0][0], False)
    yield from _cases(f, poly, unequal)


def _divided(f: Functions, poly: int) -> bool:
    """Is there a divisor in a sum that may be 0?"""
    a = f.a
    powers = {q for p in set(a.polys[poly][1].tolist()) for q in a.monomials.powers(p)}
    return any(
        n < 0 or (a.kind(g)[0] == "inverse" and f.sign(a.kind(g)[1]) is None) for g, n in powers
    )


def _unions(sets: Iterable[frozenset[int]]) -> set[frozenset[int]]:
    """All unions of some of the sets."""
    found = {frozenset[int]()}
    for one in sets:
        found |= {one | other for other in found}
        if len(found) > MANY:
            raise BudgetSpent(f"more than {MANY} combinations of values that are equal or not")
    return found


def _where_all(f: Functions, poly: int, indicators: frozenset[int]) -> int:
    for g in sorted(indicators):
        poly = where_zero(f, poly, g)
    return poly


def where_zero(f: Functions, poly: int, indicator: int) -> int:
    """A sum where an indicator [s = 0] is 1."""
    a = f.a
    s = a.kind(indicator)[1]
    poly = _decided(f, a.restricted(poly, indicator, True), s)
    term = a.single(s)
    if term is not None:
        factors = a.monomials.powers(term[1])
        poly = a.poly(row for row in a.terms(poly) if not _divides(factors, row[1], f))
    found = _solved(f, s)
    return poly if found is None else Substitution(f, *found).of(poly)


def _decided(f: Functions, poly: int, s: int) -> int:
    """A sum where indicators of s plus a number are what they are at s = 0."""
    a = f.a
    base, value = a.apart(s)
    for g in sorted(f.generators(poly)):
        kind, *rest = a.kind(g)
        if kind in INDICATORS:
            other, number = a.apart(rest[0])
            if other == base:
                holds = number > value if kind == "positive" else number == value
                poly = a.restricted(poly, g, holds)
    return poly


def _divides(factors: Powers, key: int, f: Functions) -> bool:
    """Does a product with positive powers divide another one?"""
    have = dict(f.a.monomials.powers(key))
    return all(0 < n <= have.get(g, 0) for g, n in factors)


def _solved(f: Functions, s: int) -> tuple[int, int] | None:
    """A generator g and a sum without it, equal where s = 0; None if s isn't linear in any."""
    a = f.a
    for c, p, x in a.terms(s):
        powers = a.monomials.powers(p)
        if x or len(powers) != 1 or powers[0][1] != 1:
            continue
        g = powers[0][0]
        if a.kind(g)[0] in INDICATORS:
            continue
        rest = a.sum(s, a.poly([opposite((c, p, x), a.q)]))
        if g not in f.within(rest):
            by = a.q.intern(-1 / a.q.values[c])
            return g, a.scaled(rest, (by, 0, 0))
    return None


class Substitution:
    """A sum `by` in place of a generator that it does not hold, at every depth."""

    def __init__(self, f: Functions, generator: int, by: int) -> None:
        self.f, self.a = f, f.a
        self.generator, self.by = generator, by
        self._done: dict[int, int] = {}
        self._held: dict[tuple[int, int], bool] = {}

    def of(self, poly: int) -> int:
        """The sum with the generator replaced. BudgetSpent if that is too long."""
        if self.generator not in self.f.within(poly):
            return poly
        if poly not in self._done:
            a = self.a
            rows = [(row, self._holds(*row[1:])) for row in a.terms(poly)]
            made = [self._term(*row) for row, holds in rows if holds]
            made.append(a.poly(row for row, holds in rows if not holds))
            if sum(map(a.size, made)) > LONG:
                raise BudgetSpent(f"a sum of more than {LONG} terms")
            self._done[poly] = a.sum(*made)
        return self._done[poly]

    def _holds(self, p: int, x: int) -> bool:
        """Does a product hold the generator at any depth?"""
        if (p, x) not in self._held:
            inside = self.f.within(self.a.poly([(ONE, p, x)]))
            self._held[p, x] = self.generator in inside
        return self._held[p, x]

    def _term(self, c: int, p: int, x: int) -> int:
        a, f = self.a, self.f
        out = a.poly([(c, 0, 0)])
        if x:
            out = self._times(out, f.exp2(self.of(f.exponent(x))))
        kept: list[tuple[int, int]] = []
        for g, n in a.monomials.powers(p):
            value = self._generator(g) if n > 0 else None
            if value is None:
                kept.append((g, n))
                continue
            for _ in range(n):
                out = self._times(out, value)
        return a.scaled(out, (ONE, a.monomials.key(tuple(kept)), 0))

    def _times(self, one: int, other: int) -> int:
        if self.a.size(one) * self.a.size(other) > LONG:
            raise BudgetSpent(f"a sum of more than {LONG} terms")
        return self.a.product(one, other)

    def _generator(self, g: int) -> int | None:
        """What a generator becomes; None: it stays (what is divided by, where it would be 0).

        A masked value stays as it is: maxima that hold it must meet in whatever case they occur.
        """
        if g == self.generator:
            return self.by
        a, f = self.a, self.f
        masked = g >= ATOMS and a.kind(g)[0].startswith(MASKED)
        parts = a.inner(g) if g >= ATOMS and not masked else []
        if not any(self.generator in f.within(part) for part in parts):
            return None
        made = [self.of(part) for part in parts]
        kind, inner = a.kind(g)[0], made[0]
        if kind == "max":
            return f.maximum(set(made))
        if kind == "form":
            return a.poly([a.lazy(inner)]) if inner else 0
        if kind in ("inverse", "over"):
            try:
                return f.inverse(inner)
            except ZeroDivisionError:
                return None
        if kind in INDICATORS:
            return f.positive(inner) if kind == "positive" else f.zero(inner)
        return f.function(kind, inner)
