"""Races across CTAs, and `ld.global.nc`: both over the whole grid, in bounded memory per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access_log import Log
from kcheck.semantics.accesses import by_cell, pairs_of
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import MIXED, NO_CTA, READ, WRITE, Shadow, event, parts
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.accesses import Access
    from kcheck.semantics.races import Races


_NOTHING = -1


class GridRaces:
    """Accesses of other CTAs to the same cells: nothing orders them (DESIGN.md 5)."""

    def __init__(self, races: Races) -> None:
        self.races = races
        # all accesses, by shadow, where CTAs wait for one another
        self.log: dict[int, Log] = {}
        # what each instruction does to its cells, if always the same
        self.ops = np.full(len(races.machine.kernel.code), _NOTHING)

    def check(self, access: Access, against: int, exempt: Array | None) -> None:
        """Compare with all accesses of kind `against` by other CTAs so far."""
        shadow, cells, races = access.shadow, access.cells, self.races
        held = shadow.owners[against]
        if held is None:
            return
        owners, mine = held[cells], races.serial[access.lanes]
        bad = (owners != NO_CTA) & (owners != mine)
        if exempt is not None:
            bad &= ~exempt
        if not bad.any():
            return
        if races.orders is not None:
            self._search(access, bad, against)
            return
        # updates that commute are no race; of a cell that knows others too, one of these was in
        # a race as soon as a second CTA came, and is listed
        alike = (self.ops == access.op) & bool(access.op & 1)
        known = np.where(bad, shadow.of_another(against, cells, mine, alike, access.op), 0).reshape(
            -1
        )
        if not known.any():
            return
        i = int((known > 0).argmax())
        other, at, thread = parts(int(known[i]))
        count = int((known > 0).sum())
        self._report("race.global", at, (thread, other), access, i, count)

    def _search(self, access: Access, bad: Bool, against: int) -> None:
        """Find the pairs in the log, where some CTAs are ordered by more than the grid's end.

        Those within a CTA as well: the stamps of these cells tell of another CTA.
        """
        races, m = self.races, self.races.machine
        assert races.orders is not None
        assert m.tickets is not None
        cells, lanes = by_cell(access, bad)
        flag = races.is_flag(access.region)
        log = self.log.get(id(access.shadow))
        for packed in reversed(log.entries if log is not None else []):
            covers = packed.kind == WRITE and not packed.op and not flag
            if not covers and packed.kind != against:
                continue
            if not packed.near(int(cells[0]), int(cells[-1])):
                continue
            earlier = packed.unpack()
            sides = (True, False) if earlier.kind == against else ()
            wanted = [near for near in sides if not self._exempt(earlier, access, near)]
            if not (covers or wanted):
                continue
            cell, me, other = pairs_of(earlier, cells, lanes)
            if not len(me):
                continue
            known = races.orders.known(me, other, earlier.times(other))
            for near in wanted:
                apart = (races.serial[me] != races.serial[other]) != near
                unordered = (me != other) & apart & ~known
                if near and races.clocks.partial.any():
                    current = races.current(earlier, other)
                    unordered &= ~(current & races.clocks.ordered(me, other, earlier.own[other]))
                if earlier.tail and access.tail:
                    unordered &= ~m.tickets.same_tail(me, other) | near
                if unordered.any():
                    i, count = int(unordered.argmax()), int(unordered.sum())
                    who = races.who(int(other[i])), races.who(int(me[i]))
                    reason = races.reason_of(earlier, access) if near else "race.global"
                    at = earlier.at, access.at
                    races.report(reason, *at, *who, access.region, int(cell[i]), count)
            if covers and known.all():  # and knows of what came before
                keep = ~np.isin(cells, cell)
                cells, lanes = cells[keep], lanes[keep]
                if not len(cells):
                    return

    def _exempt(self, earlier: Access, access: Access, near: bool) -> bool:
        """May both come in any order? `near`: within a CTA."""
        same = access.op and access.op >> 1 == earlier.op >> 1
        reaches = near or (earlier.op & access.op & 1)
        return bool(same and reaches) or self.races.exempt(earlier, access, near)

    def _report(
        self, reason: str, at: int, who: tuple[int, int] | None, access: Access, i: int, count: int
    ) -> None:
        """The `i`th of the access's cells is in a race with instruction `at`."""
        cell = int(access.cells.reshape(-1)[i])
        me = self.races.who(int(np.broadcast_to(access.lanes, access.cells.shape).reshape(-1)[i]))
        self.races.report(reason, at, access.at, who or me, me, access.region, cell, count)

    def short_scope(self, access: Access) -> None:
        """CTAs of this batch that update one cell together, in a scope that covers only one."""
        cells, races = access.cells.reshape(-1), self.races
        lanes = np.broadcast_to(access.lanes, access.cells.shape).reshape(-1)
        order = np.lexsort((lanes, cells))
        cells, lanes = cells[order], lanes[order]
        bad = (cells[1:] == cells[:-1]) & (races.serial[lanes[1:]] != races.serial[lanes[:-1]])
        if bad.any():
            i, region = int(bad.argmax()), access.region
            who = races.who(int(lanes[i])), races.who(int(lanes[i + 1]))
            count = int(bad.sum())
            races.report("race.global", access.at, access.at, *who, region, int(cells[i]), count)

    def _event(self, access: Access) -> Array:
        races, lanes = self.races, access.lanes
        made = event(races.serial[lanes] - 1, access.at, races.tid[lanes] - 1)
        return np.broadcast_to(made, access.cells.shape)

    def note(self, access: Access) -> None:
        """Remember an access for the CTAs to come."""
        if self.ops[access.at] not in (_NOTHING, access.op):
            self.ops[access.at] = MIXED
        else:
            self.ops[access.at] = access.op
        access.shadow.note_grid(access.cells, self._event(access), access.kind, access.op)
        if self.races.orders is not None:
            key, m = id(access.shadow), self.races.machine
            if key not in self.log:
                self.log[key] = Log(len(m.ctas), m.threads, whole=True)
            self.log[key].add(access)
            if access.tail and access.kind == READ:
                tickets = self.races.machine.tickets
                assert tickets is not None
                tickets.load(access)

    # ld.global.nc

    def read_nc(self, shadow: Shadow, region: Region, cells: Array, lanes: Array) -> None:
        """`ld.global.nc` of cells (k, lanes)."""
        if shadow.nc is None:
            shadow.nc = np.zeros(shadow.n, np.int64)
        access = self.races.access(shadow, region, cells, lanes, READ, 0)
        self._meet(access, shadow.last[WRITE])
        shadow.nc[cells] = self._event(access)

    def write_after_nc(self, access: Access) -> None:
        """A write to cells that `ld.global.nc` may have read."""
        if access.shadow.nc is not None:
            self._meet(access, access.shadow.nc)

    def _meet(self, access: Access, events: Array | None) -> None:
        if events is None:
            return
        known = events[access.cells]
        bad: Bool = known > 0
        if bad.any():
            i = int(bad.argmax())
            other, at, thread = parts(int(known.reshape(-1)[i]))
            self._report("race.nc", at, (thread, other), access, i, int(bad.sum()))
