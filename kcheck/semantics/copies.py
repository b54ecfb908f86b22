"""cp.async as an agent: it may read and write at any moment from its issue to its completion.

Every access to a cell with an open window is a race, the issuing thread's own too; a barrier
closes no window, `cp.async.wait_group` and `wait_all` of the issuing thread do (DESIGN.md 5;
PTX ISA 9.7.9.25, cp.async).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.races import Access, Races

READ, WRITE = 0, 1


@dataclass
class Copy:
    """Copies of one instruction that are under way: of the lanes in `open`.

    `group`: per entry of the access's lanes, how many groups its thread had committed before.
    """

    access: Access
    group: Array
    open: Bool


class Copies:
    """The copies under way in a batch."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.pending: list[Copy] = []
        self.committed = np.zeros(races.machine.lanes, np.int64)

    def issue(self, access: Access) -> None:
        """The copy's access (a write of its destination, or a read of its source) may begin."""
        lanes = access.lanes
        access.shadow.open(access.cells, access.kind, 1)
        self.pending.append(Copy(access, self.committed[lanes], np.ones(len(lanes), bool)))

    def commit(self) -> None:
        """`cp.async.commit_group`."""
        self.committed = self.committed + self.races.machine.group()

    def wait(self, left: int | None) -> None:
        """`cp.async.wait_group left`, or `wait_all` (None): the older groups are complete."""
        races = self.races
        group = races.machine.group()
        kept = []
        for copy in self.pending:
            lanes = copy.access.lanes
            done = group[lanes] & copy.open
            if left is not None:
                done &= copy.group < self.committed[lanes] - left
            if done.any():
                copy.open = copy.open & ~done
                copy.access.shadow.open(copy.access.cells[:, done], copy.access.kind, -1)
                races.completed(copy.access, done)
            if copy.open.any():
                kept.append(copy)
        self.pending = kept

    def meet(self, access: Access) -> None:
        """Report an access to cells with an open window."""
        windows = access.shadow.windows
        if windows is None:
            return
        open_cells = windows[WRITE][access.cells] > 0
        if access.kind == WRITE:
            open_cells |= windows[READ][access.cells] > 0
        if not open_cells.any():
            return
        for copy in self.pending:
            theirs = copy.access
            if theirs.shadow is not access.shadow or theirs is access:
                continue
            if theirs.kind == READ and access.kind == READ:
                continue
            cells = theirs.cells[:, copy.open].reshape(-1)
            hit = np.isin(access.cells, cells)
            if hit.any():
                self._report(copy, access, hit)

    def _report(self, copy: Copy, access: Access, hit: Bool) -> None:
        i = int(hit.argmax())
        cell = int(access.cells.reshape(-1)[i])
        me = int(np.broadcast_to(access.lanes, hit.shape).reshape(-1)[i])
        theirs = copy.access
        wide = np.broadcast_to(theirs.lanes, theirs.cells.shape)
        here = (theirs.cells == cell) & copy.open
        other = int(wide[here][0])
        self.races.report_async(theirs, access, other, me, cell, int(hit.sum()))
