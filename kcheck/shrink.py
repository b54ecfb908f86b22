"""A smaller input on which an element still differs (Zeller and Hildebrandt, Simplifying and
isolating failure-inducing input, 2002): entries become 0 in ever smaller sets, the rest integers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.contrast import Contrast

Point = NDArray[np.float64]
# relative difference that a smaller input keeps, if there was as much
GAP = 1e-3
# variants that are tried together
TOGETHER = 64
# entries that are made simpler one by one
SINGLE = 256


class Shrinker:
    """An input (a point: a number for each symbol of a contrast) on its way to a smaller one."""

    def __init__(
        self, close: Contrast, point: Point, widen: bool, deadline: float,
        progress: Callable[[str, float], None],
    ) -> None:  # fmt: skip
        self.close, self.widen, self.deadline, self.progress = close, widen, deadline, progress
        self.point = point
        self.gap = min(float(close.gaps(point[:, None], widen)[0]), GAP)

    @property
    def late(self) -> bool:
        """The time is up."""
        return time.monotonic() > self.deadline

    def take(self, variants: list[Point]) -> bool:
        """Go on from the first of some variants that still differs, if there is one."""
        for start in range(0, len(variants), TOGETHER):
            if self.late:
                return False
            points = self.close.rounded(np.stack(variants[start : start + TOGETHER], axis=1))
            # what a promise keeps from 0 is there already
            other = (points != self.point[:, None]).any(axis=0)
            good = np.flatnonzero(other & (self.close.gaps(points, self.widen) >= self.gap))
            if good.size:
                self.point = points[:, good[0]]
                return True
        return False

    def clear(self) -> None:
        """Put 0 where it can be, in ever smaller sets of entries."""
        parts = 1
        while not self.late:
            left = np.flatnonzero(self.point)
            parts = min(parts, left.size)
            if not parts:
                return
            self.progress("making the input small", 1 - left.size / self.point.size)
            sets = np.array_split(left, parts)
            if self.take([self._with(chosen, 0) for chosen in reversed(sets)]):
                parts = max(parts - 1, 1)
            elif parts == left.size:
                return
            else:
                parts *= 2

    def simplify(self) -> None:
        """Small integers and powers of two in place of the numbers."""
        x = self.point
        with np.errstate(divide="ignore"):
            powers = np.where(x == 0, 0, np.copysign(np.exp2(np.rint(np.log2(np.abs(x)))), x))
        self.take([np.abs(np.sign(x)), np.sign(x), powers, np.rint(x)])
        for i in np.flatnonzero(self.point)[:SINGLE]:
            if self.late:
                return
            now = self.point[i]
            simpler = [1, -1, 2, -2, 3, -3, np.rint(now), powers[i]]
            simpler = simpler[: simpler.index(now)] if now in simpler else simpler
            self.take([self._with(i, value) for value in simpler])

    def _with(self, entries: Any, value: float) -> Point:
        out = self.point.copy()
        out[entries] = value
        return out


def shrunk(
    close: Contrast,
    point: Point,
    widen: bool,
    seconds: float,
    progress: Callable[[str, float], None],
) -> Point | None:
    """A point with few entries that are not 0, small integers if possible; None if `point` itself
    does not differ here. `widen`: as in EnclosureDomain.
    """
    if not close.gaps(point[:, None], widen)[0]:
        return None
    work = Shrinker(close, point, widen, time.monotonic() + seconds, progress)
    work.clear()
    work.simplify()
    if not work.late:
        work.clear()  # numbers that are 1 cancel or vanish where others did not
    return work.point
