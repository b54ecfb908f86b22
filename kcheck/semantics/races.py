"""Races: two overlapping accesses of different threads, one a write, that nothing orders.

DESIGN.md 5. Every access of shared memory, and of global memory that the kernel may write, is
checked against the stamps of its cells (`semantics.shadow`): linear, no pair of threads is looked
at. Only where a stamp conflicts is the log of the epoch searched for the pair, and, if barriers
among a part of the threads came between, vector clocks decide (`semantics.clocks`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.semantics.access import Place
from kcheck.semantics.access_log import Log
from kcheck.semantics.accesses import Access
from kcheck.semantics.barriers import NONE
from kcheck.semantics.clocks import Clocks
from kcheck.semantics.copies import Copies
from kcheck.semantics.generations import Generations
from kcheck.semantics.grid_races import GridRaces
from kcheck.semantics.orders import Orders, Pledge
from kcheck.semantics.race_search import Search, others
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import (
    CTA_SHIFT,
    EPOCH_SHIFT,
    EPOCHS,
    MANY,
    READ,
    WRITE,
    Shadow,
    Stamps,
)
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

WARP = 32
# entries of the log from which on those of past epochs are looked for
LOGGED = 256


class Races(Search):
    """The monitor of one machine; shadows of the grid live as long as the run.

    `orders`: what is ordered by more than barriers, where CTAs or warps wait for one another.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        # report lanes of one instruction that store equal values to one address
        self.strict = False
        # lanes of one instruction that stored equal values to one address: instruction -> count
        self.same_value: dict[int, int] = {}
        # updates with given operands: instruction or name, and operands -> number
        self.given: dict[tuple[Any, ...], int] = {}
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
        self.serial = (m.ctas[m.cta_of] + 1).astype(np.int32)
        self.tid = (m.lane % m.threads + 1).astype(np.uint16)
        self.log = Log(len(m.ctas), m.threads)
        self.most = LOGGED
        self.last: Array = np.full(m.lanes, -1, np.int32)
        # accesses by threads that left before a barrier: nothing ever orders them
        self.gone: list[Access] = []
        self.left: Bool = np.zeros(m.lanes, bool)
        shared = m.regions.shared_memory
        self.shared = Shadow(shared.n, grid=False)
        self.copies = Copies(self)
        # (CTA of the batch, barrier) -> what `bar.arrive` released to it
        self.pledged: dict[tuple[int, int], Array] = {}
        self.promised: dict[tuple[int, int], list[Pledge | None]] = {}
        self.generations = Generations(self)
        # the epoch of each CTA that the stamps of its shared cells count from
        self.since = self.clocks.epoch - 1
        self._renew()

    def _renew(self) -> None:
        """The bases of all lanes' stamps, and their own: of shared cells, and of the grid's."""
        count = self.clocks.epoch - self.since
        over = count > EPOCHS
        if over.any():
            self.shared.forget(over)
            self.since = np.where(over, self.clocks.epoch - 1, self.since)
            count[over] = 1
        base = (count << EPOCH_SHIFT).astype(np.uint16)[self.machine.cta_of]
        self.near: tuple[Stamps, Stamps] = base, base | self.tid
        self.far: tuple[Stamps, Stamps] | None = None

    def stamps(self, shadow: Shadow, lanes: Array) -> tuple[Stamps, Stamps]:
        """The bases of the stamps that lanes leave there now, and their own."""
        base, mine = self.near
        if shadow.grid:
            if self.far is None:
                epoch = self.clocks.epoch[self.machine.cta_of] << EPOCH_SHIFT
                base = self.serial.astype(np.int64) << CTA_SHIFT | epoch
                self.far = base, base | self.tid
            base, mine = self.far
        return (base, mine) if lanes is self.machine.lane else (base[lanes], mine[lanes])

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
        self.log.keep(self.clocks.epoch)
        self.most = max(LOGGED, 2 * len(self.log))

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
            if self.orders is not None:
                self.promised.setdefault((cta, ident), []).append(self.orders.pledge(members))

    def passed(self, ident: int, lanes: Bool) -> None:
        """These lanes go on after waiting at a barrier, together with all that arrived there."""
        m = self.machine
        alive = m.alive.reshape(len(m.ctas), -1)
        here = lanes.reshape(alive.shape)
        whole = np.asarray((here | ~alive).all(1) & here.any(1))
        pledged = {}
        for cta, members in self._by_cta(lanes):
            row = self.pledged.pop((cta, ident), None)
            for promise in self.promised.pop((cta, ident), ()):
                assert self.orders is not None
                self.orders.receive(members, promise)
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
        log = self.log.entries if (self.left & ending).any() else []
        known = self.clocks.known_by(self.machine.alive, pledged)
        kept = []
        for access in (*self.gone, *(packed.unpack() for packed in log)):
            lanes = access.lanes
            stay = self.left[lanes] & ending[lanes] & self.current(access, lanes)
            stay |= any(access is gone for gone in self.gone)
            if known is not None:
                stay &= ~ending[lanes] | (known[lanes] < access.own[lanes])
            if stay.any():
                kept.append(replace(access, cells=access.cells[:, stay], lanes=lanes[stay]))
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
            # CTA by CTA, as the log likes it
            ctas = len(self.machine.ctas) if place.mask is None else 1
            shape = *cells.shape[:-1], ctas, -1
            twice = np.concatenate([cells.reshape(shape)] * 2, axis=-1).reshape(len(cells), -1)
            both = np.concatenate([who[lanes].reshape(ctas, -1) for who in readers], axis=-1)
            self.read_cells(shadow, place.region, twice, both.reshape(-1))

    def read_cells(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        """Loads of `cells` (k, lanes)."""
        access = self.access(shadow, region, cells, lanes, READ, 0)
        flag = self.is_flag(region)
        if not flag:
            self.check(access, WRITE, None)
        self.copies.meet(access)
        self.stamp(shadow, READ, cells, lanes)
        if shadow.grid:
            if not flag:
                self.grid.check(access, WRITE, None)
            self.grid.note(access)
        self.log.add(access)

    def stamp(self, shadow: Shadow, kind: int, cells: Array, lanes: Array) -> None:
        """Lanes accessed cells, and perhaps others did in the same epoch."""
        base, mine = self.stamps(shadow, lanes)
        stamps = shadow.stamps_of(kind)
        stamp = np.where(others(shadow, stamps[cells], base, mine), base | MANY, mine)
        stamps[cells] = stamp
        lost = others(shadow, stamps[cells], base, stamp)
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
        access = self.access(shadow, region, cells, lanes, WRITE, op)
        base, mine = self.stamps(shadow, lanes)
        stamps, flag = shadow.stamps_of(WRITE), self.is_flag(region)
        old = stamps[cells]
        if not flag:  # else `semantics.flags` does
            self.check(access, WRITE, shadow.same_op(cells, op) if op else None)
        self.check(access, READ, None)
        self.copies.meet(access)
        if shadow.grid:
            if not flag:
                self.grid.check(access, WRITE, shadow.same_grid_op(cells, op))
            self.grid.check(access, READ, None)
            self.grid.write_after_nc(access)
            self.grid.note(access)
            if op and not op & 1 and not flag:
                self.grid.short_scope(access)
        stamps[cells] = np.broadcast_to(mine, cells.shape)
        now = stamps[cells]
        lost = now != mine
        several = lost & others(shadow, now, base, mine) if shadow.grid and lost.any() else lost
        if op or shadow.racy is not None:
            before = others(shadow, old, base, mine)
            several = several | (
                before if op or shadow.racy is None else before & shadow.racy[cells]
            )
        if several.any():  # several threads in one epoch
            stamps[cells[several]] = np.broadcast_to(base | MANY, cells.shape)[several]
        shadow.note_op(cells, op, old > base)
        self.log.add(access)
        return lost if not op and lost.any() else None

    def is_flag(self, region: Region) -> bool:
        """Does it hold cells whose writes `semantics.flags` keeps?"""
        flags = self.machine.flags
        return flags is not None and flags.has(region)

    def access(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, kind: int, op: int
    ) -> Access:
        at, epoch, own = self.machine.at, self.clocks.epoch, self.clocks.own
        tail = self.machine.tail
        if self.machine.conditional:
            self.guarded.add(at)
        return Access(at, shadow, region, cells, lanes, kind, op, epoch, own, self.last, tail)
