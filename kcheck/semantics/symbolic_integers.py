"""Integers that depend on inputs: exact while their interval stays within their width.

An integer input whose precondition gives a range is a real of the domain that is an integer; so
are sums, differences and products with known numbers, as long as the interval of the result fits
the signed numbers of its width (DESIGN.md 4, `Bits`). What may leave it, and what has no interval,
is refused. Their use is a read-only gather: a table at a symbolic index is an atom of the index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import GATHER
from kcheck.canon.real import Real
from kcheck.launch import DTYPE_BYTES
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Array,
    Int,
    Mixed,
    Packed,
    Pred,
    Symbolic,
    Unsupported,
    either,
    join,
)

if TYPE_CHECKING:
    from kcheck.semantics.access import Address
    from kcheck.semantics.machine import Machine

Slots = dict[str, str]
Trick = Callable[["Machine", list[Any]], Any]
ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def is_symbolic(x: Any) -> bool:
    """An integer of the domain: computed, or as an input holds it."""
    return type(x) is Symbolic or (type(x) is Real and x.fmt not in FMT_BYTES and x.fmt != "")


def _number(m: Machine, x: Any, size: int, signed: bool) -> Symbolic | None:
    """A register as an integer of the domain, read with or without sign; None if it is none."""
    if type(x) is Int and x.p is None:
        a = x.a if x.a.itemsize == size else x.a.astype(UNSIGNED[size])
        numbers = a.view(f"i{size}") if signed else a
        step = abs(int(np.gcd.reduce(numbers.astype(np.int64), axis=None)))
        return Symbolic(m.reals.from_ids(m.reals.integers(numbers)), step, size, None, x.u)
    if type(x) is Real and is_symbolic(x):
        x = Symbolic(x, 1, int(x.fmt[1:]) // 8, None, x.u)
    if type(x) is not Symbolic or x.size != size or x.base is not None:
        return None
    low, high = _limits(size) if signed else (0, 2 ** (8 * size) - 1)
    _fits(m, x.n, low, high, x.u)
    return x


def _limits(size: int) -> tuple[int, int]:
    half = 2 ** (8 * size - 1)
    return -half, half - 1


def interval(m: Machine, n: Real[Any]) -> tuple[Array, Array]:
    """Least and greatest value per lane, by the domain; refused if it has none."""
    ends = m.reals.ends(n)
    if ends is None:
        raise Unsupported(
            "symbolic-int", "arithmetic on an integer input without `values:` or range:"
        )
    return ends


def _fits(m: Machine, n: Real[Any], low: int, high: int, u: Any) -> None:
    least, greatest = interval(m, n)
    inside = np.broadcast_to((least >= low) & (greatest <= high), (m.lanes,))
    live = m.group() if m.live(u) is None else m.group() & ~u
    if not (inside | ~live).all():
        raise Unsupported("symbolic-int", f"a symbolic integer may leave {low} to {high}")


def _made(m: Machine, n: Real[Any], step: int, size: int, *parts: Symbolic) -> Symbolic:
    """A result, which must be a signed number of its size."""
    u = None
    for part in parts:
        u = either(u, m.live(part.u))
    _fits(m, n, *_limits(size), u)
    return Symbolic(n, step, size, None, u)


def _sum(m: Machine, x: Symbolic, y: Symbolic, size: int) -> Symbolic:
    return _made(m, m.reals.add(x.n, y.n), math.gcd(x.step, y.step), size, x, y)


def _product(m: Machine, x: Symbolic, y: Symbolic, size: int) -> Symbolic:
    return _made(m, m.reals.mul(x.n, y.n), x.step * y.step, size, x, y)


def _added(m: Machine, x: Any, y: Any, size: int) -> Any:
    """A sum, one side of which may be an address."""
    for pointer, other in ((x, y), (y, x)):
        base = pointer.base if type(pointer) is Symbolic else pointer
        if type(base) is not Int or base.p is None:
            continue
        if type(other) is Int:
            total = Int(base.a + other.a, join(base.p, other.p), either(base.u, other.u))
            return Symbolic(pointer.n, pointer.step, size, total, pointer.u)
        offset = _number(m, other, size, signed=True)
        if offset is None:
            return None
        if type(pointer) is Symbolic:
            rest = Symbolic(pointer.n, pointer.step, size, None, pointer.u)
            offset = _sum(m, rest, offset, size)
        return Symbolic(offset.n, offset.step, size, base, offset.u)
    a, b = _number(m, x, size, signed=True), _number(m, y, size, signed=True)
    return None if a is None or b is None else _sum(m, a, b, size)


def _add(slots: Slots) -> Trick:
    size = int(slots["type"][1:]) // 8
    return lambda m, xs: _added(m, xs[0], xs[1], size)


def _sub(slots: Slots) -> Trick:
    size = int(slots["type"][1:]) // 8

    def trick(m: Machine, xs: list[Any]) -> Any:
        b = _number(m, xs[1], size, signed=True)
        if b is None:
            return None
        return _added(m, xs[0], Symbolic(m.reals.neg(b.n), b.step, size, None, b.u), size)

    return trick


def _mul(slots: Slots) -> Trick:
    """mul.lo, mul.wide; with a third source mad."""
    if slots.get("mode") == "hi":
        return lambda m, xs: None
    signed, size = slots["type"][0] == "s", int(slots["type"][1:]) // 8
    wide = 1 if slots.get("mode") else 2

    def trick(m: Machine, xs: list[Any]) -> Any:
        # modulo the width a product has no sign, a wide one has
        a, b = (_number(m, x, size, signed or wide == 1) for x in xs[:2])
        if a is None or b is None:
            return None
        product = _product(m, a, b, size * wide)
        return product if len(xs) == 2 else _added(m, product, xs[2], size * wide)

    return trick


def _shl(slots: Slots) -> Trick:
    size = int(slots["type"][1:]) // 8

    def trick(m: Machine, xs: list[Any]) -> Any:
        a, by = _number(m, xs[0], size, signed=True), xs[1]
        if a is None or type(by) is not Int or (by.a >= 8 * size - 1).any():
            return None
        power = Int(UNSIGNED[size](1) << by.a.astype(UNSIGNED[size]), None, by.u)
        factor = _number(m, power, size, signed=False)
        return None if factor is None else _product(m, a, factor, size)

    return trick


def _extreme(name: str) -> Callable[[Slots], Trick]:
    def make(slots: Slots) -> Trick:
        signed, size = slots["type"][0] == "s", int(slots["type"][1:]) // 8

        def trick(m: Machine, xs: list[Any]) -> Any:
            a, b = (_number(m, x, size, signed) for x in xs)
            if a is None or b is None:
                return None
            n = getattr(m.reals, name)(a.n, b.n)
            return _made(m, n, math.gcd(a.step, b.step), size, a, b)

        return trick

    return make


# form -> what it does where a source is a symbolic integer
SYMBOLIC: dict[str, Callable[[Slots], Trick]] = {
    "int.add": _add,
    "int.sub": _sub,
    "int.mul": _mul,
    "int.mul.wide": _mul,
    "int.mad": _mul,
    "int.mad.wide": _mul,
    "bit.shl": _shl,
    "int.max": _extreme("maximum"),
    "int.min": _extreme("minimum"),
}


def with_symbolic(name: str, slots: Slots, trick: Trick | None) -> Trick | None:
    """The trick of a form, after the one for symbolic integers."""
    if name not in SYMBOLIC:
        return trick
    symbolic = SYMBOLIC[name](slots)

    def either_trick(m: Machine, xs: list[Any]) -> Any:
        if any(is_symbolic(x) for x in xs):
            return symbolic(m, xs)
        return None if trick is None else trick(m, xs)

    return either_trick


def converted(m: Machine, x: Any, source: str, target: str) -> Symbolic | None:
    """cvt between integer types, a widening load: the same number if it fits."""
    a = _number(m, x, int(source[1:]) // 8, source[0] == "s") if is_symbolic(x) else None
    return None if a is None else _made(m, a.n, a.step, int(target[1:]) // 8, a)


def compared(m: Machine, cmp: str, t: str, x: Any, y: Any) -> Pred | None:
    """setp on symbolic integers, decided by the domain or symbolic; None if they are none."""
    if not (is_symbolic(x) or is_symbolic(y)):
        return None
    size, unsigned = int(t[1:]) // 8, cmp in ORDER or t[0] == "u"
    a, b = (_number(m, v, size, not unsigned) for v in (x, y))
    if a is None or b is None:
        return None
    known, v = m.reals.compare(ORDER.get(cmp, cmp), False, a.n, b.n)
    bad, unknown = known >= 2, known < 0
    u = either(either(m.live(a.u), m.live(b.u)), bad if bad.any() else None)
    return Pred(known == 1, unknown if unknown.any() else None, v, u)


def stored(m: Machine, x: Symbolic, size: int) -> Real[Any]:
    """A symbolic integer as memory holds it."""
    if x.base is not None or x.size != size:
        raise Unsupported("symbolic-int", f"{x.size} bytes of an integer are stored as {size}")
    _fits(m, x.n, *_limits(size), x.u)
    n = Real(x.n.v, x.n.c, x.n.kind, f"s{8 * size}")
    n.u = x.u
    return n


# gathers


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
    if (np.broadcast_to(m.reals.specials(x.n), (m.lanes,)) & m.group()).any():
        raise Unsupported("symbolic-address", "an index that may be undefined")
    low, high = interval(m, x.n)
    last = region.nbytes - size * count
    inside = np.broadcast_to((low + start >= 0) & (high + start <= last), (m.lanes,))
    if not (inside | ~m.group()).all():
        message = f"a symbolic index may lie outside {region.name}"
        raise Unsupported("symbolic-address", message)
    aligned = np.broadcast_to(start % (size * count) == 0, (m.lanes,))
    if x.step % (size * count) or not (aligned | ~m.group()).all():
        raise Unsupported("symbolic-address", f"{region.name} at an index that may be misaligned")
    scaled = m.reals.mul(x.n, m.reals.constant(Fraction(1, width)))
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
