"""Are two nodes the same function? A proof, or no answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.term.algebra import Algebra, opposite
from kcheck.canon.term.dag import ATOM, CONST, BudgetSpent, Dag, Nodes
from kcheck.canon.term.functions import Functions
from kcheck.canon.term.normalize import MANY, Normalizer, Unprovable
from kcheck.canon.term.rationals import MINUS, ONE
from kcheck.canon.term.terms import Terms

Bool = NDArray[np.bool_]
# roots that are compared at once
PART, FIRST = 1 << 12, 1 << 6
# terms per node that deciding a comparison may take
QUICK = 1 << 12
# pairs of nodes that are compared by their shape, for one part of the roots
SHAPES = 1 << 18
WORD = 0xFFFFFFFF
# rounds in which names of sums are replaced by what they stand for
ROUNDS = 24
# terms of a sum in which generators of zeros are replaced
ZEROS = 1 << 12


class Equality:
    """Compares nodes of a graph. `left`: why elements are left open, the latest reason."""

    def __init__(
        self, dag: Dag, algebra: Algebra, constants: list[tuple[int, int]], names: list[str]
    ) -> None:
        self.dag, self.a = dag, algebra
        self._plain = Normalizer(dag, Functions(algebra), constants, names)
        # selects and maxima of two in one form, and products of sums multiplied out
        self._split = Normalizer(
            dag, Functions(algebra, split=True), constants, names, short=1 << 10
        )
        # comparisons while executing: what is not decided soon stays open
        self._quick = Normalizer(dag, Functions(algebra), constants, names)
        self._shapes = SHAPES
        self.left = ""

    def decide(self, nodes: Nodes) -> NDArray[np.int8]:
        """1 or 0 where a node's normal form is that, else -1."""
        self._quick.budget = QUICK * nodes.size
        try:
            polys = self._quick.normalize(nodes)
        except (BudgetSpent, Unprovable):
            return np.full(nodes.shape, -1, np.int8)
        return np.where(polys == self.a.one, 1, np.where(polys == 0, 0, -1)).astype(np.int8)

    def equal(self, first: Nodes, second: Nodes) -> Bool:
        """Where two nodes are proved to be equal; what comes after the first failure is left."""
        out = (first == second).reshape(-1)
        a, b = first.reshape(-1), second.reshape(-1)
        rest = np.flatnonzero(~out)
        start, size = 0, FIRST
        while start < rest.size:
            part = rest[start : start + size]
            self._plain.peak = self._split.peak = 0
            out[part] = self._either(a[part], b[part])
            if not out[part].all():
                break
            start += size
            # as many roots as keep the terms in flight within bounds
            peak = max(self._plain.peak, self._split.peak, 1)
            size = max(min(MANY * part.size // peak, PART), 1)
        return out.reshape(first.shape)

    def _either(self, a: Nodes, b: Nodes) -> Bool:
        """Distinct pairs, plain and then split."""
        pairs, index = np.unique(np.stack([a, b]), axis=1, return_inverse=True)
        if self._same_shape(*pairs):
            return np.ones(a.shape, bool)
        equal = self._part(self._plain, *pairs)
        rest = np.flatnonzero(~equal)
        if rest.size:
            equal[rest] = self._part(self._split, *pairs[:, rest])
        return equal[index]

    def _same_shape(self, a: Nodes, b: Nodes) -> bool:
        """Are all these pairs the same operations of the same inputs, in the same order?"""
        dag, left = self.dag, self._shapes
        while True:
            differ = a != b  # what is no row, an input or a name, must be the same
            a, b = a[differ], b[differ]
            left -= a.size
            if not a.size or left < 0:
                self._shapes = 0 if left < 0 else SHAPES
                return not a.size
            if (a < 0).any() or (b < 0).any() or (dag.op[a] != dag.op[b]).any():
                return False
            named = dag.op[a] == ATOM
            if (dag.op[a] == CONST).any() or (dag.args[1, a] != dag.args[1, b])[named].any():
                return False
            first, second = (dag.args[:, x].reshape(-1).astype(np.int64) for x in (a, b))
            pairs = np.unique(first << 32 | second & WORD)
            a, b = pairs >> 32, (pairs & WORD).astype(np.int32)

    def _part(self, how: Normalizer, a: Nodes, b: Nodes) -> Bool:
        n = a.size
        roots = np.tile(np.arange(n, dtype=np.int64), 2)
        coefs = np.repeat(np.array([ONE, MINUS], np.int32), n)
        try:
            rest = how.sums(roots, np.concatenate([a, b]), coefs)
        except (BudgetSpent, Unprovable) as error:
            self.left = str(error)
            return np.zeros(n, bool)
        equal = np.ones(n, bool)
        for root in np.unique(rest.r).tolist():
            if not self._vanishes(how, rest, root):
                equal[root:] &= ~np.isin(np.arange(root, n), rest.r)
                break
        return equal

    def _vanishes(self, how: Normalizer, rest: Terms, root: int) -> bool:
        """Is a sum zero once the sums that were given names are written out?"""
        poly = self.a.intern(*rest.pick(rest.r == root)[1:])
        try:
            for _ in range(ROUNDS):
                limits.check()
                step = self._written_out(how, poly)
                if step is None:
                    step = self._on_zeros(how, poly)
                if step is None or poly == 0:
                    break
                poly = step
        except (BudgetSpent, Unprovable) as error:
            self.left = str(error)
            return False
        if poly:
            self.left = "the normal forms differ"
        return poly == 0

    def _written_out(self, how: Normalizer, poly: int) -> int | None:
        """The sum times the named sums that it is divided by, or with those it is multiplied by
        in place; None if it has none.
        """
        a = self.a
        used = map(a.kind, how.f.generators(poly))
        forms = [what[1] for what in used if what[0] in ("form", "inverse")]
        if not forms:
            return None
        inner = max(forms)  # the latest: it may contain earlier ones
        terms = a.terms(poly)
        powers = [a.form_power(p, inner) for _, p, _ in terms]
        least = min(powers)
        size = a.size(inner)
        total = sum(size ** (n - least) if n > least else 1 for n in powers)
        if total > how.budget:
            raise BudgetSpent(f"a sum of {total} terms")
        parts: dict[int, list[tuple[int, int, int]]] = {}
        for term, n in zip(terms, powers, strict=True):
            bare = a.times(term, a.power(a.lazy(inner), -n)) if n else term
            parts.setdefault(n - least, []).append(bare)
        return a.sum(*(self._times_power(a.poly(part), inner, n) for n, part in parts.items()))

    def _on_zeros(self, how: Normalizer, poly: int) -> int | None:
        """The sum with one generator of s replaced in each term that holds [s = 0]."""
        a = self.a
        zeros = [z for z in sorted(how.f.generators(poly)) if a.kind(z)[0] == "zero"]
        if zeros and a.size(poly) > ZEROS:
            raise BudgetSpent(f"a sum of {a.size(poly)} terms that compares with 0")
        held = [(t, dict(a.monomials.powers(t[1]))) for t in a.terms(poly)] if zeros else []
        for z in zeros:
            inner = a.kind(z)[1]
            for c, p, x in a.terms(inner):
                powers = a.monomials.powers(p)
                if x or len(powers) != 1 or powers[0][1] != 1:
                    continue
                g = powers[0][0]
                meet = [z in have and have.get(g, 0) > 0 for _, have in held]
                if not any(meet):
                    continue
                rest = a.sum(inner, a.poly([opposite((c, p, x), a.q)]))
                by = a.scaled(rest, opposite(a.power((c, 0, 0), -1), a.q))
                down = a.power((ONE, p, 0), -1)
                less = (a.times(t, down) for (t, _), hit in zip(held, meet, strict=True) if hit)
                kept = a.poly(t for (t, _), hit in zip(held, meet, strict=True) if not hit)
                return a.sum(kept, self._product(a.poly(less), by))
        return None

    def _times_power(self, poly: int, inner: int, n: int) -> int:
        for _ in range(n):
            poly = self._product(poly, inner)
        return poly

    def _product(self, x: int, y: int) -> int:
        """The product of two sums, term by term."""
        a = self.a
        c, p, e = a.polys[x]
        d, q, f = a.polys[y]
        i, j = np.repeat(np.arange(c.size), d.size), np.tile(np.arange(d.size), c.size)
        t = Terms(np.zeros(i.size, np.int64), c[i], p[i], e[i])
        return a.intern(*a.combine(a.multiply(t, d[j], q[j], f[j]))[1:])
