"""Inputs for one element, from what it is made of: where its conditions switch, and beyond.

The families of canon/families.py miss what happens only near a constant of the kernel, or where
two sums tie. Here the arguments of compares, maxima, exponentials and divisors of one element are
driven to 0, to either side of it and far away, by steps along the inputs that they depend on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.families import beside, draws
from kcheck.canon.known import Number, approximation
from kcheck.canon.term.dag import ATOM, CONST, DIV, EXP2, LESS, MAX, SAME
from kcheck.contrast import Contrast
from kcheck.preconditions import ends

Points = NDArray[np.float64]
# inputs of each family that are tried at once
REPEATS = 4
# conditions, symbols that are moved for one, and inputs to start from
CONDITIONS, SYMBOLS, BASES = 64, 128, 6
# points near constants
LITERALS = 1024
# rounds: a step for one condition starts where steps for others ended
ROUNDS = 3
# where the argument of a condition is driven to; of an exponential
NEAR = (0.0, 2.0**-10, -(2.0**-10), 2.0**-4, -(2.0**-4), 1.0, -1.0, 40.0, -40.0)
FAR = (0.0, 24.0, -24.0, -160.0, -1200.0, -20000.0)
# the same relative to what it is: beside 1e30 every format rounds the others away
BESIDE = tuple(sign * 2.0**-k for k in (20, 13, 7, 0) for sign in (1, -1))
# multiples of a half that the argument of a rounding becomes, times what a factor makes of it
ROUNDINGS = ("rint", "round", "trunc", "floor", "ceil")
ODD, BITS = (1, -1, 3, -3), 24
# corrections of a step by what it missed; values beyond which these are too dear
SECANTS, DEAR = 4, 1 << 24
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
    near = close.rounded(_near(close, bases, rng))
    gaps = close.gaps(near, widen=True)
    yield from (near[:, i] for i in np.argsort(-gaps, kind="stable") if gaps[i] > 0)
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


def _near(close: Contrast, bases: Points, rng: Any) -> Points:
    """Each symbol, and all of them, at, beside and between constants and the ends of ranges."""
    s = close.slice
    used = s.args[0, s.symbols :][s.op[s.symbols :] == CONST]
    constants = {_near_float(s.domain.numbers[i]) for i in np.unique(used).tolist()}
    promises = {end for name, _ in s.names for end in ends(name, *close.launches)}
    numbers = rng.permutation(beside(constants | promises))[:LITERALS]
    moved = rng.permutation(s.symbols)[: max(LITERALS // numbers.size, 1)]
    points = np.empty((s.symbols, moved.size + 1, numbers.size))
    points[:] = bases[:, rng.integers(bases.shape[1], size=points.shape[1:])]
    points[moved, np.arange(moved.size)] = numbers
    points[:, -1] = numbers
    return points.reshape(s.symbols, -1)


def _near_float(number: Number) -> float:
    """A number, or infinity where no float is as large."""
    try:
        return float(approximation(number))
    except OverflowError:
        return math.inf


def _conditions(close: Contrast) -> NDArray[np.int64]:
    """Pairs (operation, place) of conditions, those of one side only before the others."""
    s = close.slice
    here = np.isin(s.op, (LESS, SAME, MAX, EXP2, DIV))
    names = [i for i, name in enumerate(s.domain.names) if name in ROUNDINGS]
    here |= (s.op == ATOM) & np.isin(s.args[1], names)
    here[: s.symbols] = False
    both = s.reach(int(s.roots[0])) & s.reach(int(s.roots[1]))
    # compares first: what hangs on them is seen nowhere else
    rank = np.select([np.isin(s.op, (LESS, SAME)), s.op == MAX], [0, 1], 2) * 2 + both
    places = np.flatnonzero(here)
    return places[np.argsort(rank[places], kind="stable")][:CONDITIONS]


def _steps(
    close: Contrast, base: NDArray[np.float64], conditions: NDArray[np.int64], rng: Any
) -> Points:
    """Points at which the argument of one condition is about where it is wanted."""
    moved = rng.permutation(close.slice.symbols)[:SYMBOLS]
    step = 2.0 ** np.rint(np.log2(np.abs(base[moved]) + 1)) * 2.0**-4
    now, slopes = _slopes(close, base, conditions, moved, step)
    out = [_driven(close, base, conditions, moved, now, slopes)]
    size = np.where(np.isfinite(now), np.abs(now), 0)
    large = np.flatnonzero(size > LOST * step.min())
    sizes = np.exp2(np.floor(np.log2(size[large])))
    for coarse in np.unique(sizes)[-COARSE:]:
        chosen = large[sizes == coarse]
        _, slopes = _slopes(close, base, conditions[chosen], moved, np.full(moved.size, coarse))
        out.append(_driven(close, base, conditions[chosen], moved, now[chosen], slopes))
    return close.rounded(np.concatenate(out, axis=1))


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
) -> Points:
    """One symbol moved, so that the argument of one condition becomes what is wanted: by its
    slope, then by what that missed (the secant method).
    """
    jobs: list[tuple[int, int, float, float]] = []
    for c, op in enumerate(close.slice.op[conditions].tolist()):
        known = np.flatnonzero(np.isfinite(slopes[c]) & (slopes[c] != 0))
        for k in known[np.argsort(-np.abs(slopes[c, known]), kind="stable")][:2].tolist():
            symbol, slope = int(moved[k]), float(slopes[c, k])
            wanted = FAR if op == EXP2 else (*NEAR, *(float(now[c]) * part for part in BESIDE))
            if op == ATOM:
                rest, unit = float(now[c]) - slope * float(base[symbol]), _unit(slope)
                wanted += tuple(rest + unit * odd / 2 for odd in ODD)
            jobs += [(c, symbol, slope, target) for target in wanted]
    points = np.repeat(base[:, None], len(jobs), axis=1)
    if not jobs:
        return points
    c, symbol = np.array([job[:2] for job in jobs]).T
    slope, target = np.array([job[2:] for job in jobs]).T
    at, was, value = np.arange(len(jobs)), now[c], base[symbol]
    secants = SECANTS if close.slice.size * len(jobs) < DEAR else 0
    with np.errstate(all="ignore"):  # what is not finite becomes 0, or is not gone to
        move = (target - was) / slope
        points[symbol, at] = value = value + move
        for _ in range(secants):
            here = _arguments(close, conditions, points)[c, at]
            move = move * (target - here) / (here - was)
            move = np.where(np.isfinite(move), move, 0)
            was = here
            points[symbol, at] = value = value + move
    return points


def _unit(slope: float) -> float:
    """The odd whole number that a slope is but for a power of 2: what a number of few bits can
    make of it, halves of odd multiples too.
    """
    whole = int(abs(math.frexp(slope)[0]) * 2**BITS + 0.5)
    return float(whole // (whole & -whole))


def _arguments(close: Contrast, conditions: NDArray[np.int64], points: Points) -> Points:
    """What decides each condition (conditions, points): of a maximum, the difference."""
    s = close.slice
    first = s.args[np.where(s.op[conditions] == DIV, 1, 0), conditions]
    values = close.at(first, points)
    pairs = np.flatnonzero(s.op[conditions] == MAX)
    if pairs.size:
        values[pairs] -= close.at(s.args[1, conditions[pairs]], points)
    return values
