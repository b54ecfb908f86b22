"""A smaller input on which an element still differs (Zeller and Hildebrandt, Simplifying and
isolating failure-inducing input, 2002): entries become 0 in ever smaller sets, the rest integers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kcheck.preconditions import kept
from kcheck.witness import Writers, confirm, integers

Point = NDArray[np.float64]
# relative difference that a smaller input keeps, if there was as much
GAP = 1e-3
# variants that are tried together
TOGETHER = 64
# entries that are made simpler one by one
SINGLE = 256


def _simpler(x: float) -> list[float]:
    return [1, -1, 2, -2, 3, -3, np.rint(x), math.copysign(2 ** np.rint(np.log2(abs(x))), x)]


def _fewer_bits(x: float) -> list[float]:
    """The same of an integer, whose bits may be fields."""
    whole = abs(int(x))
    bits = [1 << k for k in range(whole.bit_length()) if whole >> k & 1]
    fields = [*bits, whole & 0xFF, whole & 0xFFFF]
    return [1, 2, 3, *(math.copysign(field, x) for field in fields), -1, -2, -3]


class Variants(Protocol):
    """What a shrinker asks: points as inputs can be, and how far apart both values are there."""

    def rounded(self, points: Point) -> Point: ...

    def gaps(self, points: Point, widen: bool) -> Point: ...


class Shrinker:
    """An input (a point: a number for each of its symbols) on its way to a smaller one."""

    def __init__(
        self, close: Variants, point: Point, widen: bool, deadline: float,
        progress: Callable[[str, float], None], simpler: Callable[[float], list[float]] = _simpler,
    ) -> None:  # fmt: skip
        self.simpler = simpler
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
            points = points[:, (points != self.point[:, None]).any(axis=0)]
            good = np.flatnonzero(self.close.gaps(points, self.widen) >= self.gap)
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
            now = float(self.point[i])
            simpler = self.simpler(now)
            simpler = simpler[: simpler.index(now)] if now in simpler else simpler
            self.take([self._with(i, value) for value in simpler])

    def _with(self, entries: Any, value: float) -> Point:
        out = self.point.copy()
        out[entries] = value
        return out


def shrunk(
    close: Variants,
    point: Point,
    widen: bool,
    seconds: float,
    progress: Callable[[str, float], None],
    simpler: Callable[[float], list[float]] = _simpler,
) -> Point | None:
    """A point with few entries that are not 0, small integers if possible; None if `point` itself
    does not differ here. `widen`: as in EnclosureDomain.
    """
    if not close.gaps(point[:, None], widen)[0]:
        return None
    work = Shrinker(close, point, widen, time.monotonic() + seconds, progress, simpler)
    work.clear()
    work.simplify()
    if not work.late:
        work.clear()  # numbers that are 1 cancel or vanish where others did not
    return work.point


class Whole:
    """The integer inputs of a pair, judged by the slow evaluator: they decide addresses, so that
    a contrast holds for some of them alone. The other inputs stay as they are.
    """

    def __init__(
        self, writers: Writers, element: tuple[str, int], given: dict[str, Any], deadline: float
    ) -> None:
        self.writers, self.element, self.given, self.deadline = writers, element, given, deadline
        self.launches = [side.launch for side in writers.sides]
        names = {name for launch in self.launches for name in integers(launch, given)}
        self.names = [name for name in given if name in names]

    def point(self) -> Point:
        """The numbers, one input after the other."""
        parts = [np.ravel(np.asarray(self.given[name], np.float64)) for name in self.names]
        return np.concatenate(parts) if parts else np.zeros(0)

    def inputs(self, point: Point) -> dict[str, Any]:
        """The inputs with these numbers."""
        ends = np.cumsum([np.size(self.given[name]) for name in self.names])[:-1]
        return {**self.given, **dict(zip(self.names, np.split(point, ends), strict=True))}

    def rounded(self, points: Point) -> Point:
        """Numbers of their types, as the user promises them."""
        columns = []
        for column in points.T:
            moved = kept(self.inputs(column), *self.launches)
            columns.append(np.concatenate([moved[name] for name in self.names]))
        return np.stack(columns, axis=1)

    def gaps(self, points: Point, widen: bool) -> Point:
        """1 for the first point at which the values differ for certain, 0 for all others."""
        out = np.zeros(points.shape[1])
        for i, column in enumerate(points.T):
            if time.monotonic() > self.deadline:
                break
            if confirm(self.writers, self.inputs(column), self.element) is not None:
                out[i] = 1
                break
        return out


def with_fewer_integers(
    writers: Writers,
    element: tuple[str, int],
    given: dict[str, Any],
    seconds: float,
    progress: Callable[[str, float], None],
) -> dict[str, Any]:
    """The same input, or one whose integers are fewer and smaller, where the slow evaluator still
    sees the element differ.
    """
    whole = Whole(writers, element, given, time.monotonic() + seconds)
    point = whole.point()
    small = shrunk(whole, point, False, seconds, progress, _fewer_bits) if point.any() else None
    return given if small is None else whole.inputs(small)
