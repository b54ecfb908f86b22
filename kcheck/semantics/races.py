"""Races: two overlapping accesses of different threads, one a write, that nothing orders.

DESIGN.md 5. Every access of shared memory, and of global memory that the kernel may write, is
checked against the stamps of its cells (`semantics.shadow`): linear, no pair of threads is looked
at. Only where a stamp conflicts is the log of the epoch searched for the pair, and, if barriers
among a part of the threads came between, vector clocks decide (`semantics.clocks`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access import Place
from kcheck.semantics.accesses import Access, by_cell, may_conflict, pairs_of
from kcheck.semantics.barriers import NONE
from kcheck.semantics.clocks import Clocks
from kcheck.semantics.copies import Copies
from kcheck.semantics.generations import Generations
from kcheck.semantics.grid_races import GridRaces
from kcheck.semantics.orders import WIDE, Orders
from kcheck.semantics.race_reports import READ, WRITE, Reports
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import CTA_SHIFT, EPOCH_SHIFT, MANY, Shadow
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

WARP = 32
# entries of the log from which on those of past epochs are looked for
LOGGED = 256


class Races(Reports):
    """The monitor of one machine; shadows of the grid live as long as the run.

    `orders`: what is ordered by more than barriers, where CTAs or warps wait for one another.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__()
        # report lanes of one instruction that store equal values to one address
        self.strict = False
        # lanes of one instruction that stored equal values to one address: instruction -> count
        self.same_value: dict[int, int] = {}
        self.grids: dict[int, Shadow] = {}
        self.grid = GridRaces(self)
        self.orders: Orders | None = None

    # a batch

    def begin(self) -> None:
        """A new batch of CTAs: shared memory is fresh."""
        m = self.machine
        self.clocks = Clocks(len(m.ctas), m.threads)
        if m.plan.grid:
            self.orders = Orders(self.clocks)
        self.serial = m.ctas[m.cta_of] + 1
        self.tid = m.lane % m.threads + 1
        self.log: list[Access] = []
        self.most = LOGGED
        self.last: Array = np.full(m.lanes, -1, np.int64)
        # accesses by threads that left before a barrier: nothing ever orders them
        self.gone: list[Access] = []
        self.left: Bool = np.zeros(m.lanes, bool)
        shared = m.regions.shared_memory
        self.shared = Shadow(shared.n, grid=False)
        self.copies = Copies(self)
        # (CTA of the batch, barrier) -> what `bar.arrive` released to it
        self.pledged: dict[tuple[int, int], Array] = {}
        self.generations = Generations(self)
        self._renew()

    def _renew(self) -> None:
        epoch = self.clocks.epoch[self.machine.cta_of]
        self.cta_base = self.serial << CTA_SHIFT
        self.base = self.cta_base | epoch << EPOCH_SHIFT
        self.mine = self.base | self.tid

    def end_epoch(self, ctas: Bool, pledged: dict[int, Array] | None = None) -> None:
        """These CTAs (flags) passed a barrier of all their live threads.

        `pledged`: per CTA what others released to the barrier.
        """
        self._synced(ctas[self.machine.cta_of] & self.machine.alive)
        if self.left.any() or self.gone:
            self._keep_gone(ctas, pledged or {})
        if self.orders is not None:
            self.orders.end_epoch(ctas, self.machine.alive)
        self.clocks.end_epoch(ctas)
        self.pledged = {key: self._still_due(key[0], row) for key, row in self.pledged.items()}
        self.generations.forget(ctas)
        if ctas.all():
            self.log.clear()
        self._renew()
        if len(self.log) > self.most:
            self._forget()

    def _forget(self) -> None:
        """Drop accesses of epochs that are over, where CTAs go on one by one."""
        live = [a for a in self.log if (a.base[a.lanes] == self.base[a.lanes]).any()]
        self.log, self.most = live, max(LOGGED, 2 * len(live))

    def _still_due(self, cta: int, row: Array) -> Array:
        """What `bar.arrive` released and nobody waited for yet: the barrier that ends the epoch
        ordered it, but for what threads did that left.
        """
        alive = self.machine.alive.reshape(len(self.machine.ctas), -1)[cta]
        return np.where(alive, 0, row)

    def _synced(self, lanes: Bool) -> None:
        """These lanes passed a barrier: the one where they wait, or that of this instruction."""
        waits = self.machine.barriers
        where = np.where(waits.ident == NONE, self.machine.at, waits.place)
        self.last = np.where(lanes, where, self.last)

    # barriers among a part of the threads

    def warps_meet(self, lanes: Bool) -> None:
        """These lanes, some of each warp, passed a `bar.warp.sync` with one another."""
        m = self.machine
        if not self.log and not self.copies.pending and self.orders is None:
            return  # there is nothing that it could order
        whole = (lanes | ~m.alive).reshape(len(m.ctas), -1)
        if m.threads == WARP and whole.all():
            self.end_epoch(np.ones(len(m.ctas), bool))
            return
        self._synced(lanes)
        named = lanes.reshape(-1, WARP)
        self.clocks.join_warps(named)
        if self.orders is not None:
            for warp in np.flatnonzero(named.any(1)):
                self.orders.meet(WARP * warp + np.flatnonzero(named[warp]))

    def arrived(self, ident: int, lanes: Bool) -> None:
        """`bar.arrive`: what these lanes did so far is released to who waits at the barrier."""
        self.generations.come(ident, lanes)
        for cta, members in self._by_cta(lanes):
            row = self.clocks.release(members)
            known = self.pledged.get((cta, ident))
            self.pledged[cta, ident] = row if known is None else np.maximum(known, row)

    def passed(self, ident: int, lanes: Bool) -> None:
        """These lanes go on after waiting at a barrier, together with all that arrived there."""
        m = self.machine
        alive = m.alive.reshape(len(m.ctas), -1)
        here = lanes.reshape(alive.shape)
        whole = np.asarray((here | ~alive).all(1) & here.any(1))
        pledged = {}
        for cta, members in self._by_cta(lanes):
            row = self.pledged.pop((cta, ident), None)
            if whole[cta]:
                if row is not None:
                    pledged[cta] = row
                continue
            own = self.clocks.release(members)
            all_know = own if row is None else np.maximum(own, row)
            self.generations.complete(cta, ident, members, all_know)
            self.clocks.acquire(members, all_know)
            if self.orders is not None:
                self.orders.meet(members)
            self._synced(lanes)
        if whole.any():
            self.end_epoch(whole, pledged)

    def surplus(self, ident: int, lanes: Bool) -> None:
        """These lanes wait on, though the barrier had all it waits for when they came."""
        for cta, members in self._by_cta(lanes):
            generation = self.generations.barriers[cta, ident]
            place = int(self.machine.barriers.place[members[0]])
            self.report_pairing(
                generation.at, int(generation.waiters[0]), int(members[0]), ident, place
            )

    def _by_cta(self, lanes: Bool) -> list[tuple[int, Array]]:
        where = np.flatnonzero(lanes)
        ctas = where // self.machine.threads
        return [(int(cta), where[ctas == cta]) for cta in np.unique(ctas)]

    def exited(self, lanes: Bool) -> None:
        """These lanes are done."""
        self.left = self.left | lanes
        if self.orders is not None:
            cta = self.machine.cta_of[lanes]
            self.orders.left[lanes] = self.clocks.epoch[cta]

    def _keep_gone(self, ctas: Bool, pledged: dict[int, Array]) -> None:
        """Keep what threads that left did and nobody who is left knows of."""
        ending = ctas[self.machine.cta_of]
        log = self.log if (self.left & ending).any() else []
        known = self.clocks.known_by(self.machine.alive, pledged)
        kept = []
        for access in (*self.gone, *log):
            lanes = access.lanes
            stay = self.left[lanes] & ending[lanes] & (access.base[lanes] == self.base[lanes])
            stay |= any(access is gone for gone in self.gone)
            if known is not None:
                stay &= ~ending[lanes] | (known[lanes] < access.own[lanes])
            if stay.any():
                cells = np.atleast_2d(access.cells)[:, stay]
                kept.append(replace(access, cells=cells, lanes=lanes[stay]))
        self.gone = kept
        self.left = self.left & ~ending

    # accesses

    def shadow(self, region: Region) -> Shadow | None:
        """The cells to watch, or None where nothing can race."""
        if region.space == "shared":
            return self.shared
        if region.readonly or region.space in ("local", "const"):
            return None
        key = id(region.memory)
        if key not in self.grids:
            self.grids[key] = Shadow(region.memory.n, grid=True)
        return self.grids[key]

    def cells_of(self, place: Place, nbytes: int) -> tuple[Array, Array]:
        """Cells (k, lanes) and lanes of an access."""
        m = self.machine
        cell = place.cell if place.mask is None else place.cell[place.mask]
        lanes = m.lane if place.mask is None else m.lane[place.mask]
        k = max(nbytes // place.region.memory.granule, 1)
        return cell[None, :] if k == 1 else cell + np.arange(k)[:, None], lanes

    def read(self, place: Place, nbytes: int) -> None:
        """The lanes of a place load `nbytes`."""
        shadow = self.shadow(place.region)
        if shadow is not None:
            self.read_cells(shadow, place.region, *self.cells_of(place, nbytes))
            flags = self.machine.flags
            if flags is not None and flags.has(place.region):
                flags.read(place, nbytes)

    def wait(self, place: Place, nbytes: int) -> None:
        """The load of a wait loop: `semantics.flags` knows which writes it may meet."""
        shadow = self.shadow(place.region)
        if shadow is not None:
            self.read_cells(shadow, place.region, *self.cells_of(place, nbytes))

    def read_nc(self, place: Place, nbytes: int) -> None:
        """The same by `ld.global.nc`, which must meet no write at all, ordered or not."""
        shadow = self.shadow(place.region)
        if shadow is not None:
            self.grid.read_nc(shadow, place.region, *self.cells_of(place, nbytes))

    def read_rows(self, place: Place, nbytes: int, readers: tuple[Array, Array]) -> None:
        """`ldmatrix`: each lane of a place gives a row that other lanes read.

        `readers`: per lane of the batch two lanes that get a part of its row; whoever wrote to
        the row, one of them is somebody else.
        """
        shadow = self.shadow(place.region)
        if shadow is not None:
            cells, lanes = self.cells_of(place, nbytes)
            both = np.concatenate([who[lanes] for who in readers])
            self.read_cells(shadow, place.region, np.concatenate([cells, cells], axis=1), both)

    def read_cells(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        """Loads of `cells` (k, lanes)."""
        access = self.access(shadow, region, cells, lanes, READ, 0)
        flag = self.is_flag(region)
        if not flag:
            self.check(access, shadow.write[cells], WRITE, None)
        self.copies.meet(access)
        self.stamp(shadow.read, cells, lanes)
        if shadow.grid:
            if not flag:
                self.grid.check(access, WRITE, None)
            self.grid.note(access)
        self.log.append(access)

    def stamp(self, stamps: Array, cells: Array, lanes: Array) -> None:
        """Lanes accessed cells, and perhaps others did in the same epoch."""
        base, mine = self.base[lanes], self.mine[lanes]
        old = stamps[cells]
        stamp = np.where((old <= base) | (old == mine), mine, base | MANY)
        stamps[cells] = stamp
        lost = stamps[cells] != stamp
        if lost.any():
            stamps[cells[lost]] = np.broadcast_to(base | MANY, cells.shape)[lost]

    def write(self, place: Place, nbytes: int, op: int = 0) -> Bool | None:
        """The lanes of a place store `nbytes` (or update atomically: `op`).

        Returns flags (k, lanes) of cells that another lane of this instruction stored to as well
        (None: no cell); whether that is a race hangs on the values.
        """
        shadow = self.shadow(place.region)
        if shadow is None:
            return None
        cells, lanes = self.cells_of(place, nbytes)
        return self.write_cells(shadow, place.region, cells, lanes, op)

    def write_cells(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, op: int = 0
    ) -> Bool | None:
        """Stores to `cells` (k, lanes); see `write`."""
        base, mine = self.base[lanes], self.mine[lanes]
        access = self.access(shadow, region, cells, lanes, WRITE, op)
        last = shadow.op[cells]
        same_op = (last >> 1 == op >> 1) if op else None
        old, flag = shadow.write[cells], self.is_flag(region)
        if not flag:  # else `semantics.flags` does
            self.check(access, old, WRITE, same_op)
        self.check(access, shadow.read[cells], READ, None)
        self.copies.meet(access)
        if shadow.grid:
            if not flag:
                self.grid.check(access, WRITE, (shadow.grid_op[cells] == op) if op & 1 else None)
            self.grid.check(access, READ, None)
            self.grid.write_after_nc(access)
            self.grid.note(access)
            if op and not op & 1 and not flag:
                self.grid.short_scope(access)
        shadow.write[cells] = np.broadcast_to(mine, cells.shape)
        lost = shadow.write[cells] != mine
        several = lost
        if op or shadow.racy is not None:
            others = (old > base) & (old != mine)
            several = lost | (others if op or shadow.racy is None else others & shadow.racy[cells])
        if several.any():  # several threads in one epoch
            shadow.write[cells[several]] = np.broadcast_to(base | MANY, cells.shape)[several]
        shadow.note_op(cells, op, old > base)
        self.log.append(access)
        return lost if not op and lost.any() else None

    def is_flag(self, region: Region) -> bool:
        """Does it hold cells whose writes `semantics.flags` keeps?"""
        flags = self.machine.flags
        return flags is not None and flags.has(region)

    def access(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, kind: int, op: int
    ) -> Access:
        at = self.machine.at
        own = self.clocks.own
        tail = self.machine.tail
        return Access(at, shadow, region, cells, lanes, kind, op, self.base, own, self.last, tail)

    # conflicts within a CTA

    def check(self, access: Access, stamps: Array, against: int, exempt: Array | None) -> None:
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
            if may_conflict(gone, access, against):
                self._meet(gone, *by_cell(access, np.ones(access.cells.shape, bool)), access)

    def _search(self, access: Access, bad: Bool, against: int) -> None:
        """Find the pairs behind conflicting stamps in the log, the latest first."""
        cells, lanes = by_cell(access, bad)
        for earlier in reversed(self.log):
            if may_conflict(earlier, access, against):
                self._meet(earlier, cells, lanes, access)

    def _meet(self, earlier: Access, cells: Array, lanes: Array, access: Access) -> None:
        """Report the pairs of an earlier access and this one (sorted cells, their lanes)."""
        cell, me, other = pairs_of(earlier, cells, lanes)
        if not len(me):
            return
        current = earlier.base[other] == self.base[other]
        live = current | any(earlier is gone for gone in self.gone)
        unordered = (me != other) & live & (self.serial[me] == self.serial[other])
        if self.clocks.partial.any():
            unordered &= ~self.clocks.ordered(me, other, earlier.own[other])
        if self.orders is not None and unordered.any():
            known = self.orders.known(me, other, earlier.times(other))
            unordered &= ~known & (not self.exempt(earlier, access, near=True))
        if unordered.any():
            access.shadow.mark(cell[unordered])
            i = int(unordered.argmax())
            reason, at = self.reason_of(earlier, access), (earlier.at, access.at)
            who = self.who(int(other[i])), self.who(int(me[i]))
            count = int(unordered.sum())
            synced = int(earlier.last[other[i]]), int(access.last[me[i]])
            self.report(reason, *at, *who, access.region, int(cell[i]), count, synced)

    def exempt(self, earlier: Access, access: Access, near: bool) -> bool:
        """Is one the load of a loop that waits for the other? `near`: within a CTA."""
        kinds, waits = self.machine.plan.kinds, self.machine.plan.waits
        if earlier.at not in waits and access.at not in waits:
            return False
        scopes = [kinds[at].scope if at in kinds else 0 for at in (earlier.at, access.at)]
        return min(scopes) >= (1 if near else WIDE)
