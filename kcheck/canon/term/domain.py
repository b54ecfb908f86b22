"""The term engine as a domain: values are nodes of a graph, decided by their normal forms."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Bool, Index
from kcheck.canon.known import Number
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
    SUB,
    Dag,
    Nodes,
    TermStore,
    TermValue,
)
from kcheck.canon.term.equality import Equality


class TermDomain:
    """Exact values. `equal` says True only where a proof was found.

    `positive`: inputs whose elements are promised to be positive.
    """

    def __init__(self, dag: Dag | None = None, positive: Collection[str] = ()) -> None:
        self.dag = Dag() if dag is None else dag
        self.algebra = Algebra(self.dag.promises)
        self._positive = positive
        self.names: list[str] = []
        # what a row CONST means by i
        self.numbers: list[Number] = []
        self._factors: list[tuple[int, int]] = []
        self._constants: dict[Number, int] = {}
        self._inputs: dict[str, Nodes] = {}
        self._symbols = 0
        self.one = self._constant(Fraction(1))
        self.zero = self._constant(Fraction(0))
        self.equality = Equality(self.dag, self.algebra, self._factors, self.names)

    def _constant(self, value: Number) -> int:
        found = self._constants.get(value)
        if found is None:
            i = len(self.numbers)
            self.numbers.append(value)
            self._factors.append(self.algebra.exponents.number(value))
            found = self._constants[value] = int(self.dag.block(CONST, np.array([i]))[0])
        return found

    def constants(self, values: Sequence[Number], index: Index) -> TermValue:
        """Lane i holds `values[index[i]]`."""
        table = [self._constant(v) for v in values]
        return TermValue(np.array(table, np.int32)[index])

    def input(self, name: str, n: int) -> TermValue:
        """Symbols; the same ones at each call."""
        known = self._inputs.get(name, np.zeros(0, np.int32))
        if known.size < n:
            more = n - known.size
            new = -np.arange(self._symbols + 1, self._symbols + more + 1, dtype=np.int32)
            if name in self._positive:
                self.dag.promises.append(range(self._symbols + 1, self._symbols + more + 1))
            self._symbols += more
            known = self._inputs[name] = np.concatenate([known, new])
        return TermValue(known[:n])

    def places(self) -> list[tuple[str, int]]:
        """The input and the element of symbol -1, -2, ..."""
        found = [("", 0)] * self._symbols
        for name, nodes in self._inputs.items():
            for i, node in enumerate((-nodes - 1).tolist()):
                found[node] = (name, i)
        return found

    def store(self, n: int) -> TermStore:
        """A new memory."""
        return TermStore(self.dag, n, self.zero)

    def where(self, mask: Bool, a: TermValue, b: TermValue) -> TermValue:
        """`a` where the concrete mask holds, else `b`."""
        return TermValue(np.where(mask, a.n, b.n))

    def stack(self, values: Sequence[TermValue]) -> TermValue:
        """Values of one shape along a new first axis."""
        return TermValue(np.stack([v.n for v in values]))

    def _make(self, op: int, *args: TermValue) -> TermValue:
        return TermValue(self.dag.block(op, *(a.n for a in args)))

    def neg(self, a: TermValue) -> TermValue:
        return self._make(NEG, a)

    def add(self, a: TermValue, b: TermValue) -> TermValue:
        return self._make(ADD, a, b)

    def sub(self, a: TermValue, b: TermValue) -> TermValue:
        if a.n.size == 1 and a.n.flat[0] == self.one:  # not (not p) is p
            n, op, args = b.n, self.dag.op, self.dag.args
            if (n > 0).all() and ((op[n] == SUB) & (args[0, n] == self.one)).all():
                return TermValue(args[1, n])
        return self._make(SUB, a, b)

    def mul(self, a: TermValue, b: TermValue) -> TermValue:
        return self._make(MUL, a, b)

    def fma(self, a: TermValue, b: TermValue, c: TermValue) -> TermValue:
        return self._make(FMA, a, b, c)

    def matmul(self, a: TermValue, b: TermValue) -> TermValue:
        """Batched product of (..., M, K) and (..., K, N)."""
        x, y = a.n, b.n
        total = self.dag.block(MUL, x[..., :, 0, None], y[..., None, 0, :])
        for k in range(1, x.shape[-1]):
            total = self.dag.block(FMA, x[..., :, k, None], y[..., None, k, :], total)
        return TermValue(total)

    def div(self, a: TermValue, b: TermValue) -> tuple[TermValue, Bool]:
        """The quotient; that a divisor is zero shows when it is normalized (Unprovable)."""
        out = self._make(DIV, a, b)
        return out, np.zeros(out.shape, bool)

    def exp2(self, a: TermValue) -> TermValue:
        return self._make(EXP2, a)

    def maximum(self, a: TermValue, b: TermValue) -> TermValue:
        return self._make(MAX, a, b)

    def minimum(self, a: TermValue, b: TermValue) -> TermValue:
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def compare(self, op: str, a: TermValue, b: TermValue) -> TermValue:
        """The indicator of `a op b`: of the sign of a difference."""
        if op in ("gt", "le"):
            a, b = b, a
        made = self._make(SAME if op in ("eq", "ne") else LESS, self.sub(b, a))
        if op in ("lt", "gt", "eq"):
            return made
        return self.sub(TermValue(np.full(1, self.one, np.int32)), made)

    def select(self, p: TermValue, a: TermValue, b: TermValue) -> TermValue:
        n, one, other = np.broadcast_arrays(p.n, a.n, b.n)
        while True:  # by 1 - q: the arms the other way round
            op, args = self.dag.op, self.dag.args
            flip = (n >= 0) & (op[n] == SUB) & (args[0, n] == self.one)
            if not flip.any():
                return TermValue(self._extremes(n, one, other))
            n = np.where(flip, args[1, n], n)
            one, other = np.where(flip, other, one), np.where(flip, one, other)

    def _extremes(self, p: Nodes, one: Nodes, other: Nodes) -> Nodes:
        """Selects; where they are maxima or minima, these beside them: [b > a] b + [b <= a] a."""
        dag = self.dag
        out = dag.block(SELECT, p, one, other)
        difference = np.where((p >= 0) & (dag.op[p] == LESS), dag.args[0, p], 0)
        compared = (difference > 0) & (dag.op[difference] == SUB)
        b, a, _ = dag.args[:, difference]
        for top, x, y in ((True, one, other), (False, other, one)):
            here = compared & (x == b) & (y == a)
            if here.any():
                ends = TermValue(x[here]), TermValue(y[here])
                made = self.maximum(*ends) if top else self.minimum(*ends)
                out[here] = dag.block(EITHER, made.n, out[here])
        return out

    def atom(self, name: str, args: Sequence[TermValue]) -> TermValue:
        """A function, with its laws if it has any.

        Several arguments are one: the sum of a free function of each, which no two lists share.
        """
        a = args[0]
        if len(args) > 1:
            parts = [self.atom(f"{name}, argument {i}", [x]) for i, x in enumerate(args)]
            a = functools.reduce(self.add, parts)
        if name not in self.names:
            self.names.append(name)
        k = np.full(1, self.names.index(name), np.int32)
        return TermValue(self.dag.block(ATOM, a.n, k))

    def decide(self, p: TermValue) -> NDArray[np.int8]:
        """1 or 0 where the normal form is that, else -1."""
        return self.equality.decide(p.n)

    def equal(self, a: TermValue, b: TermValue) -> Bool:
        """Where a proof was found."""
        return self.equality.equal(*np.broadcast_arrays(a.n, b.n))

    def identities(self, a: TermValue) -> Index:
        """The normal forms, or the nodes where these take long."""
        return self.equality.identities(a.n)
