"""Approximate instructions: the nearest result, moved within the documented error.

PTX ISA 9.0, 9.7.3 (f32) and 9.7.4 (f16, bf16), "Description" of each instruction. The true result
is taken from float64 functions, whose own error (an ulp of float64) is far below every bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck.canon.ieee.exact import Exact
from kcheck.canon.ieee.formats import FORMATS, Bits, Floats, decode, flush
from kcheck.canon.ieee.rounding import to_bits, to_format

_TAU = 2 * np.pi


@dataclass(frozen=True)
class Choice:
    """Where in the interval of allowed results an approximate instruction ends up.

    `part`: -1 to 1, the part of the largest error that is made: 0 gives the nearest result.
    `seed`: draw the part afresh for every argument instead; the same arguments give the same
    result, as on hardware.
    """

    part: float = 0.0
    seed: int | None = None

    def parts(self, words: tuple[Bits, ...], op: str) -> Any:
        """The part of each lane."""
        if self.seed is None:
            return self.part
        start = int.from_bytes(op.encode(), "big") ^ self.seed * 0x9E3779B97F4A7C15
        key = _mix(np.array([start % 2**64], np.uint64))
        for word in words:
            key = _mix(key ^ word.astype(np.uint64))
        return (key >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def _mix(x: Any) -> Any:
    """A permutation of 64-bit words that looks random (S. Vigna's splitmix64 finalizer)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _ulps(n: float) -> Callable[..., Any]:
    """n units in the last place of the result's format."""

    def bound(fmt: str, y: Floats, *xs: Floats) -> Any:
        f = FORMATS[fmt]
        exponent = np.maximum(np.frexp(y)[1] - 1, f.emin)
        return np.ldexp(np.float64(n), exponent - f.fbits)

    return bound


def _relative(e: float) -> Callable[..., Any]:
    return lambda fmt, y, *xs: np.abs(y) * 2.0**e


def _absolute(e: float) -> Callable[..., Any]:
    return lambda fmt, y, *xs: np.full(y.shape, 2.0**e)


def _lg2(fmt: str, y: Floats, x: Floats) -> Any:
    near = (x > 0.5) & (x < 2)
    return np.where(near, 2.0**-22, np.abs(y) * 2.0**-22)


def _wave(fmt: str, y: Floats, x: Floats) -> Any:
    """Beyond 100 pi the ISA gives no bound at all: then any result from -1 to 1."""
    size = np.abs(x)
    return np.where(size <= _TAU, 2.0**-20.5, np.where(size <= 50 * _TAU, 2.0**-14.7, 2.0))


# largest errors, absolute: (instruction, format) -> function of format, result, arguments
BOUNDS: dict[tuple[str, str], Callable[..., Any]] = {
    ("rcp", "f32"): _ulps(1),
    ("sqrt", "f32"): _relative(-23),
    ("rsqrt", "f32"): _relative(-22.9),
    ("div.approx", "f32"): _ulps(2),
    ("div.full", "f32"): _ulps(2),
    ("ex2", "f32"): _ulps(2),
    ("lg2", "f32"): _lg2,
    ("sin", "f32"): _wave,
    ("cos", "f32"): _wave,
    ("tanh", "f32"): _relative(-11),
    ("ex2", "f16"): _relative(-9.9),
    ("tanh", "f16"): _absolute(-10.987),
    ("ex2", "bf16"): _relative(-7),
    ("tanh", "bf16"): _absolute(-8),
}
# results that can't be passed
_RANGE: dict[str, tuple[float, float]] = {"sin": (-1, 1), "cos": (-1, 1), "tanh": (-1, 1)}
_POSITIVE = ("ex2", "sqrt", "rsqrt")


def _div_approx(x: Floats, y: Floats) -> Floats:
    """Where |y| > 2^126 the quotient is 0, of an infinity NaN."""
    huge = (np.abs(y) > 2.0**126) & np.isfinite(y)
    sign = np.copysign(1.0, x) * np.copysign(1.0, y)
    return np.where(huge, np.where(np.isinf(x), np.nan, 0 * sign), x / y)


_TRUE: dict[str, Callable[..., Floats]] = {
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "div.approx": _div_approx,
    "div.full": np.divide,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def _exact(op: str, y: Floats, xs: list[Floats]) -> Any:
    """Results that the tables of special values fix: zeros, infinities, NaN; ex2 of 0, cos 0."""
    fixed = ~np.isfinite(y) | (y == 0)
    if op in ("ex2", "cos"):
        fixed |= xs[0] == 0
    return fixed


def approximate(op: str, fmt: str, ftz: bool, choice: Choice) -> Callable[..., Bits]:
    """An instruction of `BOUNDS` on patterns. KeyError if there is no documented bound."""
    true, bound = _TRUE[op], BOUNDS[op, fmt]
    low, high = _RANGE.get(op, (0 if op in _POSITIVE else -np.inf, np.inf))

    def run(*given: Bits) -> Bits:
        words = tuple(flush(w, fmt) for w in given) if ftz else given
        xs = [decode(w, fmt) for w in words]
        y = np.asarray(true(*xs))
        bits = to_bits(Exact(y), fmt, "rn")
        if choice.part or choice.seed is not None:
            fixed = _exact(op, y, xs)
            moved = _moved(y, bound(fmt, y, *xs), choice.parts(words, op), fmt, (low, high))
            bits = np.where(fixed, bits, moved)
        return flush(bits, fmt) if ftz else bits

    return run


def _moved(y: Floats, error: Any, part: Any, fmt: str, limits: tuple[float, float]) -> Bits:
    """`y` and a part of the error, rounded so that the error stays within its bound."""
    least = to_format(Exact(np.maximum(y - error, limits[0])), fmt, "rp")
    most = to_format(Exact(np.minimum(y + error, limits[1])), fmt, "rm")
    nearest = to_format(Exact(y), fmt, "rn")
    wanted = to_format(Exact(y + part * error), fmt, "rn")
    inside = np.minimum(np.maximum(wanted, least), most)
    return to_bits(Exact(np.where(least > most, nearest, inside)), fmt, "rn")
