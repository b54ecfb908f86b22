"""Registers as rows of bits that come from integers of the inputs (DESIGN.md 4, `Bits`).

Compilers take words apart and put them together by shifts, masks, permutations and extractions,
in many ways. Here each of these only moves bits: a word is a list of pieces, each a row of bits
of some integer, beside constant bits. As a number it is a sum of floors: bits [lo, lo + n) of an
integer x are floor(x / 2^lo) - 2^n floor(x / 2^(lo + n)), so that two ways to the same bits give
one polynomial of the same atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.canon.real import Reals

# integers with factors
Terms = tuple[tuple[Real[Any], int], ...]


@dataclass(frozen=True, eq=False)
class Source:
    """An integer (a real that is one), in two's complement of any length.

    `base`, `factor`, `shift`: it is floor(base factor / 2^shift), if that is known. `terms`: it is
    the sum of these, if that is known.
    """

    n: Real[Any]
    base: Real[Any] | None = None
    factor: int = 1
    terms: Terms = ()
    shift: int = 0


# bits that no integer has more of
_ALL = 64
# stands for any source
NOWHERE = Source(Real(None, None, 0))


class Piece(NamedTuple):
    """Bits [lo, lo + length) of a source, or their complement, at bits `at` and up of a word."""

    at: int
    length: int
    source: Source
    lo: int
    inverted: bool

    @property
    def end(self) -> int:
        """The first bit of the word after the piece."""
        return self.at + self.length

    def cut(self, low: int, high: int) -> Piece:
        """What of it lies at bits [low, high) of the word, which must overlap it."""
        first, last = max(self.at, low), min(self.end, high)
        lo = self.lo + first - self.at
        return Piece(first, last - first, self.source, lo, self.inverted)

    def moved(self, by: int) -> Piece:
        """The same piece higher up."""
        return self._replace(at=self.at + by)

    def same_bits(self, other: Piece) -> bool:
        """Both are the same row of bits of one source, complemented or not."""
        mine, theirs = (p.source.n for p in (self, other))
        return mine is theirs and (self.lo, self.length) == (other.lo, other.length)


class Word(NamedTuple):
    """`bits` bits: disjoint pieces, lowest first, and the constant bits that are 1 elsewhere."""

    bits: int
    pieces: tuple[Piece, ...]
    ones: int

    @property
    def unfilled(self) -> Word:
        """The word without the bits at its top that repeat the one below them."""
        bits, pieces = self.bits, list(self.pieces)
        while len(pieces) > 1 and [p.end for p in pieces[-2:]] == [bits - 1, bits]:
            below = pieces[-2].cut(bits - 2, bits - 1)
            if not below.same_bits(pieces[-1]) or below.inverted != pieces[-1].inverted:
                break
            pieces.pop()
            bits -= 1
        return Word(bits, tuple(pieces), self.ones)

    def field(self, low: int, length: int, bits: int) -> Word:
        """Bits [low, low + length) at the bottom of a word of zeros, `bits` long."""
        high = min(low + length, self.bits)
        cut = [p.cut(low, high).moved(-low) for p in self.pieces if p.at < high and low < p.end]
        return Word(bits, tuple(cut), self.ones >> low & (1 << max(high - low, 0)) - 1)

    @property
    def lowest(self) -> Source | None:
        """The integer of which all bits are the lowest ones, if there is one."""
        if len(self.pieces) != 1:
            return None
        p = self.pieces[0]
        return p.source if p[:2] == (0, self.bits) and p[3:] == (0, False) else None

    @property
    def row_bytes(self) -> int:
        """The fewest bytes of equal parts each of which has one piece at least, and none in common.

        All of the word, if there is no smaller part.
        """
        for width in (8, 16, 32):
            parts = range(0, self.bits, width)
            within = all(p.at // width == (p.end - 1) // width for p in self.pieces)
            filled = {p.at // width for p in self.pieces} == set(range(len(parts)))
            if within and filled and width < self.bits:
                return width // 8
        return self.bits // 8

    def like(self, other: Word) -> bool:
        """Both have their constant bits and the places of their pieces in common."""
        mine, theirs = ([p._replace(source=NOWHERE) for p in w.pieces] for w in (self, other))
        return mine == theirs and (self.bits, self.ones) == (other.bits, other.ones)

    def shifted(self, by: int) -> Word:
        """Shifted left by `by` bits."""
        kept = self.field(0, self.bits - by, self.bits)
        return Word(self.bits, tuple(p.moved(by) for p in kept.pieces), kept.ones << by)

    def filled(self, length: int, bits: int) -> Word:
        """The lower `length` bits, the topmost of which is repeated, in a word of `bits`."""
        low, sign = self.field(0, length, bits), self.field(length - 1, 1, bits)
        more = [sign.pieces[0].moved(at) for at in range(length, bits)] if sign.pieces else []
        ones = (1 << bits) - (1 << length) if sign.ones else 0
        return Word(bits, (*low.pieces, *more), low.ones | ones)


def whole(source: Source, bits: int) -> Word:
    """The lowest bits of an integer."""
    return Word(bits, (Piece(0, bits, source, 0, False),), 0)


def joined(words: Sequence[Word]) -> Word:
    """Words one after another, lowest first."""
    at, pieces, ones = 0, list[Piece](), 0
    for word in words:
        pieces += [p.moved(at) for p in word.pieces]
        ones |= word.ones << at
        at += word.bits
    return Word(at, tuple(pieces), ones)


def bitwise(f: Callable[..., int], words: Sequence[Word]) -> Word | None:
    """A function of bits (0 or 1) applied to the bits of words of one length.

    None where it depends on the bits of two integers at once.
    """
    bits = words[0].bits
    edges = {0, bits}
    for word in words:
        edges |= {edge for p in word.pieces for edge in (p.at, p.end)}
        steps = word.ones ^ word.ones << 1
        edges |= {i for i in range(bits) if steps >> i & 1}
    pieces, ones = list[Piece](), 0
    ends = sorted(edges)
    for low, high in pairwise(ends):
        found = _of_segment(f, words, low, high)
        if found is None:
            return None
        if isinstance(found, Piece):
            pieces.append(found)
        elif found:
            ones |= (1 << high) - (1 << low)
    return Word(bits, tuple(_fused(pieces)), ones)


def _of_segment(
    f: Callable[..., int], words: Sequence[Word], low: int, high: int
) -> Piece | int | None:
    """The function on bits each of which is constant or of one piece."""
    given: list[Piece | int] = []
    for word in words:
        piece = next((p for p in word.pieces if p.at < high and low < p.end), None)
        given.append(word.ones >> low & 1 if piece is None else piece.cut(low, high))
    pieces = [x for x in given if isinstance(x, Piece)]
    if any(not p.same_bits(pieces[0]) for p in pieces):
        return _independent(f, given)

    def at(bit: int) -> int:
        return f(*(bit ^ x.inverted if isinstance(x, Piece) else x for x in given)) & 1

    zero, one = at(0), at(1)
    return zero if zero == one else pieces[0]._replace(inverted=zero == 1)


def _independent(f: Callable[..., int], given: Sequence[Piece | int]) -> Piece | int | None:
    """The same where several integers meet: all but one of them must not matter."""
    values = [(0, 1) if isinstance(x, Piece) else (x,) for x in given]
    table = {bits: f(*bits) & 1 for bits in product(*values)}
    if len(set(table.values())) == 1:
        return next(iter(table.values()))
    for i, x in enumerate(given):
        by_bit = {(bits[i], value) for bits, value in table.items()}
        if isinstance(x, Piece) and len(by_bit) == 2:
            return x._replace(inverted=x.inverted ^ ((0, 1) in by_bit))
    return None


def _fused(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours that are one row of bits as one piece."""
    out: list[Piece] = []
    for p in pieces:
        last = out[-1] if out else None
        if (
            last is not None
            and (last.end, last.lo + last.length, last.inverted) == (p.at, p.lo, p.inverted)
            and last.source.n is p.source.n
        ):
            out[-1] = last._replace(length=last.length + p.length)
        else:
            out.append(p)
    return out


# as numbers


def number(reals: Reals[Any], word: Word) -> Real[Any]:
    """The unsigned number."""
    factors: dict[tuple[int, int, int, bool], tuple[Piece, int]] = {}
    for p in word.pieces:
        key = (id(p.source.n), p.lo, p.length, p.inverted)
        factors[key] = p, factors.get(key, (p, 0))[1] + (1 << p.at)
    total = reals.constant(word.ones)
    for p, factor in factors.values():
        total = reals.add(total, reals.mul(reals.constant(factor), _value(reals, p)))
    return reals.narrow(total, 0, float((1 << word.bits) - 1))


def read_as(reals: Reals[Any], n: Real[Any], bits: int, signed: bool) -> Real[Any]:
    """The number that the lowest bits of an integer are, read with or without sign.

    The integer itself in lanes where its interval fits.
    """
    low, high = limits(bits, signed)
    least, greatest = reals.ends(n)
    # no float is the greatest number of 64 bits, but the next power of 2 is one
    fits = (least >= low) & (greatest < high + 1)
    if fits.all():
        return n
    word = whole(Source(n), bits)
    read = reals.narrow(signed_number(reals, word) if signed else number(reals, word), low, high)
    return reals.where(fits, n, read) if fits.any() else read


def limits(bits: int, signed: bool) -> tuple[int, int]:
    """The least and greatest number of so many bits."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def signed_number(reals: Reals[Any], word: Word) -> Real[Any]:
    """The number in two's complement."""
    sign = reals.mul(reals.constant(1 << word.bits), number(reals, word.field(word.bits - 1, 1, 1)))
    return reals.narrow(reals.sub(number(reals, word), sign), *limits(word.bits, True))


def _value(reals: Reals[Any], p: Piece) -> Real[Any]:
    above = reals.mul(reals.constant(1 << p.length), floored(reals, p.source, p.lo + p.length))
    field = reals.sub(floored(reals, p.source, p.lo), above)
    if p.inverted:
        field = reals.sub(reals.constant((1 << p.length) - 1), field)
    return reals.narrow(field, 0, float((1 << p.length) - 1))


def floored(reals: Reals[Any], source: Source, k: int) -> Real[Any]:
    """floor(x / 2^k); all k beyond which only the sign is left give one atom."""
    if k == 0:
        return source.n
    low, high = reals.ends(source.n)
    if np.isfinite(low).all() and np.isfinite(high).all():
        greatest = max(int(np.max(high)), -int(np.min(low)) - 1, 0)
        k = min(k, greatest.bit_length())
    if k == 0:
        return source.n
    quotient = None if source.base is None else _quotient(reals, source.base, source, k)
    if quotient is not None:
        return quotient
    return reals.function("floor", reals.mul(source.n, reals.constant(Fraction(1, 1 << k))))


def truncated(reals: Reals[Any], x: Real[Any], c: int) -> Real[Any]:
    """x / c rounded towards 0, for c > 0: of what is negative, rounded up."""
    up = reals.sub(x, reals.mul(reals.constant(c - 1), sign(reals, x)))
    return reals.function("floor", reals.div(up, reals.constant(c)))


def magnitude(reals: Reals[Any], x: Real[Any]) -> int | None:
    """What no |x| is above; None if that is not known or passes all types."""
    low, high = reals.ends(x)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    most = max(int(np.max(high)), -int(np.min(low)))
    return most if most < 1 << _ALL else None


def sign(reals: Reals[Any], x: Real[Any]) -> Real[Any]:
    """-1 of what is negative, else 0; of integers of 64 bits."""
    return floored(reals, Source(x), _ALL)


def _quotient(reals: Reals[Any], x: Real[Any], source: Source, k: int) -> Real[Any] | None:
    """floor(x m / 2^k) by a division by c, where that is the same for all x in their range.

    With e = m c - 2^k >= 0, x m / 2^k = x / c + x e / (c 2^k). For x >= 0 and x e < 2^k that is no
    further integer than x / c (Granlund and Montgomery, Division by invariant integers using
    multiplication). For x < 0 it is (x - d) / c with 0 < d <= 1 if 0 < -x e <= 2^k: the integer
    below is that of (x - 1) / c, which is x / c rounded towards 0, less 1.
    """
    m, k, most = source.factor, k + source.shift, magnitude(reals, x)
    if m <= 0 or most is None:
        return None
    c = -(-(1 << k) // m)
    e = m * c - (1 << k)
    low, high = (int(f(end)) for f, end in zip((np.min, np.max), reals.ends(x), strict=True))
    if e * high >= 1 << k or -e * low > 1 << k:
        return None
    if low >= 0:
        return reals.function("floor", reals.div(x, reals.constant(c)))
    if e == 0:
        return None
    below = sign(reals, x)
    return below if most < c else reals.add(truncated(reals, x, c), below)
