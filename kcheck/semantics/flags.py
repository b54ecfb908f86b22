"""Cells that CTAs or warps tell one another by: their histories, and who waits for what.

A wait loop reads the values that a cell had one after another, from the first on that its thread
may still see, so it ends at the first one that ends it. That one schedule stands for all if in
every other the loop ends after the same writes (DESIGN.md 5): what could be seen instead, or could
come in between, is refused as `unsupported.unstable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.histories import Ended, History, Write, signed
from kcheck.semantics.orders import WIDE, Orders, Told
from kcheck.semantics.values import UNSIGNED, Bool, Int, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.machine import Machine
    from kcheck.semantics.regions import Region
    from kcheck.semantics.wait_loops import WaitLoop

SIGN = 1 << 31


class Rewatch(Exception):
    """A cell turned out to be a flag after it was written: the run has to start again."""

    def __init__(self, region: int) -> None:
        self.region = region
        super().__init__(f"region {region} holds flags")


@dataclass
class Waiting:
    """A lane in a wait loop: the writes that it saw first and last, and whether it is inside."""

    loop: WaitLoop
    at: int
    history: History
    start: int
    position: int
    inside: bool = False


class Flags:
    """The watched cells of a batch, and the lanes that wait."""

    def __init__(self, machine: Machine, orders: Orders, watched: set[int]) -> None:
        self.machine = machine
        self.orders = orders
        self.watched = watched
        self.written: set[int] = set()
        self.cells: dict[tuple[int, int], History] = {}
        self.waiting: dict[int, Waiting] = {}
        # lanes that wait for a write, by the block that they go on at
        self.stalled: dict[int, Bool] = {}
        # arrivals: what a lane knew of a cell before its own last update
        self.since: dict[tuple[int, int], int] = {}

    # cells

    def region_of(self, place: Place) -> int:
        """The number of a place's region."""
        items = self.machine.regions.items
        return next(i for i, region in enumerate(items) if region is place.region)

    def has(self, region: Region) -> bool:
        """Does a region hold flags?"""
        items = self.machine.regions.items
        return any(items[i] is region for i in self.watched)

    def watch(self, place: Place) -> None:
        """The cells of a region are flags; raises Rewatch if one was written already."""
        region = self.region_of(place)
        if region in self.watched:
            return
        self.watched.add(region)
        if region in self.written:
            raise Rewatch(region)

    def watches(self, place: Place) -> bool:
        """Is a place in a region of flags? Notes that it is written."""
        region = self.region_of(place)
        self.written.add(region)
        return region in self.watched

    def histories(self, place: Place, size: int) -> list[tuple[int, History]]:
        """The lanes of a place with the histories of their cells."""
        m = self.machine
        lanes = m.lane if place.mask is None else np.flatnonzero(place.mask)
        memory, region = place.region.memory, self.region_of(place)
        if size < memory.granule:
            raise Unsupported("reinterpret", "a flag is narrower than an element")
        fresh = [c for c in np.unique(place.cell[lanes]).tolist() if (region, c) not in self.cells]
        for cell in fresh:
            (held,) = memory.load(np.array([cell]), 1, size, None)
            known = type(held) is Int and held.p is None
            gone = known and held.u is not None and bool(held.u.any())
            number = int(held.a[0]) if known and not gone else None
            agent = m.lanes + len(self.cells)
            self.cells[region, cell] = History(agent, region, cell, size, number, gone)
        found = [(lane, self.cells[region, int(place.cell[lane])]) for lane in lanes.tolist()]
        if any(history.size != size for _, history in found):
            raise Unsupported("reinterpret", "a flag is accessed in two widths")
        return found

    # writes

    def write(
        self,
        found: list[tuple[int, History]],
        values: list[int | None],
        operation: str = "",
        operands: list[int] | None = None,
    ) -> None:
        """Lanes wrote to the cells of `found` one after another; `values`: what these hold now."""
        m, kind = self.machine, self.machine.plan.kinds.get(self.machine.at)
        update = kind is not None and kind.rmw
        before = {history.agent: len(history.writes) for _, history in found}
        for i, (lane, history) in enumerate(found):
            told = Told()
            knew = self.all_known(lane, history)
            # lanes that store at once are for `semantics.same_value`
            end = len(history.writes) if update else before[history.agent]
            self.meet(lane, history, end, operation, operands[i] if operands else 0)
            time = self.orders.time(lane)
            if kind is not None and kind.strong:
                told = self.orders.told(lane, kind.scope, kind.release)
            if kind is not None and kind.rmw and history.writes:
                told = history.writes[-1].told.plus(told)
            operand = operands[i] if operands else 0
            write = Write(lane, m.at, time, values[i], operation, operand, knew, told, m.tail)
            history.writes.append(write)
            self.since[lane, history.agent] = knew
            if history.closed and update:
                raise Unsupported("unstable", "a ticket is drawn after the last one was compared")
            self._after_waits(history, write)

    def read(self, place: Place, size: int) -> None:
        """A load that waits for nothing."""
        cells = {cell for region, cell in self.cells if region == self.region_of(place)}
        lanes = self.machine.lane if place.mask is None else np.flatnonzero(place.mask)
        if cells & set(place.cell[lanes].tolist()):
            for lane, history in self.histories(place, size):
                self.meet(lane, history, len(history.writes), "", 0, reads=True)

    def meet(
        self,
        lane: int,
        history: History,
        end: int,
        operation: str,
        operand: int,
        reads: bool = False,
    ) -> None:
        """Report which of the first `end` writes of a cell nothing orders with the running access
        of a lane.
        """
        m, races = self.machine, self.machine.races
        assert races is not None
        assert m.tickets is not None
        for i in np.flatnonzero(~self.ordered(lane, history)[:end]).tolist():
            write = history.writes[i]
            same = bool(operation) and (operation, m.tail) == (write.operation, write.tail)
            if operation in ("inc", "dec"):
                same = same and operand == write.operand
            both = np.array([lane]), np.array([write.lane])
            if (same or m.at in m.plan.waits) and self._covers(write, lane):
                continue
            who = races.who(write.lane), races.who(lane)
            near = who[0][1] == who[1][1]
            if m.tail and write.tail and not near and m.tickets.same_tail(*both).any():
                continue
            strong = races.strong[m.at] and races.strong[write.at]
            reason = "race.unordered" if strong else f"race.{'read' if reads else 'write'}-write"
            reason = reason if near else "race.global"
            region = m.regions.items[history.region]
            races.report(reason, write.at, m.at, *who, region, history.cell, 1)

    def _covers(self, write: Write, lane: int) -> bool:
        """Do the scopes of a write and of the running access hold both threads?"""
        kinds = self.machine.plan.kinds
        scopes = [kinds[at].scope if at in kinds else 0 for at in (write.at, self.machine.at)]
        near = self.orders.cta(write.lane) == self.orders.cta(lane)
        return min(scopes) >= (1 if near else WIDE)

    def newest(self, lane: int, history: History) -> int:
        """The last write of a cell that a lane may not overlook."""
        known = np.flatnonzero(self.ordered(lane, history))
        return int(known[-1]) + 1 if len(known) else 0

    def all_known(self, lane: int, history: History) -> int:
        """Up to which write a lane knows of all writes of a cell."""
        return int(np.append(self.ordered(lane, history), False).argmin())

    def ordered(self, lane: int, history: History) -> Bool:
        """The writes of a cell that happened before what a lane does next."""
        lanes = np.array([write.lane for write in history.writes], np.int64)
        times = np.array([write.time for write in history.writes], np.int64)
        known = self.orders.known(np.full(len(lanes), lane), lanes, times)
        known[: max(self.orders.cell_time(lane, history.agent), 0)] = True
        return known

    def _after_waits(self, history: History, write: Write) -> None:
        """A write that comes after loops that ended: each must have been over, or not care."""
        if not history.ended:
            return
        m = self.machine
        lanes = np.array([e.lane for e in history.ended])
        times = np.array([e.time for e in history.ended])
        known = self.orders.known(np.full(len(lanes), write.lane), lanes, times)
        known |= lanes == write.lane
        position = len(history.writes)
        for ended, over in zip(history.ended, known.tolist(), strict=True):
            if not over and not self._harmless(history, ended, position):
                m.note_doubt(
                    "a loop that waits for a value of this cell need not have seen it before "
                    "this write",
                    write.at,
                )

    # loops that wait

    def load(self, place: Place, size: int) -> Int:
        """The load of a wait loop: each lane's next value of its cell."""
        m = self.machine
        loop = m.plan.waits[m.at]
        values = np.zeros(m.lanes, UNSIGNED[size])
        gone = np.zeros(m.lanes, bool)
        for lane, history in self.histories(place, size):
            state = self.waiting.get(lane)
            again = state is not None and m.at in loop.loop and state.loop.loop == loop.loop
            if state is None or not again or state.history is not history:
                start = self.newest(lane, history)
                state = self.waiting[lane] = Waiting(loop, m.at, history, start, start)
                self.meet(lane, history, len(history.writes), "", 0, reads=True)
            elif state.position < len(history.writes):
                state.position += 1
            state.at = m.at
            state.inside = m.at in loop.loop
            value = history.value(state.position)
            if m.tail or (state.position and history.writes[state.position - 1].tail):
                raise Unsupported("unstable", "a loop waits for what the last CTA writes")
            if value is None and not history.undefined:
                raise Unsupported("unstable", "a loop waits for a value that is no integer")
            gone[lane] = value is None
            values[lane] = value or 0
        return Int(values, None, gone if gone.any() else None)

    def gate(self, index: int, at: int, group: Bool) -> Bool:
        """Lanes that come to the load at `at` in block `index`: those with a value to see."""
        stalled = np.zeros_like(group)
        for lane in [lane for lane in self.waiting if group[lane]]:
            state = self.waiting[lane]
            if at in state.loop.loop and state.position >= len(state.history.writes):
                stalled[lane] = state.inside
        if stalled.any():
            there = self.stalled.get(index)
            self.stalled[index] = stalled if there is None else there | stalled
        return group & ~stalled

    def enter(self, loop: WaitLoop, group: Bool) -> None:
        """These lanes are in a loop."""
        for lane, state in self.waiting.items():
            if group[lane] and state.loop.loop == loop.loop:
                state.inside = True

    def leave(self, loop: WaitLoop, group: Bool) -> list[int]:
        """These lanes left a loop if they were in it: what they saw they may rely on."""
        m = self.machine
        left = [lane for lane, s in self.waiting.items()
                if group[lane] and s.inside and s.loop.loop == loop.loop]  # fmt: skip
        for lane in left:
            state = self.waiting.pop(lane)
            history = state.history
            kind = m.plan.kinds[state.at]
            since = self.since.get((lane, history.agent), 0)
            time = self.orders.time(lane)
            ended = Ended(lane, time, state.start, state.position, loop, state.at, since)
            self._same_in_any_order(history, ended)
            for later in range(state.position + 1, len(history.writes) + 1):
                if not self._harmless(history, ended, later):
                    message = "a loop that waits for an earlier value may miss it"
                    m.note_doubt(message, history.writes[later - 1].at)
            history.ended.append(ended)
            agents, times = np.array([history.agent]), np.array([state.position])
            self.orders.learn(lane, self.orders.single(agents, times))
            self.orders.take(lane, history.told(state.position), kind.scope, kind.acquire)
        if left:
            self.orders.tick(np.array(left))
        return left

    def _same_in_any_order(self, history: History, ended: Ended) -> None:
        """The updates before an end: the loop ends after them all, in whatever order they come."""
        first = history.base(ended.position)
        if ended.loop.test == "flip":
            first = max(first, ended.since)
        updates = history.writes[first : ended.position]
        if ended.loop.test == "flip":
            low = (history.value(first) or 0) % SIGN
            total = sum(w.operand % (1 << 32) for w in updates)
            same = all(w.operation == "add" and w.operand for w in updates)
            if same and low + total == SIGN and history.size == 4:
                return
        elif not updates:
            return
        elif len({(w.operation, w.operand) for w in updates}) == 1:
            # the same values in any order; its own update may come earlier, and show it more
            rising = updates[0].operation == "add" and signed(updates[0].operand, history) > 0
            if ended.start <= first or (rising and ended.loop.test in ("rising", "equal")):
                return
        self.machine.note_doubt("when the loop ends depends on the order of atomics", ended.at)

    def _harmless(self, history: History, ended: Ended, later: int) -> bool:
        """May a loop that ended see a later write instead, in which it ends as well?"""
        write, position = history.writes[later - 1], ended.position
        if write.knew < position:
            return False
        # updates pass on what was told before them
        chained = history.base(later) <= position
        if not chained and not write.told.covers(history.told(position)):
            return False
        if ended.loop.test == "flip":
            # what its own thread adds next it can't see yet
            updates = [w for w in history.writes[position:later] if w.lane != ended.lane]
            total = sum(w.operand % (1 << 32) for w in updates)
            low = (history.value(position) or 0) % SIGN
            return all(w.operation == "add" for w in updates) and low + total < SIGN
        if ended.loop.test != "rising":
            return False
        before, after = history.value(position), write.value
        if before is None or after is None:
            return False
        if write.operation and (write.operation != "add" or signed(write.operand, history) < 0):
            return False
        if ended.loop.signed:
            return signed(after, history) >= signed(before, history)
        return after >= before

    # when nothing else can run

    def wake(self) -> bool:
        """Send on the lanes that wait and have something to see; True if there are any."""
        woken = False
        for index, lanes in list(self.stalled.items()):
            ready = np.zeros_like(lanes)
            for lane in np.flatnonzero(lanes).tolist():
                state = self.waiting[lane]
                ready[lane] = state.position < len(state.history.writes)
            if ready.any():
                woken = True
                self.machine.send(index, ready)
                left = lanes & ~ready
                if left.any():
                    self.stalled[index] = left
                else:
                    del self.stalled[index]
        return woken

    def deadlock(self) -> None:
        """Nothing can run: whoever waits for a value waits for ever."""
        m = self.machine
        for index, lanes in self.stalled.items():
            message = "the loop waits for a value that nothing can write any more"
            m.fault("deadlock.spin", lanes, message, m.blocks[index].start)
