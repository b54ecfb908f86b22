"""Many terms at once, each times an input or a sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.algebra import NOTHING, Algebra
from kcheck.canon.term.dag import BudgetSpent, Nodes
from kcheck.canon.term.monomials import SHIFT
from kcheck.canon.term.terms import Terms

Polys = NDArray[np.int32]


class Factors:
    """Products of terms. `budget`: terms that may come out."""

    def __init__(self, algebra: Algebra, budget: int) -> None:
        self.a, self.budget = algebra, budget

    def inputs(self, t: Terms, nodes: Nodes) -> Terms:
        """The terms times inputs."""
        extra, p, x = self.a.monomials.mul(t.p, -nodes.astype(np.int64) << SHIFT)
        if extra is None:
            return t._replace(p=p)
        none = np.zeros(nodes.size, np.int64)
        return self.a.multiply(t._replace(p=p), extra, none, none if x is None else x)

    def sizes(self, polys: Polys) -> NDArray[np.int64]:
        """How many terms sums have."""
        used, index = np.unique(polys, return_inverse=True)
        return np.array([self.a.size(i) for i in used.tolist()], np.int64)[index]

    def sums(self, t: Terms, polys: Polys) -> tuple[Terms, NDArray[np.int64]]:
        """Every term times every term of a sum, and the rows that they come from."""
        used, index = np.unique(polys, return_inverse=True)
        parts = [self.a.polys[i] for i in used.tolist()]
        sizes = np.array([part[0].size for part in parts], np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        many = sizes[index]
        rows = np.repeat(np.arange(polys.size), many)
        if rows.size > self.budget:
            raise BudgetSpent(f"a sum of {rows.size} terms")
        first = np.cumsum(many) - many
        at = starts[index][rows] + np.arange(rows.size) - first[rows]
        c, p, x = (np.concatenate([part[k] for part in parts])[at] for k in range(3))
        return self.a.multiply(t.pick(rows), c, p, x), rows

    def named(self, t: Terms, polys: Polys) -> Terms:
        """The terms times sums, each as one term."""
        used, index = np.unique(polys, return_inverse=True)
        made = [self.a.lazy(i) if i else NOTHING for i in used.tolist()]
        c, p, x = np.array(made, np.int64)[index].T
        return self.a.multiply(t, c.astype(np.int32), p, x)
