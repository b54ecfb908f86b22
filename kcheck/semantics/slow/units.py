"""What a register or a memory cell holds, and bit movements on it.

A unit is one of: an unsigned int (a `Pointer` if it came from the address of a buffer), a bool
(predicates), a `Real`, a `Part` (some bits of a real), a `Pack` (pieces side by side, at least
one of which is no int), UNDEF, or an `Unstable` (its value hangs on the schedule).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.formats import BITS, decode, encode
from kcheck.semantics.slow.numbers import Number


@dataclass(frozen=True)
class Home:
    """A buffer: its addresses `low <= a < high` in the numbering of its state space."""

    space: str
    name: str
    low: int
    high: int


class Pointer(int):
    """An address, or a number derived from one, that remembers its buffer.

    `home` is None once it was mixed with another buffer's address.
    """

    home: Home | None

    def __new__(cls, value: int, home: Home | None) -> Pointer:
        self = super().__new__(cls, value)
        self.home = home
        return self


@dataclass(frozen=True, eq=False)
class Real:
    """A number in a float format; the format says the width, not the precision."""

    __slots__ = ("fmt", "number")

    fmt: str
    number: Number


@dataclass(frozen=True)
class Part:
    """Bits `low .. low+bits-1` of a real."""

    __slots__ = ("bits", "low", "real")

    real: Real
    low: int
    bits: int


@dataclass(frozen=True)
class Unstable:
    """A value that hangs on the schedule; `origin` is the instruction that made it."""

    origin: str


class Undef:
    """A value that was never written."""

    def __repr__(self) -> str:
        return "UNDEF"


class Unwritten:
    """An output element that was never written."""

    def __repr__(self) -> str:
        return "UNWRITTEN"


UNDEF = Undef()
UNWRITTEN = Unwritten()


@dataclass(frozen=True)
class Pack:
    """(unit, bits) from the low end up; `bits` in all."""

    __slots__ = ("bits", "pieces")

    pieces: tuple[tuple[Unit, int], ...]
    bits: int


Unit = int | Real | Part | Pack | Undef | Unstable


def slice_bits(unit: Unit, low: int, bits: int) -> Unit:
    """Bits `low .. low+bits-1` of a unit."""
    if isinstance(unit, int):
        return (unit >> low) & ((1 << bits) - 1)
    if isinstance(unit, (Undef, Unstable)):
        return unit
    if isinstance(unit, Real):
        return unit if not low and bits == BITS[unit.fmt] else Part(unit, low, bits)
    if isinstance(unit, Part):
        return Part(unit.real, unit.low + low, bits)
    pieces: list[tuple[Unit, int]] = []
    at = 0
    for piece, width in unit.pieces:
        start, end = max(at, low), min(at + width, low + bits)
        if start < end:
            pieces.append((slice_bits(piece, start - at, end - start), end - start))
        at += width
    return concat(pieces)


def concat(pieces: Iterable[tuple[Unit, int]]) -> Unit:
    """Units side by side, from the low end up, as one."""
    merged: list[tuple[Unit, int]] = []
    for unit, bits in pieces:
        for piece in unit.pieces if isinstance(unit, Pack) else ((unit, bits),):
            joined = _join(*merged[-1], *piece) if merged else None
            if joined is None:
                merged.append(piece)
            else:
                merged[-1] = joined
    if len(merged) == 1:
        return merged[0][0]
    return Pack(tuple(merged), sum(bits for _, bits in merged))


def _join(a: Unit, a_bits: int, b: Unit, b_bits: int) -> tuple[Unit, int] | None:
    bits = a_bits + b_bits
    if isinstance(a, int) and isinstance(b, int):
        return a | b << a_bits, bits
    if isinstance(a, Part) and isinstance(b, Part):
        if a.real is b.real and a.low + a.bits == b.low:
            return slice_bits(a.real, a.low, bits), bits
    elif (a is UNDEF and b is UNDEF) or (isinstance(a, Unstable) and a == b):
        return a, bits
    return None


def split(unit: Unit, bits: int, cuts: Iterable[int]) -> list[tuple[Unit, int]]:
    """A unit of `bits` bits cut at positions (0 and `bits` included), low end first."""
    places = sorted(set(cuts))
    return [(slice_bits(unit, a, b - a), b - a) for a, b in itertools.pairwise(places)]


def edges(unit: Unit) -> list[int]:
    """Where the pieces of a unit begin."""
    if not isinstance(unit, Pack):
        return [0]
    at = 0
    found = []
    for _, bits in unit.pieces:
        found.append(at)
        at += bits
    return found


def as_int(unit: Unit, bits: int) -> int | Undef:
    """The low `bits` bits; a real is encoded if its format holds it exactly."""
    if isinstance(unit, int):
        return unit & ((1 << bits) - 1)
    if isinstance(unit, Undef):
        return unit
    if isinstance(unit, Unstable):
        raise Unsupported("unstable")
    if isinstance(unit, Real):
        return _encoded(unit) & ((1 << bits) - 1)
    if isinstance(unit, Part):
        return _encoded(unit.real) >> unit.low & ((1 << min(bits, unit.bits)) - 1)
    value = at = 0
    for piece, width in unit.pieces:
        if at < bits:
            part = as_int(piece, width)
            if isinstance(part, Undef):
                return UNDEF
            value |= part << at
        at += width
    return value & ((1 << bits) - 1)


def _encoded(real: Real) -> int:
    exact = real.number.exact()
    bits = None if exact is None else encode(exact, real.fmt)
    if bits is None:
        raise Unsupported("reinterpret")
    return bits


def as_real(unit: Unit, fmt: str, numbers: type[Number]) -> Number | Undef:
    """The number that the low bits of a unit are in a float format."""
    if isinstance(unit, Real) and unit.fmt == fmt:
        return unit.number
    bits = BITS[fmt]
    if isinstance(unit, Pack) and unit.bits > bits:
        return as_real(slice_bits(unit, 0, bits), fmt, numbers)
    if isinstance(unit, Pack) and fmt == "f32":
        (low, n), (high, _) = unit.pieces[0], unit.pieces[-1]
        widened = isinstance(high, Real) and high.fmt == "bf16" and low == 0 and n == 16
        if widened and len(unit.pieces) == 2:
            return high.number  # type: ignore[union-attr]
    value = as_int(unit, bits)
    return value if isinstance(value, Undef) else numbers.of(decode(value, fmt))


def _invert_sign(unit: Real | Part) -> Unit:
    real = unit.real if isinstance(unit, Part) else unit
    flipped = Real(real.fmt, real.number.neg())
    return flipped if isinstance(unit, Real) else Part(flipped, unit.low, unit.bits)


def bitwise(function: Callable[..., int], units: tuple[Unit, ...], bits: int) -> Unit:
    """A function of each bit position, applied to `bits` bits of the units.

    On the bits of a real it may do nothing, force all bits, or change the sign.
    """
    if all(isinstance(unit, int) for unit in units):
        return function(*units) & ((1 << bits) - 1)
    cuts = {bits, *(at for unit in units for at in edges(unit) if at < bits)}
    columns = [split(unit, bits, cuts) for unit in units]
    pieces = []
    for column in zip(*columns, strict=True):
        width = column[0][1]
        pieces.append((_segment(function, [unit for unit, _ in column], width), width))
    return concat(pieces)


def _segment(function: Callable[..., int], units: list[Unit], bits: int) -> Unit:
    full = (1 << bits) - 1
    odd = [unit for unit in units if not isinstance(unit, int)]
    if any(isinstance(unit, Unstable) for unit in odd):
        raise Unsupported("unstable")
    first = odd[0] if odd else 0
    if any(unit is not first for unit in odd):
        values = [as_int(unit, bits) if UNDEF not in odd else UNDEF for unit in units]
        if UNDEF in values:
            return UNDEF
        return function(*values) & full
    zeros = function(*(u if isinstance(u, int) else 0 for u in units)) & full
    ones = function(*(u if isinstance(u, int) else full for u in units)) & full
    if zeros == ones and (first is not UNDEF or len(odd) == 1):
        return zeros
    if first is UNDEF:
        return UNDEF
    assert isinstance(first, (Real, Part))
    return _on_real(first, zeros, ones, bits)


def _on_real(unit: Real | Part, zeros: int, ones: int, bits: int) -> Unit:
    """The bits of a real x mapped to `zeros` where they are 0, to `ones` where they are 1."""
    full = (1 << bits) - 1
    real = unit.real if isinstance(unit, Part) else unit
    low = unit.low if isinstance(unit, Part) else 0
    sign = 1 << (BITS[real.fmt] - 1) >> low
    change = zeros ^ (full ^ ones)  # 0 where the bit passes
    if zeros == 0 and ones == full:
        return unit
    if zeros == sign and ones == full ^ sign:
        return _invert_sign(unit)
    if isinstance(unit, Real) and change == sign and zeros & ~sign == 0:
        magnitude = real.number.absolute()
        forced = magnitude.neg() if zeros & sign else magnitude
        return Real(real.fmt, forced)
    value = as_int(unit, bits)
    assert isinstance(value, int)
    return (zeros & ~value | ones & value) & full
