"""Who knows of whose accesses within an epoch: vector clocks per thread (DESIGN.md 5).

A barrier that joins all live threads of a CTA ends the CTA's epoch; what happened before is
ordered and forgotten. Only barriers among a part of the threads need clocks: the matrix
`known[cta][t][u]` is the latest clock of thread u that thread t knows of. It is made at the first
such barrier.

Source: Lamport (1978); the epochs follow FastTrack (Flanagan, Freund, PLDI 2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.values import Bool

Ints = NDArray[np.int64]


class Clocks:
    """`ctas` CTAs of `threads` lanes each."""

    def __init__(self, ctas: int, threads: int) -> None:
        self.ctas, self.threads = ctas, threads
        self.epoch: Ints = np.zeros(ctas, np.int64)
        # each thread's own clock: replaced, never changed, so that a log entry can keep it
        self.own: NDArray[np.int32] = np.ones(ctas * threads, np.int32)
        self.known: NDArray[np.int32] | None = None
        self.partial: Bool = np.zeros(ctas, bool)

    def end_epoch(self, ctas: Bool) -> None:
        """These CTAs passed a barrier of all their live threads."""
        self.epoch = self.epoch + ctas
        if self.known is not None and (self.partial & ctas).any():
            self.known[ctas] = 0
            self.own = np.where(np.repeat(ctas, self.threads), 1, self.own).astype(np.int32)
            self.partial = self.partial & ~ctas

    def release(self, lanes: Ints) -> NDArray[np.int32]:
        """What lanes of one CTA know together, their own accesses so far included: a row."""
        matrix = self._matrix()
        cta = int(lanes[0]) // self.threads
        inside = lanes % self.threads
        matrix[cta][inside, inside] = self.own[lanes]
        row: NDArray[np.int32] = matrix[cta][inside].max(0)
        own = self.own.copy()
        own[lanes] += 1
        self.own = own
        self.partial[cta] = True
        return row

    def acquire(self, lanes: Ints, row: NDArray[np.int32]) -> None:
        """These lanes of one CTA learn a row."""
        matrix = self._matrix()
        cta = int(lanes[0]) // self.threads
        inside = lanes % self.threads
        matrix[cta][inside] = np.maximum(matrix[cta][inside], row)

    def known_by(self, lanes: Bool, pledged: dict[int, NDArray[np.int32]]) -> Ints | None:
        """Per lane the clock up to which some of these lanes of its CTA know of it, or None.

        `pledged`: rows that they know besides, by CTA.
        """
        if self.known is None:
            return None
        flags = lanes.reshape(self.ctas, self.threads)
        rows = np.where(flags[:, :, None], self.known, 0).max(1)
        rows[~self.partial] = 0
        for cta, row in pledged.items():
            rows[cta] = np.maximum(rows[cta], row)
        return rows.reshape(-1)

    def join_warps(self, named: Bool) -> None:
        """The named lanes of each warp meet: (warps, 32) flags."""
        for warp in np.flatnonzero(named.any(1)):
            lanes = 32 * warp + np.flatnonzero(named[warp])
            self.acquire(lanes, self.release(lanes))

    def _matrix(self) -> NDArray[np.int32]:
        if self.known is None:
            self.known = np.zeros((self.ctas, self.threads, self.threads), np.int32)
        return self.known

    def ordered(self, lane: Any, other: Any, clock: Any) -> Bool:
        """Does `lane` know of the access that `other` (of its CTA and epoch) made at `clock`?"""
        if self.known is None:
            return np.zeros(np.broadcast_shapes(np.shape(lane), np.shape(other)), bool)
        cta = lane // self.threads
        known = self.known[cta, lane % self.threads, other % self.threads]
        return np.asarray((known >= clock) & self.partial[cta])
