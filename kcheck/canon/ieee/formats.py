"""The float formats, and bit patterns to numbers and back.

Every number of every format is a float64, so values between two roundings are float64 arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """A binary format: sign, `ebits` of exponent, `fbits` of fraction, `unused` low bits.

    `nan`: the pattern that an operation returns for NaN (PTX ISA 9.7.3, canonical NaN).
    `infinite`: it has infinities; else the exponent of all ones holds numbers, but for the
    largest magnitude, which is NaN (e4m3).
    """

    name: str
    ebits: int
    fbits: int
    nan: int
    unused: int = 0
    infinite: bool = True

    @property
    def width(self) -> int:
        """Bytes of a pattern."""
        return (1 + self.ebits + self.fbits + self.unused) // 8

    @property
    def word(self) -> Any:
        """The NumPy type of patterns."""
        return WORDS[self.width]

    @property
    def precision(self) -> int:
        """Bits of the significand."""
        return self.fbits + 1

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal number."""
        return 2 - (1 << (self.ebits - 1))

    @property
    def largest(self) -> float:
        """The largest finite number."""
        top = 2.0 - 2.0**-self.fbits if self.infinite else 2.0 - 2.0 ** (1 - self.fbits)
        return float(np.ldexp(top, (1 << (self.ebits - 1)) - 1 + (not self.infinite)))

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (8 * self.width - 1)

    @property
    def one(self) -> int:
        """The pattern of 1."""
        return ((1 << (self.ebits - 1)) - 1) << (self.fbits + self.unused)

    @property
    def infinity(self) -> int:
        """The exponent's bits, all ones: the pattern of infinity where there is one."""
        return ((1 << self.ebits) - 1) << (self.fbits + self.unused)


WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f64", 11, 52, 0x7FF8000000000000),
        Format("f32", 8, 23, 0x7FFFFFFF),
        Format("tf32", 8, 10, 0x7FFFFFFF, unused=13),
        Format("f16", 5, 10, 0x7FFF),
        Format("bf16", 8, 7, 0x7FFF),
        Format("e5m2", 5, 2, 0x7F),
        Format("e4m3", 4, 3, 0x7F, infinite=False),
    )
}


def _table_e4m3() -> Floats:
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.ldexp(
        (fraction + 8 * (exponent > 0)).astype(np.float64), np.maximum(exponent, 1) - 10
    )
    size[code & 127 == 127] = np.nan
    return np.where(code < 128, size, -size)


_E4M3 = _table_e4m3()

_DECODE: dict[str, Callable[[Bits], Any]] = {
    "f64": lambda b: b.view(np.float64),
    "f32": lambda b: b.view(np.float32),
    "tf32": lambda b: (b & np.uint32(0xFFFFE000)).view(np.float32),
    "f16": lambda b: b.view(np.float16),
    "bf16": lambda b: (b.astype(np.uint32) << np.uint32(16)).view(np.float32),
    "e5m2": lambda b: (b.astype(np.uint16) << np.uint16(8)).view(np.float16),
    "e4m3": lambda b: _E4M3[b],
}


def decode(bits: Bits, fmt: str) -> Floats:
    """The numbers of patterns (of the format's unsigned type); NaN for every NaN."""
    return _DECODE[fmt](bits).astype(np.float64)


def _encode_e4m3(x: Floats) -> Bits:
    size = np.abs(x)
    exponent = np.maximum(np.frexp(size)[1] - 1, -6)
    whole = np.ldexp(np.where(size <= 448, size, 0), 3 - exponent).astype(np.int64)
    code = np.where(whole >= 8, ((exponent + 7) << 3) + whole - 8, whole)
    return np.where(size <= 448, code | np.signbit(x) << 7, 0x7F).astype(np.uint8)


_ENCODE: dict[str, Callable[[Floats], Bits]] = {
    "f64": lambda x: np.ascontiguousarray(x).view(np.uint64),
    "f32": lambda x: x.astype(np.float32).view(np.uint32),
    "tf32": lambda x: x.astype(np.float32).view(np.uint32),
    "f16": lambda x: x.astype(np.float16).view(np.uint16),
    "bf16": lambda x: (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16),
    "e5m2": lambda x: (x.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8),
    "e4m3": _encode_e4m3,
}


def encode(x: Floats, fmt: str) -> Bits:
    """The patterns of numbers that the format holds; the canonical NaN for NaN."""
    f = FORMATS[fmt]
    bits = _ENCODE[fmt](x)
    nan = x != x
    return np.where(nan, f.word(f.nan), bits) if nan.any() else bits


def is_nan(bits: Bits, fmt: str) -> NDArray[np.bool_]:
    """Where a pattern is a NaN."""
    f = FORMATS[fmt]
    size = bits & f.word(f.sign - 1)
    return size > f.word(f.infinity) if f.infinite else size == f.word(f.nan)


def flush(bits: Bits, fmt: str) -> Bits:
    """Subnormal numbers as zeros of their sign: `.ftz` (PTX ISA 9.7.3)."""
    f = FORMATS[fmt]
    return np.where(bits & f.word(f.infinity), bits, bits & f.word(f.sign))
