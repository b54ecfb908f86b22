"""What changes while a kernel runs: threads, CTAs, findings."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kcheck.launch import Launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.errors import Triple
from kcheck.semantics.slow.layout import Layout
from kcheck.semantics.slow.memory import Memory
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.shadow import Log
from kcheck.semantics.slow.units import UNDEF, Unit

if TYPE_CHECKING:
    from kcheck.semantics.slow.copies import Copy
    from kcheck.semantics.slow.races import Monitor
    from kcheck.semantics.strength import Kind

WARP = 32
PER_PLACE = 16  # findings kept of one reason at one instruction
IN_ALL = 256


@dataclass(frozen=True)
class SlowFinding:
    """A defect seen by one thread. `address` is `buffer[+bytes]`, or ""."""

    reason: str
    message: str
    instr: Instr | None
    thread: Triple | None
    cta: Triple | None
    address: str = ""


@dataclass
class Findings:
    """What was found, capped per instruction and in all; `seen` counts every one."""

    kept: list[SlowFinding] = field(default_factory=list[SlowFinding])
    seen: int = 0
    _places: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def add(self, finding: SlowFinding) -> None:
        """Keep a finding unless the caps are reached."""
        self.seen += 1
        place = finding.reason, id(finding.instr)
        count = self._places.get(place, 0)
        self._places[place] = count + 1
        if count < PER_PLACE and len(self.kept) < IN_ALL:
            self.kept.append(finding)


@dataclass
class Context:
    """What all threads of a run share.

    `kinds`: of accesses by instruction index. `left`: instructions of the budget that are left.
    `chance`: None for the schedule in order. `aggregates`: activemask that only serve an
    aggregate. `progress`: goes up with every store and exit.
    """

    kernel: Kernel
    launch: Launch
    numbers: type[Number]
    layout: Layout
    findings: Findings
    kinds: dict[int, Kind]
    left: int
    chance: random.Random | None
    aggregates: frozenset[int]
    monitor: Monitor | None = None
    progress: int = 0
    undef_stores: dict[tuple[str, int], tuple[Instr, Triple, Triple]] = field(
        default_factory=dict[tuple[str, int], "tuple[Instr, Triple, Triple]"]
    )


@dataclass(frozen=True)
class AtBarrier:
    """A thread arrives at a CTA barrier: `count` threads, or None for all; does it wait?

    `vote`: what it gives to a reduction, `reduce`: over the votes of all, `take`: its result.
    """

    instr: Instr
    pc: int
    barrier: int
    count: int | None
    aligned: bool
    waits: bool
    vote: bool = False
    reduce: Callable[[list[bool]], Any] | None = None
    take: Callable[[Thread, Any], None] | None = None


@dataclass(frozen=True)
class Exchange:
    """What lanes do when they meet: each gives, `share` maps all gifts by lane, each takes."""

    give: Callable[[Thread], Any]
    share: Callable[[dict[int, Any]], Any]
    take: Callable[[Thread, Any], None]


@dataclass(frozen=True)
class AtMeeting:
    """A thread waits for the lanes of `mask` (None: all live ones) that come with equal `key`."""

    instr: Instr
    key: tuple[object, ...]
    mask: int | None
    exchange: Exchange


@dataclass(frozen=True)
class Done:
    """The thread exits."""


@dataclass(frozen=True)
class Preempted:
    """Another thread may run now."""


@dataclass(frozen=True)
class Spinning:
    """The thread read what it had read before: others should run first."""


Signal = AtBarrier | AtMeeting | Done | Preempted | Spinning
Step = Callable[["Thread"], Signal | None]
DONE = Done()
PREEMPTED = Preempted()
SPINNING = Spinning()


class Thread:
    """One thread: registers by slot, program counter, carry flag, local memory.

    `groups`: its asynchronous copies by commit group, the open group last. `spun`: the last
    strong load and what it gave.
    """

    __slots__ = (
        "carry", "cta", "exited", "groups", "lane", "linear", "local", "pc", "regs", "spun", "tid",
        "wait", "warp",
    )  # fmt: skip
    cta: Cta
    linear: int
    tid: Triple
    lane: int
    warp: int

    def __init__(self, cta: Cta, linear: int, slots: int) -> None:
        block = cta.context.launch.block
        self.cta = cta
        self.linear = linear
        self.tid = triple(linear, block)
        self.lane = linear % WARP
        self.warp = linear // WARP
        self.regs: list[Unit] = [UNDEF] * slots
        self.pc = 0
        self.carry: int | None = None  # None: undefined
        self.local = Memory()
        self.wait: Signal | None = None  # None while it can run
        self.exited = False
        self.groups: list[list[Copy]] = [[]]
        self.spun: tuple[int, Unit] | None = None


class Cta:
    """One CTA: its threads, shared memory, and the asynchronous copies that are not yet done."""

    def __init__(self, context: Context, linear: int, slots: int) -> None:
        self.context = context
        self.index = triple(linear, context.launch.grid)
        self.shared = Memory(Log() if context.monitor else None)
        self.copies: list[Copy] = []
        self.threads = [Thread(self, i, slots) for i in range(context.launch.threads)]

    def find(
        self,
        reason: str,
        message: str,
        instr: Instr | None,
        thread: Thread | None,
        address: str = "",
    ) -> None:
        """Report a finding in this CTA."""
        tid = None if thread is None else thread.tid
        finding = SlowFinding(reason, message, instr, tid, self.index, address)
        self.context.findings.add(finding)


class Stop(Exception):
    """The CTA can't go on; its finding is reported."""


def triple(linear: int, extent: Triple) -> Triple:
    """(x, y, z) of a linear index, x fastest."""
    x, rest = linear % extent[0], linear // extent[0]
    return x, rest % extent[1], rest // extent[1]


def chance(seed: int | None) -> random.Random | None:
    """The source of randomness of a schedule, or None for the schedule in order."""
    return None if seed is None else random.Random(seed)
