"""Interning by 64-bit keys, and sets whose unions are interned: no Python loop over lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Collision
from kcheck.canon.hashing import Hash128, Words

Ids = NDArray[np.int64]

_CACHE = 1 << 22  # elements of expanded sets to keep
_HALF = np.uint64(32)


class SortedMap:
    """Unique 64-bit keys -> ids, in sorted runs of at least halving length."""

    def __init__(self) -> None:
        self._runs: list[tuple[Words, Ids]] = []

    def find(self, keys: Words) -> Ids:
        """The ids, -1 where a key is new."""
        out = np.full(keys.shape, -1, np.int64)
        for run, ids in self._runs:
            place = run.searchsorted(keys)
            place[place == run.size] = 0
            hit = run[place] == keys
            out[hit] = ids[place[hit]]
        return out

    def insert(self, keys: Words, ids: Ids) -> None:
        """Add new keys, sorted and unique."""
        if not keys.size:
            return
        self._runs.append((keys, ids))
        while len(self._runs) > 1 and self._runs[-2][0].size < 2 * self._runs[-1][0].size:
            (a, x), (b, y) = self._runs.pop(), self._runs.pop()
            merged = np.concatenate([a, b])
            order = merged.argsort(kind="stable")
            self._runs.append((merged[order], np.concatenate([x, y])[order]))


class Interner:
    """128-bit digests -> ids 0, 1, ... in order of arrival.

    The first word finds; Collision if the second one disagrees.
    """

    def __init__(self) -> None:
        self._map = SortedMap()
        self._second = np.zeros(1024, np.uint64)
        self.count = 0

    def find(self, first: Words, second: Words) -> Ids:
        """The ids, -1 where a digest is new."""
        ids = self._map.find(first)
        if ((self._second[ids] != second) & (ids >= 0)).any():
            raise Collision("two values have one 64-bit key")
        return ids

    def intern(self, first: Words, second: Words) -> tuple[Ids, Ids]:
        """The ids, and for each id that is new a (flat) position where it stands."""
        ids = self._map.find(first)
        fresh = np.zeros(0, np.int64)
        if (ids < 0).any():
            keys, fresh = np.unique(first, return_index=True)
            new = ids.ravel()[fresh] < 0
            keys, fresh = keys[new], fresh[new].astype(np.int64)
            self.assign(keys, second.ravel()[fresh], self.count + np.arange(keys.size))
        return self.find(first, second), fresh

    def assign(self, first: Words, second: Words, ids: Ids) -> None:
        """Give new digests (sorted, unique) ids of the caller's choice."""
        top = int(ids.max(initial=-1)) + 1
        while top > self._second.size:
            self._second = np.concatenate([self._second, np.zeros_like(self._second)])
        self._second[ids] = second
        self._map.insert(first, ids)
        self.count = max(self.count, top)


class Sets:
    """Interned sets of elements; id 0 is the empty set.

    A set is known by the sum modulo 2^128 of a keyed hash of its elements, so its id does not
    depend on how it was built. An element and the set of it alone have one id. Sets whose ranges
    of elements don't overlap unite without a look at the elements.
    """

    def __init__(self, key: bytes, *parts: object) -> None:
        self._hash = Hash128(key, "set", *parts)
        self._interner, self._pairs = Interner(), SortedMap()
        self.words = np.zeros((2, 1024), np.uint64)
        # least and greatest element, and the two sets that a set was made of (-1: an element)
        self._links = np.full((4, 1024), -1, np.int64)
        self._elements: dict[int, Ids] = {0: np.zeros(0, np.int64)}
        self._cached = 0
        self._interner.intern(np.zeros(1, np.uint64), np.zeros(1, np.uint64))
        self._links[:2, 0] = np.iinfo(np.int64).max, -1

    @property
    def count(self) -> int:
        """Sets so far, elements and the empty set among them."""
        return self._interner.count

    def elements(self, first: Words, second: Words) -> Ids:
        """New elements with given distinct 128-bit names; the ids rise."""
        words = self._hash(first, second)
        new = self.count + np.arange(first.size, dtype=np.int64)
        order = words[0].argsort()
        self._interner.assign(words[0, order], words[1, order], new[order])
        self._fill(new, words, np.stack([new, new, np.full_like(new, -1), np.full_like(new, -1)]))
        return new

    def single(self, ids: Ids) -> NDArray[np.bool_]:
        """Where a set has one element (or none)."""
        single: NDArray[np.bool_] = self._links[2, ids] < 0
        return single

    def union(self, a: Ids, b: Ids) -> Ids:
        """Lane by lane; a and b have one shape."""
        codes = np.minimum(a, b).astype(np.uint64) << _HALF
        codes |= np.maximum(a, b).astype(np.uint64)
        pairs, inverse = np.unique(codes, return_inverse=True)
        low, high = (
            (pairs >> _HALF).astype(np.int64),
            (pairs & np.uint64(2**32 - 1)).astype(np.int64),
        )
        # the empty set sorts first
        ids = np.where((low == high) | (low == 0), high, self._pairs.find(pairs))
        new = ids < 0
        if new.any():
            ids[new] = self._unite(low[new], high[new])
            self._pairs.insert(pairs[new], ids[new])
        out: Ids = ids[inverse.reshape(a.shape)]
        return out

    def _unite(self, a: Ids, b: Ids) -> Ids:
        words = self.words[:, a] + self.words[:, b]
        low, high = self._links[0], self._links[1]
        links = np.stack([np.minimum(low[a], low[b]), np.maximum(high[a], high[b]), a, b])
        known = np.full(a.shape, -1, np.int64)
        for n in np.flatnonzero((high[a] >= low[b]) & (high[b] >= low[a])).tolist():
            left, right = self.expand(int(a[n])), self.expand(int(b[n]))
            common = np.intersect1d(left, right, assume_unique=True)
            if common.size == left.size:
                known[n] = b[n]
            elif common.size == right.size:
                known[n] = a[n]
            words[:, n] -= self.words[:, common].sum(axis=1, dtype=np.uint64)
        rest = np.flatnonzero(known < 0)
        if rest.size:
            ids, fresh = self._interner.intern(words[0, rest], words[1, rest])
            new = ids[fresh]
            self._fill(new, words[:, rest[fresh]], links[:, rest[fresh]])
            known[rest] = ids
        return known

    def _fill(self, ids: Ids, words: Words, links: Ids) -> None:
        while self.count > self.words.shape[1]:
            self.words = np.concatenate([self.words, np.zeros_like(self.words)], axis=1)
            self._links = np.concatenate([self._links, np.full_like(self._links, -1)], axis=1)
        self.words[:, ids] = words
        self._links[:, ids] = links

    def expand(self, root: int) -> Ids:
        """The sorted elements of a set."""
        stack, parts = [root], []
        while stack:
            i = stack.pop()
            if i in self._elements:
                parts.append(self._elements[i])
            elif self._links[2, i] < 0:
                parts.append(np.array([i], np.int64))
            else:
                stack += self._links[2:, i].tolist()
        if len(parts) == 1:
            return parts[0]
        found: Ids = np.unique(np.concatenate(parts))
        if self._cached > _CACHE:
            self._elements = {0: self._elements[0]}
            self._cached = 0
        self._elements[root] = found
        self._cached += found.size
        return found
