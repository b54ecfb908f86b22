"""Read-only gathers: a table at a symbolic index is an atom of the table and the index."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import GATHER
from kcheck.canon.lanes import Real
from kcheck.launch import DTYPE_BYTES
from kcheck.semantics.symbolic_integers import congruent
from kcheck.semantics.values import Array, Mixed, Packed, Symbolic, Unsupported, either

if TYPE_CHECKING:
    from kcheck.semantics.access import Address
    from kcheck.semantics.machine import Machine


def address_of(m: Machine, at: Address) -> Symbolic | None:
    """The address of a load if it is symbolic in all lanes of the group."""
    x = m.regs[at.slot]
    if type(x) is Mixed:
        parts = m.live_parts(x)
        x = parts[0][1] if len(parts) == 1 else x
    return x if type(x) is Symbolic else None


def gathered(m: Machine, x: Symbolic, at: Address, size: int, count: int) -> list[Any]:
    """`count` registers of `size` bytes from a read-only buffer at a symbolic place in it."""
    base = x.base
    if base is None or not isinstance(base.p, int) or m.live(either(x.u, base.u)) is not None:
        raise Unsupported("symbolic-address", "an address depends on an input, and on no buffer")
    region = m.regions.items[base.p]
    tensor = region.tensor
    if tensor is None or not region.readonly:
        raise Unsupported("symbolic-address", f"{region.name} at a symbolic index is not read-only")
    width = DTYPE_BYTES[tensor.dtype]
    halves = size == 2 * width == 4
    if not halves and size != width:
        raise Unsupported("reinterpret", f"{size} bytes of {tensor.dtype} at a symbolic index")
    start = base.a.astype(np.int64) + at.offset - region.base
    n = congruent(m, x)
    if (np.broadcast_to(m.reals.specials(n), (m.lanes,)) & m.group()).any():
        raise Unsupported("symbolic-address", "an index that may be undefined")
    low, high = m.reals.ends(n)
    last = region.nbytes - size * count
    inside = np.broadcast_to((low + start >= 0) & (high + start <= last), (m.lanes,))
    if not (inside | ~m.group()).all():
        message = f"a symbolic index may lie outside {region.name}"
        raise Unsupported("symbolic-address", message)
    aligned = np.broadcast_to(start % (size * count) == 0, (m.lanes,))
    if x.step % (size * count) or not (aligned | ~m.group()).all():
        raise Unsupported("symbolic-address", f"{region.name} at an index that may be misaligned")
    scaled = m.reals.mul(n, m.reals.constant(Fraction(1, width)))
    out = [
        _element(m, scaled, start // width + i, region.name, tensor.dtype)
        for i in range(count * size // width)
    ]
    return out if not halves else [Packed(*out[i : i + 2]) for i in range(0, len(out), 2)]


def _element(m: Machine, scaled: Real[Any], first: Array, name: str, dtype: str) -> Real[Any]:
    """Element `scaled + first` of a table: an atom of the table and the index."""
    index = m.reals.add(scaled, m.reals.from_ids(m.reals.integers(first)))
    element = m.reals.symbolic(m.domain.atom(f"{GATHER}{name}", [m.reals.value(index)]))
    element.fmt = {"tf32": "f32", "e4m3": "u8", "e5m2": "u8"}.get(dtype, dtype)
    return element
