"""From nodes of the graph to sums in normal form, many roots at once.

A worklist of (root, node, term) walks from each root downwards: the term is the product of all
factors met on the way, so chains of additions are walked without building their prefixes. Where a
function, a divisor or a product of two sums needs a normal form of its own, that node is
normalized first, once, and its sum is spliced in wherever the node occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.term.algebra import Algebra
from kcheck.canon.term.dag import (
    ADD,
    ATOM,
    CONST,
    DIV,
    EITHER,
    EXP2,
    FMA,
    LESS,
    MAX,
    MUL,
    NEG,
    SAME,
    SELECT,
    SPECIAL,
    SUB,
    BudgetSpent,
    Dag,
    Nodes,
)
from kcheck.canon.term.factors import Factors
from kcheck.canon.term.functions import Functions
from kcheck.canon.term.maxima import MaxTree
from kcheck.canon.term.names import spelled
from kcheck.canon.term.rationals import Ids
from kcheck.canon.term.terms import Entries, Terms
from kcheck.canon.term.uses import Uses

Bool = NDArray[np.bool_]
# a factor of a product with at most so many terms is multiplied out, a longer one gets a name
SHORT = 8
# products that writing out the names in an argument may take
SPELLED = 1 << 17
# entries of a worklist from which on like ones are looked for
CROWD = 1 << 12
# exponentials that are normalized before they are asked for
AHEAD = 1 << 15
# terms that are kept before like ones are added
MANY = 1 << 23


class Unprovable(Exception):
    """A divisor is zero."""


# what a factor is: one term with a normal form; or how it is taken apart
_KNOWN, _NEG, _DIV, _MUL, _SUM = range(5)
_CLASS = np.full(16, _SUM, np.uint8)
_CLASS[[CONST, *SPECIAL]] = _KNOWN
_CLASS[NEG], _CLASS[DIV], _CLASS[MUL] = _NEG, _DIV, _MUL
_IS_SPECIAL = np.isin(np.arange(16), SPECIAL)


class Normalizer:
    """Normal forms of the nodes of a graph. `budget`: terms that one sum may have.

    `parts`: of products of two long sums the summands get names, not the sums, and names in the
    arguments of functions are written out: a variance has one form however it is computed.
    """

    def __init__(
        self,
        dag: Dag,
        functions: Functions,
        constants: list[tuple[int, int]],
        names: list[str],
        *,
        short: int = SHORT,
        parts: bool = False,
        budget: int = MANY,
    ) -> None:
        self.dag = dag
        self.f = functions
        self.a: Algebra = functions.a
        # coefficient and factor of each constant of the graph, the name of each atom's function
        self.constants, self.names = constants, names
        self.short, self.parts = short, parts
        self.times = Factors(self.a, budget)
        self.uses = Uses(dag)
        # the most terms that were kept at once
        self.peak = 0
        self._known = np.zeros(0, np.int32)
        self._ahead = 0

    # normal forms of nodes

    def normalize(self, nodes: Nodes) -> NDArray[np.int32]:
        """The sums of nodes, by id."""
        self._grow()
        used, index = np.unique(nodes, return_inverse=True)
        new = used[self._poly(used) < 0]
        if new.size:
            roots = np.arange(new.size, dtype=np.int64)
            made = self.a.interned(self.sums(roots, new, np.ones(new.size, np.int32)), new.size)
            rows = new >= 0
            self._known[new[rows]] = made[rows]
            if not rows.all():
                all_made = self._poly(used)
                all_made[np.isin(used, new)] = made
                return all_made[index.reshape(nodes.shape)]
        return self._poly(used)[index.reshape(nodes.shape)]

    def _grow(self) -> None:
        missing = self.dag.count - self._known.size
        if missing > 0:
            self._known = np.concatenate([self._known, np.full(missing, -1, np.int32)])

    def _poly(self, nodes: Nodes) -> NDArray[np.int32]:
        """Known normal forms, -1 where there is none."""
        return np.where(nodes < 0, -1, self._known[np.maximum(nodes, 0)])

    def sums(self, roots: NDArray[np.int64], nodes: Nodes, coefs: Ids) -> Terms:
        """The sums of coefficient times node per root, in normal form."""
        self._grow()
        none = np.zeros(nodes.size, np.int64)
        todo = Entries(Terms(roots, coefs, none, none), nodes, nodes)
        products: list[Entries] = []
        done: list[Terms] = []
        kept, limit = 0, MANY
        ordered, crowd = False, CROWD
        while todo.a.size or products:
            limits.check()
            more: list[Entries] = []
            before = len(done)
            if todo.a.size:
                # where many paths lead to one node, it waits until all have come
                latest = todo.latest() if ordered else np.ones(todo.a.size, bool)
                if not latest.all():
                    more.append(todo.pick(~latest))
                    todo = todo.pick(latest)
                self._plain(todo, more, products, done)
            if products:
                batch, products = Entries.joined(products), []
                self._products(batch, more, products, done)
            todo = Entries.joined(more)
            if ordered or todo.a.size > crowd:
                crowd = 2 * todo.a.size  # sorting them is dear
                merged = todo.merged(self.a.q)
                ordered = ordered or 2 * merged.a.size < todo.a.size
                todo = merged
            kept += sum(t.r.size for t in done[before:])
            self.peak = max(self.peak, kept)
            if kept > limit:
                done = [self.a.combine(Terms.joined(done))]
                kept = done[0].r.size
                limit = max(MANY, 2 * kept)
                if kept > self.times.budget:
                    raise BudgetSpent(f"a sum of {kept} terms")
        return self.a.combine(Terms.joined(done))

    def _plain(
        self, e: Entries, more: list[Entries], products: list[Entries], done: list[Terms]
    ) -> None:
        """One step down from nodes that are summed."""
        leaf = e.a < 0
        if leaf.any():
            ends = e.pick(leaf) if not leaf.all() else e
            done.append(self.times.inputs(ends.t, ends.a))
            if leaf.all():
                return
            e = e.pick(~leaf)
        op = self.dag.op[e.a]
        ready = (op == CONST) | _IS_SPECIAL[op] | (self._known[e.a] >= 0)
        if ready.any():
            done.append(self._times_known(e.pick(ready)).t)
            e, op = e.pick(~ready), op[~ready]
        for what in np.unique(op).tolist():
            here = e if (op == what).all() else e.pick(op == what)
            self._walk(what, here, more, products)

    def _walk(self, op: int, e: Entries, more: list[Entries], products: list[Entries]) -> None:
        a, b, c = self.dag.args[:, e.a]
        if op == NEG:
            more.append(self._negated(e.t, a, a))
        elif op == ADD:
            more += [Entries(e.t, a, a), Entries(e.t, b, b)]
        elif op == SUB:
            more += [Entries(e.t, a, a), self._negated(e.t, b, b)]
        elif op == EITHER:
            chosen = b if self.f.split else a
            more.append(Entries(e.t, chosen, chosen))
        elif op == MUL:
            products.append(Entries(e.t, a, b))
        elif op == FMA:
            products.append(Entries(e.t, a, b))
            more.append(Entries(e.t, c, c))
        elif op == SELECT:  # c + a (b - c)
            products += [Entries(e.t, b, a), self._negated(e.t, c, a)]
            more.append(Entries(e.t, c, c))
        elif op == DIV:
            t, rows = self._over(e.t, b)
            more.append(Entries(t, a[rows], a[rows]))

    def _negated(self, t: Terms, a: Nodes, b: Nodes) -> Entries:
        return Entries(t._replace(c=self.a.q.neg(t.c)), a, b)

    # products

    def _products(
        self, e: Entries, more: list[Entries], products: list[Entries], done: list[Terms]
    ) -> None:
        """One step for nodes `a` times `b`: the simpler factor goes into the term."""
        first, second = self._classes(e.a), self._classes(e.b)
        swap = first < second
        if swap.any():
            e = e._replace(a=np.where(swap, e.b, e.a), b=np.where(swap, e.a, e.b))
            second = np.minimum(first, second)
        for kind in np.unique(second).tolist():
            here = e if (second == kind).all() else e.pick(second == kind)
            if kind == _KNOWN:
                more += [Entries(t, here.a[i], here.a[i]) for t, i in self._absorbed(here)]
                continue
            a, b, _ = self.dag.args[:, here.b]
            if kind == _NEG:
                products.append(self._negated(here.t, here.a, a))
            elif kind == _DIV:
                t, rows = self._over(here.t, b)
                products.append(Entries(t, here.a[rows], a[rows]))
            else:
                self._compound(here, (a, b), more, products, done)

    def _classes(self, nodes: Nodes) -> NDArray[np.uint8]:
        """What factors are (inputs, numbers and functions: _KNOWN)."""
        return np.where(nodes < 0, _KNOWN, _CLASS[self.dag.op[np.maximum(nodes, 0)]])

    def _absorbed(self, e: Entries) -> Iterator[tuple[Terms, NDArray[np.int32]]]:
        """The terms times the factors `b`, inputs or with normal forms, and their rows."""
        inputs, index = e.b < 0, np.arange(e.b.size, dtype=np.int32)
        if inputs.any():
            yield self.times.inputs(e.t.pick(inputs), e.b[inputs]), index[inputs]
        if not inputs.all():
            made = self._times_known(Entries(e.t.pick(~inputs), e.b[~inputs], index[~inputs]))
            yield made.t, made.b

    def _compound(
        self,
        e: Entries,
        parts: tuple[Nodes, Nodes],
        more: list[Entries],
        products: list[Entries],
        done: list[Terms],
    ) -> None:
        """`b` is a product of x and y, or a sum; so is `a`, or it is worse."""
        x, y = parts
        knows_y = self._classes(y) == _KNOWN
        simple = (self.dag.op[e.b] == MUL) & (knows_y | (self._classes(x) == _KNOWN))
        if simple.any():
            inner, other = np.where(knows_y, y, x)[simple], np.where(knows_y, x, y)[simple]
            part = e.pick(simple)._replace(b=inner)
            products += [Entries(t, part.a[i], other[i]) for t, i in self._absorbed(part)]
            e = e.pick(~simple)
            if not e.a.size:
                return
        divides = self.uses.divides(e.b)
        named = divides | self.uses.divides(e.a)
        if named.any():
            factor, other = np.where(divides, e.b, e.a), np.where(divides, e.a, e.b)
            t = self.times.named(e.t.pick(named), self.normalize(factor[named]))
            more.append(Entries(t, other[named], other[named]))
        if not named.all():
            self._two_sums(e.pick(~named), more, done)

    def _two_sums(self, e: Entries, more: list[Entries], done: list[Terms]) -> None:
        """Both factors are sums: short ones are multiplied out, long ones get names."""
        factor = self._in_parts if self.parts else self.normalize
        polys = [factor(nodes) for nodes in (e.a, e.b)]
        sizes = [self.times.sizes(p) for p in polys]
        swap = sizes[0] < sizes[1]
        long, short = (np.where(swap, polys[1 - i], polys[i]).astype(np.int32) for i in range(2))
        nodes = np.where(swap, e.b, e.a)
        size = np.minimum(*sizes)
        out = size <= self.short
        if out.any():
            part = e.pick(out)
            t, rows = self.times.sums(part.t, short[out])
            if not self.parts:
                more.append(Entries(t, nodes[out][rows], nodes[out][rows]))
            elif rows.size:
                done.append(self.times.sums(t, long[out][rows])[0])
        if not out.all():
            rest = e.pick(~out)
            done.append(self.times.named(self.times.named(rest.t, short[~out]), long[~out]))

    def _in_parts(self, nodes: Nodes) -> NDArray[np.int32]:
        """Sums; of a long one that adds two nodes these, by name if they are long too."""
        polys = self.normalize(nodes)
        op = self.dag.op[np.maximum(nodes, 0)]
        added = (nodes >= 0) & ((op == ADD) | (op == SUB)) & (self.times.sizes(polys) > self.short)
        if added.any():
            pairs = self.normalize(self.dag.args[:2, nodes[added]]).astype(np.int64)
            keys = np.concatenate([pairs, op[None, added].astype(np.int64)])
            used, index = np.unique(keys, axis=1, return_inverse=True)
            made = [self._added(*key) for key in used.T.tolist()]
            polys[added] = np.array(made, np.int32)[index.reshape(-1)]
        return polys

    def _added(self, x: int, y: int, op: int) -> int:
        """x + y, or x - y."""
        x, y = self._short(x), self._short(y)
        return self.a.sum(x, y if op == ADD else self.a.minus(y))

    def _short(self, poly: int) -> int:
        """A sum, as one term if it is long."""
        return poly if self.a.size(poly) <= self.short else self.a.poly([self.a.lazy(poly)])

    def _arguments(self, nodes: Nodes) -> NDArray[np.int32]:
        """The sums that functions are applied to."""
        polys = self.normalize(nodes)
        if self.parts:
            used, index = np.unique(polys, return_inverse=True)
            made = [spelled(self.f, poly, SPELLED) for poly in used.tolist()]
            polys = np.array(made, np.int32)[index.reshape(nodes.shape)]
        return polys

    # factors

    def _times_known(self, e: Entries) -> Entries:
        """The terms times the sums of nodes `a` that are numbers, functions, or known."""
        op = self.dag.op[e.a]
        number = op == CONST
        if number.all():
            coefs, x = np.array(self.constants)[self.dag.args[0, e.a]].T
            none = np.zeros(x.size, np.int64)
            return e._replace(t=self.a.multiply(e.t, coefs.astype(np.int32), none, x))
        missing = e.a[(self._known[e.a] < 0)]
        if missing.size:
            self._evaluate(np.unique(missing))
        t, rows = self.times.sums(e.t, self._known[e.a])
        return Entries(t, e.a[rows], e.b[rows])

    def _over(self, t: Terms, nodes: Nodes) -> tuple[Terms, NDArray[np.int64]]:
        """The terms divided by nodes, and the rows that they come from."""
        used, index = np.unique(self._arguments(nodes), return_inverse=True)
        try:
            inverse = np.array([self.f.inverse(i) for i in used.tolist()], np.int32)
        except ZeroDivisionError as error:
            raise Unprovable(str(error)) from error
        return self.times.sums(t, inverse[index])

    # functions

    def _evaluate(self, nodes: Nodes) -> None:
        """Normal forms of functions and numbers."""
        op = self.dag.op[nodes]
        numbers = nodes[op == CONST]
        for node, i in zip(numbers.tolist(), self.dag.args[0, numbers].tolist(), strict=True):
            coef, x = self.constants[i]
            self._known[node] = self.a.poly([(coef, 0, x)])
        here = nodes[op == EXP2]
        if here.size:
            self._exponentials(here)
        for what, f in (
            (LESS, self.f.positive),
            (SAME, self.f.zero),
        ):
            here = nodes[op == what]
            if here.size:
                polys = self._arguments(self.dag.args[0, here])
                self._known[here] = [f(i) for i in polys.tolist()]
        here = nodes[op == ATOM]
        if here.size:
            polys, names = self._arguments(self.dag.args[0, here]), self.dag.args[1, here]
            pairs = zip(names.tolist(), polys.tolist(), strict=True)
            self._known[here] = [self.f.function(self.names[k], i) for k, i in pairs]
        here = nodes[op == MAX]
        if here.size:
            self._maxima(here)

    def _exponentials(self, nodes: Nodes) -> None:
        """These, and once in a while all others: a loop asks for them one by one."""
        if self.dag.count > 2 * self._ahead:
            self._ahead = self.dag.count
            rows = np.flatnonzero(self.dag.op == EXP2)[:AHEAD].astype(np.int32)
            rows = np.union1d(rows[self._known[rows] < 0], nodes)
            # lanes that are off hold anything: what fails there does not matter
            with suppress(BudgetSpent, Unprovable):
                self._powers(rows)
                return
        self._powers(nodes)

    def _powers(self, nodes: Nodes) -> None:
        polys = self._arguments(self.dag.args[0, nodes])
        self._known[nodes] = [self.f.exp2(i) for i in polys.tolist()]

    def _maxima(self, nodes: Nodes) -> None:
        """Maxima of maxima: inner ones that are used elsewhere first, each from its leaves."""
        tree = MaxTree(self.dag, nodes, self._known >= 0)
        leaves = tree.leaves
        poly = dict(zip(leaves.tolist(), self.normalize(leaves).tolist(), strict=True))
        inner = np.array(tree.nodes, np.int32)
        wanted = {*nodes.tolist(), *inner[self.uses.beside_maxima(inner)].tolist()}
        for node in tree.nodes:
            if node in wanted:
                poly[node] = self.f.maximum(tree.members(node, poly))
                self._known[node] = poly[node]
            else:
                tree.keep(node, poly)
