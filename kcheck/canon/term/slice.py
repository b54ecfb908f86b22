"""What a few nodes of a graph are made of, to be computed again over any domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Domain, Store, V
from kcheck.canon.term.dag import (
    ADD,
    ARITY,
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
)
from kcheck.canon.term.domain import TermDomain

Places = NDArray[np.int64]

_APPLY: dict[int, Callable[..., Any]] = {
    NEG: lambda d, zero, a: d.neg(a),
    ADD: lambda d, zero, a, b: d.add(a, b),
    SUB: lambda d, zero, a, b: d.sub(a, b),
    MUL: lambda d, zero, a, b: d.mul(a, b),
    DIV: lambda d, zero, a, b: d.div(a, b)[0],
    EXP2: lambda d, zero, a: d.exp2(a),
    EITHER: lambda d, zero, a: a,
    MAX: lambda d, zero, a, b: d.maximum(a, b),
    LESS: lambda d, zero, a: d.compare("lt", zero, a),
    SAME: lambda d, zero, a: d.compare("eq", a, zero),
    SELECT: lambda d, zero, p, a, b: d.select(p, a, b),
}


@dataclass
class Slice:
    """The values that some roots hang on, each at a place: the input symbols first (places 0 to
    `symbols` - 1), then the operations, arguments before what uses them.

    `op`, `args` (3, places; what is not used is -1); an FMA is a MUL and an ADD. `row`: the row of
    the graph, -1 for symbols. `names`: (input, element) of each symbol. `roots`: places.
    """

    op: NDArray[np.uint8]
    args: Places
    row: Places
    names: list[tuple[str, int]]
    roots: Places
    steps: list[Places]
    domain: TermDomain

    @property
    def symbols(self) -> int:
        """How many input symbols there are."""
        return len(self.names)

    @property
    def size(self) -> int:
        """How many places there are."""
        return self.op.size

    def replay(
        self, domain: Domain[V], symbols: V, width: int, fixed: Sequence[tuple[Places, V]] = ()
    ) -> Store[V]:
        """The values of all places in a memory: place i of variant j is cell i * width + j.

        `symbols`: (symbols, width). `fixed`: places that have these values (n, width) whatever
        their arguments, the latest of them.
        """
        across = np.arange(width, dtype=np.int64)
        store = domain.store(self.size * width)

        def cells(places: Places) -> Places:
            return np.asarray(places[:, None] * width + across, np.int64)

        store.write(cells(np.arange(self.symbols)), symbols)
        held = np.zeros(self.size, bool)
        for places, value in fixed:
            store.write(cells(places), value)
            held[places] = True
        at = np.flatnonzero(self.op == CONST)
        at = at[at >= self.symbols]
        if at.size:
            used, index = np.unique(self.args[0, at], return_inverse=True)
            numbers = [self.domain.numbers[i] for i in used.tolist()]
            index = np.broadcast_to(index.reshape(-1, 1), (at.size, width))
            store.write(cells(at), domain.constants(numbers, index.astype(np.int64)))
        zero = domain.constants([Fraction(0)], np.zeros((1, 1), np.int64))
        for step in self.steps:
            places = step[~held[step]] if fixed else step
            if not places.size:
                continue
            op = int(self.op[places[0]])
            args = [store.read(cells(self.args[i, places])) for i in range(ARITY[op])]
            if op == ATOM:
                name = self.domain.names[int(self.args[1, places[0]])]
                made = domain.atom(name, args)
            else:
                made = _APPLY[op](domain, zero, *args)
            store.write(cells(places), made)
        return store

    def reach(self, root: int) -> NDArray[np.bool_]:
        """The places that one place hangs on, itself among them."""
        seen = np.zeros(self.size, bool)
        front = np.array([root], np.int64)
        while front.size:
            seen[front] = True
            below = self.args[:, front]
            below = below[np.arange(3)[:, None] < ARITY[self.op[front]]]
            front = np.unique(below[~seen[below]])
        return seen


def slice_of(domain: TermDomain, roots: Sequence[int]) -> Slice:
    """What nodes (rows, or negative: symbols) of a domain's graph are made of."""
    dag = domain.dag
    seen, used = _below(dag.op, dag.args, np.array(roots, np.int64))
    rows = np.flatnonzero(seen)
    op, old = dag.op[rows], dag.args[:, rows].astype(np.int64)
    n, fused = used.size, op == FMA
    # the product of an FMA gets a place just before its sum
    place = n + np.arange(rows.size) + np.cumsum(fused)
    of_row = np.full(dag.count, -1, np.int64)
    of_row[rows] = place
    size = n + rows.size + int(fused.sum())

    def placed(nodes: NDArray[np.int64]) -> Places:
        return np.where(nodes < 0, np.searchsorted(used, -nodes), of_row[np.maximum(nodes, 0)])

    new_op = np.full(size, CONST, np.uint8)
    args, row = np.full((3, size), -1, np.int64), np.full(size, -1, np.int64)
    new_op[place], row[place] = op, rows
    valid = np.arange(3)[:, None] < ARITY[op]
    raw = (op == CONST) | (op == ATOM)  # the number of a constant, and of a function
    args[:, place] = np.where(valid, placed(old), np.where(raw, old, -1))
    sums = place[fused]
    args[:2, sums - 1], row[sums - 1], new_op[sums - 1] = args[:2, sums], rows[fused], MUL
    args[:, sums] = np.stack([sums - 1, args[2, sums], np.full(sums.size, -1)])
    new_op[sums] = ADD
    names = domain.places()
    return Slice(
        new_op,
        args,
        row,
        [names[g - 1] for g in used.tolist()],
        placed(np.array(roots, np.int64)),
        _steps(new_op, args, n),
        domain,
    )


def _below(
    op: NDArray[np.uint8], args: NDArray[np.int32], roots: Places
) -> tuple[NDArray[np.bool_], Places]:
    """The rows that the roots hang on, and the symbols, ascending."""
    seen = np.zeros(op.size, bool)
    symbols = [-roots[roots < 0]]
    front = np.unique(roots[roots >= 0])
    while front.size:
        seen[front] = True
        below = args[:, front][np.arange(3)[:, None] < ARITY[op[front]]]
        symbols.append(-below[below < 0].astype(np.int64))
        below = below[below >= 0]
        front = np.unique(below[~seen[below]])
    return seen, np.unique(np.concatenate(symbols))


def _steps(op: NDArray[np.uint8], args: Places, symbols: int) -> list[Places]:
    """The operations in groups of one kind, each group after what it needs."""
    size = op.size
    arity = np.where(np.arange(size) < symbols, 0, ARITY[op])
    user = np.repeat(np.arange(size), arity)
    needs = args.T[np.arange(3) < arity[:, None]]
    order = needs.argsort(kind="stable")
    user = user[order]
    ends = np.searchsorted(needs[order], np.arange(size + 1))
    waiting = arity.copy()
    ready = np.flatnonzero(arity == 0)
    out: list[Places] = []
    while ready.size:
        counts = ends[ready + 1] - ends[ready]
        offsets = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        users = user[np.repeat(ends[ready], counts) + offsets]
        np.subtract.at(waiting, users, 1)
        ready = np.unique(users[waiting[users] == 0])
        if not ready.size:
            break
        # functions differ by their number too
        kind = op[ready].astype(np.int64) << 32
        kind += np.where(op[ready] == ATOM, args[1, ready], 0)
        order = kind.argsort(kind="stable")
        out += np.split(ready[order], np.flatnonzero(np.diff(kind[order])) + 1)
    return out
