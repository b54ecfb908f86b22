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
# what wrote a cell: nothing yet, or not always the same atomic operation
NO_OP, MIXED = 0, 255
# kinds of access; the row of writes by another operation than a cell's first
WRITE, OTHER = 1, 2


class Shadow:
    """Stamps of `n` cells; `grid`: cells that several CTAs can reach."""

    def __init__(self, n: int, grid: bool) -> None:
        self.n = n
        self.grid = grid
        self.write: Stamps = np.zeros(n, np.int64)
        self.read: Stamps = np.zeros(n, np.int64)
        # the atomic operation of all writes of the last epoch that wrote (0: a plain store)
        self.op = np.zeros(n, np.uint8)
        # cells with a race in some epoch: there a stamp must not hide the accesses before it
        self.racy: NDArray[np.bool_] | None = None
        # asynchronous copies under way that read (0) or write (1) the cell: how many
        self.windows: NDArray[np.int32] | None = None
        if grid:
            # per kind of access (0 read, 1 write): the CTA
            self.owners = np.full((2, n), NO_CTA, np.int32)
            # per kind the last access; writes by another operation than the first: the third row
            self.last: Stamps = np.zeros((3, n), np.int64)
            # where several CTAs came: an access of another CTA than that of the last one
            self.before: Stamps | None = None
            # the last ld.global.nc
            self.nc: Stamps | None = None
            # the atomic operation of all writes so far, and of the first
            self.grid_op = np.full(n, NO_OP, np.uint8)
            self.first_op = np.full(n, NO_OP, np.uint8)

    def open(self, index: Any, kind: int, by: int) -> None:
        """Copies of a kind (0 read, 1 write) over these cells begin (`by` 1) or end (-1)."""
        if self.windows is None:
            self.windows = np.zeros((2, self.n), np.int32)
        np.add.at(self.windows[kind], index, by)

    def mark(self, cells: Any) -> None:
        """A race was found at these cells."""
        if self.racy is None:
            self.racy = np.zeros(self.n, bool)
        self.racy[cells] = True

    def note_op(self, index: Any, op: int, again: Any) -> None:
        """A write by an operation; `again`: flags of cells that this epoch had written before."""
        self.op[index] = np.where(again & (self.op[index] != op), MIXED, op)
        if self.grid:
            old, new = self.grid_op[index], op or MIXED
            self.grid_op[index] = np.where((old == NO_OP) | (old == new), new, MIXED)

    def note_grid(self, index: Any, event: Any, kind: int, op: int = 0) -> None:
        """Remember accesses (`event`) to cells of the grid; before `note_op`."""
        owners, cta = self.owners[kind], event >> CTA_SHIFT
        old = owners[index]
        owners[index] = np.where((old == NO_CTA) | (old == cta), cta, MANY_CTAS)
        lost = (owners[index] != cta) & (owners[index] != MANY_CTAS)
        owners[index[lost]] = MANY_CTAS  # two CTAs in one instruction
        if kind == WRITE:
            first = self.grid_op[index] == NO_OP
            self.first_op[index[first]] = op or MIXED
            other = self.first_op[index] != (op or MIXED)
            # an update hides no store of its CTA that does not commute with it
            hidden = other & (self.last[OTHER][index] >> CTA_SHIFT == cta) & bool(op)
            self._note_last(index[other & ~hidden], event[other & ~hidden], OTHER)
            index, event = index[~other], event[~other]
        self._note_last(index, event, kind)

    def _note_last(self, index: Any, event: Any, row: int) -> None:
        """Keep an access, and one of another CTA than this one's."""
        former = self.last[row][index]
        self.last[row][index] = event
        several = self.owners[min(row, WRITE)][index] == MANY_CTAS
        if not several.any():
            return
        if self.before is None:
            self.before = np.zeros((3, self.n), np.int64)
        now = self.last[row][index] >> CTA_SHIFT
        for other in (former, event):
            apart = several & (other > 0) & (other >> CTA_SHIFT != now)
            self.before[row][index[apart]] = other[apart]

    def of_another(self, kind: int, cells: Any, cta: Any, op: int = 0) -> Any:
        """The events of a kind at cells by another CTA, or 0 where none is kept.

        `op`: of writes, those by another operation.
        """
        found = self._of_another(kind, cells, cta)
        if kind == WRITE:
            if op:
                found = np.where(self.first_op[cells] == op, 0, found)
            found = np.where(found == 0, self._of_another(OTHER, cells, cta), found)
        return found

    def _of_another(self, row: int, cells: Any, cta: Any) -> Any:
        found = self.last[row][cells]
        found = np.where(found >> CTA_SHIFT == cta, 0, found)
        if self.before is not None:
            before = self.before[row][cells]
            found = np.where((found == 0) & (before >> CTA_SHIFT != cta), before, found)
        return found


def event(cta: Any, at: int, thread: Any) -> Any:
    """An access to global memory as a number: CTA + 1, instruction, thread."""
    return cta + 1 << CTA_SHIFT | at << EPOCH_SHIFT | thread


def parts(number: int) -> tuple[int, int, int]:
    """CTA, instruction, thread."""
    at = number >> EPOCH_SHIFT & (1 << CTA_SHIFT - EPOCH_SHIFT) - 1
    return (number >> CTA_SHIFT) - 1, at, number & MANY
