"""What integer instructions do to integers that depend on inputs: one row each.

Sums, differences and products take the integers as they are; what asks for the number itself
takes its view; what moves bits takes the word (`semantics.symbolic_words`). Any other function is
an atom of the unsigned numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import BITS
from kcheck.canon.lanes import Real
from kcheck.semantics.linear import scaled, summed
from kcheck.semantics.symbolic_integers import (
    all_symbolic,
    as_symbolic,
    bits_of,
    congruent,
    fits,
    is_symbolic,
    made,
    undefined_lanes,
    view,
)
from kcheck.semantics.symbolic_words import WORDS
from kcheck.semantics.values import Int, Mixed, Symbolic, either, join
from kcheck.semantics.words import Source, truncated

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

Slots = dict[str, str]
Trick = Callable[["Machine", list[Any]], Any]
# lanes are taken apart by a concrete operand of at most so many values
MOST_AMOUNTS = 32
# functions of two integers in either order
COMMUTATIVE = frozenset({"bit.and", "bit.or", "bit.xor", "int.mul24"})


def _sum(m: Machine, x: Symbolic, y: Symbolic) -> Symbolic:
    source = summed(m.reals, _source(m, x), _source(m, y))
    u = undefined_lanes(m, (x, y))
    return Symbolic(x.size, source, step=math.gcd(x.step, y.step), u=u)


def _source(m: Machine, x: Symbolic) -> Source:
    congruent(m, x)
    assert x.source is not None
    return x.source


def _negative(m: Machine, x: Symbolic) -> Symbolic:
    source = scaled(_source(m, x), m.reals.neg(congruent(m, x)), -1)
    return Symbolic(x.size, source, step=x.step, u=undefined_lanes(m, (x,)))


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
        found = all_symbolic(m, xs[:2], [size, size])
        if found is None:
            return None
        a, b = found
        # modulo the width a product has no sign, a wide one has
        x, y = (congruent(m, v) if wide == 1 else view(m, v, signed) for v in (a, b))
        most = 1 << 8 * size if wide == 2 and not signed else 1 << 8 * size - 1
        pairs = ((x, b.bits), (y, a.bits))
        factor = next(((n, w.ones) for n, w in pairs if not w.pieces and 0 < w.ones < most), None)
        for n, other in ((x, y), (y, x)):
            by = m.reals.known_integer(other) if signed and factor is None else None
            factor = (n, by) if by else factor
        n = m.reals.mul(x, y)
        product = made(m, n, wide * size, a, b, step=a.step * b.step, factor=factor)
        for v, other in ((a, y), (b, x)):
            by = m.reals.known_integer(other) if wide == 1 else None
            if by is not None and product.source is not None:
                terms = scaled(_source(m, v), n, by).terms
                product.source = replace(product.source, terms=terms)
        if high:
            upper = product.bits.field(8 * size, 8 * size, 8 * size)
            product = Symbolic(size, None, word=upper, u=product.u)
        return product if len(xs) == 2 else _added(m, product, xs[2], product.size)

    return trick


def _extreme(name: str) -> Callable[[Slots], Trick]:
    def make(slots: Slots) -> Trick:
        signed, size = slots["type"][0] == "s", _size(slots)

        def trick(m: Machine, xs: list[Any]) -> Any:
            found = all_symbolic(m, xs, [size, size])
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
    found = all_symbolic(m, xs, [size, size])
    if found is None or found[1].bits.pieces or not found[1].bits.ones:
        return None
    a, b = found
    c = b.bits.ones
    c -= (c >> 8 * size - 1 << 8 * size) if signed else 0
    x = view(m, a, signed)
    if c > 0 and fits(m, x, 0, 1 << 8 * size, a.u):
        return a, c, m.reals.function("floor", m.reals.div(x, m.reals.constant(c)))
    q = truncated(m.reals, x, abs(c))
    return a, c, q if c > 0 else m.reals.neg(q)


def _dot(slots: Slots) -> Trick:
    """dp4a, dp2a: c plus the products of the bytes (or halves) of a and the bytes of b."""
    signs = slots["atype"][0] == "s", slots["btype"][0] == "s"
    lanes = {"": range(4), "lo": range(2), "hi": range(2, 4)}[slots.get("mode", "")]
    wide = 8 if len(lanes) == 4 else 16

    def trick(m: Machine, xs: list[Any]) -> Any:
        found = all_symbolic(m, xs, [4, 4, 4])
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
        found = all_symbolic(m, xs, list(sizes))
        if found is None:
            return None
        word = None if words is None else words([bits_of(m, x) for x in found])
        if word is None:
            return _opaque(m, form, found, size)
        u = undefined_lanes(m, found)
        if name != "bit.shl":
            return Symbolic(size, None, word=word, u=u)
        # a product as well, modulo the width
        x, factor = found[0], 1 << min(found[1].bits.ones, 8 * size)
        n = m.reals.mul(congruent(m, x), m.reals.constant(factor))
        source = scaled(_source(m, x), n, factor)
        return Symbolic(size, source, word=word, step=x.step * factor, u=u)

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
