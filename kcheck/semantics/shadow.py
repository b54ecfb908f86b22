"""Shadow cells: who wrote and who read each cell last, as stamps.

A stamp orders accesses: CTA, then epoch, then thread (`MANY`: several threads of that epoch). So
an access of another thread of my CTA is unordered with mine if its stamp lies between the base
and the top of my epoch and is not mine. Shared cells belong to one CTA, and of their epochs only
the last few are told apart: their stamps are 16 bits. What no access needed yet is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Stamps = NDArray[Any]

CTA_SHIFT, EPOCH_SHIFT = 34, 11
MANY = (1 << EPOCH_SHIFT) - 1
# epochs that the stamps of shared cells tell apart, counted from 1
EPOCHS = (1 << 16 - EPOCH_SHIFT) - 1
# CTAs that accessed a cell: none yet, or several
NO_CTA, MANY_CTAS = -1, -2
# what wrote a cell: nothing yet, or not always the same atomic operation
NO_OP, MIXED = 0, (1 << 16) - 1
# kinds of access; the row of writes by another operation than a cell's first
READ, WRITE, OTHER = 0, 1, 2


class Shadow:
    """Stamps of `n` cells; `grid`: cells that several CTAs can reach. None: not needed yet."""

    def __init__(self, n: int, grid: bool) -> None:
        self.n = n
        self.grid = grid
        # by kind
        self.stamps: list[Stamps | None] = [None, None]
        # the atomic operation of all writes of the last epoch that wrote (0: a plain store)
        self.op: NDArray[np.uint16] | None = None
        # cells with a race in some epoch: there a stamp must not hide the accesses before it
        self.racy: NDArray[np.bool_] | None = None
        # asynchronous copies under way that read or write the cell: how many. Where 256 write one
        # cell the count is wrong, but their race was reported when the second began
        self.windows: list[NDArray[Any] | None] = [None, None]
        # of the grid: per kind of access the CTA
        self.owners: list[NDArray[np.int32] | None] = [None, None]
        # per kind the last access; writes by another operation than the first: the third row
        self.last: list[Stamps | None] = [None, None, None]
        # where several CTAs came: an access of another CTA than that of the last one
        self.before: list[Stamps | None] = [None, None, None]
        # the last ld.global.nc
        self.nc: Stamps | None = None
        # the atomic operation of all writes so far, and of the first; None: only plain stores
        self.grid_op: NDArray[np.uint16] | None = None
        self.first_op: NDArray[np.uint16] | None = None

    def stamps_of(self, kind: int) -> Stamps:
        """The stamps of a kind, made if need be."""
        known = self.stamps[kind]
        if known is None:
            known = np.zeros(self.n, np.int64 if self.grid else np.uint16)
            self.stamps[kind] = known
        return known

    def forget(self, ctas: NDArray[np.bool_]) -> None:
        """Drop the stamps of these CTAs' own (shared) cells."""
        for stamps in self.stamps:
            if stamps is not None:
                per = self.n // len(ctas)
                stamps[: per * len(ctas)].reshape(len(ctas), per)[ctas] = 0

    def open(self, index: Any, kind: int, by: int) -> None:
        """Copies of a kind over these cells begin (`by` 1) or end (-1)."""
        windows = self.windows[kind]
        if windows is None:
            dtype = np.int8 if kind == WRITE else np.int32
            windows = self.windows[kind] = np.zeros(self.n, dtype)
        np.add.at(windows, index, windows.dtype.type(by))

    def mark(self, cells: Any) -> None:
        """A race was found at these cells."""
        if self.racy is None:
            self.racy = np.zeros(self.n, bool)
        self.racy[cells] = True

    def same_op(self, index: Any, op: int) -> Any:
        """Cells whose writes of the last epoch were this operation, in whatever scope."""
        return None if self.op is None else self.op[index] >> 1 == op >> 1

    def same_grid_op(self, index: Any, op: int) -> Any:
        """Cells whose writes were all this operation, which reaches other CTAs."""
        return None if self.grid_op is None or not op & 1 else self.grid_op[index] == op

    def note_op(self, index: Any, op: int, again: Any) -> None:
        """A write by an operation; `again`: flags of cells that this epoch had written before."""
        if self.op is None and op:
            self.op = np.zeros(self.n, np.uint16)
        if self.op is not None:
            self.op[index] = np.where(again & (self.op[index] != op), MIXED, op)
        if self.grid_op is not None:
            old, new = self.grid_op[index], op or MIXED
            self.grid_op[index] = np.where((old == NO_OP) | (old == new), new, MIXED)

    def note_grid(self, index: Any, event: Any, kind: int, op: int = 0) -> None:
        """Remember accesses (`event`) to cells of the grid; before `note_op`."""
        if op and self.grid_op is None:
            self._note_plain()
        owners = self.owners[kind]
        if owners is None:
            owners = self.owners[kind] = np.full(self.n, NO_CTA, np.int32)
        cta = event >> CTA_SHIFT
        old = owners[index]
        owners[index] = np.where((old == NO_CTA) | (old == cta), cta, MANY_CTAS)
        lost = (owners[index] != cta) & (owners[index] != MANY_CTAS)
        owners[index[lost]] = MANY_CTAS  # two CTAs in one instruction
        if kind == WRITE and self.grid_op is not None and self.first_op is not None:
            first = self.grid_op[index] == NO_OP
            self.first_op[index[first]] = op or MIXED
            other = self.first_op[index] != (op or MIXED)
            if other.any():
                # an update hides no store of its CTA that does not commute with it
                hidden = other & bool(op) & (self._row(OTHER)[index] >> CTA_SHIFT == cta)
                self._note_last(index[other & ~hidden], event[other & ~hidden], OTHER)
                index, event = index[~other], event[~other]
        self._note_last(index, event, kind)

    def _note_plain(self) -> None:
        """All writes so far were plain stores; the next one is not."""
        owners = self.owners[WRITE]
        written = np.zeros(self.n, bool) if owners is None else owners != NO_CTA
        self.grid_op = np.where(written, MIXED, NO_OP).astype(np.uint16)
        self.first_op = self.grid_op.copy()

    def _row(self, row: int) -> Stamps:
        known = self.last[row]
        if known is None:
            known = self.last[row] = np.zeros(self.n, np.int64)
        return known

    def _note_last(self, index: Any, event: Any, row: int) -> None:
        """Keep an access, and one of another CTA than this one's."""
        last, owners = self._row(row), self.owners[min(row, WRITE)]
        former = last[index]
        last[index] = event
        assert owners is not None
        several = owners[index] == MANY_CTAS
        if not several.any():
            return
        before = self.before[row]
        if before is None:
            before = self.before[row] = np.zeros(self.n, np.int64)
        now = last[index] >> CTA_SHIFT
        for other in (former, event):
            apart = several & (other > 0) & (other >> CTA_SHIFT != now)
            before[index[apart]] = other[apart]

    def of_another(self, kind: int, cells: Any, cta: Any, alike: Any, op: int = 0) -> Any:
        """The events of a kind at cells by another CTA, or 0 where none is kept.

        `alike`: flags of the instructions whose updates commute with this access; not theirs.
        """
        found = self._of_another(kind, cells, cta, alike)
        if kind == WRITE and op & 1 and self.first_op is not None:
            # in this row are updates like the first one only, which are exactly these
            found = np.where(self.first_op[cells] == op, 0, found)
        if kind == WRITE:
            found = np.where(found == 0, self._of_another(OTHER, cells, cta, alike), found)
        return found

    def _of_another(self, row: int, cells: Any, cta: Any, alike: Any) -> Any:
        found = np.zeros(cells.shape, np.int64)
        for events in (self.before[row], self.last[row]):
            if events is not None:
                known = events[cells]
                fits = (known > 0) & (known >> CTA_SHIFT != cta) & ~alike[instruction(known)]
                found = np.where(fits, known, found)
        return found


def event(cta: Any, at: int, thread: Any) -> Any:
    """An access to global memory as a number: CTA + 1, instruction, thread."""
    return np.asarray(cta, np.int64) + 1 << CTA_SHIFT | at << EPOCH_SHIFT | thread


def instruction(event: Any) -> Any:
    """Which instruction it was."""
    return event >> EPOCH_SHIFT & (1 << CTA_SHIFT - EPOCH_SHIFT) - 1


def parts(event: int) -> tuple[int, int, int]:
    """CTA, instruction, thread."""
    return (event >> CTA_SHIFT) - 1, int(instruction(event)), event & MANY
