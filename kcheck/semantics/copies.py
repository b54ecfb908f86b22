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
    from kcheck.semantics.access import Place
    from kcheck.semantics.accesses import Access
    from kcheck.semantics.races import Races

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
                self.completed(copy.access, done)
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

    def completed(self, access: Access, done: Bool) -> None:
        """Copies are complete in some of their lanes: from now on the thread's own accesses."""
        races = self.races
        cells, lanes = access.cells[:, done], access.lanes[done]
        now = races.access(access.shadow, access.region, cells, lanes, access.kind, 0)
        now.at = access.at
        races.stamp(
            access.shadow.write if access.kind == WRITE else access.shadow.read, cells, lanes
        )
        if access.kind == WRITE:
            access.shadow.note_op(cells, 0, np.ones(cells.shape, bool))
        races.log.append(now)


def issue_read(races: Races, place: Place, nbytes: int) -> None:
    """A cp.async that reads from here begins."""
    _issue(races, place, nbytes, READ)


def issue_write(races: Races, place: Place, nbytes: int) -> None:
    """A cp.async that writes here begins."""
    _issue(races, place, nbytes, WRITE)


def _issue(races: Races, place: Place, nbytes: int, kind: int) -> None:
    shadow = races.shadow(place.region)
    if shadow is None:
        return
    cells, lanes = races.cells_of(place, nbytes)
    access = races.access(shadow, place.region, cells, lanes, kind, 0)
    races.check(access, shadow.write[cells], WRITE, None)
    if kind == WRITE:
        races.check(access, shadow.read[cells], READ, None)
    races.copies.meet(access)
    if shadow.grid:
        races.grid.check(access, WRITE, None)
        if kind == WRITE:
            races.grid.check(access, READ, None)
        races.grid.note(access)
    if kind == WRITE:
        _issued_together(races, access)
    races.copies.issue(access)


def _issued_together(races: Races, access: Access) -> None:
    """Lanes of one cp.async that write to one cell."""
    order = access.cells.reshape(-1).argsort(kind="stable")
    cells = access.cells.reshape(-1)[order]
    lanes = np.broadcast_to(access.lanes, access.cells.shape).reshape(-1)[order]
    twice = np.flatnonzero(cells[1:] == cells[:-1])
    if len(twice):
        i = int(twice[0])
        first, second = int(lanes[i]), int(lanes[i + 1])
        races.report_async(access, access, first, second, int(cells[i]), len(twice))
