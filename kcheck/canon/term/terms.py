"""Terms of many sums in arrays, and terms that still wait for a node to be taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.dag import Nodes
from kcheck.canon.term.monomials import Keys
from kcheck.canon.term.rationals import Ids


class Terms(NamedTuple):
    """Per row the root that a term belongs to, its coefficient, monomial and exponential."""

    r: NDArray[np.int64]
    c: Ids
    p: Keys
    x: Keys

    def pick(self, rows: Any) -> Terms:
        """Some rows."""
        return Terms(self.r[rows], self.c[rows], self.p[rows], self.x[rows])

    @staticmethod
    def joined(parts: Sequence[Terms]) -> Terms:
        """One after another."""
        if not parts:
            none = np.zeros(0, np.int64)
            return Terms(none, none.astype(np.int32), none, none)
        r, c, p, x = zip(*parts, strict=True)
        return Terms(*map(np.concatenate, (r, c, p, x)))


class Entries(NamedTuple):
    """Per row a node (or two that are multiplied) times a term, summed into a root."""

    t: Terms
    a: Nodes
    b: Nodes

    def pick(self, rows: Any) -> Entries:
        """Some rows."""
        return Entries(self.t.pick(rows), self.a[rows], self.b[rows])

    @staticmethod
    def joined(parts: Sequence[Entries]) -> Entries:
        """One after another."""
        if len(parts) == 1:
            return parts[0]
        none = [np.zeros(0, np.int32)]
        return Entries(
            Terms.joined([part.t for part in parts]),
            np.concatenate([part.a for part in parts] or none),
            np.concatenate([part.b for part in parts] or none),
        )
