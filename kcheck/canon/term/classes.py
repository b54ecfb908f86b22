"""Elements that are one function of different inputs: it is enough to look at one of them.

If renaming the inputs of an element turns its graph into that of another one, then what is proved
of the first, for all inputs, holds for the second; and what is not proved of one would not be of
the other. The renaming has to keep distinct inputs apart, so that no divisor becomes 0, and those
that are promised to be positive among themselves: proofs make use of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.term.dag import ARITY, ATOM, CONST, EITHER, Dag, Nodes

Bool = NDArray[np.bool_]
Rows = NDArray[np.int64]
# rows times elements that may be looked at: so many per row of the graph, and a few
WALKS, FEW = 4, 1 << 25
# nodes times elements that are kept at once
KEPT = 1 << 24
# classes that are looked for among some elements
CLASSES = 8
# arguments that are nodes, by operation: of a value in two ways both
_ARGUMENTS = ARITY.copy()
_ARGUMENTS[EITHER] = 2


class Classes:
    """Classes of elements. An element is a column of nodes.

    Where elements share much of what they are made of, looking at each takes longer than proving
    all: what may be looked at grows with the graph only.
    """

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._spent = 0

    def of(self, nodes: Nodes) -> Rows:
        """The column that stands for each column (k, n): the first of its class, or itself."""
        out = np.arange(nodes.shape[1])
        rest = out
        for _ in range(CLASSES):
            if rest.size < 2:
                break
            same = self._same(nodes[:, rest])
            if same is None:
                break
            out[rest[same]] = rest[0]
            rest = rest[~same]
        return out

    def _same(self, nodes: Nodes) -> Bool | None:
        """Which columns are of the class of the first; None if that takes too long to see."""
        n = nodes.shape[1]
        left = WALKS * self._dag.count + FEW - self._spent
        size = self._size(nodes[:, 0], left // n)
        if size is None:
            return None
        rows, both = size
        self._spent += rows * n
        width = max(KEPT // both, 64)
        parts = [np.ones(1, bool)]
        for start in range(1, n, width):
            limits.check()
            part = np.concatenate([nodes[:, :1], nodes[:, start : start + width]], axis=1)
            parts.append(_Walk(self._dag, part).same[1:])
        return np.concatenate(parts)

    def _size(self, nodes: Nodes, most: int) -> tuple[int, int] | None:
        """Rows, and rows and inputs, that an element is made of; None if rows are too many."""
        dag = self._dag
        seen = np.zeros(dag.count, bool)
        inputs, rows = [nodes[nodes < 0]], 0
        front = np.unique(nodes[nodes >= 0])
        while front.size:
            seen[front] = True
            rows += front.size
            if rows > most:
                return None
            counts = _ARGUMENTS[dag.op[front]]
            below = np.concatenate([dag.args[k, front[counts > k]] for k in range(3)])
            inputs.append(below[below < 0])
            below = below[below >= 0]
            front = np.unique(below[~seen[below]])
        return rows, rows + np.unique(np.concatenate(inputs)).size


class _Walk:
    """Elements, all at once, in step with the first one. `same`: which are of its class."""

    def __init__(self, dag: Dag, nodes: Nodes) -> None:
        self._dag = dag
        self._good = np.ones(nodes.shape[1], bool)
        # a node of the first element -> its counterparts in all
        self._seen: dict[int, Nodes] = {}
        inputs = [nodes[:0]]
        while nodes.size and self._good[1:].any():
            mine, theirs = self._new(nodes)
            leaf = mine < 0
            self._good &= ((theirs < 0) == leaf[:, None]).all(0)
            inputs.append(theirs[leaf])
            positive = self._dag.promised(theirs[leaf])
            self._good &= (positive == positive[:, :1]).all(0)
            nodes = self._arguments(mine[~leaf], np.maximum(theirs[~leaf], 0))
        found = np.sort(np.concatenate(inputs), axis=0)
        self.same: Bool = self._good & (found[1:] != found[:-1]).all(0)

    def _new(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """The nodes of the first element that are seen for the first time, and counterparts."""
        mine, first, index = np.unique(nodes[:, 0], return_index=True, return_inverse=True)
        theirs = nodes[first]
        if mine.size < index.size:
            self._good &= (nodes == theirs[index]).all(0)
        new = np.ones(mine.size, bool)
        for i, node in enumerate(mine.tolist()):
            known = self._seen.get(node)
            if known is None:
                self._seen[node] = theirs[i]
            else:
                new[i] = False
                self._good &= known == theirs[i]
        return mine[new], theirs[new]

    def _arguments(self, mine: Nodes, theirs: Nodes) -> Nodes:
        """The arguments of all, if the operations are the same."""
        dag, good = self._dag, self._good
        op, args = dag.op[mine], dag.args
        good &= (dag.op[theirs] == op[:, None]).all(0)
        for what, which in ((CONST, 0), (ATOM, 1)):  # the number of a constant, and of a function
            here = op == what
            if here.any():
                good &= (args[which][theirs[here]] == args[which, mine[here], None]).all(0)
        parts = [args[k][theirs[_ARGUMENTS[op] > k]] for k in range(3)]
        return np.concatenate(parts)
