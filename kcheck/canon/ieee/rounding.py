"""One rounding of an exact value to a format."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.ieee.exact import Exact, to_odd
from kcheck.canon.ieee.formats import FORMATS, Bits, Floats, Format, encode

# to the nearest, ties to even, and ties away (`rna`); toward zero, down, up (PTX ISA 9.7.3)
MODES = ("rn", "rna", "rz", "rm", "rp")
# formats to which NumPy rounds float64 itself, to nearest
_NATIVE: dict[str, Any] = {"f32": np.float32, "f16": np.float16}


def _steps(mode: str, whole: Floats, part: Floats, low: Any) -> Any:
    """What to add to the floor of a number: whole + part + low, low below the grid of part."""
    if mode == "rm":
        return -((part == 0) & (low < 0)).astype(np.float64)
    if mode == "rp":
        return (part > 0) | (low > 0)
    if mode == "rz":
        return np.where((whole < 0), _steps("rp", whole, part, low), _steps("rm", whole, part, low))
    tie = (part == 0.5) & (low == 0)
    away = np.floor(whole / 2) * 2 != whole if mode == "rn" else whole >= 0
    return (part > 0.5) | ((part == 0.5) & (low > 0)) | (tie & away)


def _overflowed(x: Floats, f: Format, mode: str) -> Any:
    """What stands for a number beyond the largest one."""
    infinite = {
        "rz": np.zeros(1, bool),
        "rm": x < 0,
        "rp": x > 0,
    }.get(mode, np.ones(1, bool))
    return np.copysign(np.where(infinite, np.inf, f.largest), x)


def to_format(value: Exact, fmt: str, mode: str, satfinite: bool = False) -> Floats:
    """The numbers of a format that are nearest in the direction of `mode`.

    A zero keeps the sign of `high`. `satfinite`: the largest number instead of anything beyond,
    infinities too.
    """
    f = FORMATS[fmt]
    high, low = value.high, 0.0 if value.low is None else value.low
    scale = 0 if value.scale is None else value.scale
    finite = np.isfinite(high)
    x = np.where(finite, high, 0)
    size, exponent = np.frexp(x)
    below = (np.abs(size) == 0.5) & (
        np.sign(low) * x < 0
    )  # just under a power of 2, where units are finer
    unit = np.maximum(exponent - below + scale - f.precision, f.emin - f.fbits)
    scaled = np.ldexp(x, scale - unit)
    whole = np.floor(scaled)
    rounded = whole + _steps(mode, whole, scaled - whole, low)
    out = np.copysign(np.ldexp(rounded, unit), high)
    out = np.where(np.abs(out) > f.largest, _overflowed(high, f, mode), out)
    out = np.where(finite, out, high)
    return np.where(np.isinf(out), np.copysign(f.largest, out), out) if satfinite else out


def to_bits(value: Exact, fmt: str, mode: str, satfinite: bool = False) -> Bits:
    """`to_format` as patterns."""
    native = _NATIVE.get(fmt)
    if native is None or mode != "rn" or satfinite or value.scale is not None:
        return encode(to_format(value, fmt, mode, satfinite), fmt)
    x = value.high if value.low is None else to_odd(value.high, value.low)
    f = FORMATS[fmt]
    bits: Bits = x.astype(native).view(f.word)
    nan = x != x
    return np.where(nan, f.word(f.nan), bits) if nan.any() else bits
