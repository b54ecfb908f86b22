"""The maximum of a set of sums (DESIGN.md 6): an atom, up to translation and scale."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from kcheck import limits
from kcheck.canon.term.algebra import UNIT
from kcheck.canon.term.monomials import ATOMS, SHIFT, Keys, Term
from kcheck.canon.term.products import CASES
from kcheck.canon.term.rationals import ONE

if TYPE_CHECKING:
    from kcheck.canon.term.functions import Functions

# sets up to this size are translated by an element, so that it becomes 0; larger ones only by what
# most elements have in common: else each score of a row would become as long as two
SMALL_SET = 8


class Largest:
    """Maps sets of ids of sums to the id of a sum.

    `f.split`: a maximum of two becomes b + (a - b) [a > b], so that it meets selects.
    """

    def __init__(self, f: Functions) -> None:
        self.f = f
        self.a = f.a
        self._memo: dict[frozenset[int], int] = {}

    def of(self, polys: set[int]) -> int:
        """The maximum of a set of sums: an atom of the set, up to translation and scale."""
        key = frozenset(polys)
        found = self._memo.get(key)
        if found is None:
            limits.check()
            found = self._memo[key] = self._of_cases(key)
        return found

    def _of_cases(self, polys: frozenset[int]) -> int:
        if 1 < len(polys) <= CASES:
            return self.f.lifted(lambda *each: self._maximum(set(each)), *sorted(polys))
        return self._maximum(set(polys))

    def _maximum(self, polys: set[int]) -> int:
        a = self.a
        elements = self._undominated({e for poly in polys for e in self._flat(poly)})
        if len(elements) == 1:
            return elements.pop()
        common = self._common(elements)
        if common != UNIT:
            return self._times_common(common, elements)
        shift = 0
        if len(elements) == 2:
            shift, rest = self._two(*elements)
            if self.f.split:
                return a.sum(shift, self._part(rest))
            elements = {0, rest}
        else:
            shift = self._top(elements) if len(elements) <= SMALL_SET else self._median(elements)
            if shift:
                elements = {a.sum(e, a.minus(shift)) for e in elements}
        common = self._common(elements)
        if common != UNIT:
            return a.sum(shift, self._times_common(common, elements))
        scale = self._scale(elements)
        down = (a.q.intern(1 / scale), 0, 0)
        members = np.array(sorted(a.scaled(e, down) for e in elements), np.int32)
        g = a.atom("max", members.tobytes())
        return a.sum(shift, a.poly([(a.q.intern(scale), g << SHIFT, 0)]))

    def _common(self, polys: set[int]) -> Term:
        """The exponential, and the promised inputs, that all terms have as factors."""
        return ONE, self.f.positives.content(polys), self.a.common(polys)

    def _times_common(self, factor: Term, polys: set[int]) -> int:
        """The maximum of sums whose terms all have a positive factor."""
        a = self.a
        down = a.power(factor, -1)
        return a.scaled(self._maximum({a.scaled(poly, down) for poly in polys}), factor)

    def _two(self, one: int, other: int) -> tuple[int, int]:
        """max(one, other) as s + max(0, t), the same for either order."""
        a = self.a
        rest = a.sum(other, a.minus(one))
        return (other, a.minus(rest)) if self._first(rest) > 0 else (one, rest)

    def _first(self, poly: int) -> Fraction:
        """The first coefficient of a sum that is no number."""
        c, p, x = self.a.polys[poly]
        at = 1 if p[0] == 0 and x[0] == 0 and c.size > 1 else 0
        return self.a.q.values[int(c[at])]

    def _part(self, poly: int) -> int:
        """max(0, s) by the sign of s: s [s > 0]."""
        a = self.a
        if a.q.values[a.lead(poly)[0]] > 0:
            return a.product(poly, self.f.positive(poly))
        other = a.minus(poly)  # max(0, s) = s + max(0, -s)
        return a.sum(poly, a.product(other, self.f.positive(other)))

    def _flat(self, poly: int) -> list[int]:
        """The sums whose maximum a sum is, if it is one times a positive number, plus others."""
        a = self.a
        c, p, x = a.polys[poly]
        inner = self._inside(p) if a.atoms else []
        if len(inner) != 1:
            return [poly]
        i, top, key = inner[0]
        if a.q.values[int(c[i])] < 0:
            return [poly]
        factor = (int(c[i]), key, int(x[i]))
        rest = np.arange(c.size) != i
        others = a.intern(c[rest], p[rest], x[rest])
        return [a.sum(others, a.scaled(member, factor)) for member in a.inner(top)]

    def _inside(self, p: Keys) -> list[tuple[int, int, int]]:
        """The monomials that are a maximum times promised inputs: row, maximum, inputs."""
        a, alone = self.a, self.f.alone(p)
        heads = [(i, int(p[i]) >> SHIFT, 0) for i in np.flatnonzero(alone).tolist()]
        found = [head for head in heads if a.kind(head[1])[0] == "max"]
        if not a.promises:
            return found
        for i in np.flatnonzero(~alone & ((p < 0) | (p >> SHIFT >= ATOMS))).tolist():
            powers = a.monomials.powers(int(p[i]))
            tops = [g for g, n in powers if g >= ATOMS and a.kind(g)[0] == "max" and n == 1]
            rest = tuple(q for q in powers if q[0] not in tops)
            if len(tops) == 1 and all(g < ATOMS and a.promised(g) for g, _ in rest):
                found.append((i, tops[0], a.monomials.key(rest)))
        return found

    def _undominated(self, polys: set[int]) -> set[int]:
        """Of sums that differ by numbers only the greatest."""
        a = self.a
        best: dict[int, tuple[Fraction, int]] = {}
        for poly in polys:
            rest, value = a.apart(poly)
            if rest not in best or best[rest][0] < value:
                best[rest] = value, poly
        return {poly for _, poly in best.values()}

    def _top(self, polys: set[int]) -> int:
        """The greatest sum, coefficient by coefficient: translations keep the order."""
        a = self.a
        order = sorted(polys)
        vectors = [{(x, p): a.q.values[c] for c, p, x in a.terms(poly) if p or x} for poly in order]
        return order[a.greatest(vectors)[0]]

    def _median(self, polys: set[int]) -> int:
        """The sum of the medians of the coefficients, which move with translations and scales.

        That is 0 where a term occurs in less than half of the sums.
        """
        a, n = self.a, len(polys)
        c, p, x = (np.concatenate([a.polys[poly][k] for poly in polys]) for k in range(3))
        order = np.lexsort((p, x)) if x.any() else p.argsort()
        c, p, x = c[order], p[order], x[order]
        starts = np.flatnonzero(np.diff(p, prepend=~p[0]) | np.diff(x, prepend=x[0]))
        ends = np.append(starts[1:], c.size)
        terms = []
        for start, end in np.stack([starts, ends], axis=1)[2 * (ends - starts) >= n].tolist():
            coefs = [a.q.values[i] for i in c[start:end].tolist()]
            median = sorted([*coefs, *[Fraction(0)] * (n - len(coefs))])[n // 2]
            terms.append((a.q.intern(median), int(p[start]), int(x[start])))
        return a.poly(terms)

    def _scale(self, polys: set[int]) -> Fraction:
        """A size of a set of sums that grows with them."""
        return max(abs(self._first(poly)) for poly in polys if poly)
