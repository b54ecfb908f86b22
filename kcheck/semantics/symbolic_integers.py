"""Integers that depend on inputs: exact modulo their width, as numbers or as bits (DESIGN.md 4).

A register of this kind is an integer of the domain that it equals modulo 2^width, or a word of
bits (`semantics.words`). What asks for the number itself (comparisons, conversions, division,
widening) takes the integer where its interval fits the width, else what its lowest bits are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import UNDEF
from kcheck.canon.lanes import Real
from kcheck.semantics.linear import terms_of
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Int,
    Packed,
    Pred,
    Rows,
    Symbolic,
    Unsupported,
    either,
)
from kcheck.semantics.words import Source, Word, floored, joined, limits, number, signed_number

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

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
    if x.size == size and x.word is not None and not x.word.pieces:
        # bits that are all known are a number, whatever it was made of
        signed = x.word.ones - (x.word.ones >> 8 * size - 1 << 8 * size)
        return Symbolic(size, Source(m.reals.constant(signed)), word=x.word, u=x.u)
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
    return Symbolic(size, None, word=joined([x.bits for x in xs]), u=undefined_lanes(m, xs))


def all_symbolic(m: Machine, xs: list[Any], sizes: list[int]) -> list[Symbolic] | None:
    """Registers as integers of the domain; None if one is none."""
    found = [as_symbolic(m, x, size) for x, size in zip(xs, sizes, strict=True)]
    return None if any(x is None for x in found) else [x for x in found if x is not None]


def congruent(m: Machine, x: Symbolic) -> Real[Any]:
    """An integer that the register is modulo its width."""
    if x.source is None:
        assert x.word is not None
        x.source = x.word.lowest or _of_the_top(m, x.word)
    if x.source is None:
        assert x.word is not None
        # what was widened with its sign is a small number with that
        narrow = x.word.unfilled
        signed = narrow.bits < x.word.bits
        x.source = Source((signed_number if signed else number)(m.reals, narrow))
        x.step = math.gcd(x.word.ones, *(1 << p.at for p in x.word.pieces))
    return x.source.n


def _of_the_top(m: Machine, word: Word) -> Source | None:
    """What a word is modulo its width, if it is one row of bits that reaches its top: an integer
    shifted right, or an integer less its lowest bits.
    """
    p = word.pieces[0] if len(word.pieces) == 1 and not word.ones else None
    if p is None or p.inverted or p.end != word.bits or p.lo == 0:
        return None
    if p.at == 0 and p.source.base is not None:
        n, shift = floored(m.reals, p.source, p.lo), p.source.shift + p.lo
        return Source(n, p.source.base, p.source.factor, shift=shift)
    if p.lo != p.at:
        return None
    low = number(m.reals, Word(p.at, (p._replace(at=0, lo=0, length=p.at),), 0))
    n = m.reals.sub(p.source.n, low)
    least, greatest = m.reals.ends(p.source.n)
    if (least >= 0).all():
        n = m.reals.narrow(n, 0, float(np.max(greatest)))
    return Source(n, terms=(*terms_of(p.source), (low, -1)))


def bits_of(m: Machine, x: Symbolic) -> Word:
    """The bits: of what is known to be a small number, not negative, zeros above it."""
    if x.word is not None or x.source is None:
        return x.bits
    low, high = (np.broadcast_to(end, (m.lanes,)) for end in m.reals.ends(x.source.n))
    u = m.live(x.u)
    live = m.group() if u is None else m.group() & ~u
    if not live.any() or low[live].min() < 0 or not np.isfinite(high[live]).all():
        return x.bits
    length = int(high[live].max()).bit_length()
    return x.bits.field(0, length, 8 * x.size)


def fits(m: Machine, n: Real[Any], low: int, high: int, u: Any) -> bool:
    """Within [low, high] in all lanes of the group that are defined."""
    least, greatest = m.reals.ends(n)
    # no float is the greatest number of 64 bits, but the next power of 2 is one
    inside = np.broadcast_to((least >= low) & (greatest < high + 1), (m.lanes,))
    live = m.group() if m.live(u) is None else m.group() & ~u
    return bool((inside | ~live).all())


def view(m: Machine, x: Symbolic, signed: bool) -> Real[Any]:
    """The register's number, read with or without sign."""
    n = congruent(m, x)
    if fits(m, n, *limits(8 * x.size, signed), x.u):
        return n
    word = x.bits
    return signed_number(m.reals, word) if signed else number(m.reals, word)


def made(
    m: Machine, n: Real[Any], size: int, *parts: Symbolic, step: int = 1, factor: Any = None
) -> Symbolic:
    """A result: undefined where one of its parts is."""
    source = Source(n) if factor is None else Source(n, *factor)
    return Symbolic(size, source, step=step, u=undefined_lanes(m, parts))


def undefined_lanes(m: Machine, parts: Any) -> Any:
    """The lanes where one of them is undefined, or None."""
    u = None
    for part in parts:
        u = either(u, m.live(part.u))
    return u


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
    if x.word is None and fits(m, congruent(m, x), *limits(bits, signed), x.u):
        return Symbolic(size, x.source, step=x.step, u=x.u)
    word = x.bits.filled(bits, 8 * size) if signed else x.bits.field(0, bits, 8 * size)
    return Symbolic(size, None, word=word, u=x.u)


def compared(m: Machine, cmp: str, t: str, x: Any, y: Any) -> Pred | None:
    """setp on symbolic integers, decided by the domain or symbolic; None if they are none."""
    if not (is_symbolic(x) or is_symbolic(y)):
        return None
    size, unsigned = int(t[1:]) // 8, cmp in ORDER or t[0] == "u"
    found = all_symbolic(m, [x, y], [size, size])
    if found is None:
        return None
    a, b = (view(m, v, not unsigned) for v in found)
    cmp = ORDER.get(cmp, cmp)
    if cmp in ("le", "gt"):  # of integers there is no need for all four orders
        b = m.reals.add(b, m.reals.constant(1))
    known, v = m.reals.compare({"le": "lt", "gt": "ge"}.get(cmp, cmp), False, a, b)
    bad, unknown = known >= 2, known < 0
    u = either(undefined_lanes(m, found), bad if bad.any() else None)
    return Pred(known == 1, unknown if unknown.any() else None, v, u)


def stored(m: Machine, x: Any, size: int) -> Real[Any]:
    """A symbolic integer as memory holds it."""
    if type(x) is Symbolic and x.base is not None:
        raise Unsupported("symbolic-address", "an address that depends on an input is stored")
    low = as_symbolic(m, x, size)
    if low is None:
        raise Unsupported("symbolic-int", "an integer of the inputs beside a float is stored")
    # the integer itself if it fits, so that a copy stays one
    signed = fits(m, congruent(m, low), *limits(8 * size, True), low.u) or not fits(
        m, congruent(m, low), *limits(8 * size, False), low.u
    )
    n = view(m, low, signed)
    real: Real[Any] = Real(n.v, n.c, n.kind, f"{'us'[signed]}{8 * size}")
    real.u = low.u
    return real


def in_rows(x: Any, size: int) -> bool:
    """Was it put together of integers that memory may hold one by one, and go on to be read so?"""
    if type(x) is Packed:
        return is_symbolic(x)
    if type(x) is not Symbolic or x.source is not None or x.word is None or x.size != size:
        return False
    return x.word.row_bytes < size


def rows(m: Machine, x: Any, size: int, granule: int) -> Any:
    """What is `in_rows` as units of memory, where its cells are so narrow; all else as it is."""
    if not in_rows(x, size):
        return x
    width = 2 if type(x) is Packed else x.word.row_bytes
    if width < granule:
        return stored(m, x, size)
    if type(x) is Packed:
        units = [stored(m, h, 2) if is_symbolic(h) else h for h in m.halves(x)]
    else:
        parts = [x.word.field(at, 8 * width, 8 * width) for at in range(0, 8 * size, 8 * width)]
        units = [stored(m, Symbolic(width, None, word=p, u=x.u), width) for p in parts]
    return Rows(units, width)


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
