"""Addresses are invented: what depends on their bits, beyond alignment, is refused.

The base of a buffer is the driver's to choose. Sums with offsets, differences within one region,
low bits that the alignment of bases gives, and comparisons with 0 or within one region are the
same for every base; anything else would prove what holds for the invented base only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.semantics.values import Array, Int, Unsupported, join, minus

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# Alignment of a buffer's base (CUDA programming guide: at least 256 bytes)
BASE_ALIGN = 256

Region = int | Array | None


def invented(m: Machine, x: Any) -> bool:
    """Does a register hold addresses whose base is invented (not shared memory's offsets)?"""
    if type(x) is not Int or x.p is None:
        return False
    items = m.regions.items
    idents = np.unique(np.atleast_1d(np.asarray(x.p)))
    return any(i >= 0 and items[int(i)].space != "shared" for i in idents)


def keep_bits(m: Machine, xs: list[Any], use: str) -> None:
    """Refuse a use of the bits of addresses."""
    if any(invented(m, x) for x in xs):
        raise Unsupported("pointer-bits", f"the bits of an address are {use}")


def _one_region(x: Int, y: Int) -> bool:
    return isinstance(x.p, int) and isinstance(y.p, int) and x.p == y.p


def derived(m: Machine, rule: Any, xs: list[Int]) -> Region:
    """The region of a result. `rule`: join, minus, and, or, c (the last source's) or None (none).

    Raises Unsupported where the bits of an invented address would go on without their region.
    """
    if rule == "minus":
        if not _one_region(xs[0], xs[1]) and xs[1].p is not None:
            keep_bits(m, xs, "subtracted from something else")
        return minus(xs[0].p, xs[1].p)
    if rule in ("and", "or"):
        return _masked(m, rule, xs)
    if rule == "join":
        p: Region = None
        for x in xs:
            if p is not None and x.p is not None and not (isinstance(p, int) and p is x.p):
                keep_bits(m, xs, "combined with those of another")
            p = join(p, x.p)
        return p
    if rule == "c":
        keep_bits(m, xs[:-1], "multiplied or converted") if len(xs) > 1 else None
        return xs[-1].p
    keep_bits(m, xs, "used as a number")
    return None


def _masked(m: Machine, rule: str, xs: list[Int]) -> Region:
    """and, or, xor: only bits below the alignment of bases may be looked at or changed."""
    for x, mask in (xs, xs[::-1]):
        if mask.p is None and x.p is not None:
            if bool((mask.a < BASE_ALIGN).all()):
                return None if rule == "and" else x.p
            if rule == "and" and bool((~mask.a < BASE_ALIGN).all()):
                return x.p
    keep_bits(m, xs, "masked")
    return join(xs[0].p, xs[1].p)


def comparable(m: Machine, x: Int, y: Int) -> None:
    """Refuse a comparison of addresses that hangs on their bases."""
    if (x.p is None and y.p is None) or _one_region(x, y):
        return
    for a, b in ((x, y), (y, x)):
        if a.p is None and not a.a.any() and b.p is not None:
            return
    keep_bits(m, [x, y], "compared")
