"""Races: two overlapping accesses of different threads, one a write, that nothing orders.

DESIGN.md 5. Every access of shared memory, and of global memory that the kernel may write, is
checked against the stamps of its cells (`semantics.shadow`): linear, no pair of threads is looked
at. Only where a stamp conflicts is the log of the epoch searched for the pair, and, if barriers
among a part of the threads came between, vector clocks decide (`semantics.clocks`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access import Place
from kcheck.semantics.barriers import NONE
from kcheck.semantics.clocks import Clocks
from kcheck.semantics.copies import Copies
from kcheck.semantics.generations import Generations
from kcheck.semantics.grid_races import GridRaces
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import CTA_SHIFT, EPOCH_SHIFT, MANY, Shadow
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

READ, WRITE = 0, 1
WARP = 32


@dataclass
class Access:
    """One executed memory instruction in the log: `cells` (k, lanes), `lanes` (lanes,).

    `base`: the epochs, `own` the clocks, `last` the last barriers of all lanes when it ran.
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
    last: Array


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
    # the barriers that the two threads had passed last, as instructions; -1: none, or not kept
    synced: tuple[int, int] = (-1, -1)


class Races:
    """The monitor of one machine; shadows of the grid live as long as the run."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        # report lanes of one instruction that store equal values to one address
        self.strict = False
        self.found: dict[tuple[str, int, int], Race] = {}
        # lanes of one instruction that stored equal values to one address: instruction -> count
        self.same_value: dict[int, int] = {}
        self.grids: dict[int, Shadow] = {}
        self.grid = GridRaces(self)
        self.strong = [_strong(i.opcode) for i in machine.kernel.code]

    # a batch

    def begin(self) -> None:
        """A new batch of CTAs: shared memory is fresh."""
        m = self.machine
        self.clocks = Clocks(len(m.ctas), m.threads)
        self.serial = m.ctas[m.cta_of] + 1
        self.tid = m.lane % m.threads + 1
        self.log: list[Access] = []
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
        self.clocks.end_epoch(ctas)
        self.pledged = {key: self._still_due(key[0], row) for key, row in self.pledged.items()}
        self.generations.forget(ctas)
        if ctas.all():
            self.log.clear()
        self._renew()

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
        if not self.log and not self.copies.pending:
            return  # there is nothing that it could order
        whole = (lanes | ~m.alive).reshape(len(m.ctas), -1)
        if m.threads == WARP and whole.all():
            self.end_epoch(np.ones(len(m.ctas), bool))
            return
        self._synced(lanes)
        self.clocks.join_warps(lanes.reshape(-1, WARP))

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

    def _keep_gone(self, ctas: Bool, pledged: dict[int, Array]) -> None:
        """Keep what threads that left did and nobody who is left knows of."""
        ending = ctas[self.machine.cta_of]
        known = self.clocks.known_by(self.machine.alive, pledged)
        kept = []
        for access in (*self.gone, *self.log):
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

    def cells_of(self, place: Place, nbytes: int) -> tuple[Array, Array]:
        """Cells (k, lanes) and lanes of an access."""
        m = self.machine
        cell = place.cell if place.mask is None else place.cell[place.mask]
        lanes = m.lane if place.mask is None else m.lane[place.mask]
        k = max(nbytes // place.region.memory.granule, 1)
        return cell[None, :] if k == 1 else cell + np.arange(k)[:, None], lanes

    def read(self, place: Place, nbytes: int) -> None:
        """The lanes of a place load `nbytes`."""
        shadow = self._shadow(place.region)
        if shadow is not None:
            self.read_cells(shadow, place.region, *self.cells_of(place, nbytes))

    def read_nc(self, place: Place, nbytes: int) -> None:
        """The same by `ld.global.nc`, which must meet no write at all, ordered or not."""
        shadow = self._shadow(place.region)
        if shadow is not None:
            self.grid.read_nc(shadow, place.region, *self.cells_of(place, nbytes))

    def read_rows(self, place: Place, nbytes: int, readers: tuple[Array, Array]) -> None:
        """`ldmatrix`: each lane of a place gives a row that other lanes read.

        `readers`: per lane of the batch two lanes that get a part of its row; whoever wrote to
        the row, one of them is somebody else.
        """
        shadow = self._shadow(place.region)
        if shadow is not None:
            cells, lanes = self.cells_of(place, nbytes)
            both = np.concatenate([who[lanes] for who in readers])
            self.read_cells(shadow, place.region, np.concatenate([cells, cells], axis=1), both)

    def read_cells(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        """Loads of `cells` (k, lanes)."""
        access = self.access(shadow, region, cells, lanes, READ, 0)
        self._check(access, shadow.write[cells], WRITE, None)
        self._windows(access)
        self._stamp(shadow.read, cells, lanes)
        if shadow.grid:
            self.grid.check(access, WRITE, None)
            self.grid.note(access)
        self.log.append(access)

    def _stamp(self, stamps: Array, cells: Array, lanes: Array) -> None:
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
        shadow = self._shadow(place.region)
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
        old = shadow.write[cells]
        self._check(access, old, WRITE, same_op)
        self._check(access, shadow.read[cells], READ, None)
        self._windows(access)
        if shadow.grid:
            self.grid.check(access, WRITE, (shadow.grid_op[cells] == op) if op & 1 else None)
            self.grid.check(access, READ, None)
            self.grid.write_after_nc(access)
            self.grid.note(access)
            if op and not op & 1:
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

    def access(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, kind: int, op: int
    ) -> Access:
        at = self.machine.at
        own = self.clocks.own
        return Access(at, shadow, region, cells, lanes, kind, op, self.base, own, self.last)

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
            if _may_conflict(gone, access, against):
                self._meet(gone, *_sorted(access, np.ones(access.cells.shape, bool)), access)

    def _search(self, access: Access, bad: Bool, against: int) -> None:
        """Find the pairs behind conflicting stamps in the log, the latest first."""
        cells, lanes = _sorted(access, bad)
        for earlier in reversed(self.log):
            if _may_conflict(earlier, access, against):
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
            unordered &= ~self.clocks.ordered(me, other, earlier.own[other])
        if unordered.any():
            access.shadow.mark(theirs[which[unordered]])
            i = int(unordered.argmax())
            cell = int(theirs[which[i]])
            self.report(
                self._reason(earlier, access),
                earlier.at,
                access.at,
                self.who(int(other[i])),
                self.who(int(me[i])),
                access,
                cell,
                int(unordered.sum()),
                (int(earlier.last[other[i]]), int(access.last[me[i]])),
            )

    def _reason(self, earlier: Access, access: Access) -> str:
        if self.strong[earlier.at] and self.strong[access.at]:
            return "race.unordered"
        both = earlier.kind == WRITE and access.kind == WRITE
        return "race.write-write" if both else "race.read-write"

    def who(self, lane: int) -> tuple[int, int]:
        """(thread, CTA), both linear."""
        m = self.machine
        return lane % m.threads, int(m.ctas[lane // m.threads])

    def report(
        self,
        reason: str,
        first: int,
        second: int,
        first_who: tuple[int, int],
        second_who: tuple[int, int],
        access: Access,
        cell: int,
        count: int,
        synced: tuple[int, int] = (-1, -1),
    ) -> None:
        """Note a race of two instructions, or count one that is known."""
        key = (reason, first, second)
        known = self.found.get(key)
        if known is not None:
            known.count += count
            return
        offset = self._offset(access.region, cell, second_who[1])
        self.found[key] = Race(
            reason, first, second, first_who, second_who, access.region.name, offset, count, synced
        )

    def _offset(self, region: Region, cell: int, cta: int) -> int:
        """The byte offset in the region of a cell of its memory."""
        granule = region.memory.granule
        if region.space != "shared":
            return cell * granule
        m = self.machine
        batch = int(np.flatnonzero(m.ctas == cta)[0])
        return (cell - batch * (m.regions.shared_bytes // granule)) * granule - region.base

    # asynchronous copies (semantics.copies)

    def _windows(self, access: Access) -> None:
        self.copies.meet(access)

    def issue_read(self, place: Place, nbytes: int) -> None:
        """A cp.async that reads from here begins."""
        self._issue(place, nbytes, READ)

    def issue_write(self, place: Place, nbytes: int) -> None:
        """A cp.async that writes here begins."""
        self._issue(place, nbytes, WRITE)

    def _issue(self, place: Place, nbytes: int, kind: int) -> None:
        shadow = self._shadow(place.region)
        if shadow is None:
            return
        cells, lanes = self.cells_of(place, nbytes)
        access = self.access(shadow, place.region, cells, lanes, kind, 0)
        self._check(access, shadow.write[cells], WRITE, None)
        if kind == WRITE:
            self._check(access, shadow.read[cells], READ, None)
        self._windows(access)
        if shadow.grid:
            self.grid.check(access, WRITE, None)
            if kind == WRITE:
                self.grid.check(access, READ, None)
            self.grid.note(access)
        if kind == WRITE:
            self._issued_together(access)
        self.copies.issue(access)

    def _issued_together(self, access: Access) -> None:
        """Lanes of one cp.async that write to one cell."""
        cells, lanes = _sorted(access, np.ones(access.cells.shape, bool))
        twice = np.flatnonzero(cells[1:] == cells[:-1])
        if len(twice):
            i = int(twice[0])
            first, second = int(lanes[i]), int(lanes[i + 1])
            cell = int(cells[i])
            self.report_async(access, access, first, second, cell, len(twice))

    def completed(self, access: Access, done: Bool) -> None:
        """Copies are complete in some of their lanes: from now on the thread's own accesses."""
        cells, lanes = access.cells[:, done], access.lanes[done]
        now = self.access(access.shadow, access.region, cells, lanes, access.kind, 0)
        now.at = access.at
        stamps = access.shadow.write if access.kind == WRITE else access.shadow.read
        self._stamp(stamps, cells, lanes)
        if access.kind == WRITE:
            access.shadow.note_op(cells, 0, np.ones(cells.shape, bool))
        self.log.append(now)

    def report_clash(self, region: Region, cell: int, first: int, second: int, count: int) -> None:
        """Two lanes of the running instruction stored different values to one cell."""
        at = self.machine.at
        access = self.access(self.shared, region, np.zeros((1, 0)), np.zeros(0), WRITE, 0)
        who = self.who(first), self.who(second)
        reason = "race.unordered" if self.strong[at] else "race.write-write"
        reason = reason if who[0][1] == who[1][1] else "race.global"
        synced = int(self.last[first]), int(self.last[second])
        self.report(reason, at, at, *who, access, cell, count, synced)

    def report_pairing(
        self, first: int, first_lane: int, lane: int, ident: int, at: int | None = None
    ) -> None:
        """An arrival (`at`) that may count in either of two generations of a barrier."""
        key = ("race.barrier-pairing", first, self.machine.at if at is None else at)
        known = self.found.get(key)
        if known is not None:
            known.count += 1
            return
        who = self.who(first_lane), self.who(lane)
        self.found[key] = Race(*key, *who, f"barrier {ident}", 0)

    def report_async(
        self, copy: Access, access: Access, other: int, me: int, cell: int, count: int
    ) -> None:
        """An access meets a copy that is under way."""
        who = self.who(other), self.who(me)
        synced = int(copy.last[other]), int(access.last[me])
        self.report("race.async", copy.at, access.at, *who, access, cell, count, synced)


def _may_conflict(earlier: Access, access: Access, against: int) -> bool:
    """Same memory, the kind looked for, and not twice the same commutative update."""
    if earlier.shadow is not access.shadow or earlier.kind != against:
        return False
    return not access.op or earlier.op >> 1 != access.op >> 1


def _sorted(access: Access, chosen: Bool) -> tuple[Array, Array]:
    """The chosen cells in order, and the lanes that access them."""
    cells = access.cells[chosen]
    lanes = np.broadcast_to(access.lanes, access.cells.shape)[chosen]
    order = cells.argsort(kind="stable")
    return cells[order], lanes[order]


# read-modify-writes that commute with themselves
_COMMUTE = ("add", "min", "max", "and", "or", "xor")


def atomic_code(op: str, type_name: str, scope: str) -> int:
    """A number for operation, type and reach; 0 for one that does not commute with itself.

    Odd: it reaches other CTAs (no scope means .gpu, PTX ISA 9.7.13.5 atom).
    """
    if op not in _COMMUTE:
        return 0
    width = {"16": 0, "32": 1, "64": 2}[type_name.removesuffix("x2")[-2:]]
    kind = {"f": 0, "b": 0}.get(type_name[0], 1) if op == "add" else 1
    number = 1 + _COMMUTE.index(op) + len(_COMMUTE) * (width + 3 * kind)
    return 2 * number + (scope in ("", "gpu", "sys"))


def _strong(opcode: tuple[str, ...]) -> bool:
    """Atomics, and loads and stores that are volatile or carry an order (PTX ISA 8.4)."""
    return opcode[0] in ("atom", "red") or bool(
        {"volatile", "relaxed", "acquire", "release", "acq_rel"} & set(opcode)
    )
