"""Happens-before beyond barriers: fences, acquire and release, across CTAs (DESIGN.md 5).

A time is an epoch of a CTA and a clock of a lane in it, as one number. What all live threads of a
CTA know is kept once per CTA (`rows`); what a lane learned since its last full barrier is kept
apart (`learned`) until the next one makes it known to all. Synchronization is rare: its clocks are
Python objects, one per event and lane that takes part; ordinary accesses cost nothing here.

Source: PTX ISA 8 (causality order); Lamport (1978).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.clocks import Clocks
from kcheck.semantics.values import Bool

Ints = NDArray[np.int64]
TIME_SHIFT = 32
# scopes (semantics.strength.SCOPES): from this one on they hold all CTAs
WIDE = 3


@dataclass(frozen=True)
class Clock:
    """What is known to have happened: all epochs of each CTA before `epochs`, and of each lane in
    `agents` (sorted) all up to its time in `times`. Agents from the number of lanes on are cells:
    their times count writes.
    """

    epochs: Ints
    agents: Ints
    times: Ints

    def time_of(self, agents: Ints) -> Ints:
        """Up to when each agent is known of by itself; -1: not."""
        at = np.searchsorted(self.agents, agents)
        if not len(self.agents):
            return np.full(np.shape(agents), -1, np.int64)
        at = np.minimum(at, len(self.agents) - 1)
        return np.where(self.agents[at] == agents, self.times[at], -1)

    def covers(self, other: Clock) -> bool:
        """Does it know all that another knows?"""
        if (self.epochs < other.epochs).any():
            return False
        return bool((self.time_of(other.agents) >= other.times).all())


def union(clocks: Iterable[Clock | None]) -> Clock | None:
    """All that any of them knows."""
    distinct = list({id(c): c for c in clocks if c is not None}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    epochs = np.maximum.reduce([c.epochs for c in distinct])
    agents = np.concatenate([c.agents for c in distinct])
    times = np.concatenate([c.times for c in distinct])
    order = np.lexsort((times, agents))
    agents, times = agents[order], times[order]
    last = np.append(agents[1:] != agents[:-1], True)
    return Clock(epochs, agents[last], times[last])


@dataclass(frozen=True)
class Told:
    """What writes tell a reader: of any CTA (`wide`), and of the writer's own CTA (`near`)."""

    wide: Clock | None = None
    near: dict[int, Clock] = field(default_factory=dict[int, Clock])

    def plus(self, other: Told) -> Told:
        """What both tell."""
        if other.wide is None and not other.near:
            return self
        near = dict(self.near)
        for cta, clock in other.near.items():
            merged = union([near.get(cta), clock])
            assert merged is not None
            near[cta] = merged
        return Told(union([self.wide, other.wide]), near)

    def reaching(self, scope: int, cta: int) -> Clock | None:
        """What a reader in a CTA, of a scope, gets to know."""
        return union([self.wide if scope >= WIDE else None, self.near.get(cta)])

    def covers(self, other: Told) -> bool:
        """Does it tell all that another tells, to every reader?"""
        if other.wide is not None and (self.wide is None or not self.wide.covers(other.wide)):
            return False
        return all(
            cta in self.near and self.near[cta].covers(clock) for cta, clock in other.near.items()
        )


class Orders:
    """What the lanes of a batch know of one another."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        ctas, lanes = clocks.ctas, clocks.ctas * clocks.threads
        self.rows: list[Clock | None] = [None] * ctas
        self.learned: dict[int, Clock] = {}
        # of fences that release, by scope: the time of each lane's last one (-1: none since the
        # last full barrier), and what the lane had learned then; what barriers passed on, by CTA
        self.fenced: dict[int, Ints] = {}
        self.fenced_learned: dict[tuple[int, int], Clock] = {}
        self.fenced_rows: dict[tuple[int, int], Clock] = {}
        # read without acquire: by lane, and passed on by barriers, by CTA
        self.pending: dict[int, Told] = {}
        self.pending_rows: dict[int, Told] = {}
        # the epoch in which a lane left: no barrier tells of it
        self.left: Ints = np.full(lanes, -1, np.int64)
        # CTAs where a lane learned something since the last full barrier
        self.busy: Bool = np.zeros(ctas, bool)

    # clocks

    def cta(self, lane: int) -> int:
        return lane // self.clocks.threads

    def time(self, lane: int) -> int:
        """The present time of a lane."""
        epoch = int(self.clocks.epoch[self.cta(lane)])
        return epoch << TIME_SHIFT | int(self.clocks.own[lane])

    def single(self, agents: Ints, times: Ints) -> Clock:
        """Knowledge of single agents."""
        return Clock(np.zeros(self.clocks.ctas, np.int64), agents, times)

    def now(self, lane: int) -> Clock:
        """All that a lane knows, itself included."""
        own = self._with_row(self.cta(lane), np.array([lane]), np.array([self.time(lane)]))
        known = union([own, self.learned.get(lane), self._met(lane)])
        assert known is not None
        return known

    def _with_row(self, cta: int, lanes: Ints, times: Ints) -> Clock:
        """What lanes of a CTA know by full barriers, and of each other."""
        epochs = np.zeros(self.clocks.ctas, np.int64)
        epochs[cta] = self.clocks.epoch[cta]
        known = union([self.rows[cta], Clock(epochs, lanes, times)])
        assert known is not None
        return known

    def _met(self, lane: int) -> Clock | None:
        """What a lane knows by barriers among a part of the threads."""
        clocks, cta = self.clocks, self.cta(lane)
        if clocks.known is None or not clocks.partial[cta]:
            return None
        row = clocks.known[cta, lane % clocks.threads]
        met = np.flatnonzero(row)
        times = clocks.epoch[cta] << TIME_SHIFT | row[met].astype(np.int64)
        return self.single(met + cta * clocks.threads, times)

    def tick(self, lanes: Ints) -> None:
        """What these lanes do next is not part of what they told."""
        own = self.clocks.own.copy()
        own[lanes] += 1
        self.clocks.own = own

    # who knows

    def known(self, me: Ints, other: Ints, times: Ints) -> Bool:
        """Does each lane `me` know of what `other` did at `times`?"""
        clocks = self.clocks
        epochs = times >> TIME_SHIFT
        stayed = self.left[other] != epochs
        mine, theirs = me // clocks.threads, other // clocks.threads
        result = (mine == theirs) & (epochs < clocks.epoch[theirs]) & stayed
        result |= me == other
        for cta, here in _groups(mine):
            row = self.rows[cta]
            if row is not None:
                result[here] |= _knows(row, other[here], theirs[here], times[here], stayed[here])
        if self.learned:
            for lane, at in _groups(me):
                clock = self.learned.get(lane)
                if clock is not None:
                    result[at] |= _knows(clock, other[at], theirs[at], times[at], stayed[at])
        return np.asarray(result)

    def cell_time(self, lane: int, cell: int) -> int:
        """Up to which write a lane knows of a cell (an agent); -1: of none."""
        agent = np.array([cell], np.int64)
        clocks = (self.rows[self.cta(lane)], self.learned.get(lane))
        return max((int(c.time_of(agent)[0]) for c in clocks if c is not None), default=-1)

    # events

    def learn(self, lane: int, clock: Clock | None) -> None:
        """What a clock knows happened before what the lane does next."""
        known = union([self.learned.get(lane), clock])
        if known is not None:
            self.learned[lane] = known
            self.busy[self.cta(lane)] = True

    def take(self, lane: int, told: Told, scope: int, acquire: bool) -> None:
        """A lane read, by a load of a scope, what was told."""
        cta = self.cta(lane)
        if acquire:
            self.learn(lane, told.reaching(scope, cta))
            return
        kept = told if scope >= WIDE else Told(None, told.near)
        self.pending[lane] = self.pending.get(lane, Told()).plus(kept)
        self.busy[cta] = True

    def fence(self, lanes: Ints, scope: int, acquires: bool, releases: bool) -> None:
        """These lanes execute a fence."""
        ctas = np.unique(lanes // self.clocks.threads)
        if acquires and (self.pending or self.pending_rows):
            self._acquire(lanes, scope)
        if not releases:
            return
        if scope not in self.fenced:
            self.fenced[scope] = np.full(len(self.left), -1, np.int64)
        epoch = self.clocks.epoch[lanes // self.clocks.threads]
        self.fenced[scope][lanes] = epoch << TIME_SHIFT | self.clocks.own[lanes]
        apart = self.clocks.partial.any()
        for lane in lanes.tolist() if apart else self.learned.keys() & set(lanes.tolist()):
            self.fenced_learned[scope, lane] = self.now(lane)
        self.busy[ctas] = True
        self.tick(lanes)

    def _acquire(self, lanes: Ints, scope: int) -> None:
        for lane in lanes.tolist():
            cta = self.cta(lane)
            for told in (self.pending.get(lane), self.pending_rows.get(cta)):
                if told is not None:
                    self.learn(lane, told.reaching(scope, cta))

    def told(self, lane: int, scope: int, release: bool) -> Told:
        """What a strong write of a lane tells."""
        cta = self.cta(lane)
        wide: list[Clock | None] = []
        near: list[Clock | None] = []
        for fence in {*self.fenced, *(s for s, c in self.fenced_rows if c == cta)}:
            clock = self._at_fence(fence, lane)
            near.append(clock)
            wide.append(clock if min(fence, scope) >= WIDE else None)
        if release:
            now = self.now(lane)
            near.append(now)
            wide.append(now if scope >= WIDE else None)
            self.tick(np.array([lane]))
        close = union(near)
        return Told(union(wide), {} if close is None else {cta: close})

    def _at_fence(self, scope: int, lane: int) -> Clock | None:
        """What a lane knew at its last fence of a scope."""
        cta = self.cta(lane)
        passed = self.fenced_rows.get((scope, cta))
        learned = self.fenced_learned.get((scope, lane))
        time = int(self.fenced[scope][lane]) if scope in self.fenced else -1
        own = None if time < 0 else self._with_row(cta, np.array([lane]), np.array([time]))
        return union([passed, own, learned])

    # barriers

    def end_epoch(self, ctas: Bool, alive: Bool) -> None:
        """All live threads of these CTAs met; before the clocks' own."""
        for cta in np.flatnonzero(ctas & self.busy).tolist():
            start = cta * self.clocks.threads
            live = start + np.flatnonzero(alive[start : start + self.clocks.threads])
            self._merge(cta, live)
        self.busy = self.busy & ~ctas

    def _merge(self, cta: int, live: Ints) -> None:
        lanes = set(live.tolist())
        for scope, times in self.fenced.items():
            passed = union([self.fenced_rows.get((scope, cta)), self._fences(scope, live)])
            if passed is not None:
                self.fenced_rows[scope, cta] = passed
            times[cta * self.clocks.threads : (cta + 1) * self.clocks.threads] = -1
        for key in [k for k in self.fenced_learned if self.cta(k[1]) == cta]:
            del self.fenced_learned[key]
        here = [lane for lane in self.learned if self.cta(lane) == cta]
        known = [self.learned.pop(lane) for lane in here]
        kept = [clock for lane, clock in zip(here, known, strict=True) if lane in lanes]
        self.rows[cta] = union([self.rows[cta], *kept])
        for lane in [lane for lane in self.pending if self.cta(lane) == cta]:
            told = self.pending.pop(lane)
            if lane in lanes:
                self.pending_rows[cta] = self.pending_rows.get(cta, Told()).plus(told)

    def _fences(self, scope: int, lanes: Ints) -> Clock | None:
        """What lanes of one CTA knew together at their last fences of a scope."""
        fenced = lanes[self.fenced[scope][lanes] >= 0]
        learned = [self.fenced_learned.get((scope, lane)) for lane in lanes.tolist()]
        own = None
        if len(fenced):
            own = self._with_row(self.cta(int(lanes[0])), fenced, self.fenced[scope][fenced])
        return union([own, *learned])

    def meet(self, lanes: Ints) -> None:
        """Some lanes of one CTA met at a barrier; what they did themselves the clocks know."""
        if not self.busy[self.cta(int(lanes[0]))]:
            return
        members = lanes.tolist()
        known = union([self.learned.get(lane) for lane in members])
        for lane in members:
            self.learn(lane, known)
        for scope in self.fenced:
            passed = self._fences(scope, lanes)
            for lane in members if passed is not None else ():
                assert passed is not None
                self.fenced_learned[scope, lane] = passed
        told = [self.pending[lane] for lane in members if lane in self.pending]
        for lane in members if told else ():
            for one in told:
                self.pending[lane] = self.pending.get(lane, Told()).plus(one)


def _knows(clock: Clock, other: Ints, ctas: Ints, times: Ints, stayed: Bool) -> Bool:
    by_epoch = (times >> TIME_SHIFT < clock.epochs[ctas]) & stayed
    return np.asarray(by_epoch | (clock.time_of(other) >= times))


def _groups(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Each key with the places where it stands."""
    order = keys.argsort(kind="stable")
    ends = np.flatnonzero(np.diff(keys[order], append=-1)) + 1
    start = 0
    for end in ends.tolist():
        yield int(keys[order[start]]), order[start:end]
        start = end
