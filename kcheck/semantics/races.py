"""Races: two overlapping accesses of different threads, one a write, that nothing orders.

DESIGN.md 5. Every access of shared memory, and of global memory that the kernel may write, is
checked against the stamps of its cells (`semantics.shadow`): linear, no pair of threads is looked
at. Only where a stamp conflicts is the log of the epoch searched for the pair, and, if barriers
among a part of the threads came between, vector clocks decide (`semantics.clocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access import Place
from kcheck.semantics.clocks import Clocks
from kcheck.semantics.copies import Copies
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import CTA_SHIFT, EPOCH_SHIFT, MANY, MANY_CTAS, NO_CTA, Shadow
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

READ, WRITE = 0, 1


@dataclass
class Access:
    """One executed memory instruction in the log: `cells` (k, lanes), `lanes` (lanes,).

    `base`: the epochs and `own` the clocks of all lanes when it ran.
    """

    at: int
    shadow: Shadow
    region: Region
    cells: Array
    lanes: Array
    kind: int
    op: int
    base: Array
    own: Array


@dataclass
class Race:
    """Two accesses that nothing orders, the earlier one first; `count` pairs of lanes seen.

    `cell`: of `region`'s memory. Lanes are of the running batch; a lane of another CTA is given
    by `other_thread` and `other_cta`.
    """

    reason: str
    first: int
    second: int
    first_who: tuple[int, int]
    second_who: tuple[int, int]
    region: str
    offset: int
    count: int = 1


class Races:
    """The monitor of one machine; shadows of the grid live as long as the run."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.found: dict[tuple[str, int, int], Race] = {}
        # lanes of one instruction that stored equal values to one address: instruction -> count
        self.same_value: dict[int, int] = {}
        self.grids: dict[int, Shadow] = {}
        self.strong = [_strong(i.opcode) for i in machine.kernel.code]

    # a batch

    def begin(self) -> None:
        """A new batch of CTAs: shared memory is fresh."""
        m = self.machine
        self.clocks = Clocks(len(m.ctas), m.threads)
        self.serial = m.ctas[m.cta_of] + 1
        self.tid = m.lane % m.threads + 1
        self.log: list[Access] = []
        # accesses by threads that left before a barrier: nothing ever orders them
        self.gone: list[Access] = []
        self.left: Bool = np.zeros(m.lanes, bool)
        shared = m.regions.shared_memory
        self.shared = Shadow(shared.n, grid=False)
        self.copies = Copies(self)
        self._renew()

    def _renew(self) -> None:
        epoch = self.clocks.epoch[self.machine.cta_of]
        self.cta_base = self.serial << CTA_SHIFT
        self.base = self.cta_base | epoch << EPOCH_SHIFT
        self.mine = self.base | self.tid

    def end_epoch(self, ctas: Bool) -> None:
        """These CTAs (flags) passed a barrier of all their live threads."""
        if self.left.any():
            self._keep_gone(ctas)
        self.clocks.end_epoch(ctas)
        if ctas.all():
            self.log.clear()
        self._renew()

    def exited(self, lanes: Bool) -> None:
        """These lanes are done."""
        self.left = self.left | lanes

    def _keep_gone(self, ctas: Bool) -> None:
        leaving = self.left & ctas[self.machine.cta_of]
        for access in self.log:
            stay = leaving[access.lanes] & (access.base[access.lanes] == self.base[access.lanes])
            if stay.any():
                self.gone.append(
                    Access(
                        access.at,
                        access.shadow,
                        access.region,
                        np.atleast_2d(access.cells)[:, stay],
                        access.lanes[stay],
                        access.kind,
                        access.op,
                        access.base,
                        access.own,
                    )
                )
        self.left = self.left & ~leaving

    # accesses

    def _shadow(self, region: Region) -> Shadow | None:
        """The cells to watch, or None where nothing can race."""
        if region.space == "shared":
            return self.shared
        if region.readonly or region.space in ("local", "const"):
            return None
        key = id(region.memory)
        if key not in self.grids:
            self.grids[key] = Shadow(region.memory.n, grid=True)
        return self.grids[key]

    def _cells(self, place: Place, nbytes: int) -> tuple[Array, Array]:
        """Cells (k, lanes) and lanes of an access."""
        m = self.machine
        cell = place.cell if place.mask is None else place.cell[place.mask]
        lanes = m.lane if place.mask is None else m.lane[place.mask]
        k = max(nbytes // place.region.memory.granule, 1)
        return cell[None, :] if k == 1 else cell + np.arange(k)[:, None], lanes

    def read(self, place: Place, nbytes: int, nc: bool = False) -> None:
        """The lanes of a place load `nbytes`."""
        shadow = self._shadow(place.region)
        if shadow is not None:
            cells, lanes = self._cells(place, nbytes)
            self.read_cells(shadow, place.region, cells, lanes)
            if nc:
                self._nc_read(shadow, place.region, cells, lanes)

    def read_cells(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        """Loads of `cells` (k, lanes)."""
        base, mine = self.base[lanes], self.mine[lanes]
        access = self._access(shadow, region, cells, lanes, READ, 0)
        self._check(access, shadow.write[cells], WRITE, None)
        self._windows(access)
        old = shadow.read[cells]
        stamp = np.where((old <= base) | (old == mine), mine, base | MANY)
        shadow.read[cells] = stamp
        lost = shadow.read[cells] != stamp
        if lost.any():
            shadow.read[cells[lost]] = np.broadcast_to(base | MANY, cells.shape)[lost]
        if shadow.grid:
            self._across(access, WRITE, None)
            self._note(access)
        self.log.append(access)

    def write(self, place: Place, nbytes: int, op: int = 0) -> Bool | None:
        """The lanes of a place store `nbytes` (or update atomically: `op`).

        Returns flags (k, lanes) of cells that another lane of this instruction stored to as well
        (None: no cell); whether that is a race hangs on the values.
        """
        shadow = self._shadow(place.region)
        if shadow is None:
            return None
        cells, lanes = self._cells(place, nbytes)
        return self.write_cells(shadow, place.region, cells, lanes, op)

    def write_cells(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, op: int = 0
    ) -> Bool | None:
        """Stores to `cells` (k, lanes); see `write`."""
        base, mine = self.base[lanes], self.mine[lanes]
        access = self._access(shadow, region, cells, lanes, WRITE, op)
        same_op = (shadow.op[cells] == op) if op else None
        old = shadow.write[cells]
        self._check(access, old, WRITE, same_op)
        self._check(access, shadow.read[cells], READ, None)
        self._windows(access)
        if shadow.grid:
            self._across(access, WRITE, same_op)
            self._across(access, READ, None)
            self._nc_write(access)
            self._note(access)
        shadow.write[cells] = np.broadcast_to(mine, cells.shape)
        lost = shadow.write[cells] != mine
        several = lost | ((old > base) & (old != mine)) if op else lost
        if several.any():  # several threads in one epoch
            shadow.write[cells[several]] = np.broadcast_to(base | MANY, cells.shape)[several]
        shadow.op[cells] = op
        self.log.append(access)
        return lost if not op and lost.any() else None

    def _access(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, kind: int, op: int
    ) -> Access:
        at = self.machine.at
        return Access(at, shadow, region, cells, lanes, kind, op, self.base, self.clocks.own)

    # conflicts within a CTA

    def _check(self, access: Access, stamps: Array, against: int, exempt: Array | None) -> None:
        """Compare with the last accesses (`stamps`) of kind `against` to the same cells."""
        lanes = access.lanes
        bad = (stamps > self.base[lanes]) & (stamps != self.mine[lanes])
        if access.shadow.grid:
            bad &= stamps >> CTA_SHIFT == self.serial[lanes]
        if exempt is not None:
            bad &= ~exempt
        if bad.any():
            self._search(access, bad, against)
        for gone in self.gone:
            if gone.shadow is access.shadow and gone.kind == against:
                self._meet(gone, *_sorted(access, np.ones(access.cells.shape, bool)), access)

    def _search(self, access: Access, bad: Bool, against: int) -> None:
        """Find the pairs behind conflicting stamps in the log, the latest first."""
        cells, lanes = _sorted(access, bad)
        for earlier in reversed(self.log):
            if earlier.shadow is not access.shadow or earlier.kind != against:
                continue
            if access.op and earlier.op == access.op:
                continue
            self._meet(earlier, cells, lanes, access)

    def _meet(self, earlier: Access, cells: Array, lanes: Array, access: Access) -> None:
        """Report the pairs of an earlier access and this one (sorted cells, their lanes)."""
        theirs = earlier.cells.reshape(-1)
        left, right = (
            np.searchsorted(cells, theirs, "left"),
            np.searchsorted(cells, theirs, "right"),
        )
        many = right - left
        total = int(many.sum())
        if not total:
            return
        which = np.repeat(np.arange(len(theirs)), many)
        start = np.repeat(left - np.concatenate([[0], np.cumsum(many)[:-1]]), many)
        me = lanes[start + np.arange(total)]
        other = np.broadcast_to(earlier.lanes, earlier.cells.shape).reshape(-1)[which]
        current = earlier.base[other] == self.base[other]
        live = current | any(earlier is gone for gone in self.gone)
        unordered = (me != other) & live & (self.serial[me] == self.serial[other])
        if self.clocks.partial.any():
            known = self.clocks.ordered(me, other, earlier.own[other])
            unordered &= ~(known & current)
        if unordered.any():
            i = int(unordered.argmax())
            cell = int(theirs[which[i]])
            self._report(
                self._reason(earlier, access),
                earlier.at,
                access.at,
                self._who(int(other[i])),
                self._who(int(me[i])),
                access,
                cell,
                int(unordered.sum()),
            )

    def _reason(self, earlier: Access, access: Access) -> str:
        if self.strong[earlier.at] and self.strong[access.at]:
            return "race.unordered"
        both = earlier.kind == WRITE and access.kind == WRITE
        return "race.write-write" if both else "race.read-write"

    def _who(self, lane: int) -> tuple[int, int]:
        """(thread, CTA), both linear."""
        m = self.machine
        return lane % m.threads, int(m.ctas[lane // m.threads])

    def _report(
        self,
        reason: str,
        first: int,
        second: int,
        first_who: tuple[int, int],
        second_who: tuple[int, int],
        access: Access,
        cell: int,
        count: int,
    ) -> None:
        key = (reason, first, second)
        known = self.found.get(key)
        if known is not None:
            known.count += count
            return
        offset = self._offset(access.region, cell, second_who[1])
        self.found[key] = Race(
            reason, first, second, first_who, second_who, access.region.name, offset, count
        )

    def _offset(self, region: Region, cell: int, cta: int) -> int:
        """The byte offset in the region of a cell of its memory."""
        granule = region.memory.granule
        if region.space != "shared":
            return cell * granule
        m = self.machine
        batch = int(np.flatnonzero(m.ctas == cta)[0])
        return (cell - batch * (m.regions.shared_bytes // granule)) * granule - region.base

    # conflicts across CTAs

    def _across(self, access: Access, against: int, exempt: Array | None) -> None:
        shadow, cells = access.shadow, access.cells
        ctas = (shadow.writers if against == WRITE else shadow.readers)[cells]
        mine = self.serial[access.lanes] - 1
        bad = (ctas != NO_CTA) & (ctas != mine)
        if exempt is not None:
            bad &= ~exempt
        if not bad.any():
            return
        i = int(bad.argmax())
        cell = int(cells.reshape(-1)[i])
        lane = int(np.broadcast_to(access.lanes, cells.shape).reshape(-1)[i])
        stamps = shadow.write if against == WRITE else shadow.read
        at = (shadow.write_at if against == WRITE else shadow.read_at)[cell]
        thread = (shadow.write_lane if against == WRITE else shadow.read_lane)[cell]
        other = int(ctas.reshape(-1)[i])
        if other == MANY_CTAS:
            other = int(stamps[cell] >> CTA_SHIFT) - 1
        self._report(
            "race.global",
            int(at),
            access.at,
            (int(thread), other),
            self._who(lane),
            access,
            cell,
            int(bad.sum()),
        )

    def _note(self, access: Access) -> None:
        lanes = access.lanes
        access.shadow.note_grid(
            access.cells,
            self.serial[lanes] - 1,
            access.at,
            self.tid[lanes] - 1,
            access.kind == WRITE,
        )

    # ld.global.nc

    def _nc_read(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        if shadow.nc is None:
            shadow.nc = np.full(shadow.n, -1, np.int32)
        access = self._access(shadow, region, cells, lanes, READ, 0)
        bad = shadow.write[cells] > 0
        if bad.any():
            self._nc_report(access, bad, shadow.write_at)
        shadow.nc[cells] = access.at

    def _nc_write(self, access: Access) -> None:
        nc = access.shadow.nc
        if nc is not None and (nc[access.cells] >= 0).any():
            self._nc_report(access, nc[access.cells] >= 0, nc)

    def _nc_report(self, access: Access, bad: Bool, at: Array) -> None:
        i = int(bad.argmax())
        cell = int(access.cells.reshape(-1)[i])
        lane = int(np.broadcast_to(access.lanes, bad.shape).reshape(-1)[i])
        who = self._who(lane)
        self._report("race.nc", int(at[cell]), access.at, who, who, access, cell, int(bad.sum()))

    # asynchronous copies (semantics.copies)

    def _windows(self, access: Access) -> None:
        self.copies.meet(access)

    def issue(self, target: Place, source: Place | None, nbytes: int, source_bytes: int) -> None:
        """A cp.async of the lanes of a place begins."""
        for place, size, kind in ((source, source_bytes, READ), (target, nbytes, WRITE)):
            shadow = None if place is None or not size else self._shadow(place.region)
            if shadow is None or place is None:
                continue
            cells, lanes = self._cells(place, size)
            access = self._access(shadow, place.region, cells, lanes, kind, 0)
            self._check(access, shadow.write[cells], WRITE, None)
            if kind == WRITE:
                self._check(access, shadow.read[cells], READ, None)
            self._windows(access)
            if shadow.grid:
                self._across(access, WRITE, None)
                if kind == WRITE:
                    self._across(access, READ, None)
                self._note(access)
            self.copies.issue(access)

    def completed(self, access: Access, done: Bool) -> None:
        """Copies are complete in some of their lanes: from now on the thread's own accesses."""
        cells, lanes = access.cells[:, done], access.lanes[done]
        now = self._access(access.shadow, access.region, cells, lanes, access.kind, 0)
        now.at = access.at
        stamps = access.shadow.write if access.kind == WRITE else access.shadow.read
        stamps[cells] = np.broadcast_to(self.mine[lanes], cells.shape)
        if access.kind == WRITE:
            access.shadow.op[cells] = 0
        self.log.append(now)

    def report_async(
        self, copy: Access, access: Access, other: int, me: int, cell: int, count: int
    ) -> None:
        """An access meets a copy that is under way."""
        self._report(
            "race.async", copy.at, access.at, self._who(other), self._who(me), access, cell, count
        )


def _sorted(access: Access, chosen: Bool) -> tuple[Array, Array]:
    """The chosen cells in order, and the lanes that access them."""
    cells = access.cells[chosen]
    lanes = np.broadcast_to(access.lanes, access.cells.shape)[chosen]
    order = cells.argsort(kind="stable")
    return cells[order], lanes[order]


def _strong(opcode: tuple[str, ...]) -> bool:
    """Atomics, and loads and stores that are volatile or carry an order (PTX ISA 8.4)."""
    return opcode[0] in ("atom", "red") or bool(
        {"volatile", "relaxed", "acquire", "release", "acq_rel"} & set(opcode)
    )
