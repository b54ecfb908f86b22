"""Maxima over sets of field values: associative, commutative and idempotent by construction.

The residues of a maximum are a keyed function of the set's hash. So two ways to build a set give
one value, and a value that comes back from memory or shuffles is recognized by its residues.
"""

from __future__ import annotations

import numpy as np

from kcheck.canon.domain import Bool
from kcheck.canon.hashing import Permutation, Residues, Words, pack
from kcheck.canon.interning import Ids, Interner, Sets


class MaxSets:
    """The sets whose maximum was taken."""

    def __init__(self, key: bytes, primes: Words) -> None:
        self._residues = Residues(key, primes, "max")
        self._permutation = Permutation(key, "max")
        self._sets = Sets(key, "max")
        self._values = Interner()
        self._set_of = np.zeros(1024, np.int64)  # value's id -> set

    @property
    def count(self) -> int:
        """Elements and sets so far."""
        return self._values.count

    def union(self, x: Words, y: Words) -> tuple[Words, Bool]:
        """Residues of max(x, y), and the lanes where that is x = y and no set.

        x and y have one shape (depth, trials, *lanes). A maximum is a new indeterminate and
        therefore whole; where x = y occurs, the result has the depth of x.
        """
        i, j = self._identify(x), self._identify(y)
        before = self._sets.count
        result = self._sets.union(i, j)
        self._register(np.arange(before, self._sets.count, dtype=np.int64))
        single = self._sets.single(result)
        if single.all():
            return x, single
        out = self._residues(*self._sets.words[:, result])
        return (np.where(single, x, out[: len(x)]) if single.any() else out), single

    def _identify(self, x: Words) -> Ids:
        """The sets that the lanes' values are the maxima of; unknown values become elements."""
        first, second = self._permutation.digest(pack(x[0]))
        ids, fresh = self._values.intern(first, second)
        if fresh.size:
            names = first.ravel()[fresh], second.ravel()[fresh]
            self._note(ids.ravel()[fresh], self._sets.elements(*names))
        out: Ids = self._set_of[ids]
        return out

    def _register(self, sets: Ids) -> None:
        """Recognize the maxima of new sets by their residues from now on."""
        if sets.size:
            top = self._residues(*self._sets.words[:, sets])[0]
            ids, _ = self._values.intern(*self._permutation.digest(pack(top)))
            self._note(ids, sets)

    def _note(self, ids: Ids, sets: Ids) -> None:
        while self._values.count > self._set_of.size:
            self._set_of = np.concatenate([self._set_of, np.zeros_like(self._set_of)])
        self._set_of[ids] = sets
