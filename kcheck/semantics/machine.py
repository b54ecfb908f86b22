"""The lane executor: one program counter for all lanes that agree (DESIGN.md 4).

A group is a mask of lanes at the start of a basic block. The group at the smallest block (in
reverse post-order) runs next; groups that meet are merged; a group that reaches a barrier waits.
`mask` is None while the running group is every lane of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.domain import Arithmetic
from kcheck.canon.real import Reals
from kcheck.launch import Launch, unflatten
from kcheck.ptx_frontend.flow import ControlFlow
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.barriers import Barriers
from kcheck.semantics.branching import Arms, enter_block
from kcheck.semantics.codec import Codec
from kcheck.semantics.convergence import Convergence
from kcheck.semantics.convert import Conversions
from kcheck.semantics.flags import Flags
from kcheck.semantics.large_sums import LargeSums
from kcheck.semantics.plan import plan_of
from kcheck.semantics.races import Races
from kcheck.semantics.regions import Regions
from kcheck.semantics.rejoins import idle_blocks
from kcheck.semantics.special import special
from kcheck.semantics.tickets import Tickets
from kcheck.semantics.values import Bool

WARP = 32
# Instructions executed before a run is given up.
BUDGET = 5_000_000

Step = Callable[["Machine"], None]
# where a group goes: one block, or several with their lanes
Outcome = int | list[tuple[int, Bool]]


class BudgetError(Exception):
    """The run takes too long; `what` completes `budget.<what>`."""

    def __init__(self, what: str, message: str) -> None:
        self.what = what
        super().__init__(message)


@dataclass
class Fault:
    """A defect seen while executing: `count` lanes (in all) at one instruction.

    `thread` and `cta` (x, y, z) are the first lane's. `conditional`: only where a predicate on
    tensor values holds.
    """

    reason: str
    at: int
    message: str
    thread: tuple[int, int, int]
    cta: tuple[int, int, int]
    count: int = 1
    conditional: bool = False


@dataclass
class Block:
    """A decoded basic block: its steps with their indices, and what ends it.

    `barred`: the first instruction that may not stand in an arm of a branch on tensor values.
    """

    steps: list[tuple[int, Step]]
    end: Callable[[Machine], Outcome]
    # says which lanes of a group that comes to the block may go on now
    gate: Callable[[Machine, Bool], Bool] | None = None
    barred: int = -1


@dataclass
class Program:
    """A decoded kernel: blocks, and the initial registers (constants in their slots)."""

    blocks: list[Block]
    registers: list[Any]
    specials: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


class Machine(Conversions):
    """One kernel under one launch; `run` executes a batch of CTAs."""

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        reals: Reals[Any],
        *,
        races: bool = False,
        identify: bool = False,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.kernel = kernel
        self.launch: Launch = launch
        self.reals = reals
        self.domain = reals.domain
        # true formats: every float is an Int then, and no real arises
        self.arithmetic = arithmetic
        self.codec = Codec(self.reals.constants, identify)
        self.regions: Regions = Regions(kernel, launch, reals, self.codec, arithmetic)
        self.faults: dict[tuple[str, int], Fault] = {}
        self.large_sums = LargeSums(kernel)
        self.executed = 0
        self.values = 0
        self.budget = BUDGET
        self.at = 0
        # a guard on tensor values is in force
        self.conditional = False
        # the arm of a branch on tensor values that is being executed
        self.arms: Arms | None = None
        self.mask: Bool | None = None
        self.notmask: Bool | None = None
        # the mask, if it is all lanes that live: the registers of the others don't matter
        self.everyone: Bool | None = None
        # threads of a CTA, padded to whole warps; the padding never lives
        self.threads: int = (launch.threads + WARP - 1) // WARP * WARP
        self.program = Program([], [])
        self.plan = plan_of(kernel)
        self.blocks = self.plan.blocks(kernel)
        self.control = ControlFlow(kernel)
        self.convergence = Convergence(self)
        # blocks where lanes have nothing left to do: they exit at once
        starts = {kernel.blocks[i].start for i in idle_blocks(kernel)}
        self.idle = frozenset(i for i, block in enumerate(self.blocks) if block.start in starts)
        # who waits for whom through memory hangs on who knows of what: the monitor keeps that
        self.races = Races(self) if races or self.plan.grid else None
        self.flags: Flags | None = None
        self.tickets: Tickets | None = None
        self.watched: set[int] = set()
        # why this schedule does not stand for all, and the instruction
        self.doubt: tuple[str, int] | None = None
        # the CTAs run on as if each had drawn the last ticket
        self.tail = False
        # integer atomics that were executed as maxima or minima of floats
        self.extremes: set[int] = set()
        # lanes that came to an instruction that a loop waits by
        self.came: dict[int, Bool] = {}
        self.lanes = 0
        self.lane: NDArray[np.int64] = np.zeros(0, np.int64)

    @property
    def at(self) -> int:
        """The instruction being executed, which the values know too."""
        return self.reals.at

    @at.setter
    def at(self, at: int) -> None:
        self.reals.at = at

    # one batch

    def run(self, ctas: NDArray[np.int64]) -> None:
        """Execute these CTAs together, to the end."""
        self.ctas = ctas
        self.lanes = len(ctas) * self.threads
        self.lane = np.arange(self.lanes, dtype=np.int64)
        self.cta_of = self.lane // self.threads
        self.regions.renew(len(ctas), self.lanes)
        granule = self.regions.granule
        self.cta_cells = self.cta_of * (self.regions.shared_bytes // granule)
        self.lane_cells = self.lane * (self.regions.local_bytes // granule)
        self.carry: Any = None
        self.regs = list(self.program.registers)
        for slot, name in self.program.specials:
            self.regs[slot] = special(self, name)
        alive = self.lane % self.threads < self.launch.threads
        self.alive = alive
        self.came = {}
        self.ready: dict[int, Bool] = {0: alive.copy()}
        self.barriers = Barriers(self)
        self.convergence.begin()
        if self.races is not None:
            self.races.begin()
            if self.races.orders is not None:
                self.flags = Flags(self, self.races.orders, self.watched)
                self.tickets = Tickets(self, self.flags)
        before = self.executed
        with np.errstate(all="ignore"):
            self._schedule()
        self.values += (self.executed - before) * self.lanes

    def _schedule(self) -> None:
        while True:
            while self.ready:
                block = min(self.ready)
                self.execute(block, self.ready.pop(block))
            if not self.barriers.release() and not self._wake():
                break
        if self.flags is not None and self.flags.stalled:
            self.flags.deadlock()
        else:
            self.barriers.deadlock()
        if self.tickets is not None:
            self.tickets.finish()

    def _wake(self) -> bool:
        """Nothing can run: send on who waits for another CTA; False if nobody can go on."""
        if self.flags is None or self.tickets is None:
            return False
        return self.flags.wake() or self.tickets.release()

    def enter(self, mask: Bool | None) -> None:
        """Make a mask the running group's."""
        if mask is not None and mask.all():
            mask = None
        self.mask = mask
        self.notmask = None if mask is None else ~mask
        whole = self.notmask is not None and not (self.alive & self.notmask).any()
        self.everyone = mask if whole else None

    def execute(self, index: int, mask: Bool) -> None:
        """Run lanes from a block on, as long as they come first."""
        self.enter(mask)
        blocks, reals = self.program.blocks, self.reals
        join = None if self.arms is None else self.arms.join
        while True:
            block = blocks[index]
            limits.check()
            if self.convergence.open:
                self.convergence.enter(index)
            if block.gate is not None:
                mask = block.gate(self, self.group())
                if not mask.any():
                    return
                self.enter(mask)
            if join is not None:
                enter_block(self, block.barred)
            self.executed += len(block.steps) + 1
            if self.executed > self.budget:
                raise BudgetError("time", f"more than {self.budget} instructions were executed")
            for reals.at, step in block.steps:
                step(self)
            outcome = block.end(self)
            if index in self.convergence.branches:
                self.convergence.leave(index, outcome)
            if isinstance(outcome, list):
                for target, lanes in outcome:
                    self.send(target, lanes)
                return
            if outcome < 0 or outcome == join or (self.ready and outcome >= min(self.ready)):
                self.send(outcome, self.group())
                return
            index = outcome

    def send(self, block: int, lanes: Bool) -> None:
        """Let lanes go on at a block; past the last one (-1), or with nothing to do, they exit.

        In an arm they wait there for the end of the other arm.
        """
        if self.arms is None and (block < 0 or block in self.idle):
            self.exit(lanes)
        elif lanes.any():
            there = self.ready.get(block)
            self.ready[block] = lanes if there is None else there | lanes

    def group(self) -> Bool:
        """The running group as a mask."""
        return np.ones(self.lanes, bool) if self.mask is None else self.mask

    def exit(self, lanes: Bool) -> None:
        """The lanes are done."""
        if self.races is not None:
            self.races.exited(lanes)
        self.alive = self.alive & ~lanes

    def note_doubt(self, message: str, at: int) -> None:
        """What is seen from now on need not be so in every schedule: only defects count."""
        self.doubt = self.doubt or (message, at)

    # faults

    def fault(self, reason: str, lanes: Bool, message: str, at: int | None = None) -> None:
        """Note a defect of these lanes at the running instruction."""
        where = self.at if at is None else at
        known = self.faults.get((reason, where))
        if known is not None:
            known.count += int(lanes.sum())
            return
        lane = int(lanes.argmax())
        limits.keep(True)
        self.faults[reason, where] = Fault(
            reason,
            where,
            message,
            self.thread(lane),
            self.cta(lane),
            int(lanes.sum()),
            self.conditional,
        )

    def thread(self, lane: int) -> tuple[int, int, int]:
        """The thread index (x, y, z) of a lane."""
        return unflatten(lane % self.threads, self.launch.block)

    def cta(self, lane: int) -> tuple[int, int, int]:
        """The CTA index (x, y, z) of a lane."""
        return unflatten(int(self.ctas[lane // self.threads]), self.launch.grid)
