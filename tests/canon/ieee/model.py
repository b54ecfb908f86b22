"""Formats and roundings once more, over rationals: one number at a time, no floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from kcheck.canon.ieee.formats import WORDS, Bits

# exponent bits, fraction bits, unused low bits, NaN pattern
LAYOUT = {
    "f64": (11, 52, 0, 0x7FF8000000000000),
    "f32": (8, 23, 0, 0x7FFFFFFF),
    "tf32": (8, 10, 13, 0x7FFFFFFF),
    "f16": (5, 10, 0, 0x7FFF),
    "bf16": (8, 7, 0, 0x7FFF),
    "e5m2": (5, 2, 0, 0x7F),
    "e4m3": (4, 3, 0, 0x7F),
}
# a rational, or "nan", "inf", "-inf", "-0"
Number = Fraction | str


def value(bits: int, fmt: str) -> Number:
    """The number of a pattern."""
    ebits, fbits, unused, _ = LAYOUT[fmt]
    bits >>= unused
    negative, bits = bits >> (ebits + fbits), bits & ((1 << (ebits + fbits)) - 1)
    exponent, fraction = bits >> fbits, bits & ((1 << fbits) - 1)
    bias = 2 ** (ebits - 1) - 1
    if fmt == "e4m3":
        if bits == 0x7F:
            return "nan"
    elif exponent == 2**ebits - 1:
        return "nan" if fraction else "-inf" if negative else "inf"
    if not bits:
        return "-0" if negative else Fraction(0)
    if exponent == 0:
        size = Fraction(fraction, 2**fbits) * Fraction(2) ** (1 - bias)
    else:
        size = (1 + Fraction(fraction, 2**fbits)) * Fraction(2) ** (exponent - bias)
    return -size if negative else size


def largest(fmt: str) -> Fraction:
    """The largest number."""
    ebits, fbits, _, _ = LAYOUT[fmt]
    if fmt == "e4m3":
        return Fraction(448)
    return (2 - Fraction(1, 2**fbits)) * Fraction(2) ** (2 ** (ebits - 1) - 1)


def _exponent(size: Fraction) -> int:
    """floor(log2(size))."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent - (Fraction(2) ** exponent > size)


def pattern(x: Number, fmt: str) -> int:
    """The pattern of a number that the format holds."""
    ebits, fbits, unused, nan = LAYOUT[fmt]
    sign = 1 << (ebits + fbits + unused)
    infinity = (2**ebits - 1) << (fbits + unused)
    if fmt == "e4m3" and x in ("inf", "-inf"):
        return nan
    if isinstance(x, str):
        return {"nan": nan, "inf": infinity, "-inf": infinity | sign, "-0": sign}[x]
    size, emin = abs(x), 2 - 2 ** (ebits - 1)
    exponent = max(_exponent(size), emin) if size else emin
    whole = size / Fraction(2) ** (exponent - fbits)
    assert whole.denominator == 1
    code = whole.numerator + ((exponent - emin) << fbits)
    return (code << unused) | (sign if x < 0 else 0)


def rounded(x: Number, fmt: str, mode: str) -> Number:
    """The nearest number of the format, in the direction of the mode."""
    if isinstance(x, str) or x == 0:
        return x
    ebits, fbits, _, _ = LAYOUT[fmt]
    unit = Fraction(2) ** (max(_exponent(abs(x)), 2 - 2 ** (ebits - 1)) - fbits)
    scaled = x / unit
    below = math.floor(scaled)
    part = scaled - below
    nearest = below + (part > Fraction(1, 2))
    whole = {
        "rm": below,
        "rp": math.ceil(scaled),
        "rz": math.trunc(scaled),
        "rn": round(scaled),
        "rna": (below + (x > 0)) if part == Fraction(1, 2) else nearest,
    }[mode]
    out = whole * unit
    if abs(out) > largest(fmt):
        inward = mode == "rz" or (mode == "rm" and x > 0) or (mode == "rp" and x < 0)
        return (largest(fmt) if x > 0 else -largest(fmt)) if inward else "inf" if x > 0 else "-inf"
    return out if out else "-0" if x < 0 else Fraction(0)


def _real(x: Number) -> Fraction:
    return Fraction(0) if isinstance(x, str) else x


def _negative(x: Number) -> bool:
    return x.startswith("-") if isinstance(x, str) else x < 0


def _zero(negative: bool) -> Number:
    return "-0" if negative else Fraction(0)


def _is_zero(x: Number) -> bool:
    return x == "-0" or x == 0


def product(x: Number, y: Number) -> Number:
    """x y exactly."""
    negative = _negative(x) != _negative(y)
    if "nan" in (x, y):
        return "nan"
    if x in ("inf", "-inf") or y in ("inf", "-inf"):
        return "nan" if _is_zero(x) or _is_zero(y) else "-inf" if negative else "inf"
    return _real(x) * _real(y) or _zero(negative)


def total(x: Number, y: Number, mode: str) -> Number:
    """x + y exactly; the mode decides the sign of a zero."""
    infinite = [n for n in (x, y) if n in ("inf", "-inf")]
    if "nan" in (x, y) or len(set(infinite)) == 2:
        return "nan"
    if infinite:
        return infinite[0]
    out = _real(x) + _real(y)
    both = _negative(x) and _negative(y)
    if out:
        return out
    return _zero(both or (mode == "rm" and not (x == y == Fraction(0))))


def quotient(x: Number, y: Number) -> Number:
    """x / y exactly."""
    negative = _negative(x) != _negative(y)
    tops, bottoms = x in ("inf", "-inf"), y in ("inf", "-inf")
    if "nan" in (x, y) or (tops and bottoms) or (_is_zero(x) and _is_zero(y)):
        return "nan"
    if tops or _is_zero(y):
        return "-inf" if negative else "inf"
    if bottoms or _is_zero(x):
        return _zero(negative)
    return _real(x) / _real(y)


def negated(x: Number) -> Number:
    """-x."""
    if isinstance(x, str):
        table: dict[str, Number] = {"nan": "nan", "inf": "-inf", "-inf": "inf", "-0": Fraction(0)}
        return table[x]
    return "-0" if x == 0 else -x


def root(x: Number) -> Number:
    """The square root: exact where it is rational, else good to 2^-200 (relatively)."""
    if x in ("nan", "inf") or _is_zero(x):
        return x
    if _negative(x):
        return "nan"
    n = _real(x)
    scale = 4 ** (200 + n.denominator.bit_length())
    whole = n.numerator * scale // n.denominator
    low = math.isqrt(whole)
    exact = low * low * n.denominator == n.numerator * scale
    return (low + Fraction(not exact, 2)) / Fraction(math.isqrt(scale))


def operate(op: str, bits: tuple[int, ...], fmt: str, mode: str) -> int:
    """An operation on patterns with one rounding."""
    x = [value(b, fmt) for b in bits]
    if op in ("add", "sub"):
        exact = total(x[0], negated(x[1]) if op == "sub" else x[1], mode)
    elif op == "mul":
        exact = product(x[0], x[1])
    elif op == "fma":
        exact = total(product(x[0], x[1]), x[2], mode)
    elif op == "div":
        exact = quotient(x[0], x[1])
    elif op == "rcp":
        exact = quotient(Fraction(1), x[0])
    else:
        exact = root(x[0])
    return pattern(rounded(exact, fmt, mode), fmt)


def words(patterns: list[int], fmt: str) -> Bits:
    """Patterns as an array."""
    ebits, fbits, unused, _ = LAYOUT[fmt]
    return np.array(patterns, WORDS[(1 + ebits + fbits + unused) // 8])


def hard_patterns(fmt: str, n: int, seed: int) -> list[int]:
    """Patterns near the edges of a format, and others."""
    ebits, fbits, unused, _ = LAYOUT[fmt]
    rng = np.random.default_rng(seed)
    bias = 2 ** (ebits - 1) - 1
    exponents = [0, 0, 1, 2, bias - 1, bias, bias + 1, 2**ebits - 2, 2**ebits - 1]
    out = []
    for _ in range(n):
        near = rng.integers(bias - min(bias, fbits + 2), bias + min(bias, fbits + 2))
        exponent = [exponents[rng.integers(len(exponents))], near, rng.integers(2**ebits)]
        fraction = [
            0,
            1,
            2**fbits - 1,
            1 << int(rng.integers(fbits)),
            int(rng.integers(2**fbits)),
            int(rng.integers(2**fbits)) & -(1 << (fbits // 2)),
        ]
        code = int(exponent[rng.integers(3)]) << fbits | fraction[rng.integers(6)]
        out.append((code | int(rng.integers(2)) << (ebits + fbits)) << unused)
    return out
