"""Why a barrier orders nothing: what the accesses on its two sides have in common.

Or why a wait completes no copy that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.field import FieldDomain
from kcheck.canon.real import Reals
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse_file
from kcheck.semantics.accesses import Access
from kcheck.semantics.barriers import NONE
from kcheck.semantics.builders import BUILDERS
from kcheck.semantics.copies import Copies
from kcheck.semantics.machine import Machine
from kcheck.semantics.program import decode
from kcheck.semantics.races import WARP, Races
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import WRITE, Shadow
from kcheck.semantics.symbolic import guarded_symbolically
from kcheck.semantics.values import Array, Bool

LEVELS = 3
Numbers = NDArray[np.int64]


@dataclass
class Seen:
    """Accesses of one CTA, a row per cell and lane: columns of `rows` below.

    `passes`: of the barrier, `completed`: copies by the wait.
    """

    rows: list[Numbers]
    passes: int = 0
    completed: int = 0


class Trace(Races):
    """Notes the cells that each lane accesses between two barriers.

    Per lane two counters: `phase` goes up at the barrier `at`, `stretch` at all others that order
    as much as it does.
    """

    def __init__(self, machine: Machine, at: int) -> None:
        super().__init__(machine)
        self.watched = at
        self.narrow = machine.kernel.code[at].opcode[:2] == ("bar", "warp")
        self.seen: list[Seen] = []
        self.shadows: dict[int, int] = {}

    def begin(self) -> None:
        self.seen.append(Seen([]))
        self.stretch = np.zeros(self.machine.lanes, np.int64)
        self.phase = np.zeros(self.machine.lanes, np.int64)
        super().begin()
        self.copies = _TracedCopies(self)

    def end_epoch(self, ctas: Bool, pledged: dict[int, Array] | None = None) -> None:
        self._pass(ctas[self.machine.cta_of] & self.machine.alive)
        super().end_epoch(ctas, pledged)

    def warps_meet(self, lanes: Bool) -> None:
        if self.narrow:
            self._pass(lanes)
        super().warps_meet(lanes)

    def _pass(self, lanes: Bool) -> None:
        waits = self.machine.barriers
        where = np.where(waits.ident == NONE, self.machine.at, waits.place)
        here = bool((where[lanes] == self.watched).any())
        self.seen[-1].passes += here
        counter = self.phase if here else self.stretch
        counter[lanes] += 1

    def access(
        self, shadow: Shadow, region: Region, cells: Array, lanes: Array, kind: int, op: int
    ) -> Access:
        made = super().access(shadow, region, cells, lanes, kind, op)
        wide = np.broadcast_to(lanes, cells.shape).reshape(-1).astype(np.int64)
        memory = self.shadows.setdefault(id(shadow), len(self.shadows))
        warp = wide // WARP if self.narrow else np.zeros_like(wide)
        writes = np.full_like(wide, kind == WRITE)
        place = np.full_like(wide, memory), warp, self.stretch[wide], cells.reshape(-1)
        self.seen[-1].rows.append(np.stack([*place, self.phase[wide], wide, writes]))
        return made


class _TracedCopies(Copies):
    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.trace = trace

    def completed(self, access: Access, done: Bool) -> None:
        if self.trace.machine.at == self.trace.watched:
            self.trace.seen[-1].completed += int(done.sum())
        super().completed(access, done)


def trace(kernel: Kernel, path: Path, at: int) -> list[Seen]:
    """What each CTA accesses around the barrier at an instruction."""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    machine = Machine(kernel, launch, Reals(FieldDomain(1, 1, LEVELS)), races=True)
    watching = machine.races = Trace(machine, at)
    machine.program = decode(machine, BUILDERS, guarded_symbolically)
    for cta in range(launch.ctas):
        machine.run(np.array([cta], np.int64))
    return watching.seen


def needless(path: Path, line: int) -> str:
    """What the barrier or wait at a line of a kernel would order, in words."""
    kernel = lower(parse_file(path))
    at = next(i for i, instr in enumerate(kernel.code) if instr.span.line == line)
    seen = trace(kernel, path, at)
    if kernel.code[at].opcode[0] == "cp":
        if not any(one.completed for one in seen):
            return "no copy is under way there"
        return "nobody accesses what it completes before a later wait"
    if not any(one.passes for one in seen):
        return "no thread comes there"
    return describe([np.concatenate(one.rows, axis=1) for one in seen if one.rows])


def describe(ctas: list[Numbers]) -> str:
    """The first that holds of all CTAs; rows: memory, warp, stretch, cell, phase, lane, writes."""
    sides, shared = 0, np.zeros((3, 0), np.int64)
    for rows in ctas:
        sides += _groups(rows, rows[:3])[0].sum()
        shared = np.concatenate([shared, np.stack(_groups(rows, rows[:4]))], axis=1)
    both, written, several = shared.astype(bool)
    if not sides:
        return "it has accesses on one side only"
    if not both.any():
        return "its two sides access different cells"
    if not (both & written).any():
        return "its two sides only read the cells that both access"
    if not (both & written & several).any():
        return "each cell that both sides access, one of them to write, is one thread's own"
    return "its two sides share cells that some synchronization must order"


def _groups(rows: Numbers, keys: Numbers) -> tuple[Bool, Bool, Bool]:
    """Per group of equal keys: accesses in several phases, by several lanes, is one a write?"""
    order = np.lexsort(keys)
    sorted_keys, (phase, lane, writes) = keys[:, order], rows[4:, order]
    first = np.ones(len(order), bool)
    first[1:] = (sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(0)
    starts = np.flatnonzero(first)

    def several(x: Numbers) -> Bool:
        return np.maximum.reduceat(x, starts) > np.minimum.reduceat(x, starts)

    return several(phase), np.maximum.reduceat(writes, starts) > 0, several(lane)
