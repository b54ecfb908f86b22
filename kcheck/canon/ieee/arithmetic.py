"""add, sub, mul, fma, div, rcp, sqrt with one rounding, and the modifiers around them.

Functions of patterns: unsigned arrays of the format's width, which broadcast. PTX ISA 9.7.3 and
9.7.4: `.ftz` flushes subnormal arguments and results to zeros of their sign (here after rounding;
the ISA doesn't say when), `.sat` clamps to [0, 1] with NaN to +0, `.relu` makes what is negative
+0 and keeps NaN; every NaN that is made is the canonical one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kcheck.canon.ieee.exact import Exact, fused, quotient, root, two_sum
from kcheck.canon.ieee.formats import FORMATS, Bits, Floats, decode, flush
from kcheck.canon.ieee.rounding import to_bits

Function = Callable[..., Bits]
# NumPy's own arithmetic, which rounds to nearest
_NATIVE: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: np.divide(x.dtype.type(1), x),
    "sqrt": np.sqrt,
}


def native(ufunc: Callable[..., Any], fmt: str) -> Function:
    """An operation of NumPy on patterns."""
    f, kind = FORMATS[fmt], _NATIVE[fmt]

    def run(*words: Bits) -> Bits:
        x = ufunc(*[w.view(kind) for w in words])
        nan = x != x
        bits: Bits = x.view(f.word)
        return np.where(nan, f.word(f.nan), bits) if nan.any() else bits

    return run


def _with_zeros(value: Exact, nearest: Floats, mode: str, mixed: Any) -> Exact:
    """An exact sum whose zeros have the sign of `nearest`, or - when rounding down.

    `mixed`: where the summands have different signs.
    """
    zero = value.high == 0
    signed = np.where(mixed, -0.0, nearest) if mode == "rm" else nearest
    return Exact(np.where(zero, signed, value.high), value.low, value.scale)


def _finite(value: Exact, ok: Any, special: Floats) -> Exact:
    """`special` in the lanes that are not `ok`."""
    low = None if value.low is None else np.where(ok, value.low, 0)
    return Exact(np.where(ok, value.high, special), low, value.scale)


def _add(x: Floats, y: Floats, wide: bool, mode: str) -> Exact:
    if wide:
        return _fma(x, np.ones(1), y, wide, mode)
    value = Exact(*two_sum(x, y))
    return _with_zeros(value, value.high, mode, np.signbit(x) != np.signbit(y))


def _mul(x: Floats, y: Floats, wide: bool, mode: str) -> Exact:
    if not wide:
        return Exact(x * y)  # exact: 2 x 24 bits
    product = x * y
    return _fma(x, y, np.copysign(0.0, product), wide, mode)


def _fma(x: Floats, y: Floats, z: Floats, wide: bool, mode: str) -> Exact:
    product = x * y
    mixed = np.signbit(product) != np.signbit(z)
    if not wide:
        value = Exact(*two_sum(product, z))
        return _with_zeros(value, value.high, mode, mixed)
    factors = np.isfinite(x) & np.isfinite(y)
    ok = factors & np.isfinite(z)
    value = _finite(
        fused(*[np.where(ok, a, 0) for a in (x, y, z)]), ok, np.where(factors, z, product + z)
    )
    return _with_zeros(value, product + z, mode, mixed)


def _div(x: Floats, y: Floats, wide: bool, mode: str) -> Exact:
    nearest = x / y
    if not wide:
        # the quotient of two 24-bit numbers is at least 2^-49 away (relatively) from any number
        # of 25 bits that it is not, so that rounding it to 53 bits first changes no rounding
        return Exact(nearest)
    ok = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    return _finite(quotient(np.where(ok, x, 1), np.where(ok, y, 1)), ok, nearest)


def _sqrt(x: Floats, wide: bool, mode: str) -> Exact:
    nearest = np.sqrt(x)
    if not wide:
        return Exact(nearest)  # as for quotients
    ok = np.isfinite(x) & (x > 0)
    return _finite(root(np.where(ok, x, 1)), ok, nearest)


_EXACT: dict[str, Callable[..., Exact]] = {
    "add": _add,
    "sub": lambda x, y, wide, mode: _add(x, -y, wide, mode),
    "mul": _mul,
    "fma": _fma,
    "div": _div,
    "rcp": lambda x, wide, mode: _div(np.ones(1), x, wide, mode),
    "sqrt": _sqrt,
}
OPERATIONS = tuple(_EXACT)


def rounded(op: str, fmt: str, mode: str = "rn") -> Function:
    """An operation of `OPERATIONS` on patterns, rounded once."""
    if mode == "rn" and fmt in _NATIVE and op in _UFUNCS:
        return native(_UFUNCS[op], fmt)
    exact, wide = _EXACT[op], fmt == "f64"
    return lambda *words: to_bits(exact(*[decode(w, fmt) for w in words], wide, mode), fmt, mode)


def saturated(bits: Bits, fmt: str) -> Bits:
    """Clamped to [0, 1]; NaN and -0 become +0."""
    f = FORMATS[fmt]
    word = f.word
    bad = (bits & word(f.sign) != 0) | (bits > word(f.infinity))
    return np.where(bad, word(0), np.minimum(bits, word(f.one)))


def rectified(bits: Bits, fmt: str) -> Bits:
    """`.relu`: what is negative becomes +0; a NaN (here always of sign +) stays."""
    f = FORMATS[fmt]
    return np.where(bits & f.word(f.sign), f.word(0), bits)


def modified(fn: Function, fmt: str, slots: Mapping[str, str], target: str = "") -> Function:
    """A function with the modifiers `ftz`, `sat`, `relu` that are set in `slots`.

    `fmt`: of the arguments; `target`: of the result, if another.
    """
    out = target or fmt
    if slots.get("ftz"):
        inner = fn

        def fn(*words: Bits) -> Bits:
            return flush(inner(*[flush(w, fmt) for w in words]), out)

    if slots.get("sat"):
        return lambda *words: saturated(fn(*words), out)
    if slots.get("relu"):
        return lambda *words: rectified(fn(*words), out)
    return fn
