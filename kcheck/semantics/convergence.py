"""Aligned barriers that a part of a warp comes to, while the others run on (DESIGN.md 5)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.rejoins import rejoins
from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine, Outcome

WARP = 32


class Convergence:
    """Who of a warp is behind a branch that has an aligned barrier behind it, and who past the
    block where its ways meet.

    Per such branch and lane a number: even outside, odd behind the branch, larger at each turn. Of
    two lanes of a warp the one with the larger number is past where the other still is. What a
    whole warp does together needs no numbers. `open`: branches that some lane is behind.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.turns: dict[int, Array] = {}
        self.open: list[int] = []

    def begin(self) -> None:
        """A new batch."""
        self.turns, self.open = {}, []

    @cached_property
    def joins(self) -> dict[int, int]:
        """Block -> the block where the ways from its end meet."""
        blocks = self.machine.blocks
        ends = {block.end - 1: i for i, block in enumerate(blocks)}
        starts = {block.start: i for i, block in enumerate(blocks)}
        found = rejoins(self.machine.control)
        return {ends[at]: starts[join] for at, join in found.items()}

    @cached_property
    def branches(self) -> frozenset[int]:
        """The blocks that end in such a branch, and in no guarded barrier."""
        m = self.machine
        last = {i: m.kernel.code[m.blocks[i].end - 1].opcode[0] for i in self.joins}
        return frozenset(i for i, name in last.items() if name in ("bra", "brx"))

    def leave(self, block: int, outcome: Outcome) -> None:
        """A group goes one or several ways from the end of one of the `branches`."""
        m = self.machine
        if m.arms is not None:
            return
        ways = [lanes for _, lanes in outcome] if isinstance(outcome, list) else [m.group()]
        group = np.logical_or.reduce(ways)
        absent = _warps(m.alive & ~group)
        parted = absent | (np.sum([_warps(lanes) for lanes in ways], axis=0) > 1)
        known = self.turns.get(block)
        if known is None:
            if not (parted & _warps(group)).any():
                return
            known = np.zeros(m.lanes, np.int32)
        else:
            # a warp that is together has nobody behind
            last = np.where(m.alive, known, 0).reshape(-1, WARP).max(1)
            last += last & 1
            known = np.where(np.repeat(~absent, WARP) & group, np.repeat(last, WARP), known)
            parted = parted | _warps(known > 0)
        here = group & np.repeat(parted, WARP)
        self.turns[block] = known + (here & (known & 1 == 0))
        if here.any() and block not in self.open:
            self.open.append(block)

    def enter(self, block: int) -> None:
        """The group comes to a block."""
        m = self.machine
        for branch in self.open:
            if self.joins[branch] != block:
                continue
            turns = self.turns[branch]
            self.turns[branch] = turns + (m.group() & (turns & 1 == 1))
            waits = m.barriers.waits_aligned
            for place in np.unique(m.barriers.place[waits]):
                self._judge(branch, waits & (m.barriers.place == place), int(place))
        self.open = [b for b in self.open if ((self.turns[b] & 1 == 1) & m.alive).any()]

    def come(self) -> None:
        """The group comes to an aligned barrier."""
        for branch in self.open:
            self._judge(branch, self.machine.group(), self.machine.at)

    def guarded(self, block: int, here: Bool, others: Bool) -> None:
        """Some of the group don't take part in the guarded barrier that ends a block."""
        if block not in self.joins:
            return
        torn = here & np.repeat(_warps(others), WARP)
        if torn.any():
            self._report(block, torn, others, self.machine.at)

    def _judge(self, branch: int, there: Bool, at: int) -> None:
        """Lanes are at an aligned barrier: are others of their warps past the place to meet?"""
        turns = self.turns[branch]
        last = np.repeat(turns.reshape(-1, WARP).max(1), WARP)
        torn = there & (turns & 1 == 1) & (turns < last)
        if torn.any():
            warps = np.repeat(_warps(torn), WARP)
            self._report(branch, torn, warps & (turns > turns[torn].min()), at)
            self.turns[branch] = np.where(warps, 0, turns)

    def _report(self, branch: int, torn: Bool, passed: Bool, at: int) -> None:
        m = self.machine
        warp = int(torn.argmax()) // WARP
        first = warp * WARP % m.threads
        mine = slice(WARP * warp, WARP * (warp + 1))
        line = m.kernel.code[m.blocks[self.joins[branch]].start].span.line
        m.fault(
            "deadlock.divergent",
            torn,
            f"only threads {_named(torn[mine], first)} of their warp come to the aligned barrier, "
            f"threads {_named(passed[mine], first)} went on at line {line}",
            at,
        )


def _warps(lanes: Bool) -> Bool:
    """The warps that some of these lanes belong to."""
    return np.asarray(lanes.reshape(-1, WARP).any(1))


def _named(lanes: Bool, first: int) -> str:
    """Threads in words, like `0-3, 8`; the first lane is thread `first`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lanes, [False]]).astype(np.int8)))
    runs = (edges.reshape(-1, 2) + first).tolist()
    return ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in runs)
