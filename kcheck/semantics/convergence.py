"""Aligned barriers that a part of a warp comes to, while the others run on (DESIGN.md 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.rejoins import rejoins
from kcheck.semantics.values import Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine, Outcome

WARP = 32


@dataclass
class Split:
    """Warps that a branch split: the block where its ways meet, all their lanes that came to the
    branch, and those that are past that block.
    """

    join: int
    lanes: Bool
    passed: Bool


class Convergence:
    """The splits of a batch (`open`) within which an aligned barrier stands."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.open: list[Split] = []

    @cached_property
    def joins(self) -> dict[int, int]:
        """Block -> the block where the ways from its end meet."""
        blocks = self.machine.blocks
        ends = {block.end - 1: i for i, block in enumerate(blocks)}
        starts = {block.start: i for i, block in enumerate(blocks)}
        found = rejoins(self.machine.control)
        return {ends[at]: starts[join] for at, join in found.items()}

    def split(self, block: int, outcome: Outcome) -> None:
        """A group goes several ways from the end of a block."""
        m = self.machine
        if block not in self.joins or m.arms is not None or not isinstance(outcome, list):
            return
        ways = [lanes.reshape(-1, WARP).any(1) for _, lanes in outcome]
        torn = np.repeat(np.sum(ways, axis=0) > 1, WARP)
        if torn.any():
            lanes = np.logical_or.reduce([lanes for _, lanes in outcome]) & torn
            self.open.append(Split(self.joins[block], lanes, np.zeros(m.lanes, bool)))

    def enter(self, block: int) -> None:
        """The group comes to a block."""
        m = self.machine
        for split in self.open:
            if split.join != block:
                continue
            split.passed = split.passed | (split.lanes & m.group())
            waits = m.barriers.waits_aligned
            for place in np.unique(m.barriers.place[waits & split.lanes]):
                self._judge(split, waits & (m.barriers.place == place), int(place))
        self.open = [s for s in self.open if (s.lanes & ~s.passed & m.alive).any()]

    def come(self) -> None:
        """The group comes to an aligned barrier."""
        for split in self.open:
            self._judge(split, self.machine.group(), self.machine.at)

    def guarded(self, block: int, here: Bool, others: Bool) -> None:
        """Some of the group don't take part in the guarded barrier that ends a block."""
        if block not in self.joins:
            return
        split = Split(self.joins[block], here | others, others)
        self._judge(split, here, self.machine.at)

    def _judge(self, split: Split, there: Bool, at: int) -> None:
        """Lanes are at an aligned barrier: are others of their warps past the place to meet?"""
        m = self.machine
        there = there & split.lanes & ~split.passed
        gone = (split.passed & split.lanes).reshape(-1, WARP).any(1)
        torn = there & np.repeat(gone, WARP)
        if not torn.any():
            return
        split.lanes = split.lanes & ~np.repeat(torn.reshape(-1, WARP).any(1), WARP)
        warp = int(torn.argmax()) // WARP
        first = warp * WARP % m.threads
        mine = slice(WARP * warp, WARP * (warp + 1))
        line = m.kernel.code[m.blocks[split.join].start].span.line
        m.fault(
            "deadlock.divergent",
            torn,
            f"only threads {_named(torn[mine], first)} of their warp come to the aligned barrier, "
            f"threads {_named(split.passed[mine], first)} went on at line {line}",
            at,
        )


def _named(lanes: Bool, first: int) -> str:
    """Threads in words, like `0-3, 8`; the first lane is thread `first`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lanes, [False]]).astype(np.int8)))
    runs = (edges.reshape(-1, 2) + first).tolist()
    return ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in runs)
