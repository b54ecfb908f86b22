"""Vectors of residues modulo chains of primes, and memories of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Index
from kcheck.canon.hashing import Residues, Words


class FieldValue:
    """Residues `r` of shape (depth, trials, *lanes); depth counts the levels that are present."""

    __slots__ = ("r",)

    def __init__(self, r: Words) -> None:
        self.r = r

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return self.r.shape[2:]

    @property
    def depth(self) -> int:
        """Levels present: each exp2 uses one up."""
        return len(self.r)

    def __getitem__(self, index: Any) -> FieldValue:
        """Lanes picked by a NumPy index over the lanes' axes."""
        # measured: `take` is four times as fast as an index array behind two slices
        if isinstance(index, np.ndarray) and index.dtype != bool and self.r.ndim == 3:
            return FieldValue(self.r.take(index, axis=2))
        if isinstance(index, tuple) and any(isinstance(i, (np.ndarray, list)) for i in index):
            # and NumPy would move separated advanced axes to the front: index positions instead
            size = int(np.prod(self.shape, dtype=np.int64))
            index = np.arange(size).reshape(self.shape)[index]
            return FieldValue(self.r.reshape(*self.r.shape[:2], size).take(index, axis=2))
        rest = index if isinstance(index, tuple) else (index,)
        full = (slice(None), slice(None))
        return FieldValue(self.r[full + rest])

    def reshape(self, shape: tuple[int, ...]) -> FieldValue:
        """The same lanes in another shape."""
        return FieldValue(self.r.reshape(*self.r.shape[:2], *shape))


class FieldInput(FieldValue):
    """`n` symbols too many to keep: their residues are computed anew wherever they are read."""

    __slots__ = ("_function", "_n")

    def __init__(self, function: Residues, n: int) -> None:
        self._function, self._n = function, n

    @property
    def r(self) -> Words:  # type: ignore[override]
        """All residues."""
        return self._at(np.arange(self._n))

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return (self._n,)

    def __getitem__(self, index: Any) -> FieldValue:
        """Lanes picked by a NumPy index."""
        lanes = index if isinstance(index, np.ndarray) and index.dtype != bool else None
        return FieldValue(self._at(np.arange(self._n)[index] if lanes is None else lanes))

    def _at(self, lanes: Index) -> Words:
        words = lanes.astype(np.uint64)
        return self._function(words, words)


class FieldStore:
    """A memory of `n` field values, all 0; a cell keeps the depth that was last written."""

    def __init__(self, primes: Words, n: int) -> None:
        self._primes = primes.reshape(*primes.shape, 1)
        self._planes = np.zeros((*primes.shape, n), np.uint32)
        # None while all cells are whole
        self._depth: NDArray[np.uint8] | None = None

    def read(self, index: Index) -> FieldValue:
        """The cells at `index`; the result's depth is the least among them."""
        depth = len(self._planes)
        if self._depth is not None and index.size:
            depth = int(self._depth[index].min())
        return FieldValue(self._planes[:depth].take(index, axis=2).astype(np.uint64))

    def write(self, index: Index, value: FieldValue) -> None:
        """Put `value` into the cells."""
        depth = value.depth
        self._note(index, depth)
        # on the right the lanes broadcast to the shape of the index
        self._planes[:depth, :, index] = widen(value.r, index.ndim)

    def add(self, index: Index, value: FieldValue) -> None:
        """Add to the cells; a cell that occurs k times gets all k summands."""
        r = np.broadcast_to(widen(value.r, index.ndim), (*value.r.shape[:2], *index.shape))
        r = r.reshape(*r.shape[:2], -1)
        cells, slot = np.unique(index.ravel(), return_inverse=True)
        for start in range(0, slot.size, 1 << 21):  # sums of 2^21 residues are exact in float64
            part = slice(start, start + (1 << 21))
            sums = [
                [np.bincount(slot[part], plane[part], len(cells)) for plane in level]
                for level in r.astype(np.float64)
            ]
            depth = value.depth
            total = self._planes[:depth, :, cells] + np.array(sums).astype(np.uint64)
            self._planes[:depth, :, cells] = total % self._primes[:depth]
        self._note(cells, value.depth, lower=True)

    def _note(self, index: Index, depth: int, lower: bool = False) -> None:
        if self._depth is None:
            if depth == len(self._planes):
                return
            self._depth = np.full(self._planes.shape[2], len(self._planes), np.uint8)
        self._depth[index] = np.minimum(self._depth[index], depth) if lower else depth


def widen(r: Words, ndim: int) -> Words:
    """Residues whose lanes have at least `ndim` axes, new ones first."""
    missing = ndim - (r.ndim - 2)
    return r if missing <= 0 else r.reshape(*r.shape[:2], *(1,) * missing, *r.shape[2:])


def align(a: FieldValue, b: FieldValue, ndim: int = 0) -> tuple[Words, Words]:
    """Residues that broadcast: of one depth and with equally many axes."""
    x, y = a.r, b.r
    if len(x) != len(y):
        depth = min(len(x), len(y))
        x, y = x[:depth], y[:depth]
    if x.ndim != y.ndim or ndim > x.ndim - 2:
        ndim = max(x.ndim - 2, y.ndim - 2, ndim)
        x, y = widen(x, ndim), widen(y, ndim)
    return x, y
