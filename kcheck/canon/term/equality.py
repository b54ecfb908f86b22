"""Are two nodes the same function? A proof, or no answer."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.algebra import INDICATORS, Algebra
from kcheck.canon.term.classes import Classes
from kcheck.canon.term.dag import DIV, BudgetSpent, Dag, Nodes
from kcheck.canon.term.functions import Functions
from kcheck.canon.term.merging import merged
from kcheck.canon.term.names import Writer
from kcheck.canon.term.normalize import MANY, Normalizer, Unprovable
from kcheck.canon.term.rationals import MINUS, ONE
from kcheck.canon.term.shapes import Shapes
from kcheck.canon.term.signs import vanishes
from kcheck.canon.term.terms import Terms
from kcheck.canon.term.zeros import apart, ties

Bool = NDArray[np.bool_]
# roots that are compared at once
PART, FIRST = 1 << 12, 1 << 6
# terms per node that deciding a comparison may take
QUICK = 1 << 12
# products that writing out the names in one difference may take; where other ways are left
WRITTEN, LITTLE = 1 << 18, 1 << 13
WORD = 0xFFFFFFFF
# indicators beside divisors that are decided one by one
ARMS = 8


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
        # products of long sums in terms of the parts of these, names in arguments written out
        self._parts = Normalizer(dag, Functions(algebra), constants, names, parts=True)
        self.ways = [self._plain, self._split, self._parts]
        # comparisons while executing: what is not decided soon stays open
        self._quick = Normalizer(dag, Functions(algebra), constants, names)
        self._shapes = Shapes(dag)
        self._classes = Classes(dag)
        self.left = ""

    def decide(self, nodes: Nodes) -> NDArray[np.int8]:
        """1 or 0 where a node's normal form is that, else -1."""
        used, index = np.unique(nodes, return_inverse=True)
        alike, each = np.unique(self._classes.of(used[None]), return_inverse=True)
        self._quick.times.budget = QUICK * alike.size
        try:
            polys = self._quick.normalize(used[alike])
        except (BudgetSpent, Unprovable):
            return np.full(nodes.shape, -1, np.int8)
        found = np.where(polys == self.a.one, 1, np.where(polys == 0, 0, -1)).astype(np.int8)
        return found[each][index].reshape(nodes.shape)

    def identities(self, nodes: Nodes) -> NDArray[np.int64]:
        """(0, the normal form), or (1, the node) of nodes whose normal forms take long."""
        self._quick.times.budget = QUICK * nodes.size
        try:
            polys = self._quick.normalize(nodes)
        except (BudgetSpent, Unprovable):
            return np.stack([np.ones(nodes.shape, np.int64), nodes.astype(np.int64)])
        return np.stack([np.zeros(nodes.shape, np.int64), polys.astype(np.int64)])

    def divides_by_numbers(self) -> bool:
        """Is no divisor in the graph 0 on a whole region of inputs, as far as is seen soon?"""
        dag = self.dag
        divisors = np.unique(dag.args[1, : dag.count][dag.op[: dag.count] == DIV])
        how = self.ways[0]
        try:
            alike = np.unique(self._classes.of(divisors[None]))
            how.times.budget = QUICK * max(alike.size, 1)
            polys = how.normalize(divisors[alike])
        except (BudgetSpent, Unprovable):
            return False
        return all(map(how.f.is_thin, set(polys.tolist())))

    def equal(self, first: Nodes, second: Nodes) -> Bool:
        """Where two nodes are proved to be equal; what comes after the first failure is left."""
        out = (first == second).reshape(-1)
        rest = np.flatnonzero(~out)
        a, b = first.reshape(-1)[rest], second.reshape(-1)[rest]
        # lanes that exchange their parts crosswise add them in the two orders; kernels of one
        # shape may make the same parts in another order
        if any(self._shapes.alike(a, b, by_row=by_row) for by_row in (False, True)):
            return np.ones(first.shape, bool)
        codes = a.astype(np.int64) << 32 | b.astype(np.int64) & WORD
        pairs, index = np.unique(codes, return_inverse=True)
        columns = np.stack([pairs >> 32, pairs << 32 >> 32]).astype(np.int32)
        alike, each = np.unique(self._classes.of(columns), return_inverse=True)
        out[rest] = self._in_parts(*columns[:, alike])[each][index]
        return out.reshape(first.shape)

    def _in_parts(self, a: Nodes, b: Nodes) -> Bool:
        """Pairs, as many at once as keep the terms in flight within bounds."""
        out = np.zeros(a.size, bool)
        start, size = 0, FIRST
        while start < a.size:
            part = slice(start, start + size)
            for how in self.ways:
                how.peak = 0
            out[part] = self._either(a[part], b[part])
            if not out[part].all():
                break
            start += size
            peak = max(1, *(how.peak for how in self.ways))
            size = max(min(MANY * size // peak, PART), 1)
        return out

    def _either(self, a: Nodes, b: Nodes) -> Bool:
        """In one way after the other, that which proved the latest first."""
        equal = np.zeros(a.size, bool)
        for how in tuple(self.ways):
            rest = np.flatnonzero(~equal)
            if rest.size:
                equal[rest] = self._part(how, a[rest], b[rest])
                if equal.all():
                    self.ways.remove(how)
                    self.ways.insert(0, how)
        return equal

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
            budget = LITTLE if how is self._plain else WRITTEN
            equal, _ = self._is_zero(how, poly, Writer(how.f, budget))
        except (BudgetSpent, Unprovable) as error:
            self.left = str(error)
            return False
        if not equal:
            self.left = "the normal forms differ"
        return equal

    def _is_zero(self, how: Normalizer, poly: int, writer: Writer) -> tuple[bool, bool]:
        """Is a sum zero; and was it multiplied by what may be 0, to see that?

        What is divided by in arms that are not taken may be 0. Where that matters (below), the
        indicators are decided first: of the divisors only those are left then that are not 0.
        """
        whole = True
        while poly:
            zeros = ties(how.f, poly) if whole else None
            if zeros:
                return self._all_zero(how, apart(how.f, poly, zeros), writer, whole)
            step, multiplied = writer.step(poly)
            if step is None:
                # of functions that are one where a divisor is not 0, others may be one where it is
                step, multiplied = merged(how.f, poly, partial(self._same, how, writer))
                careful = multiplied
            else:
                # with roots there are sums other than 0 whose product is 0
                careful = multiplied and _has_roots(how.f, poly)
            if step is None:
                return vanishes(how.f, poly), not whole
            whole = whole and not multiplied
            arms = self._arms(how.f, poly) if careful else ()
            if arms:
                return self._all_zero(how, arms, writer, whole)
            poly = step
        return True, not whole

    def _all_zero(
        self, how: Normalizer, polys: Iterable[int], writer: Writer, whole: bool
    ) -> tuple[bool, bool]:
        for poly in polys:
            zero, multiplied = self._is_zero(how, poly, writer)
            if not zero:
                return False, True
            whole = whole and not multiplied
        return True, not whole

    def _arms(self, f: Functions, poly: int) -> tuple[int, ...]:
        """A sum where one of its indicators is 1, and where it is 0."""
        indicators = [g for g in f.generators(poly) if self.a.kind(g)[0] in INDICATORS]
        if len(indicators) > ARMS:
            raise BudgetSpent(f"divisors beside {len(indicators)} conditions")
        if not indicators:
            return ()
        first = min(indicators)
        yes, no = (self.a.restricted(poly, first, value) for value in (True, False))
        return yes, no

    def _same(self, how: Normalizer, writer: Writer, one: int, other: int) -> tuple[bool, bool]:
        return self._is_zero(how, self.a.sum(one, self.a.minus(other)), writer)


def _has_roots(f: Functions, poly: int) -> bool:
    return any(f.a.kind(g)[0] == "sqrt" for g in f.within(poly, names=True))
