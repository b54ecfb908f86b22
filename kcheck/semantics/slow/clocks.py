"""Vector clocks: what each thread knows to have happened (DESIGN.md 5).

A clock maps agents to times: all that an agent did up to that time happened before. Threads are
numbered from 1 on over the whole grid; other agents (single strong writes, completions of
barriers) have negative numbers. Clocks are shared and never changed in place: after a barrier all
threads hold the same one. A thread's own time is kept apart and moves on whenever another thread
could learn of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.strength import Kind

Clock = dict[int, int]


@dataclass(frozen=True)
class Place:
    """The CTA and the cluster that a thread is in, as linear indices."""

    cta: int
    cluster: int

    def reached(self, scope: int, other: Place) -> bool:
        """Does a scope (of strength.SCOPES) around this thread hold the other?"""
        if scope >= 3:
            return True
        return self.cta == other.cta if scope == 1 else scope == 2 and self.cluster == other.cluster


@dataclass(frozen=True)
class Message:
    """What a strong write tells a reader: a clock, how far it reaches, and from where."""

    clock: Clock
    scope: int
    place: Place

    def reaches(self, scope: int, reader: Place) -> bool:
        """Does it reach a reader of a scope?"""
        return self.place.reached(self.scope, reader) and reader.reached(scope, self.place)


@dataclass
class Chain:
    """The write that a cell's value came from, and the read-modify-writes since (ISA 8.7)."""

    messages: list[Message] = field(default_factory=list[Message])
    writes: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class Released:
    """What a thread lets others know at a barrier."""

    agent: int
    time: int
    seen: Clock
    fenced: dict[int, Clock]
    unfenced: Sequence[Message]


@dataclass
class Waiting:
    """The last value that a `wait` load got: it counts once the loop is left."""

    kind: Kind
    messages: list[Message]
    writes: list[int]


class Knowledge:
    """What one thread knows.

    `fenced`: per scope the clock of the last fence. `unfenced`: messages read without acquire.
    `instances`: how often it executed an instruction since its last barrier; `last`: that barrier.
    """

    __slots__ = (
        "agent", "fenced", "instances", "last", "place", "seen", "ticket", "time", "unfenced",
        "waiting",
    )  # fmt: skip

    def __init__(self, agent: int, place: Place) -> None:
        self.agent = agent
        self.place = place
        self.time = 1
        self.seen: Clock = {}
        self.fenced: dict[int, Clock] = {}
        self.unfenced: list[Message] = []
        self.waiting: Waiting | None = None
        self.ticket: tuple[Kind, list[Message], list[int]] | None = None
        self.instances: dict[int, int] = {}
        self.last: Instr | None = None

    def now(self) -> Clock:
        """All that it knows, itself included."""
        return {**self.seen, self.agent: self.time}

    def release(self) -> Released:
        """What happened up to now; what comes next is not part of it."""
        released = Released(self.agent, self.time, self.seen, self.fenced, self.unfenced)
        self.time += 1
        return released

    def learn(self, clocks: Iterable[Clock]) -> None:
        """What these clocks hold happened before what comes next."""
        self.seen = union([self.seen, *clocks])

    def observe(self, writes: Iterable[int]) -> None:
        """These single writes happened before what comes next."""
        self.learn([dict.fromkeys(writes, 1)])

    def fence(self, scope: int, acquires: bool, releases: bool) -> None:
        """A fence: a later strong write releases, and an earlier strong read acquires."""
        if acquires:
            taken = [m for m in self.unfenced if m.reaches(scope, self.place)]
            if taken:
                self.learn(m.clock for m in taken)
                self.unfenced = [m for m in self.unfenced if m not in taken]
        if releases:
            self.fenced = {**self.fenced, scope: self.now()}
            self.time += 1

    def messages(self, kind: Kind) -> list[Message]:
        """What a strong write tells."""
        told = [
            Message(clock, min(scope, kind.scope), self.place)
            for scope, clock in self.fenced.items()
        ]
        if kind.release:
            told.append(Message(self.now(), kind.scope, self.place))
        return told


def union(clocks: Iterable[Clock]) -> Clock:
    """The latest times of all clocks. The result may be one of them."""
    distinct = list({id(clock): clock for clock in clocks if clock}.values())
    if not distinct:
        return {}
    if len(distinct) == 1:
        return distinct[0]
    distinct.sort(key=len)
    merged = dict(distinct.pop())
    for clock in distinct:
        for agent, time in clock.items():
            if merged.get(agent, 0) < time:
                merged[agent] = time
    return merged


def joined(parts: Sequence[Released]) -> Released:
    """What all parts together let others know; the agent is 0."""
    seen = dict(union(part.seen for part in parts))
    fenced: dict[int, list[Clock]] = {}
    unfenced: list[Message] = []
    for part in parts:
        if seen.get(part.agent, 0) < part.time:
            seen[part.agent] = part.time
        for scope, clock in part.fenced.items():
            fenced.setdefault(scope, []).append(clock)
        unfenced += [m for m in part.unfenced if m not in unfenced]
    merged = {scope: union(clocks) for scope, clocks in fenced.items()}
    return Released(0, 0, seen, merged, unfenced)
