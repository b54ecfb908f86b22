"""One CTA: which thread runs next, and when barriers and meetings let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcheck import limits
from kcheck.semantics.slow.copies import perform_all, perform_one
from kcheck.semantics.slow.errors import BudgetExceeded, Unevaluated, Unsupported
from kcheck.semantics.slow.report import deadlock
from kcheck.semantics.slow.state import (
    DONE,
    PREEMPTED,
    SPINNING,
    WARP,
    AtBarrier,
    AtMeeting,
    Cta,
    Signal,
    Step,
    Stop,
    Thread,
)

PREEMPT_CHANCE = 0.25
COPY_CHANCE = 0.3  # that an open copy is done before a thread is chosen, in a random schedule
SPINS = 64  # times that threads of a CTA may spin before other CTAs have a turn
TURN = 32  # choices of a thread before other CTAs may have a turn, where they take turns
# instructions of a thread before the others have a turn, where races are looked for
SLICE = 1 << 14

_LOOK = 1023  # instructions between two looks at the limits

Key = tuple[object, ...]
Reduce = Callable[[list[bool]], Any] | None
Rank = Callable[[Thread], int]


@dataclass
class Barrier:
    """One generation of a named barrier: `arrived` warps, of which some wait.

    `reduce`: of all its arrivals, or None.
    """

    reduce: Reduce
    count: int | None = None
    arrived: int = 0
    waiting: list[int] = field(default_factory=list[int])


@dataclass
class Warp:
    """Its live lanes by lane, who came to which meeting, and whether a barrier counted it."""

    live: dict[int, Thread]
    alive: int
    meetings: dict[Key, dict[int, AtMeeting]] = field(
        default_factory=dict[Key, "dict[int, AtMeeting]"]
    )
    counted: bool = False


class Scheduler:
    """Runs the threads of a CTA, one at a time, in order or at random.

    `rank`: the thread of the least rank goes first, whenever it can run. `ahead`: these do, until
    they wait for a value.
    """

    def __init__(
        self,
        cta: Cta,
        steps: Sequence[Step],
        accesses: Sequence[bool],
        rank: Rank | None = None,
        ahead: Iterable[Thread] = (),
    ) -> None:
        self.cta = cta
        self.context = cta.context
        self.code = cta.context.kernel.code
        self.steps = steps
        self.accesses = accesses
        self.chance = cta.context.chance
        self.monitor = cta.context.monitor
        # somebody looks for races: what comes late in one thread, or never, keeps no other from
        # its accesses
        self.watched = self.monitor is not None and self.monitor.enough is not None
        # the first reason for which a thread can't go on, if the others do
        self.refused: Unevaluated | None = None
        self.rank = rank
        self.ahead = set(ahead)
        self.spinners: set[Thread] = set()  # since the last progress
        self.progress = 0
        # says that the CTA's turn is over, if somebody cares
        self.until: Callable[[], bool] | None = None
        # in the last run a thread waited for a value, and none was about to do another access
        self.stalled = False
        self.barriers: dict[int, Barrier] = {}
        self.warps: list[Warp] = []
        for i in range(0, len(cta.threads), WARP):
            lanes = {t.lane: t for t in cta.threads[i : i + WARP]}
            self.warps.append(Warp(lanes, (1 << len(lanes)) - 1))
        self.ready = list(reversed(cta.threads))

    def run(self, alone: bool = True) -> bool:
        """Until all threads have exited (True), or until the others should have a turn (False).

        `alone`: there are no others. A deadlock is a finding. Raises Unevaluated, of a CTA that is
        watched once no thread can go on.
        """
        spins = turns = 0
        self.stalled = False
        busy = False
        try:
            while self.ready:
                if self.chance and self.cta.copies and self.chance.random() < COPY_CHANCE:
                    perform_one(self.cta)
                t = self._choose()
                try:
                    signal = self._advance(t)
                    self._took(t, signal)
                except BudgetExceeded:
                    raise
                except Unevaluated as error:
                    if not self.watched:
                        raise
                    self.refused = self.refused or error
                    continue
                turns += 1
                spins += signal is SPINNING
                busy = busy or (signal is PREEMPTED and not self._waits(t.pc))
                self.stalled = spins > 0 and not busy
                if spins > SPINS or (not alone and turns >= TURN):
                    return False
                if self.until is not None and self.until():
                    return False
        except Stop:
            return True
        if self.refused is not None:
            raise self.refused
        stuck = [t for warp in self.warps for t in warp.live.values()]
        if stuck:
            deadlock(self.cta, stuck)
        perform_all(self.cta)
        return True

    def spins(self) -> bool:
        """Does every thread that could run only read again and again what it knows?"""
        return self.progress == self.context.progress and self.spinners.issuperset(self.ready)

    def _waits(self, pc: int) -> bool:
        """Is it the load of a loop that waits for a value?"""
        kind = self.context.kinds.get(pc)
        return kind is not None and kind.is_part_of("wait")

    def _choose(self) -> Thread:
        ready = self.ready
        at = -1
        if self.rank is not None:
            at = min(range(len(ready))[::-1], key=lambda i: self.rank(ready[i]))  # type: ignore[misc]
        elif self.ahead:
            at = max((i for i, t in enumerate(ready) if t in self.ahead), default=-1)
        elif self.chance:
            at = self.chance.randrange(len(ready))
        return ready.pop(at)

    def _advance(self, t: Thread) -> Signal:
        steps, count = self.steps, len(self.steps)
        context = self.context
        left = context.left
        stop = max(left - SLICE, 0) if self.watched else 0
        pc = t.pc
        try:
            while left > stop:
                pc = t.pc
                if pc >= count:
                    return DONE
                if self.chance and self.accesses[pc] and self.chance.random() < PREEMPT_CHANCE:
                    return PREEMPTED
                t.pc = pc + 1
                left -= 1
                if not left & _LOOK:
                    limits.check()
                signal = steps[pc](t)
                if signal is not None:
                    return signal
            if left:
                return PREEMPTED
            raise BudgetExceeded("budget.instructions")
        except Unevaluated as error:
            error.locate(self.code[pc], t.tid, self.cta.index)
            raise
        finally:
            context.left = left

    def _took(self, t: Thread, signal: Signal) -> None:
        warp = self.warps[t.warp]
        if signal is SPINNING:
            self.ready.insert(0, t)
            self.ahead.discard(t)
            if self.progress != self.context.progress:
                self.spinners.clear()
                self.progress = self.context.progress
            if self._waits(t.pc - 1):
                self.spinners.add(t)
            return
        self.spinners.discard(t)
        if signal is PREEMPTED:
            self.ready.insert(0 if self.watched else len(self.ready), t)
        elif signal is DONE:
            t.exited = True
            self.context.progress += 1
            del warp.live[t.lane]
            warp.alive ^= 1 << t.lane
            for key in list(warp.meetings):
                self._meet(warp, key)
            self._bar(t.warp)
        elif isinstance(signal, AtMeeting):
            t.wait = signal
            warp.meetings.setdefault(signal.key, {})[t.lane] = signal
            self._meet(warp, signal.key)
        else:
            t.wait = signal
            self._bar(t.warp)

    def _resume(self, threads: Iterable[Thread]) -> None:
        for t in sorted(threads, key=lambda t: -t.linear):
            t.wait = None
            self.ready.append(t)

    # warps -----------------------------------------------------------------------------------

    def _meet(self, warp: Warp, key: Key) -> None:
        """Let a meeting's lanes go if all live lanes that it names are there."""
        meeting = warp.meetings[key]
        mask = next(iter(meeting.values())).mask
        wanted = warp.alive if mask is None else mask & warp.alive
        if wanted & ~sum(1 << lane for lane in meeting):
            return
        del warp.meetings[key]
        order = sorted(meeting)
        lane = order[0]
        if self.monitor is not None and meeting[lane].instr.opcode[0] == "bar":
            self.monitor.warp_barrier([warp.live[lane] for lane in order])
        try:
            given = {}
            for lane in order:
                given[lane] = meeting[lane].exchange.give(warp.live[lane])
            shared: dict[int, object] = {}
            for lane in order:
                t, exchange = warp.live[lane], meeting[lane].exchange
                if t.pc not in shared:
                    shared[t.pc] = exchange.share(given)
                exchange.take(t, shared[t.pc])
        except Unevaluated as error:
            error.locate(meeting[lane].instr, warp.live[lane].tid, self.cta.index)
            raise
        self._resume(warp.live[lane] for lane in order)

    # barriers --------------------------------------------------------------------------------

    def _bar(self, index: int) -> None:
        """Count a warp once all its live lanes came to one barrier; complete barriers."""
        warp = self.warps[index]
        arrival = None if warp.counted else _arrival(warp)
        if arrival is not None:
            self._count(index, warp, arrival)
        for key, barrier in list(self.barriers.items()):
            if self._complete(barrier):
                del self.barriers[key]
                self._release(key, barrier)

    def _count(self, index: int, warp: Warp, arrival: AtBarrier) -> None:
        new = Barrier(arrival.reduce, arrival.count)
        barrier = self.barriers.setdefault(arrival.barrier, new)
        if (barrier.count, barrier.reduce) != (arrival.count, arrival.reduce):
            raise _misfit(arrival, next(iter(warp.live.values())))
        barrier.arrived += 1
        lanes = list(warp.live.values())
        if self.monitor is not None:
            self.monitor.arrive(arrival.barrier, lanes)
        if arrival.waits:
            warp.counted = True
            barrier.waiting.append(index)
        else:
            self._resume(lanes)

    def _release(self, key: int, barrier: Barrier) -> None:
        lanes = [t for w in barrier.waiting for t in self.warps[w].live.values()]
        for waiting in barrier.waiting:
            self.warps[waiting].counted = False
        if self.monitor is not None:
            everyone = len(lanes) == sum(len(warp.live) for warp in self.warps)
            self.monitor.complete(self.cta, key, lanes, barrier.count is None, everyone)
        if barrier.reduce is not None:
            arrivals = [(t, t.wait) for t in lanes if isinstance(t.wait, AtBarrier)]
            result = barrier.reduce([wait.vote for _, wait in arrivals])
            for t, wait in arrivals:
                if wait.take is not None:
                    wait.take(t, result)
        self._resume(lanes)

    def _complete(self, barrier: Barrier) -> bool:
        if barrier.count is not None:
            return barrier.arrived * WARP >= barrier.count
        return all(i in barrier.waiting for i, warp in enumerate(self.warps) if warp.live)


def _arrival(warp: Warp) -> AtBarrier | None:
    """The barrier that all live lanes of a warp came to (aligned: at one instruction)."""
    waits = [t.wait for t in warp.live.values()]
    first = waits[0] if waits else None
    if not isinstance(first, AtBarrier):
        return None
    for wait in waits:
        if not isinstance(wait, AtBarrier):
            return None
        if (wait.barrier, wait.count) != (first.barrier, first.count):
            return None
        if (wait.waits, wait.reduce) != (first.waits, first.reduce):
            return None
        if (wait.aligned or first.aligned) and wait.pc != first.pc:
            return None
    return first


def _misfit(arrival: AtBarrier, t: Thread) -> Unsupported:
    error = Unsupported("unsupported.barrier-count")
    error.locate(arrival.instr, t.tid, t.cta.index)
    return error
