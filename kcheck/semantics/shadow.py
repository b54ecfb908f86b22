"""Shadow cells: who wrote and who read each cell last, as stamps.

A stamp orders accesses: CTA, then epoch, then thread (`MANY`: several threads of that epoch). So
an access of another thread is unordered with mine if its stamp is greater than the base of my
epoch and is not mine, or belongs to another CTA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Stamps = NDArray[np.int64]

CTA_SHIFT, EPOCH_SHIFT = 34, 11
MANY = (1 << EPOCH_SHIFT) - 1
# CTAs that accessed a cell: none yet, or several
NO_CTA, MANY_CTAS = -1, -2


class Shadow:
    """Stamps of `n` cells; `grid`: cells that several CTAs can reach."""

    def __init__(self, n: int, grid: bool) -> None:
        self.n = n
        self.grid = grid
        self.write: Stamps = np.zeros(n, np.int64)
        self.read: Stamps = np.zeros(n, np.int64)
        # the atomic operation of the last write (0: a plain store)
        self.op = np.zeros(n, np.uint8)
        # asynchronous copies under way that read (0) or write (1) the cell: how many
        self.windows: NDArray[np.int32] | None = None
        if grid:
            self.writers = np.full(n, NO_CTA, np.int32)
            self.readers = np.full(n, NO_CTA, np.int32)
            self.write_at = np.zeros(n, np.int32)
            self.read_at = np.zeros(n, np.int32)
            self.write_lane = np.zeros(n, np.int32)
            self.read_lane = np.zeros(n, np.int32)
            self.nc: Any = None

    def open(self, index: Any, kind: int, by: int) -> None:
        """Copies of a kind (0 read, 1 write) over these cells begin (`by` 1) or end (-1)."""
        if self.windows is None:
            self.windows = np.zeros((2, self.n), np.int32)
        np.add.at(self.windows[kind], index, by)

    def note_grid(self, index: Any, cta: Any, at: int, lane: Any, write: bool) -> None:
        """Remember CTA, instruction and thread of an access to cells of the grid."""
        ctas = self.writers if write else self.readers
        old = ctas[index]
        ctas[index] = np.where((old == NO_CTA) | (old == cta), cta, MANY_CTAS)
        # two CTAs in one instruction: the last one stands, unless it was told of the other
        again = ctas[index]
        ctas[index] = np.where((again == cta) | (again == MANY_CTAS), again, MANY_CTAS)
        (self.write_at if write else self.read_at)[index] = at
        (self.write_lane if write else self.read_lane)[index] = lane
