"""An append-only graph of operations in flat arrays: one block of rows per vector operation.

A node is a row number, or, negative, an input symbol: -g for generator g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int32]

CONST, NEG, ADD, SUB, MUL, FMA, SELECT, DIV, EXP2, MAX, LESS, SAME, ATOM = range(13)
# one value written in two ways: by a maximum, and by a select
EITHER = 13
# operations that have a normal form of their own wherever they occur
SPECIAL = (EXP2, MAX, LESS, SAME, ATOM)
# arguments that are nodes, by operation
ARITY = np.zeros(EITHER + 1, np.int64)
ARITY[[NEG, EXP2, LESS, SAME, ATOM, EITHER]] = 1  # of a value in two ways the first
ARITY[[ADD, SUB, MUL, DIV, MAX]] = 2
ARITY[[FMA, SELECT]] = 3
# rows that there is room for at first: pages that nothing is written to take no memory
_FIRST = 1 << 23
# rows that a graph may have: 13 bytes each
MOST = 1 << 27


class BudgetSpent(Exception):
    """A graph or a sum grows too large; says what it would hold."""


class Dag:
    """Rows (op, a, b, c); what an operation does not use is 0.

    `promises`: generators of inputs that are positive.
    """

    def __init__(self) -> None:
        self.count = 0
        self.promises: list[range] = []
        self._op = np.zeros(_FIRST, np.uint8)
        self._args = np.zeros((3, _FIRST), np.int32)

    @property
    def op(self) -> NDArray[np.uint8]:
        """The operation of every row."""
        return self._op[: self.count]

    @property
    def args(self) -> NDArray[np.int32]:
        """The arguments (3, rows)."""
        return self._args[:, : self.count]

    def block(self, op: int, *args: Any) -> Nodes:
        """One row for each element of the broadcast arguments."""
        shape = np.broadcast(*args).shape
        size = math.prod(shape)
        start, stop = self.count, self.count + size
        while stop > self._op.size:
            self._grow()
        self._op[start:stop] = op
        for i, arg in enumerate(args):
            self._args[i, start:stop].reshape(shape)[...] = arg
        self.count = stop
        return np.arange(start, stop, dtype=np.int32).reshape(shape)

    def promised(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Which nodes are inputs that are positive."""
        out = np.zeros(nodes.shape, bool)
        for inputs in self.promises:
            out |= (-nodes >= inputs.start) & (-nodes < inputs.stop)
        return out

    def _grow(self) -> None:
        if self._op.size > MOST:
            raise BudgetSpent(f"more than {MOST} operations")
        op, args, n = self._op, self._args, self.count
        # zeros that nothing is written to take no memory
        self._op, self._args = np.zeros(2 * op.size, np.uint8), np.zeros((3, 2 * op.size), np.int32)
        self._op[:n], self._args[:, :n] = op[:n], args[:, :n]


class TracedDag(Dag):
    """A graph of about `most` rows at most that knows where (`where()`) each of them was made."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.where: Callable[[], int] = lambda: -1
        self._most = most
        self._starts: list[int] = []
        self._places: list[int] = []

    def block(self, op: int, *args: Any) -> Nodes:
        """As in Dag. BudgetSpent if there are too many rows."""
        if self.count > self._most:
            raise BudgetSpent(f"more than {self._most} operations")
        self._starts.append(self.count)
        self._places.append(self.where())
        return super().block(op, *args)

    def places(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Where rows were made."""
        block = np.searchsorted(np.array(self._starts), rows, side="right") - 1
        return np.array(self._places, np.int64)[block]


class TermValue:
    """Nodes `n`, one per lane."""

    __slots__ = ("n",)

    def __init__(self, n: Nodes) -> None:
        self.n = n

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return self.n.shape

    def __getitem__(self, index: Any) -> TermValue:
        """Lanes picked by a NumPy index."""
        return TermValue(np.asarray(self.n[index], np.int32))

    def reshape(self, shape: tuple[int, ...]) -> TermValue:
        """The same lanes in another shape."""
        return TermValue(self.n.reshape(shape))


class TermStore:
    """A memory of nodes."""

    def __init__(self, dag: Dag, n: int, zero: int) -> None:
        self._dag = dag
        self._cells = np.full(n, zero, np.int32)

    def read(self, index: NDArray[np.int64]) -> TermValue:
        """The cells at `index`."""
        return TermValue(self._cells[index])

    def write(self, index: NDArray[np.int64], value: TermValue) -> None:
        """Put `value` into the cells."""
        self._cells[index] = value.n

    def add(self, index: NDArray[np.int64], value: TermValue) -> None:
        """Add to the cells; a cell that occurs k times gets all k summands, added in pairs."""
        cells = index.reshape(-1)
        nodes = np.broadcast_to(value.n, index.shape).reshape(-1)
        order = cells.argsort(kind="stable")
        cells, nodes = cells[order], nodes[order]
        while True:
            first = np.flatnonzero(np.diff(cells, prepend=-1))
            place = np.arange(cells.size) - np.repeat(first, np.diff(first, append=cells.size))
            odd = np.flatnonzero(place & 1)
            if not odd.size:
                break
            nodes = nodes.copy()
            nodes[odd - 1] = self._dag.block(ADD, nodes[odd - 1], nodes[odd])
            keep = np.ones(cells.size, bool)
            keep[odd] = False
            cells, nodes = cells[keep], nodes[keep]
        self._cells[cells] = self._dag.block(ADD, self._cells[cells], nodes)
