"""The last CTA to draw a ticket goes on: which one that is hangs on the schedule (DESIGN.md 5).

So every CTA is taken for the last one. Those that drew wait until nothing else can run; then all
of them go on, each as if its ticket were the last of the cell. What they do from then on (their
tails) are alternatives, not concurrent: they must store the same, each of them all of it, and may
not read what another of them stored. A CTA that is not the last must do nothing that counts
(`semantics.lost_tickets`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.semantics.flags import Flags
from kcheck.semantics.histories import History
from kcheck.semantics.lost_tickets import Lost
from kcheck.semantics.same_value import values_equal
from kcheck.semantics.values import UNSIGNED, Array, Bool, Int, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.accesses import Access
    from kcheck.semantics.machine import Machine

MANY = -1


@dataclass
class Draw:
    """A lane's ticket: the atomic, its cell, and the register (slot) that holds it."""

    at: int
    history: History
    slot: int
    judged: bool = False


class Tickets:
    """The draws of a batch, and the tails of the CTAs that drew."""

    def __init__(self, machine: Machine, flags: Flags) -> None:
        self.machine = machine
        self.flags = flags
        self.drawn: dict[int, Draw] = {}
        self.parked: dict[int, Bool] = {}
        # the cell (agent) that a CTA drew from; -1: none
        self.cell_of = np.full(len(machine.ctas), -1, np.int64)
        # per memory: the CTA + 1 whose tail stored to a cell last (0: none), and all such stores
        self.stored: dict[int, Array] = {}
        self.stores: dict[int, list[tuple[int, Array, Array]]] = {}

    def draw(self, found: list[tuple[int, History]], slot: int) -> None:
        """These lanes drew."""
        m = self.machine
        for lane, history in found:
            cta = lane // m.threads
            if m.tail or self.cell_of[cta] >= 0:
                raise Unsupported("unstable", "a CTA draws more than one ticket")
            self.cell_of[cta] = history.agent
            self.drawn[lane] = Draw(m.at, history, slot)

    def gate(self, index: int, group: Bool) -> Bool:
        """Park the lanes that drew and don't know yet; the others may go on."""
        m = self.machine
        waiting = [lane for lane, draw in self.drawn.items() if group[lane]]
        if m.tail or not waiting:
            return group
        parked = np.zeros_like(group)
        parked[waiting] = True
        there = self.parked.get(index)
        self.parked[index] = parked if there is None else there | parked
        return group & ~parked

    def release(self) -> bool:
        """Nothing else can run: all that will draw have drawn. False if nobody waits."""
        if not self.parked:
            return False
        m = self.machine
        first = next(iter(self.drawn.values()))
        m.at = first.at
        if self.flags.stalled:
            raise Unsupported("unstable", "others wait while the last ticket is looked for")
        self._check_losers()
        m.tail = True
        for lane, draw in self.drawn.items():
            m.at = draw.at
            last = self._last(draw.history)
            m.enter(m.lane == lane)
            values = np.full(1, last or 0, UNSIGNED[draw.history.size])
            gone = None if last is not None else np.ones(1, bool)
            m.regs[draw.slot] = m.merge(m.regs[draw.slot], Int(values, None, gone))
            draw.history.closed = True
        for index, lanes in self.parked.items():
            m.send(index, lanes)
        self.parked.clear()
        return True

    def _check_losers(self) -> None:
        m = self.machine
        assert m.plan.flow is not None
        others = [m.blocks[b].start for b in np.unique(m.barriers.block[m.barriers.waits])]
        for at in {draw.at for draw in self.drawn.values()}:
            starts = [m.blocks[index].start for index in self.parked]
            if not Lost(m.plan.flow, m.plan.tickets[at]).harmless(starts, others):
                m.at = at
                raise Unsupported(
                    "unstable", "what CTAs do that did not draw the last ticket can't be told apart"
                )

    def _last(self, history: History) -> int | None:
        """The last ticket of a cell, the same in any order (None: undefined)."""
        end = len(history.writes)
        draws = history.writes[history.base(end) :]
        if len({(w.at, w.operation, w.operand) for w in draws}) != 1:
            raise Unsupported("unstable", "who draws which ticket depends on the order of atomics")
        return history.value(end - 1)

    def compared(self, at: int, equal: Bool, other: Any) -> Bool:
        """The outcome of a comparison of tickets with `other` (None: with something else).

        Takes and returns, for all lanes, whether they are equal.
        """
        m = self.machine
        group = m.group()
        equal = np.broadcast_to(equal, group.shape).copy()
        mine = [lane for lane in self.drawn if group[lane]]
        histories = {self.drawn[lane].history.agent: self.drawn[lane].history for lane in mine}
        for history in histories.values():
            lanes = [lane for lane in mine if self.drawn[lane].history is history]
            outcome = set(equal[lanes].tolist())
            if len(outcome) > 1:
                raise Unsupported("unstable", "CTAs compare their tickets with different numbers")
            if outcome == {True}:
                self._win(lanes, history)
            elif self._early(history, other, lanes):
                equal[lanes] = True
        return equal

    def _win(self, lanes: list[int], history: History) -> None:
        """The last to draw goes on after all others; no fence is asked for on its side.

        The branch and the barrier that broadcasts it keep the order, and the usual code has none.
        """
        end = len(history.writes)
        values = [history.value(i) for i in range(history.base(end), end)]
        if values.count(values[-1]) > 1:
            raise Unsupported("unstable", "several CTAs draw the ticket that is looked for")
        orders = self.flags.orders
        for lane in lanes:
            kind = self.machine.plan.kinds[self.drawn[lane].at]
            orders.learn(lane, orders.single(np.array([history.agent]), np.array([end])))
            orders.learn(lane, history.told(end).reaching(kind.scope, orders.cta(lane)))

    def _early(self, history: History, other: Any, lanes: list[int]) -> bool:
        """Is it another ticket than the last that is looked for? Then nothing is known by it."""
        m = self.machine
        if type(other) is not Int or other.u is not None:
            raise Unsupported("unstable", "a ticket is not compared itself")
        wanted = set(np.broadcast_to(other.a, (m.lanes,))[lanes].tolist())
        if len(wanted) > 1:
            raise Unsupported("unstable", "CTAs compare their tickets with different numbers")
        end = len(history.writes)
        values = [history.value(i) for i in range(history.base(end), end)]
        count = sum(value in wanted for value in values)
        if count > 1:
            raise Unsupported("unstable", "several CTAs draw the ticket that is looked for")
        return bool(count)

    # tails

    def same_tail(self, a: Array, b: Array) -> Bool:
        """Are lanes of two CTAs alternatives?"""
        threads = self.machine.threads
        one, other = self.cell_of[a // threads], self.cell_of[b // threads]
        return np.asarray((one == other) & (one >= 0))

    def store(self, place: Place, size: int, values: list[Any], cells: Array, lanes: Array) -> None:
        """A tail stores registers to cells (k, lanes); before the memory is written."""
        m = self.machine
        memory = place.region.memory
        owner = self.stored.setdefault(id(memory), np.zeros(memory.n, np.int64))
        ctas = lanes // m.threads + 1
        others = (owner[cells] != 0) & (owner[cells] != ctas)
        if others.any():
            mask = np.zeros(m.lanes, bool)
            mask[lanes[others.any(0)]] = True
            self._agree(place, size, values, mask)
        owner[cells] = np.where(others, MANY, ctas)
        wide = np.broadcast_to(ctas, cells.shape).reshape(-1)
        several = owner[cells] != ctas
        owner[cells[several]] = MANY
        self.stores.setdefault(id(memory), []).append((m.at, cells.reshape(-1), wide))

    def _agree(self, place: Place, size: int, values: list[Any], mask: Bool) -> None:
        """The lanes of a mask store what is there already."""
        m = self.machine
        held = place.region.memory.load(place.cell, len(values), size, mask)
        here = np.flatnonzero(mask)
        outer = m.mask
        m.enter(mask)
        for old, new in zip(held, values, strict=True):
            if type(old) is not type(new) or not values_equal(m, old, here, new, here).all():
                m.enter(outer)
                raise Unsupported("unstable", "what is stored depends on which CTA is the last")
        m.enter(outer)

    def load(self, access: Access) -> None:
        """A tail reads cells."""
        owner = self.stored.get(id(access.region.memory))
        if owner is None:
            return
        ctas = access.lanes // self.machine.threads + 1
        held = owner[access.cells]
        if ((held != 0) & (held != ctas)).any():
            raise Unsupported("unstable", "the last CTA reads what it may have written itself")

    def finish(self) -> None:
        """Every CTA of a ticket must have stored to all cells that one of them stored to."""
        m = self.machine
        for stores in self.stores.values():
            at = np.concatenate([np.full(len(c), a) for a, c, _ in stores])
            cells = np.concatenate([c for _, c, _ in stores])
            ctas = np.concatenate([x for _, _, x in stores]) - 1
            pairs = np.unique(np.stack([cells, ctas]), axis=1)
            owner = self.cell_of[pairs[1]]
            sizes = np.array([(self.cell_of == ticket).sum() for ticket in owner.tolist()])
            which, count = np.unique(pairs[0], return_counts=True)
            wanted = sizes[np.searchsorted(pairs[0], which)]
            if (count != wanted).any():
                wrong = which[int((count != wanted).argmax())]
                m.at = int(at[int((cells == wrong).argmax())])
                raise Unsupported("unstable", "where is stored depends on which CTA is the last")
