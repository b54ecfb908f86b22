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

    def join(self, groups: list[NDArray[np.int64]], takers: list[NDArray[np.int64]]) -> None:
        """Each group of lanes (of one CTA) arrives; its takers learn all that its members know."""
        matrix = self._matrix()
        own = self.own.copy()
        for members, learning in zip(groups, takers, strict=True):
            cta = int(members[0]) // self.threads
            inside = members % self.threads
            rows = matrix[cta]
            rows[inside, inside] = own[members]
            if learning.size:
                rows[learning % self.threads] = rows[inside].max(0)
            own[members] += 1
            self.partial[cta] = True
        self.own = own

    def join_warps(self, members: Bool) -> None:
        """`bar.warp.sync` of whole masks: (warps, 32) flags of the lanes that meet."""
        lanes = [32 * w + np.flatnonzero(members[w]) for w in np.flatnonzero(members.any(1))]
        self.join(lanes, lanes)

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
