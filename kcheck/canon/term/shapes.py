"""Nodes that are the same operations of the same inputs, in one order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.dag import ADD, ATOM, CONST, FMA, MAX, MUL, Dag, Nodes

# pairs that attempts without success may look at, over all
PATIENCE = 1 << 21
# operations whose first two arguments may change places
COMMUTE = (ADD, MUL, FMA, MAX)


class Shapes:
    """Compares nodes of a graph by shape, in time linear in what they are made of.

    Two nodes are alike if their operations are, and their arguments in order; so what is alike is
    an equivalence, and kept as one: pairs are merged before their arguments are looked at, and no
    pair is looked at twice (J. Hopcroft, R. Karp, A linear algorithm for testing equivalence of
    finite automata, 1971; here the graph has no cycle).
    """

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        # an earlier node that is alike, or the node itself; links lead to earlier nodes only
        self._like = np.zeros(0, np.int32)
        self._patience = PATIENCE

    def alike(self, first: Nodes, second: Nodes, *, by_row: bool = False) -> bool:
        """Are all these pairs alike? False also where it takes too long to see.

        `by_row`: the order of arguments that may change places is that of their rows.
        """
        if self._patience < 0:
            return False
        known = self._like.size
        self._like = np.concatenate([self._like, np.arange(known, self._dag.count, dtype=np.int32)])
        merged: list[Nodes] = []
        if self._merge(first, second, merged, by_row):
            return True
        for nodes in merged:  # nothing is known of these
            self._like[nodes] = nodes
            self._patience -= nodes.size
        return False

    def _merge(self, a: Nodes, b: Nodes, merged: list[Nodes], by_row: bool) -> bool:
        dag, like = self._dag, self._like
        while True:
            differ = a != b
            a, b = a[differ], b[differ]
            if not a.size:
                return True
            if (a < 0).any() or (b < 0).any():
                return False  # inputs, and names of functions, are alike only if they are the same
            a, b = self._first(a), self._first(b)
            late, early = np.maximum(a, b), np.minimum(a, b)
            # of the pairs of one node one is merged, the others are looked at once more
            turn = np.arange(late.size, dtype=np.int32)
            new = late != early
            like[late[new]] = turn[new]
            mine = new & (like[late] == turn)
            x, y = late[mine], early[mine]
            like[x] = y
            merged.append(x)
            op = dag.op[x]
            if (op != dag.op[y]).any() or (op == CONST).any():
                return False
            named = op == ATOM
            if (dag.args[1, x] != dag.args[1, y])[named].any():
                return False
            rest = new & ~mine
            one, other = dag.args[:, x], dag.args[:, y]
            if by_row:
                free = np.isin(op, COMMUTE)
                for args in (one, other):
                    args[:2, free] = np.sort(args[:2, free], axis=0)
            a = np.concatenate([late[rest], *one])
            b = np.concatenate([early[rest], *other])

    def _first(self, nodes: Nodes) -> Nodes:
        """The earliest nodes that these are known to be alike to."""
        while True:
            earlier: NDArray[np.int32] = self._like[nodes]
            if (earlier == nodes).all():
                return nodes
            nodes = self._like[earlier]
