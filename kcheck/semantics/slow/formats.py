"""Float formats: bits to exact numbers and back (IEEE 754, PTX ISA 5.2.3)."""

from __future__ import annotations

import math
from fractions import Fraction

# format -> (exponent bits, fraction bits)
FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
BITS = {name: 1 + e + f for name, (e, f) in FIELDS.items()}


def decode(bits: int, fmt: str) -> Fraction | float:
    """The exact value of a bit pattern; infinities and NaN as Python floats, -0 as 0."""
    exponent_bits, fraction_bits = FIELDS[fmt]
    fraction = bits & ((1 << fraction_bits) - 1)
    top = (1 << exponent_bits) - 1
    exponent = (bits >> fraction_bits) & top
    negative = bits >> (fraction_bits + exponent_bits) & 1
    if exponent == top:
        return math.nan if fraction else (-math.inf if negative else math.inf)
    bias = top >> 1
    if exponent:
        fraction |= 1 << fraction_bits
    scale = max(exponent, 1) - bias - fraction_bits
    value = Fraction(fraction << scale) if scale >= 0 else Fraction(fraction, 1 << -scale)
    return -value if negative else value


def encode(value: Fraction | float, fmt: str) -> int | None:
    """The bits of a number, or None if the format does not hold it exactly; 0 is +0."""
    exponent_bits, fraction_bits = FIELDS[fmt]
    top = (1 << exponent_bits) - 1
    if isinstance(value, float):
        if math.isnan(value):
            return (1 << (fraction_bits + exponent_bits)) - 1
        return (int(value < 0) << exponent_bits | top) << fraction_bits
    if not value:
        return 0
    sign = int(value < 0) << (exponent_bits + fraction_bits)
    value = abs(value)
    bias = top >> 1
    exponent = max(_floor_log2(value), 1 - bias)
    shift = fraction_bits - exponent
    scaled = value * (1 << shift) if shift >= 0 else value / (1 << -shift)
    if scaled.denominator != 1 or exponent > bias:
        return None
    mantissa = scaled.numerator
    if not mantissa >> fraction_bits:
        return sign | mantissa
    return sign | (exponent + bias) << fraction_bits | mantissa & ((1 << fraction_bits) - 1)


def _floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    below = value.numerator << max(0, -exponent) < value.denominator << max(0, exponent)
    return exponent - 1 if below else exponent


def largest(fmt: str) -> Fraction:
    """The largest finite number of a format."""
    exponent_bits, fraction_bits = FIELDS[fmt]
    bits = (((1 << exponent_bits) - 1) << fraction_bits) - 1
    value = decode(bits, fmt)
    assert isinstance(value, Fraction)
    return value
