"""Aligned barriers that some lanes of a warp come to, while others are past the way back to them.

Each thread keeps the branches behind which it is, each with the number of its round; so it does
not matter in which order the threads run (DESIGN.md 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.state import AtBarrier, Signal, Step, Thread

WARP = 32
Round = tuple[int, int]


@dataclass
class Way:
    """What a thread is behind (branch, round), and what it has left behind."""

    rounds: Counter[int] = field(default_factory=Counter[int])
    within: set[Round] = field(default_factory=set[Round])
    passed: set[Round] = field(default_factory=set[Round])


class Ways:
    """The ways of all threads. `joins`: branch -> the instruction where its ways meet."""

    def __init__(self, code: Sequence[Instr], joins: Mapping[int, int]) -> None:
        self.code = code
        self.joins = joins
        self.ways: dict[Thread, Way] = {}

    def watched(self, pc: int, step: Step) -> Step:
        """The step of an instruction, watched."""
        meets = {branch for branch, join in self.joins.items() if join == pc}
        parts = pc in self.joins

        def run(t: Thread) -> Signal | None:
            way = self.ways.setdefault(t, Way())
            if meets:
                self._rejoin(t, way, meets)
            if parts:
                way.rounds[pc] += 1
                way.within.add((pc, way.rounds[pc]))
            signal = step(t)
            if isinstance(signal, AtBarrier) and signal.aligned:
                self._come(t, way, signal)
            return signal

        return run

    def _rejoin(self, t: Thread, way: Way, meets: set[int]) -> None:
        left = {at for at in way.within if at[0] in meets}
        way.within -= left
        way.passed |= left
        for other in self._warp(t):
            wait = other.wait
            aligned = isinstance(wait, AtBarrier) and wait.aligned
            if aligned and left & self.ways[other].within:
                self._report(other, wait, t)

    def _come(self, t: Thread, way: Way, signal: AtBarrier) -> None:
        for other in self._warp(t):
            if other in self.ways and way.within & self.ways[other].passed:
                self._report(t, signal, other)
                return

    def _warp(self, t: Thread) -> list[Thread]:
        first = t.linear // WARP * WARP
        return [u for u in t.cta.threads[first : first + WARP] if u is not t]

    def _report(self, t: Thread, wait: Signal | None, other: Thread) -> None:
        assert isinstance(wait, AtBarrier)
        message = (
            f"thread {t.linear} comes to barrier {wait.barrier}, thread {other.linear} of its warp"
            f" is past it"
        )
        t.cta.find("deadlock.divergent", message, wait.instr, t)
