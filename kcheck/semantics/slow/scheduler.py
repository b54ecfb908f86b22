"""One CTA: which thread runs next, and when barriers and meetings let go."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcheck.semantics.slow.errors import BudgetExceeded, Unevaluated, Unsupported
from kcheck.semantics.slow.report import deadlock
from kcheck.semantics.slow.state import (
    DONE,
    PREEMPTED,
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

Key = tuple[object, ...]


@dataclass
class Barrier:
    """One generation of a named barrier: `arrived` warps, of which some wait."""

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
    """Runs the threads of a CTA, one at a time, in order or at random."""

    def __init__(
        self,
        cta: Cta,
        steps: Sequence[Step],
        accesses: Sequence[bool],
        budget: int,
        chance: random.Random | None,
    ) -> None:
        self.cta = cta
        self.code = cta.context.kernel.code
        self.steps = steps
        self.accesses = accesses
        self.budget = budget
        self.chance = chance
        self.used = 0
        self.barriers: dict[int, Barrier] = {}
        self.warps: list[Warp] = []
        for i in range(0, len(cta.threads), WARP):
            lanes = {t.lane: t for t in cta.threads[i : i + WARP]}
            self.warps.append(Warp(lanes, (1 << len(lanes)) - 1))
        self.ready = list(reversed(cta.threads))

    def run(self) -> None:
        """Until all threads have exited; a deadlock is a finding."""
        try:
            while self.ready:
                at = self.chance.randrange(len(self.ready)) if self.chance else -1
                self.ready[at], self.ready[-1] = self.ready[-1], self.ready[at]
                t = self.ready.pop()
                self._took(t, self._advance(t))
        except Stop:
            return
        stuck = [t for warp in self.warps for t in warp.live.values()]
        if stuck:
            deadlock(self.cta, stuck)

    def _advance(self, t: Thread) -> Signal:
        steps, count = self.steps, len(self.steps)
        left = self.budget - self.used
        start = left
        pc = t.pc
        try:
            while left:
                pc = t.pc
                if pc >= count:
                    return DONE
                if self.chance and self.accesses[pc] and self.chance.random() < PREEMPT_CHANCE:
                    return PREEMPTED
                t.pc = pc + 1
                left -= 1
                signal = steps[pc](t)
                if signal is not None:
                    return signal
            raise BudgetExceeded("budget.instructions")
        except Unevaluated as error:
            error.locate(self.code[pc], t.tid, self.cta.index)
            raise
        finally:
            self.used += start - left

    def _took(self, t: Thread, signal: Signal) -> None:
        warp = self.warps[t.warp]
        if signal is PREEMPTED:
            self.ready.append(t)
        elif signal is DONE:
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
            barrier = self.barriers.setdefault(arrival.barrier, Barrier(arrival.count))
            if barrier.count != arrival.count:
                raise _misfit(arrival, next(iter(warp.live.values())))
            barrier.arrived += 1
            if arrival.waits:
                warp.counted = True
                barrier.waiting.append(index)
            else:
                self._resume(warp.live.values())
        for key, barrier in list(self.barriers.items()):
            if self._complete(barrier):
                del self.barriers[key]
                for waiting in barrier.waiting:
                    self.warps[waiting].counted = False
                lanes = (self.warps[w].live.values() for w in barrier.waiting)
                self._resume(t for threads in lanes for t in threads)

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
        if (wait.barrier, wait.count, wait.waits) != (first.barrier, first.count, first.waits):
            return None
        if wait.aligned and wait.pc != first.pc:
            return None
    return first


def _misfit(arrival: AtBarrier, t: Thread) -> Unsupported:
    error = Unsupported("unsupported.barrier-count")
    error.locate(arrival.instr, t.tid, t.cta.index)
    return error
