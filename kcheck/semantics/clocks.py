"""Who knows of whose accesses within an epoch: vector clocks per thread (DESIGN.md 5).

A barrier that joins all live threads of a CTA ends the CTA's epoch; what happened before is
ordered and forgotten. Only barriers among a part of the threads need clocks: the matrix
`known[group][t][u]` is the latest clock of thread u that thread t of its group knows of. It is
made at the first such barrier; groups are warps until the first that joins lanes of several, then
CTAs.

Source: Lamport (1978); the epochs follow FastTrack (Flanagan, Freund, PLDI 2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.values import Bool

WARP = 32
Ints = NDArray[np.int64]


class Clocks:
    """`ctas` CTAs of `threads` lanes each."""

    def __init__(self, ctas: int, threads: int) -> None:
        self.ctas, self.threads = ctas, threads
        self.epoch: Ints = np.zeros(ctas, np.int64)
        # each thread's own clock: replaced, never changed, so that a log entry can keep it
        self.own: NDArray[np.int32] = np.ones(ctas * threads, np.int32)
        self.known: NDArray[np.int32] | None = None
        # threads of a group
        self.size = WARP
        self.partial: Bool = np.zeros(ctas, bool)

    def end_epoch(self, ctas: Bool) -> None:
        """These CTAs passed a barrier of all their live threads."""
        self.epoch = self.epoch + ctas
        if self.known is not None and (self.partial & ctas).any():
            self.known.reshape(self.ctas, -1)[ctas] = 0
            self.own = np.where(np.repeat(ctas, self.threads), 1, self.own).astype(np.int32)
            self.partial = self.partial & ~ctas

    def release(self, lanes: Ints) -> NDArray[np.int32]:
        """What lanes of one CTA know together, their own accesses so far included: a row."""
        matrix = self._matrix(self.threads)
        group, inside = int(lanes[0]) // self.size, lanes % self.size
        matrix[group][inside, inside] = self.own[lanes]
        row: NDArray[np.int32] = matrix[group][inside].max(0)
        own = self.own.copy()
        own[lanes] += 1
        self.own = own
        self.partial[int(lanes[0]) // self.threads] = True
        return row

    def acquire(self, lanes: Ints, row: NDArray[np.int32]) -> None:
        """These lanes of one CTA learn a row."""
        matrix = self._matrix(len(row))
        group, inside = int(lanes[0]) // self.size, lanes % self.size
        matrix[group][inside] = np.maximum(matrix[group][inside], row)

    def known_by(self, lanes: Bool, pledged: dict[int, NDArray[np.int32]]) -> Ints | None:
        """Per lane the clock up to which some of these lanes of its CTA know of it, or None.

        `pledged`: rows that they know besides, by CTA.
        """
        if self.known is None:
            return None
        flags = lanes.reshape(-1, self.size)
        rows = np.where(flags[:, :, None], self.known, 0).max(1).reshape(self.ctas, -1)
        rows[~self.partial] = 0
        for cta, row in pledged.items():
            rows[cta] = np.maximum(rows[cta], row)
        return rows.reshape(-1)

    def join_warps(self, named: Bool) -> None:
        """The named lanes of each warp meet: (warps, 32) flags."""
        warps = np.flatnonzero(named.any(1))
        if self._matrix(WARP).shape[1] > WARP:
            for warp in warps:
                lanes = WARP * warp + np.flatnonzero(named[warp])
                self.acquire(lanes, self.release(lanes))
            return
        assert self.known is not None
        here, own = named[warps, :, None], self.own.reshape(-1, WARP)[warps]
        known = self.known[warps]
        known[:, range(WARP), range(WARP)] = np.where(named[warps], own, 0)
        row = np.where(here, known, 0).max(1, keepdims=True)
        self.known[warps] = np.where(here, np.maximum(known, row), self.known[warps])
        self.own = self.own + named.reshape(-1)
        self.partial[WARP * warps // self.threads] = True

    def met(self, lane: int) -> tuple[Ints, NDArray[np.int32]]:
        """The lanes that a lane knows of by barriers of this epoch, and their clocks."""
        if self.known is None or not self.partial[lane // self.threads]:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        group = lane // self.size
        row = self.known[group, lane % self.size]
        others = np.flatnonzero(row)
        return others + group * self.size, row[others]

    def _matrix(self, size: int) -> NDArray[np.int32]:
        """The knowledge in groups of at least so many threads."""
        if self.known is None:
            self.size = size
            groups = self.ctas * self.threads // size
            self.known = np.zeros((groups, size, size), np.int32)
        elif size > self.size:
            warps, self.size = self.known, size
            self.known = np.zeros((self.ctas, size, size), np.int32)
            for i, warp in enumerate(warps):
                cta, first = divmod(WARP * i, size)
                self.known[cta, first : first + WARP, first : first + WARP] = warp
        return self.known

    def ordered(self, lane: Any, other: Any, clock: Any) -> Bool:
        """Does `lane` know of the access that `other` (of its CTA and epoch) made at `clock`?"""
        if self.known is None:
            return np.zeros(np.broadcast_shapes(np.shape(lane), np.shape(other)), bool)
        group = lane // self.size
        known = self.known[group, lane % self.size, other % self.size]
        near = group == other // self.size
        return np.asarray(near & (known >= clock) & self.partial[lane // self.threads])
