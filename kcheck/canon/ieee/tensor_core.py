"""mma: how tensor cores add up products (the model of MMA-Sim, arXiv 2511.10909).

Exact products and the accumulator are aligned to the largest exponent, each truncated to a number
of fractional bits, added exactly, and rounded to the accumulator's format: toward zero to f32, to
nearest even to f16. Long products are done in blocks, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck.canon.ieee.exact import Exact
from kcheck.canon.ieee.formats import FORMATS, Bits, Floats, decode
from kcheck.canon.ieee.rounding import to_bits


@dataclass(frozen=True)
class TensorCore:
    """`fraction`: bits kept below the largest exponent; `bytes`: of one row of A in a block."""

    fraction: int
    bytes: int


# the first architecture (sm_N) of each generation. Blocks: k = 8 of f16 and bf16, 4 of tf32 on
# Ampere and Ada, twice as many since Hopper
CORES: dict[int, TensorCore] = {
    80: TensorCore(fraction=24, bytes=16),
    90: TensorCore(fraction=25, bytes=32),
}
_MODES = {"f32": "rz", "f16": "rn"}


def core(arch: int) -> TensorCore | None:
    """The model of an architecture (80 for sm_80), or None for one older than the table."""
    known = [least for least in CORES if least <= arch]
    return CORES[max(known)] if known else None


def _exponent(x: Floats, fmt: str) -> Any:
    """Exponents as the format holds them: a subnormal has the smallest one."""
    return np.maximum(np.frexp(x)[1] - 1, FORMATS[fmt].emin)


def multiply(a: Bits, b: Bits, c: Bits, fmt: str, out: str, model: TensorCore) -> Bits:
    """a b + c of patterns: a (..., M, K) and b (..., K, N) of `fmt`, c (..., M, N) of `out`."""
    x, y = decode(a, fmt), decode(b, fmt)
    step = model.bytes // (4 if fmt == "tf32" else FORMATS[fmt].width)
    total = c
    for start in range(0, x.shape[-1], step):
        part = slice(start, start + step)
        total = _block(x[..., :, part], y[..., part, :], total, fmt, out, model.fraction)
    return total


def _block(x: Floats, y: Floats, c: Bits, fmt: str, out: str, fraction: int) -> Bits:
    """One block: its sum has at most 2^5 terms below 4, in units of 2^-fraction, so is exact."""
    columns = np.swapaxes(y, -1, -2)
    terms = x[..., :, None, :] * columns[..., None, :, :]
    z = decode(c, out)
    exponents = _exponent(x, fmt)[..., :, None, :] + _exponent(columns, fmt)[..., None, :, :]
    own = _exponent(z, out)
    nothing = -(1 << 20)  # a zero takes no part in the alignment
    top = np.where(terms == 0, nothing, exponents).max(-1)
    top = np.maximum(top, np.where(z == 0, nothing, own))
    top = np.where(top == nothing, 0, top)
    finite = np.isfinite(terms).all(-1) & np.isfinite(z)
    shift = fraction - top
    kept = np.trunc(np.ldexp(np.where(finite[..., None], terms, 0), shift[..., None])).sum(-1)
    kept = kept + np.trunc(np.ldexp(np.where(finite, z, 0), shift))
    total = np.where(finite, np.ldexp(kept, -shift) + 0.0, terms.sum(-1) + z)
    if _MODES[out] == "rz":  # what is beyond the format is infinite, though it is truncated
        beyond = np.ldexp(1.0, 2 - FORMATS[out].emin)
        total = np.where(np.abs(total) >= beyond, np.copysign(np.inf, total), total)
    return to_bits(Exact(total), out, _MODES[out])
