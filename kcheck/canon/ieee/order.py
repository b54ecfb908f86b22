"""Comparison, minimum and maximum, and what only touches signs, on patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.ieee.formats import FORMATS, Bits, decode, flush, is_nan

Bool = NDArray[np.bool_]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def comparison(cmp: str, fmt: str, ftz: bool) -> Callable[[Bits, Bits], Bool]:
    """setp: `eq`, ... are false where an argument is NaN, `equ`, ... true; `num`, `nan` test that.

    PTX ISA 9.7.6, floating-point comparisons.
    """
    ordered = cmp.removesuffix("u")
    compare = _COMPARE.get(ordered)

    def run(a: Bits, b: Bits) -> Bool:
        nan = is_nan(a, fmt) | is_nan(b, fmt)
        if compare is None:
            return nan if cmp == "nan" else ~nan
        x, y = (decode(flush(w, fmt) if ftz else w, fmt) for w in (a, b))
        result: Bool = compare(x, y)
        return result | nan if ordered != cmp else result & ~nan

    return run


def _place(bits: Bits, fmt: str) -> Bits:
    """A key that orders numbers as unsigned integers, -0 below +0."""
    f = FORMATS[fmt]
    return np.where(bits & f.word(f.sign), ~bits, bits | f.word(f.sign))


def extremum(op: str, fmt: str, nan: bool) -> Callable[[Bits, Bits], Bits]:
    """min or max: the number if one argument is NaN, or (`nan`) NaN; -0 < +0 (PTX ISA 9.7.3)."""
    f = FORMATS[fmt]

    def run(a: Bits, b: Bits) -> Bits:
        na, nb = is_nan(a, fmt), is_nan(b, fmt)
        least = _place(a, fmt) < _place(b, fmt)
        first = least if op == "min" else ~least
        chosen = np.where((first & ~na) | nb, a, b)
        gone = na | nb if nan else na & nb
        return np.where(gone, f.word(f.nan), chosen)

    return run


def negated(bits: Bits, fmt: str) -> Bits:
    """The sign bit flipped, of NaN too (the ISA leaves that one open)."""
    f = FORMATS[fmt]
    return bits ^ f.word(f.sign)


def magnitude(bits: Bits, fmt: str) -> Bits:
    """The sign bit cleared."""
    f = FORMATS[fmt]
    return bits & f.word(f.sign - 1)


def copysign(sign: Bits, size: Bits, fmt: str) -> Bits:
    """The magnitude of `size` with the sign of `sign`."""
    f = FORMATS[fmt]
    return magnitude(size, fmt) | (sign & f.word(f.sign))


def xorsign(op: str, fmt: str, nan: bool) -> Callable[[Bits, Bits], Bits]:
    """min or max of the magnitudes, with the product of the signs; NaN is the canonical one."""
    inner = extremum(op, fmt, nan)

    def run(a: Bits, b: Bits) -> Bits:
        size = inner(magnitude(a, fmt), magnitude(b, fmt))
        return np.where(is_nan(size, fmt), size, copysign(a ^ b, size, fmt))

    return run


def classified(test: str, fmt: str, bits: Bits) -> Bool:
    """testp: finite, infinite, number, notanumber, normal, subnormal; a zero is normal."""
    f = FORMATS[fmt]
    size = magnitude(bits, fmt)
    top, least = f.word(f.infinity), f.word(1 << (f.fbits + f.unused))
    small = (size < least) & (size != 0)
    answers: dict[str, Any] = {
        "finite": size < top,
        "infinite": size == top,
        "number": size <= top,
        "notanumber": size > top,
        "normal": (size < top) & ~small,
        "subnormal": small,
    }
    return answers[test]
