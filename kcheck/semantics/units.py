"""Value units of memory: codes of cells, and registers as units and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import UNDEF
from kcheck.canon.lanes import SYM, Real
from kcheck.canon.real import Reals
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Bool,
    Int,
    Packed,
    Part,
    Symbolic,
    Unsupported,
    either,
)
from kcheck.semantics.words import Source, Word, joined, whole

# kinds of a cell: nothing was written, concrete bits, a real, the rest of the unit before (its
# width field is the distance back), undefined was written, half of a real that was overwritten
EMPTY, BITS, REAL, REST, UNDEFINED, TORN = range(6)
FMTS = ("", "f16", "bf16", "f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FMT_CODE = {name: code for code, name in enumerate(FMTS)}

Cells = NDArray[np.int64]


def code(kind: int, width: int, fmt: str = "") -> int:
    """What `meta` says of the first cell of a unit."""
    return kind | FMT_CODE[fmt] << 4 | width << 8


def real_width(fmt: str) -> int:
    """Bytes of a unit that holds a real, or a symbolic integer, of a format."""
    return FMT_BYTES[fmt] if fmt in FMT_BYTES else int(fmt[1:]) // 8


def undefined(size: int) -> Int:
    """A register whose lanes are all undefined."""
    return Int(np.zeros(1, UNSIGNED[size]), None, np.ones(1, bool))


def widened(x: Packed) -> Real[Any]:
    """A bf16 above 16 zeros is the f32 of the same value."""
    lo, hi = x.lo, x.hi
    zeros = isinstance(lo, Int) and lo.u is None and not lo.a.any()
    if not zeros or not isinstance(hi, Real) or hi.fmt != "bf16":
        raise Unsupported("reinterpret", "two 16-bit halves are stored to wider cells")
    wide: Real[Any] = Real(hi.v, hi.c, hi.kind, "f32")
    wide.u = hi.u if x.u is None else x.u if hi.u is None else x.u | hi.u
    return wide


def with_undefined(value: Any, u: Bool | None) -> Any:
    """A half with the undefined lanes of the whole."""
    if u is None:
        return value
    if isinstance(value, Int):
        return Int(value.a, None, u if value.u is None else value.u | u)
    half: Real[Any] = Real(value.v, value.c, value.kind, value.fmt)
    half.u = u if value.u is None else value.u | u
    return half


def written_lanes(reals: Reals[Any], value: Any, mask: Bool | None, n: int) -> Any:
    """The written lanes of an Int or Real, `n` of them."""
    if isinstance(value, Part):
        raise Unsupported("reinterpret", "half of an f64 is stored")
    u = value.u
    if u is not None:
        u = np.broadcast_to(u, (n,)) if u.size == 1 or mask is None else u[mask]
        u = u if u.any() else None
    if isinstance(value, Int):
        a = value.a if value.a.size == 1 or mask is None else value.a[mask]
        p = value.p
        if isinstance(p, np.ndarray) and p.size > 1 and mask is not None:
            p = p[mask]
        return Int(np.broadcast_to(a, (n,)), p, u)
    taken = value if mask is None else reals.take(value, mask)
    real: Real[Any] = Real(taken.v, taken.c, taken.kind, value.fmt)
    if real.c is not None and (real.c == UNDEF).any():
        gone = np.broadcast_to(real.c == UNDEF, (n,))
        u = gone if u is None else u | gone
    real.u = u
    return real


def gathered(
    units: list[tuple[Cells, int, Any]], reals: Reals[Any]
) -> list[tuple[Cells, int, Any]]:
    """Like units of one vector store as one unit of shape (k, lanes)."""
    units = [u for u in units if u[0].size]
    if len(units) < 2:
        return units
    cell, width, first = units[0]
    if any(
        c.shape != cell.shape or w != width or type(v) is not type(first) or v.u is not None
        for c, w, v in units
    ):
        return units
    cells = np.stack([c for c, _, _ in units])
    if isinstance(first, Int):
        if any(v.p is not None for _, _, v in units):
            return units
        return [(cells, width, Int(np.stack([v.a for _, _, v in units])))]
    n = cells.shape[1]
    same = all(v.kind == SYM and v.fmt == first.fmt and v.v.shape == (n,) for _, _, v in units)
    if not same:
        return units
    stacked = reals.domain.stack([v.v for _, _, v in units])
    real: Real[Any] = Real(stacked, None, SYM, first.fmt)
    return [(cells, width, real)]


def _word(x: Any, bits: int) -> Word | None:
    """An integer of an input as bits; None for what is concrete in some lanes, or a float."""
    if isinstance(x, Symbolic):
        return x.word
    if isinstance(x, Real) and x.fmt not in FMT_BYTES and x.kind == SYM:
        return whole(Source(x), bits)
    return None


def combined(parts: list[Any], width: int, size: int) -> Any:
    """Pieces of `width` bytes as one register of `size` bytes."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(p, Int) for p in parts):
        whole = parts[0].a.astype(UNSIGNED[size])
        u = parts[0].u
        for i, part in enumerate(parts[1:], 1):
            whole = whole | part.a.astype(UNSIGNED[size]) << UNSIGNED[size](8 * width * i)
            u = part.u if u is None else u if part.u is None else u | part.u
        return Int(whole, None, u)
    if width == 2 and size == 4:
        return Packed(parts[0], parts[1])
    words = [_word(p, 8 * width) for p in parts]
    if size <= 8 and all(w is not None for w in words):
        u = None
        for p in parts:
            u = either(u, p.u)
        return Symbolic(size, None, word=joined([w for w in words if w is not None]), u=u)
    raise Unsupported("reinterpret", f"{width}-byte floats are read as one {size}-byte register")
