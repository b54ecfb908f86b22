"""Generations of named barriers: each arrival must belong to one of them in every schedule.

An arrival in generation n + 1 must happen after generation n completed, and n + 1 must complete
after every wait of n, else `race.barrier-pairing` (DESIGN.md 5). Barriers of all live threads end
the epoch and need no such care.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.values import Array, Bool

if TYPE_CHECKING:
    from kcheck.semantics.races import Races


@dataclass
class Generation:
    """A barrier of one CTA: who waited in the last complete generation, and came since.

    `clocks`: of the waiters, right after they went on. `at`: where they waited.
    """

    waiters: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    clocks: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    at: int = -1
    came: dict[int, int] = field(default_factory=dict[int, int])


class Generations:
    """All named barriers of a batch in the present epoch."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.barriers: dict[tuple[int, int], Generation] = {}

    @property
    def none(self) -> bool:
        """No barrier was used by a part of the threads."""
        return not self.barriers

    def forget(self, ctas: Bool) -> None:
        """The epoch of these CTAs ended."""
        kept = self.barriers.items()
        self.barriers = {key: gen for key, gen in kept if not ctas[key[0]]}

    def come(self, ident: int, lanes: Bool) -> None:
        """These lanes arrive at a barrier of their CTAs."""
        threads = self.races.machine.threads
        for lane in np.flatnonzero(lanes):
            gen = self.barriers.setdefault((int(lane) // threads, ident), Generation())
            if int(lane) in gen.came:
                self.races.report_pairing(gen.came[int(lane)], int(lane), int(lane), ident)
            elif gen.at >= 0 and not self._knows(int(lane), gen):
                self.races.report_pairing(gen.at, int(gen.waiters[0]), int(lane), ident)
            gen.came[int(lane)] = self.races.machine.at

    def _knows(self, lane: int, gen: Generation) -> bool:
        """The lane acts after the last generation was complete."""
        if lane in gen.waiters:
            return True
        return bool(self.races.clocks.ordered(lane, gen.waiters, gen.clocks).any())

    def complete(self, cta: int, ident: int, waiters: Array, row: NDArray[np.int32]) -> None:
        """A generation is complete; `row`: the clocks that all who arrived knew together."""
        races = self.races
        gen = self.barriers.setdefault((cta, ident), Generation())
        if gen.at >= 0:
            unseen = row[gen.waiters % races.machine.threads] < gen.clocks
            if unseen.any():
                first = int(gen.waiters[int(unseen.argmax())])
                races.report_pairing(gen.at, first, int(waiters[0]), ident)
        places = races.machine.barriers.place
        self.barriers[cta, ident] = Generation(
            waiters, races.clocks.own[waiters], int(places[waiters[0]])
        )
