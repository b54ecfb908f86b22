"""Integers that depend on inputs: exact modulo their width, as numbers or as bits (DESIGN.md 4).

A register of this kind is an integer of the domain that it equals modulo 2^width, or a word of
bits (`semantics.words`). Sums, differences and products take the integers as they are; what asks
for the number itself (comparisons, conversions, division, widening) takes the integer where its
interval fits the width, else its lowest bits; what moves bits takes the word. Any other function
of such integers is an atom of their unsigned numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import BITS, UNDEF
from kcheck.canon.real import Real
from kcheck.semantics.symbolic_words import WORDS
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Int,
    Mixed,
    Packed,
    Pred,
    Symbolic,
    Unsupported,
    either,
    join,
)
from kcheck.semantics.words import Source, Word, joined, limits, number, signed_number

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

Slots = dict[str, str]
Trick = Callable[["Machine", list[Any]], Any]
# lanes are taken apart by a concrete operand of at most so many values
MOST_AMOUNTS = 32
# functions of two integers in either order
COMMUTATIVE = frozenset({"bit.and", "bit.or", "bit.xor", "int.mul24"})
ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def is_symbolic(x: Any) -> bool:
    """An integer of the domain: computed, or as an input holds it."""
    if type(x) is Packed:
        return is_symbolic(x.lo) or is_symbolic(x.hi)
    return type(x) is Symbolic or (type(x) is Real and x.fmt not in FMT_BYTES and x.fmt != "")


# registers as integers


def as_symbolic(m: Machine, x: Any, size: int) -> Symbolic | None:
    """A register as an integer of the domain, its lowest `size` bytes; None if it is none."""
    if type(x) is Int and x.p is None:
        return _concrete(m, x, size)
    if type(x) is Packed and size == 4:
        halves = [as_symbolic(m, h, 2) for h in m.halves(x)]
        known = [h for h in halves if h is not None]
        return concatenated(m, known) if len(known) == 2 else None
    if type(x) is Real and is_symbolic(x):
        gone = None if x.c is None else x.c == UNDEF
        u = either(m.live(x.u), gone if gone is not None and gone.any() else None)
        x = Symbolic(int(x.fmt[1:]) // 8, Source(x), u=u)
    if type(x) is not Symbolic or x.base is not None or x.size < size:
        return None
    if x.size == size:
        return x
    word = None if x.word is None else x.word.field(0, 8 * size, 8 * size)
    return Symbolic(size, x.source, word=word, step=math.gcd(x.step, 1 << 8 * size), u=x.u)


def _concrete(m: Machine, x: Int, size: int) -> Symbolic:
    a = x.a if x.a.itemsize == size else x.a.astype(UNSIGNED[size])
    numbers = a.view(f"i{size}")
    step = math.gcd(*np.unique(numbers).tolist())
    live = np.broadcast_to(a, (m.lanes,))[m.group()]
    word = Word(8 * size, (), int(live[0])) if live.size and (live == live[0]).all() else None
    source = Source(m.reals.from_ids(m.reals.integers(numbers)))
    return Symbolic(size, source, word=word, step=step, u=m.live(x.u))


def concatenated(m: Machine, xs: list[Symbolic]) -> Symbolic:
    """Registers as one, lowest first."""
    size = sum(x.size for x in xs)
    return Symbolic(size, None, word=joined([x.bits for x in xs]), u=_undefined(m, xs))


def congruent(m: Machine, x: Symbolic) -> Real[Any]:
    """An integer that the register is modulo its width."""
    if x.source is None:
        assert x.word is not None
        x.source = Source(number(m.reals, x.word))
        x.step = math.gcd(x.word.ones, *(1 << p.at for p in x.word.pieces))
    return x.source.n


def _fits(m: Machine, n: Real[Any], low: int, high: int, u: Any) -> bool:
    """Within [low, high] in all lanes of the group that are defined."""
    least, greatest = m.reals.ends(n)
    inside = np.broadcast_to((least >= low) & (greatest <= high), (m.lanes,))
    live = m.group() if m.live(u) is None else m.group() & ~u
    return bool((inside | ~live).all())


def view(m: Machine, x: Symbolic, signed: bool) -> Real[Any]:
    """The register's number, read with or without sign."""
    n = congruent(m, x)
    if _fits(m, n, *limits(8 * x.size, signed), x.u):
        return n
    word = x.bits
    return signed_number(m.reals, word) if signed else number(m.reals, word)


def made(
    m: Machine, n: Real[Any], size: int, *parts: Symbolic, step: int = 1, factor: Any = None
) -> Symbolic:
    """A result: undefined where one of its parts is."""
    source = Source(n) if factor is None else Source(n, *factor)
    return Symbolic(size, source, step=step, u=_undefined(m, parts))


def _undefined(m: Machine, parts: Any) -> Any:
    u = None
    for part in parts:
        u = either(u, m.live(part.u))
    return u


# arithmetic


def _sum(m: Machine, x: Symbolic, y: Symbolic) -> Symbolic:
    n = m.reals.add(congruent(m, x), congruent(m, y))
    return made(m, n, x.size, x, y, step=math.gcd(x.step, y.step))


def _negative(m: Machine, x: Symbolic) -> Symbolic:
    return made(m, m.reals.neg(congruent(m, x)), x.size, x, step=x.step)


def _added(m: Machine, x: Any, y: Any, size: int) -> Any:
    """A sum, one side of which may be an address."""
    for pointer, other in ((x, y), (y, x)):
        base = pointer.base if type(pointer) is Symbolic else pointer
        if type(base) is not Int or base.p is None:
            continue
        if type(other) is Int:
            total = Int(base.a + other.a, join(base.p, other.p), either(base.u, other.u))
            return _offset(pointer, total)
        offset = as_symbolic(m, other, size)
        if offset is None:
            return None
        if type(pointer) is Symbolic:
            offset = _sum(m, _offset(pointer, None), offset)
        congruent(m, offset)
        return _offset(offset, base)
    a, b = as_symbolic(m, x, size), as_symbolic(m, y, size)
    return None if a is None or b is None else _sum(m, a, b)


def _offset(x: Symbolic, base: Int | None) -> Symbolic:
    """An offset from another address, or from none."""
    return Symbolic(x.size, x.source, step=x.step, base=base, u=x.u)


def _all(m: Machine, xs: list[Any], sizes: list[int]) -> list[Symbolic] | None:
    found = [as_symbolic(m, x, size) for x, size in zip(xs, sizes, strict=True)]
    return None if any(x is None for x in found) else [x for x in found if x is not None]


def _size(slots: Slots) -> int:
    return int(slots["type"][1:]) // 8


def _add(slots: Slots) -> Trick:
    return lambda m, xs: _added(m, xs[0], xs[1], _size(slots))


def _sub(slots: Slots) -> Trick:
    def trick(m: Machine, xs: list[Any]) -> Any:
        b = as_symbolic(m, xs[1], _size(slots))
        return None if b is None else _added(m, xs[0], _negative(m, b), _size(slots))

    return trick


def _neg(slots: Slots) -> Trick:
    def trick(m: Machine, xs: list[Any]) -> Any:
        a = as_symbolic(m, xs[0], _size(slots))
        return None if a is None else _negative(m, a)

    return trick


def _mul(slots: Slots) -> Trick:
    """mul.lo, mul.hi, mul.wide; with a third source mad."""
    signed, size, high = slots["type"][0] == "s", _size(slots), slots.get("mode") == "hi"
    wide = 1 if slots.get("mode") == "lo" else 2

    def trick(m: Machine, xs: list[Any]) -> Any:
        found = _all(m, xs[:2], [size, size])
        if found is None:
            return None
        a, b = found
        # modulo the width a product has no sign, a wide one has
        x, y = (congruent(m, v) if wide == 1 else view(m, v, signed) for v in (a, b))
        most = 1 << 8 * size if wide == 2 and not signed else 1 << 8 * size - 1
        pairs = ((x, b.bits), (y, a.bits))
        factor = next(((n, w.ones) for n, w in pairs if not w.pieces and 0 < w.ones < most), None)
        n = m.reals.mul(x, y)
        product = made(m, n, wide * size, a, b, step=a.step * b.step, factor=factor)
        if high:
            upper = product.bits.field(8 * size, 8 * size, 8 * size)
            product = Symbolic(size, None, word=upper, u=product.u)
        return product if len(xs) == 2 else _added(m, product, xs[2], product.size)

    return trick


def _extreme(name: str) -> Callable[[Slots], Trick]:
    def make(slots: Slots) -> Trick:
        signed, size = slots["type"][0] == "s", _size(slots)

        def trick(m: Machine, xs: list[Any]) -> Any:
            found = _all(m, xs, [size, size])
            if found is None:
                return None
            a, b = found
            n = getattr(m.reals, name)(view(m, a, signed), view(m, b, signed))
            return made(m, n, size, a, b, step=math.gcd(a.step, b.step))

        return trick

    return make


def _abs(slots: Slots) -> Trick:
    def trick(m: Machine, xs: list[Any]) -> Any:
        a = as_symbolic(m, xs[0], _size(slots))
        return None if a is None else made(m, m.reals.abs(view(m, a, True)), a.size, a, step=a.step)

    return trick


def quotient(m: Machine, xs: list[Any], t: str) -> Symbolic | None:
    """div by a number that is the same in all lanes; None if it isn't, or is 0."""
    found = _divided(m, xs, t)
    return None if found is None else made(m, found[2], found[0].size, found[0])


def remainder(m: Machine, xs: list[Any], t: str) -> Symbolic | None:
    """rem by a number that is the same in all lanes; None if it isn't, or is 0."""
    found = _divided(m, xs, t)
    if found is None:
        return None
    a, c, q = found
    rest = m.reals.sub(view(m, a, t[0] == "s"), m.reals.mul(m.reals.constant(c), q))
    return made(m, m.reals.narrow(rest, 1 - abs(c) if t[0] == "s" else 0, abs(c) - 1), a.size, a)


def _divided(m: Machine, xs: list[Any], t: str) -> tuple[Symbolic, int, Real[Any]] | None:
    """The dividend, the divisor, and the quotient."""
    size, signed = int(t[1:]) // 8, t[0] == "s"
    found = _all(m, xs, [size, size])
    if found is None or found[1].bits.pieces or not found[1].bits.ones:
        return None
    a, b = found
    c = b.bits.ones
    c -= (c >> 8 * size - 1 << 8 * size) if signed else 0
    x = view(m, a, signed)
    rounding = "floor" if c > 0 and _fits(m, x, 0, 1 << 8 * size, a.u) else "trunc"
    return a, c, m.reals.function(rounding, m.reals.div(x, m.reals.constant(c)))


def _dot(slots: Slots) -> Trick:
    """dp4a, dp2a: c plus the products of the bytes (or halves) of a and the bytes of b."""
    signs = slots["atype"][0] == "s", slots["btype"][0] == "s"
    lanes = {"": range(4), "lo": range(2), "hi": range(2, 4)}[slots.get("mode", "")]
    wide = 8 if len(lanes) == 4 else 16

    def trick(m: Machine, xs: list[Any]) -> Any:
        found = _all(m, xs, [4, 4, 4])
        if found is None:
            return None
        a, b, c = found
        n = congruent(m, c)
        for i, lane in enumerate(lanes):
            x = Symbolic(wide // 8, None, word=a.bits.field(i * wide, wide, wide))
            y = Symbolic(1, None, word=b.bits.field(8 * lane, 8, 8))
            n = m.reals.add(n, m.reals.mul(view(m, x, signs[0]), view(m, y, signs[1])))
        return made(m, n, 4, a, b, c)

    return trick


# form -> what it does to the integers
NUMBERS: dict[str, Callable[[Slots], Trick]] = {
    "int.add": _add,
    "int.sub": _sub,
    "int.neg": _neg,
    "int.abs": _abs,
    "int.mul": _mul,
    "int.mul.wide": _mul,
    "int.mad": _mul,
    "int.mad.wide": _mul,
    "int.max": _extreme("maximum"),
    "int.min": _extreme("minimum"),
    "int.dp4a": _dot,
    "int.dp2a": _dot,
}


def with_symbolic(
    name: str, slots: Slots, trick: Trick | None, sizes: tuple[int, ...], size: int
) -> Trick:
    """The trick of a form, after what it does to symbolic integers: sources and result in bytes."""
    numbers = NUMBERS[name](slots) if name in NUMBERS else None
    words = WORDS[name](slots) if name in WORDS else None
    form = " ".join([name, *(f"{k}={v}" for k, v in sorted(slots.items()) if v)])

    def by_words(m: Machine, xs: list[Any]) -> Any:
        found = _all(m, xs, list(sizes))
        if found is None:
            return None
        word = None if words is None else words([x.bits for x in found])
        if word is None:
            return _opaque(m, form, found, size)
        return Symbolic(size, None, word=word, u=_undefined(m, found))

    def symbolic(m: Machine, xs: list[Any]) -> Any:
        if numbers is not None:
            return numbers(m, xs)
        if words is None:
            return by_words(m, xs)
        return _by_amounts(m, xs, sizes, by_words)

    def either_trick(m: Machine, xs: list[Any]) -> Any:
        if any(is_symbolic(x) for x in xs):
            result = symbolic(m, xs)
            if result is not None:
                return result
        return None if trick is None else trick(m, xs)

    return either_trick


def _by_amounts(m: Machine, xs: list[Any], sizes: tuple[int, ...], f: Trick) -> Any:
    """f of lanes whose concrete sources (shift amounts, masks) agree, one after another."""
    at = next((i for i, x in enumerate(xs) if type(x) is Int and not _same(m, x)), None)
    if at is None:
        return f(m, xs)
    a, group = np.broadcast_to(xs[at].a, (m.lanes,)), m.group()
    outer, parts, amounts = (m.mask, m.notmask), [], np.unique(a[group])
    if len(amounts) > MOST_AMOUNTS:
        return f(m, xs)
    for amount in amounts:
        lanes = group & (a == amount)
        m.mask, m.notmask = lanes, ~lanes
        try:
            one = Int(np.full(1, amount), None, xs[at].u)
            parts.append((lanes, _by_amounts(m, [*xs[:at], one, *xs[at + 1 :]], sizes, f)))
        finally:
            m.mask, m.notmask = outer
    return None if any(x is None for _, x in parts) else Mixed(parts)


def _same(m: Machine, x: Int) -> bool:
    live = np.broadcast_to(x.a, (m.lanes,))[m.group()]
    return bool((live == live[:1]).all())


def _opaque(m: Machine, form: str, xs: list[Symbolic], size: int) -> Symbolic:
    """A function that is known by its name only."""
    numbers = [view(m, x, signed=False) for x in xs]
    if form.split()[0] in COMMUTATIVE:
        a, b = numbers
        numbers = [m.reals.add(a, b), m.reals.mul(a, b)]  # the same in both orders, and only there
    args = [m.reals.value(n) for n in numbers]
    n = m.reals.symbolic(m.domain.atom(f"{BITS}{form}", args))
    return made(m, m.reals.narrow(n, 0, (1 << 8 * size) - 1), size, *xs)


# conversions


def converted(
    m: Machine, x: Any, source: str, target: str, register: int, sat: bool = False
) -> Symbolic | None:
    """cvt between integer types, or a load into a wider register, of `register` bytes."""
    a = as_symbolic(m, x, int(source[1:]) // 8) if is_symbolic(x) else None
    if a is None:
        return None
    signed, bits = source[0] == "s", int(target[1:])
    if sat:
        n = m.reals.clamp(view(m, a, signed), *limits(bits, target[0] == "s"))
        a = made(m, n, bits // 8, a)
    return _resized(m, _resized(m, a, bits // 8, signed), register, target[0] == "s")


def _resized(m: Machine, x: Symbolic, size: int, signed: bool) -> Symbolic:
    if size <= x.size:
        return as_symbolic(m, x, size) or x
    bits = 8 * x.size
    if x.word is None and _fits(m, congruent(m, x), *limits(bits, signed), x.u):
        return Symbolic(size, x.source, step=x.step, u=x.u)
    word = x.bits.filled(bits, 8 * size) if signed else x.bits.field(0, bits, 8 * size)
    return Symbolic(size, None, word=word, u=x.u)


def compared(m: Machine, cmp: str, t: str, x: Any, y: Any) -> Pred | None:
    """setp on symbolic integers, decided by the domain or symbolic; None if they are none."""
    if not (is_symbolic(x) or is_symbolic(y)):
        return None
    size, unsigned = int(t[1:]) // 8, cmp in ORDER or t[0] == "u"
    found = _all(m, [x, y], [size, size])
    if found is None:
        return None
    a, b = (view(m, v, not unsigned) for v in found)
    cmp = ORDER.get(cmp, cmp)
    if cmp in ("le", "gt"):  # of integers there is no need for all four orders
        b = m.reals.add(b, m.reals.constant(1))
    known, v = m.reals.compare({"le": "lt", "gt": "ge"}.get(cmp, cmp), False, a, b)
    bad, unknown = known >= 2, known < 0
    u = either(_undefined(m, found), bad if bad.any() else None)
    return Pred(known == 1, unknown if unknown.any() else None, v, u)


def stored(m: Machine, x: Any, size: int) -> Real[Any]:
    """A symbolic integer as memory holds it."""
    if type(x) is Symbolic and x.base is not None:
        raise Unsupported("symbolic-address", "an address that depends on an input is stored")
    low = as_symbolic(m, x, size)
    if low is None:
        raise Unsupported("symbolic-int", "an integer of the inputs beside a float is stored")
    # the integer itself if it fits, so that a copy stays one
    signed = _fits(m, congruent(m, low), *limits(8 * size, True), low.u) or not _fits(
        m, congruent(m, low), *limits(8 * size, False), low.u
    )
    n = view(m, low, signed)
    real: Real[Any] = Real(n.v, n.c, n.kind, f"{'us'[signed]}{8 * size}")
    real.u = low.u
    return real


def to_float(m: Machine, x: Any, t: str) -> Real[Any] | None:
    """cvt from an integer type to a float; no format is set. None if x is no symbolic integer."""
    a = as_symbolic(m, x, int(t[1:]) // 8) if is_symbolic(x) else None
    if a is None:
        return None
    n = view(m, a, t[0] == "s")
    u = m.live(a.u)
    real: Real[Any] = Real(n.v, n.c, n.kind)
    if u is not None:
        ids = np.where(u, UNDEF, m.reals.ids(n, (m.lanes,))).astype(np.int32)
        real = m.reals.mixed(n.v, ids)
    return real


def from_float(m: Machine, x: Real[Any], t: str, register: int) -> Symbolic | Int:
    """cvt of a rounded number of the domain to an integer type, which saturates."""
    bits, signed = int(t[1:]), t[0] == "s"
    low, high = limits(bits, signed)
    n = m.reals.narrow(m.reals.clamp(x, low, high), low, high)
    numbers = m.points(n)
    if numbers is not None:
        return Int(numbers.astype(UNSIGNED[register]))
    return _resized(m, Symbolic(bits // 8, Source(n)), register, signed)
