"""Inputs for one element, from what it is made of: where its conditions switch, and beyond.

The families of canon/families.py miss what happens only near a constant of the kernel, or where
two sums tie. Here the arguments of compares, maxima, exponentials and divisors of one element are
driven to 0, to either side of it and far away, by steps along the inputs that they depend on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.families import draws
from kcheck.canon.term.dag import DIV, EXP2, LESS, MAX, SAME
from kcheck.contrast import Contrast

Points = NDArray[np.float64]
# inputs of each family that are tried at once
REPEATS = 4
# conditions, symbols that are moved for one, and inputs to start from
CONDITIONS, SYMBOLS, BASES = 64, 128, 6
# rounds: a step for one condition starts where steps for others ended
ROUNDS = 3
# where the argument of a condition is driven to; of an exponential
NEAR = (0.0, 2.0**-10, -(2.0**-10), 2.0**-4, -(2.0**-4), 1.0, -1.0, 40.0, -40.0)
FAR = (0.0, 24.0, -24.0, -160.0, -1200.0, -20000.0)
# the same relative to what it is: beside 1e30 every format rounds the others away
BESIDE = tuple(sign * 2.0**-k for k in (20, 13, 7, 0) for sign in (1, -1))
# beyond this, in steps, a step may be lost to rounding; sizes of coarser ones for one start
LOST, COARSE = 2.0**40, 4


def guided_points(
    close: Contrast, seed: int, seconds: float, progress: Callable[[str, float], None]
) -> Iterator[NDArray[np.float64]]:
    """Points (a number for each symbol) on which the enclosures of both values are disjoint.

    The most promising first: those with the largest relative difference of each round.
    """
    if not close.slice.symbols:
        return
    deadline = time.monotonic() + seconds
    rng = np.random.default_rng(seed)
    bases = close.rounded(_starts(close, seed))
    conditions = _conditions(close)
    for number in range(ROUNDS + 1):
        gaps = close.gaps(bases, widen=True)
        yield from (bases[:, i] for i in np.argsort(-gaps, kind="stable") if gaps[i] > 0)
        progress("looking closely at one element", number / (ROUNDS + 1))
        if number == ROUNDS or not conditions.size or time.monotonic() > deadline:
            return
        chosen = rng.permutation(bases.shape[1])[:BASES]
        found = [
            _steps(close, bases[:, i], conditions, rng)
            for i in chosen
            if time.monotonic() < deadline
        ]
        bases = np.concatenate(found, axis=1) if found else bases[:, :0]
        if not bases.shape[1]:
            return


def _starts(close: Contrast, seed: int) -> Points:
    """Several draws of every family."""
    owner = [name for name, _ in close.slice.names]
    names = sorted(set(owner))
    place = {name: np.flatnonzero(np.array(owner) == name) for name in names}
    sizes = {name: place[name].size for name in names}
    columns = []
    for repeat in range(REPEATS):
        for _, inputs in draws(sizes, seed + repeat):
            column = np.zeros(len(owner))
            for name in names:
                column[place[name]] = inputs[name]
            columns.append(column)
    return np.stack(columns, axis=1)


def _conditions(close: Contrast) -> NDArray[np.int64]:
    """Pairs (operation, place) of conditions, those of one side only before the others."""
    s = close.slice
    here = np.isin(s.op, (LESS, SAME, MAX, EXP2, DIV))
    here[: s.symbols] = False
    both = s.reach(int(s.roots[0])) & s.reach(int(s.roots[1]))
    # compares first: what hangs on them is seen nowhere else
    rank = np.select([np.isin(s.op, (LESS, SAME)), s.op == MAX], [0, 1], 2) * 2 + both
    places = np.flatnonzero(here)
    return places[np.argsort(rank[places], kind="stable")][:CONDITIONS]


def _steps(
    close: Contrast, base: NDArray[np.float64], conditions: NDArray[np.int64], rng: Any
) -> Points:
    """Points at which the argument of one condition is where it is wanted, to first order."""
    moved = rng.permutation(close.slice.symbols)[:SYMBOLS]
    step = 2.0 ** np.rint(np.log2(np.abs(base[moved]) + 1)) * 2.0**-4
    now, slopes = _slopes(close, base, conditions, moved, step)
    out = _driven(close, base, conditions, moved, now, slopes)
    size = np.where(np.isfinite(now), np.abs(now), 0)
    large = np.flatnonzero(size > LOST * step.min())
    sizes = np.exp2(np.floor(np.log2(size[large])))
    for coarse in np.unique(sizes)[-COARSE:]:
        chosen = large[sizes == coarse]
        _, slopes = _slopes(close, base, conditions[chosen], moved, np.full(moved.size, coarse))
        out += _driven(close, base, conditions[chosen], moved, now[chosen], slopes)
    return close.rounded(np.stack(out, axis=1)) if out else np.zeros((base.size, 0))


def _slopes(
    close: Contrast,
    base: NDArray[np.float64],
    conditions: NDArray[np.int64],
    moved: NDArray[np.int64],
    step: NDArray[np.float64],
) -> tuple[NDArray[np.float64], Points]:
    """The argument of each condition at a point, and how fast each symbol moves it (conditions,
    moved), by a step of each.
    """
    points = np.repeat(base[:, None], moved.size + 1, axis=1)
    points[moved, np.arange(1, moved.size + 1)] += step
    now = _arguments(close, conditions, points)
    with np.errstate(all="ignore"):  # what is not finite is no slope
        return now[:, 0], (now[:, 1:] - now[:, :1]) / step


def _driven(
    close: Contrast,
    base: NDArray[np.float64],
    conditions: NDArray[np.int64],
    moved: NDArray[np.int64],
    now: NDArray[np.float64],
    slopes: Points,
) -> list[NDArray[np.float64]]:
    """One symbol moved, so that the argument of one condition becomes what is wanted."""
    s = close.slice
    out = []
    for c, place in enumerate(conditions.tolist()):
        known = np.flatnonzero(np.isfinite(slopes[c]) & (slopes[c] != 0))
        beside = [now[c] * part for part in BESIDE]
        for k in known[np.argsort(-np.abs(slopes[c, known]), kind="stable")][:2].tolist():
            for target in FAR if s.op[place] == EXP2 else (*NEAR, *beside):
                point = base.copy()
                with np.errstate(over="ignore"):  # what is not finite becomes 0
                    point[moved[k]] += (target - now[c]) / slopes[c, k]
                out.append(point)
    return out


def _arguments(close: Contrast, conditions: NDArray[np.int64], points: Points) -> Points:
    """What decides each condition (conditions, points): of a maximum, the difference."""
    s = close.slice
    first = s.args[np.where(s.op[conditions] == DIV, 1, 0), conditions]
    values = close.at(first, points)
    pairs = np.flatnonzero(s.op[conditions] == MAX)
    if pairs.size:
        values[pairs] -= close.at(s.args[1, conditions[pairs]], points)
    return values
