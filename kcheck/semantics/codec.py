"""Float bit patterns to exact constants and back."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.constants import CASED, FINITE, NAN, NINF, PINF, SYMBOLIC, ZERO, Constants
from kcheck.canon.lanes import Ids
from kcheck.semantics.values import UNSIGNED, Array, Unsupported

# format -> (exponent bits, fraction bits)
LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
# the quiet NaN that hardware makes (PTX ISA 9.7.3: canonical NaN)
CANONICAL_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}

_NO_BITS = {SYMBOLIC: "a symbolic float", ZERO: "a computed zero, whose sign is unknown,"}


def decode(bits: int, fmt: str) -> Fraction | int:
    """The number of a bit pattern, or the id NAN, PINF, NINF (an int)."""
    ebits, fbits = LAYOUT[fmt]
    fraction = bits & ((1 << fbits) - 1)
    exponent = (bits >> fbits) & ((1 << ebits) - 1)
    negative = bits >> (ebits + fbits) & 1
    if exponent == (1 << ebits) - 1:
        return NAN if fraction else NINF if negative else PINF
    bias = (1 << (ebits - 1)) - 1
    if exponent:
        fraction |= 1 << fbits
    else:
        exponent = 1
    value = Fraction(fraction) * Fraction(2) ** (exponent - bias - fbits)
    return -value if negative else value


def encode(value: Fraction, fmt: str) -> int | None:
    """The bit pattern of a number, or None if the format does not hold it exactly."""
    ebits, fbits = LAYOUT[fmt]
    bias = (1 << (ebits - 1)) - 1
    sign = (value < 0) << (ebits + fbits)
    value = abs(value)
    if value == 0:
        return 0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    scaled = value * Fraction(2) ** (fbits - exponent)
    if scaled.denominator != 1 or exponent > bias:
        return None
    whole = scaled.numerator
    if whole >> fbits == 0:  # subnormal
        return sign | whole
    return sign | (exponent + bias) << fbits | (whole - (1 << fbits))


def literal_bits(bits: int, width: int, size: int) -> int | None:
    """A literal of `width` bits as `size` bytes: a decimal one is rounded to an f32.

    None where PTX has no such literal (PTX ISA 4.5.2).
    """
    if width == 8 * size:
        return bits
    if width == 64 and size == 4:
        value = np.uint64(bits).view(np.float64)
        with np.errstate(over="ignore"):
            return int(value.astype(np.float32).view(np.uint32))
    return None


class Codec:
    """Arrays of bit patterns to arrays of constant ids and back, with a memory.

    `identify`: a pattern stands for the number that it was rounded from (`canon.literals`);
    `identified` holds those that are not the number as written: (format, bits) -> id.
    """

    def __init__(self, constants: Constants, identify: bool = False) -> None:
        self.constants = constants
        self.identify = identify
        self.identified: dict[tuple[str, int], int] = {}
        self._ids: dict[tuple[str, int], int] = {}
        self._bits: dict[tuple[str, int], int | None] = {}

    def ident(self, bits: int, fmt: str) -> int:
        """The constant id of one pattern."""
        key = (fmt, bits)
        found = self._ids.get(key)
        if found is None:
            value = decode(bits, fmt)
            found = value if isinstance(value, int) else self._number(value, key)
            self._ids[key] = found
        return found

    def _number(self, value: Fraction, key: tuple[str, int]) -> int:
        if not self.identify:
            return self.constants.intern(value)
        found = self.constants.literal(value, key[0])
        if self.constants.number(found) != value:
            self.identified[key] = found
        return found

    def to_ids(self, bits: Array, fmt: str) -> Ids:
        """Constant ids of patterns, lane by lane."""
        if bits.size == 1:
            return np.full(bits.shape, self.ident(int(bits.flat[0]), fmt), np.int32)
        used, index = np.unique(bits, return_inverse=True)
        ids = np.array([self.ident(int(b), fmt) for b in used], np.int32)
        return ids[index].reshape(bits.shape)

    def pattern(self, ident: int, fmt: str) -> int | None:
        """The bits of one constant; None if the format does not hold it."""
        key = (fmt, ident)
        if key not in self._bits:
            ebits, fbits = LAYOUT[fmt]
            infinity = ((1 << ebits) - 1) << fbits
            special = {
                PINF: infinity,
                NINF: infinity | 1 << (ebits + fbits),
                NAN: CANONICAL_NAN[fmt],
            }
            self._bits[key] = (
                encode(self.constants.values[ident], fmt) if ident >= FINITE else special.get(ident)
            )
        return self._bits[key]

    def to_bits(self, ids: Ids, fmt: str, live: Any) -> Array:
        """Patterns of constants; `live`: lanes (or True) that must be exact.

        Raises Unsupported where a live lane is symbolic or is not exact in the format.
        """
        used, index = np.unique(ids, return_inverse=True)
        bits = np.zeros(len(used), np.uint64)
        for k, ident in enumerate(used):
            # the sign of a zero that was computed is unknown; literal zeros stay integers
            known = ident not in (SYMBOLIC, ZERO) and ident < CASED
            pattern = self.pattern(int(ident), fmt) if known else None
            if pattern is not None:
                bits[k] = pattern
            elif bool(((ids == ident) & live).any()):
                other = "an inexact constant" if ident < CASED else _NO_BITS[SYMBOLIC]
                what = _NO_BITS.get(int(ident), other)
                raise Unsupported("reinterpret", f"the bits of {what} are used as an integer")
        return bits[index].reshape(ids.shape).astype(UNSIGNED[(sum(LAYOUT[fmt]) + 1) // 8])
