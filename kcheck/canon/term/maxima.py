"""Trees of maxima: which sums each is the maximum of."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.dag import MAX, Dag, Nodes


class MaxTree:
    """The maxima below some nodes of a graph, down to what is no maximum or is `known`."""

    def __init__(self, dag: Dag, nodes: Nodes, known: NDArray[np.bool_]) -> None:
        self._below: dict[int, tuple[int, int]] = {}
        self._parents: Counter[int] = Counter()
        self._sets: dict[int, set[int]] = {}
        todo = nodes.tolist()
        while todo:
            left, right, _ = dag.args[:, np.array(todo, np.int32)]
            pairs = list(zip(left.tolist(), right.tolist(), strict=True))
            self._below.update(zip(todo, pairs, strict=True))
            for pair in pairs:
                self._parents.update(pair)
            below = np.unique(np.concatenate([left, right]))
            below = below[below >= 0]
            below = below[(dag.op[below] == MAX) & ~known[below]]
            todo = [i for i in below.tolist() if i not in self._below]

    @property
    def nodes(self) -> list[int]:
        """The maxima, inner ones first."""
        return sorted(self._below)

    @property
    def leaves(self) -> Nodes:
        """What the maxima are taken of."""
        found = {i for pair in self._below.values() for i in pair if i not in self._below}
        return np.array(sorted(found), np.int32)

    def members(self, node: int, poly: dict[int, int]) -> set[int]:
        """The sums below a maximum; `poly`: those of leaves, and of maxima that count as one."""
        found: set[int] = set()
        todo = list(self._below[node])
        while todo:
            at = todo.pop()
            if at in poly:
                found.add(poly[at])
            elif at in self._sets:
                found |= self._sets[at]
            else:
                todo += self._below[at]
        return found

    def keep(self, node: int, poly: dict[int, int]) -> None:
        """Note the members of a maximum that several others hold."""
        if self._parents[node] > 1:
            self._sets[node] = self.members(node, poly)
