"""What the user promises of inputs, for two launches at once, and inputs that keep it.

Both kernels run on the same inputs, so a promise of either launch holds for both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.launch import (
    ANYTHING,
    DTYPE_BYTES,
    FLOATS,
    Launch,
    Param,
    Promise,
    Scalar,
    Tensor,
    TensorMap,
)
from kcheck.launch_promises import promise_words
from kcheck.verdict import UsageError

# exponent of the least positive number of a format
_LEAST = {"f64": -1074, "f32": -149, "tf32": -149, "bf16": -133, "f16": -24, "e5m2": -16}
_LEAST["e4m3"] = -9
# bits that every float format holds, but for the two of 8 bits
_BITS = 8
Floats = NDArray[np.float64]


def promised(launch: Launch) -> dict[str, Tensor | Scalar]:
    """The buffers and scalars of which something is promised, by name."""
    known: list[Tensor | Scalar] = [*launch.buffers.values()]
    known += [p for p in launch.params if isinstance(p, Scalar)]
    return {p.name: p for p in known if p.promise != ANYTHING}


def agreed(reference: Launch, subject: Launch) -> tuple[Launch, Launch]:
    """Both launches with the promises of both. UsageError if they leave nothing."""
    both: dict[str, Promise] = {}
    for name, param in (*promised(reference).items(), *promised(subject).items()):
        both[name] = both.get(name, ANYTHING).meet(param.promise)
        if both[name].empty:
            raise UsageError(f"`{name}`: the two launches promise what no number keeps")

    def kept_by(param: Param) -> Param:
        if isinstance(param, TensorMap):
            promise = both.get(param.buffer.name, ANYTHING)
            return replace(param, buffer=replace(param.buffer, promise=promise))
        return replace(param, promise=both.get(param.name, ANYTHING))

    sides = (replace(s, params=tuple(map(kept_by, s.params))) for s in (reference, subject))
    first, second = sides
    return first, second


def promise_ledger(reference: Launch, subject: Launch) -> Iterator[str]:
    """Each promise and each alias, and whose it is where only one launch has it."""
    sides = [_words(reference), _words(subject)]
    for i, words in enumerate(sides):
        for line in words:
            if line not in sides[1 - i]:
                yield f"{line} ({('reference', 'subject')[i]}'s launch)"
            elif not i:
                yield line


def _words(launch: Launch) -> list[str]:
    words = [
        f"{line} (a number of {param.dtype})"
        for name, param in promised(launch).items()
        for line in promise_words(name, param.promise)
    ]
    groups = (" and ".join(f"`{name}`" for name in group) for group in launch.alias)
    return words + [f"{names} are one buffer" for names in groups]


def ranges(*launches: Launch) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each integer input, and of each that something is promised of.

    A number that is not 0 is at least the least one of its format.
    """
    found = dict(unknown_integers(*launches))
    for launch in launches:
        for name, param in promised(launch).items():
            low, high = param.promise.low, param.promise.high
            if param.promise.nonzero:
                least = math.ldexp(1.0, _LEAST.get(param.dtype, 0))
                low, high = (least if low == 0 else low), (-least if high == 0 else high)
            known = found.get(name, (low, high))
            found[name] = max(low, known[0]), min(high, known[1])
    return found


def unknown_integers(*launches: Launch) -> dict[str, tuple[float, float]]:
    """The integer inputs whose values are not known, and what their types hold."""
    found: dict[str, tuple[float, float]] = {}
    for launch in launches:
        unknown: list[Tensor | Scalar] = [
            p for p in launch.params if isinstance(p, Scalar) and p.value is None
        ]
        unknown += [
            t
            for t in launch.buffers.values()
            if t.role != "out" and t.values is None and t.elements
        ]
        for param in unknown:
            if param.dtype not in FLOATS:
                bits, signed = 8 * DTYPE_BYTES[param.dtype], param.dtype[0] == "s"
                low = -(2.0 ** (bits - 1)) if signed else 0.0
                # for 64 bits the float above the greatest number
                found[param.name] = low, low + float(2**bits - 1)
    return found


def ends(name: str, *launches: Launch) -> set[float]:
    """The ends of what is promised of an input, those that are finite."""
    found = (promised(launch).get(name) for launch in launches)
    both = {end for param in found if param for end in (param.promise.low, param.promise.high)}
    return {end for end in both if math.isfinite(end)}


def admissible(inputs: Mapping[str, Any], *launches: Launch) -> bool:
    """Do these inputs keep all promises?"""
    return all(
        bool(param.promise.holds(inputs[name]).all())
        for launch in launches
        for name, param in promised(launch).items()
        if name in inputs
    )


def kept(inputs: Mapping[str, Any], *launches: Launch) -> dict[str, Any]:
    """The inputs, with those numbers moved that keep no promise, or are none of their type."""
    out = dict(inputs)
    for name, (low, high) in unknown_integers(*launches).items():
        if name in out:
            out[name] = _wrapped(np.asarray(out[name], np.float64), low, high)
    for launch in launches:
        for name, param in promised(launch).items():
            if name in out:
                out[name] = _moved(np.asarray(out[name], np.float64), param.promise, param.dtype)
    return out


def _wrapped(x: Floats, low: float, high: float) -> Floats:
    """Whole numbers of an integer type: -3 is 2^32 - 3 where there is no sign."""
    x = np.rint(x)
    greatest = high if high < 2.0**53 else float(np.nextafter(high, 0))
    inside = low + np.mod(x - low, high - low + 1)
    return np.where((x < low) | (x > greatest), np.minimum(inside, greatest), x)


def _moved(x: Floats, given: Promise, dtype: str) -> Floats:
    """Numbers outside are mirrored at the ends, and rounded to few bits."""
    if dtype not in FLOATS:
        x = np.rint(x)
    wrong = ~given.holds(x)
    if not wrong.any():
        return x
    y = _mirrored(x[wrong], given)
    if dtype in FLOATS:
        fraction, exponent = np.frexp(y)
        y = np.ldexp(np.rint(fraction * 2.0**_BITS), exponent - _BITS)
    else:
        y = np.rint(y / given.divisible) * given.divisible
    out = x.copy()
    out[wrong] = np.where(given.holds(y), y, _spare(given, dtype))
    return out


def _mirrored(x: Floats, given: Promise) -> Floats:
    low, high = given.low, given.high
    if math.isinf(low) and math.isinf(high):
        return x
    if math.isinf(high):
        return low + np.abs(x - low)
    if math.isinf(low):
        return high - np.abs(x - high)
    if low == high:
        return np.full_like(x, low)
    there = np.mod(x - low, 2 * (high - low))
    return low + np.minimum(there, 2 * (high - low) - there)


def _spare(given: Promise, dtype: str) -> float:
    """Some number that keeps the promise: a simple one if there is one."""
    n = given.divisible
    ends = [end for end in (given.low, given.high) if not math.isinf(end)]
    simple = [1.0, -1.0, 0.0, float(n), float(-n), *(math.ceil(e / n) * n for e in ends)]
    simple += [math.floor(e / n) * n for e in ends]
    middle = [math.fsum(ends) / 2, *ends] if dtype in FLOATS and len(ends) == 2 else ends
    for number in (*simple, *middle):
        if given.holds(number):
            return float(number)
    raise UsageError("a precondition that no number is found to keep")
