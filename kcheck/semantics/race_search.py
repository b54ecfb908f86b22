"""The pairs behind stamps that conflict within a CTA."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access_log import Log
from kcheck.semantics.accesses import Access, by_cell, pairs_of
from kcheck.semantics.clocks import Clocks
from kcheck.semantics.orders import WIDE, Orders
from kcheck.semantics.race_reports import Race, Reports
from kcheck.semantics.shadow import MANY, Shadow, Stamps
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# how often the lanes of two instructions are looked at, once one of them is in a race
LOOKS = 4


def others(shadow: Shadow, stamps: Stamps, base: Stamps, mine: Stamps) -> Bool:
    """The stamps of other threads of the CTA and epoch that `base` and `mine` are of."""
    found = (stamps > base) & (stamps != mine)
    if shadow.grid:  # else later stamps than those of this epoch are of nobody
        found &= stamps <= (base | MANY)
    return np.asarray(found)


class Search(Reports):
    """The part of the monitor that compares an access with those before it in its CTA."""

    clocks: Clocks
    orders: Orders | None
    serial: Array
    log: Log
    gone: list[Access]

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        # by two instructions: how often their lanes were looked at
        self.looks: Counter[tuple[int, int]] = Counter()
        # the last race in which the later instruction, and the kind of the earlier, were
        self.latest: dict[tuple[int, int], Race] = {}

    def stamps(self, shadow: Shadow, lanes: Array) -> tuple[Stamps, Stamps]:
        """The bases of the stamps that lanes leave there now, and their own."""
        raise NotImplementedError

    def current(self, access: Access, lanes: Array) -> Bool:
        """Are these of its lanes in the epoch in which they made an access?"""
        ctas = self.machine.cta_of[lanes]
        return np.asarray(access.epoch[ctas] == self.clocks.epoch[ctas])

    def check(self, access: Access, against: int, exempt: Bool | None) -> None:
        """Compare with the last accesses of kind `against` to the same cells."""
        shadow = access.shadow
        stamps = shadow.stamps[against]
        if stamps is not None:
            base, mine = self.stamps(shadow, access.lanes)
            bad = others(shadow, stamps[access.cells], base, mine)
            if exempt is not None:
                bad &= ~exempt
            if bad.any():
                self._search(access, bad, against)
        for gone in self.gone:
            updates = access.op and gone.op >> 1 == access.op >> 1
            if gone.shadow is shadow and gone.kind == against and not updates:
                self._meet(gone, *by_cell(access, np.ones(access.cells.shape, bool)), access)

    def _search(self, access: Access, bad: Bool, against: int) -> None:
        """Find the pairs behind conflicting stamps in the log, the latest first.

        Without barriers among a part of the threads each of these stamps is in a race: so it does
        no harm to look at two instructions a few times only, once a race is found. (Two that first
        meet later on are then not named beside it.)
        """
        cells, lanes = by_cell(access, bad)
        certain = self.orders is None and not self.clocks.partial.any()
        found, skipped = self.latest.get((access.at, against)), False
        for packed in self.log.against(access, against, cells):
            pair = packed.at, access.at
            if certain and found is not None:
                if self.looks[pair] >= LOOKS:
                    skipped = True
                    continue
                self.looks[pair] += 1
            race = self._meet(packed.unpack(), cells, lanes, access)
            if race is not None:
                found = self.latest[access.at, against] = race
        if skipped and found is not None:
            found.count += len(cells)

    def _meet(self, earlier: Access, cells: Array, lanes: Array, access: Access) -> Race | None:
        """Report the pairs of an earlier access and this one (sorted cells, their lanes)."""
        cell, me, other = pairs_of(earlier, cells, lanes)
        if not len(me):
            return None
        live = self.current(earlier, other) | any(earlier is gone for gone in self.gone)
        unordered = (me != other) & live & (self.serial[me] == self.serial[other])
        if self.clocks.partial.any():
            unordered &= ~self.clocks.ordered(me, other, earlier.own[other])
        if self.orders is not None and unordered.any():
            known = self.orders.known(me, other, earlier.times(other))
            unordered &= ~known & (not self.exempt(earlier, access, near=True))
        if not unordered.any():
            return None
        access.shadow.mark(cell[unordered])
        i = int(unordered.argmax())
        reason, at = self.reason_of(earlier, access), (earlier.at, access.at)
        who = self.who(int(other[i])), self.who(int(me[i]))
        count = int(unordered.sum())
        synced = int(earlier.last[other[i]]), int(access.last[me[i]])
        return self.report(reason, *at, *who, access.region, int(cell[i]), count, synced)

    def exempt(self, earlier: Access, access: Access, near: bool) -> bool:
        """Is one the load of a loop that waits for the other? `near`: within a CTA."""
        kinds, waits = self.machine.plan.kinds, self.machine.plan.waits
        if earlier.at not in waits and access.at not in waits:
            return False
        scopes = [kinds[at].scope if at in kinds else 0 for at in (earlier.at, access.at)]
        return min(scopes) >= (1 if near else WIDE)
