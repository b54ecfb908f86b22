"""Bit fields, logic, shifts, permutes (PTX ISA 9.7.1, 9.7.8).

What only moves whole pieces works on reals too; the rest asks for their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import Imm, Instr, Pair
from kcheck.semantics.slow.decode import Describe, Pure, handles, keep_home, pure
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.integer import Numbers
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import Undef, Unit, as_int, bitwise, concat, slice_bits


def _reverse(a: int, bits: int) -> int:
    return int(f"{a:0{bits}b}"[::-1], 2)


def _counting(function: Callable[[int, int], int]) -> Describe:
    def describe(slots: Slots, numbers: Numbers) -> Pure:
        bits = kind_bits(slots["type"])
        return Pure("u32", (f"u{bits}",), lambda a: function(a, bits))

    return describe


pure("int.popc")(_counting(lambda a, bits: bin(a).count("1")))
pure("int.clz")(_counting(lambda a, bits: bits - a.bit_length()))


@pure("int.brev")
def _brev(slots: Slots, numbers: Numbers) -> Pure:
    bits = kind_bits(slots["type"])
    return Pure(f"u{bits}", (f"u{bits}",), lambda a: _reverse(a, bits))


@pure("int.bfind")
def _bfind(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    bits = kind_bits(kind)

    def function(a: int) -> int:
        position = (~a if a < 0 else a).bit_length() - 1
        if position < 0:
            return 0xFFFFFFFF
        return bits - 1 - position if slots["shiftamt"] else position

    return Pure("u32", (kind,), function)


def find_nth_set(mask: int, base: int, offset: int) -> Any:
    """The |offset|-th set bit from `base` upwards or downwards; all ones if there is none.

    A base past 31 is unspecified, which is taken as undefined.
    """
    if base > 31:
        return ABSORB
    step = 1 if offset >= 0 else -1
    left = max(abs(offset), 1)
    at = base
    while 0 <= at < 32:
        left -= mask >> at & 1
        if not left:
            return at
        if not offset:
            break
        at += step
    return 0xFFFFFFFF


@pure("int.fns")
def _fns(slots: Slots, numbers: Numbers) -> Pure:
    return Pure("u32", ("u32", "u32", "s32"), find_nth_set)


@pure("int.szext")
def _szext(slots: Slots, numbers: Numbers) -> Pure:
    signed, wraps = slots["type"] == "s32", slots["mode"] == "wrap"

    def function(a: int, b: int) -> int:
        n = b & 31 if wraps else min(b, 32)
        field = a & ((1 << n) - 1)
        return field - (1 << n) if signed and n and field >> (n - 1) else field

    return Pure("u32", ("u32", "u32"), function)


@pure("int.bmsk")
def _bmsk(slots: Slots, numbers: Numbers) -> Pure:
    wraps = slots["mode"] == "wrap"

    def function(a: int, b: int) -> int:
        if wraps:
            a, b = a & 31, b & 31
        return 0 if a >= 32 else ((1 << min(b, 32)) - 1) << a

    return Pure("u32", ("u32", "u32"), function)


# fields ------------------------------------------------------------------------------------------


@pure("int.bfe")
def _bfe(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    bits, signed = kind_bits(kind), kind[0] == "s"

    def function(a: Unit, position: int, length: int) -> Unit:
        position, length = position & 0xFF, length & 0xFF
        end = min(position + length, bits)
        if position >= end and not (signed and length):
            return 0
        field: list[tuple[Unit, int]] = []
        if position < end:
            field.append((slice_bits(a, position, end - position), end - position))
        used = max(0, end - position)
        sign: Unit = 0
        if signed:
            sign = slice_bits(a, min(position + length, bits) - 1, 1)
        return concat([*field, *_filled(sign, bits - used)])

    return Pure(f"b{bits}", (f"b{bits}", "u32", "u32"), function)


def _filled(sign: Unit, bits: int) -> list[tuple[Unit, int]]:
    """A bit repeated; a bit of a real has to be known."""
    if not bits:
        return []
    bit = as_int(sign, 1)
    return [(bit if isinstance(bit, Undef) else -bit & ((1 << bits) - 1), bits)]


@pure("int.bfi")
def _bfi(slots: Slots, numbers: Numbers) -> Pure:
    bits = kind_bits(slots["type"])

    def function(a: Unit, b: Unit, position: int, length: int) -> Unit:
        position, length = position & 0xFF, length & 0xFF
        end = min(position + length, bits)
        if position >= end:
            return b
        pieces = [
            (slice_bits(b, 0, position), position),
            (slice_bits(a, 0, end - position), end - position),
            (slice_bits(b, end, bits - end), bits - end),
        ]
        return concat(piece for piece in pieces if piece[1])

    return Pure(f"b{bits}", (f"b{bits}", f"b{bits}", "u32", "u32"), function)


# logic -------------------------------------------------------------------------------------------


def _and(p: Any, q: Any) -> Any:
    if p is False or q is False:
        return False
    return ABSORB if p is ABSORB or q is ABSORB else True


def _or(p: Any, q: Any) -> Any:
    if p is True or q is True:
        return True
    return ABSORB if p is ABSORB or q is ABSORB else False


def _xor(p: Any, q: Any) -> Any:
    return ABSORB if p is ABSORB or q is ABSORB else p != q


PREDICATES: dict[str, Callable[[Any, Any], Any]] = {"and": _and, "or": _or, "xor": _xor}
_BITWISE: dict[str, Callable[..., int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
}


@handles("bit.and", "bit.or", "bit.xor")
def _logic(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    kind, name = slots["type"], instr.opcode[0]
    target, *sources = instr.operands
    put = decoder.store(target, kind)
    first, second = (decoder.load(op, kind) for op in sources)
    if kind == "pred":
        combine = PREDICATES[name]
        return lambda t: put(t, combine(first(t), second(t)))
    bits, function = kind_bits(kind), _BITWISE[name]

    def step(t: Thread) -> None:
        a, b = first(t), second(t)
        if type(a) is int and type(b) is int:
            put(t, function(a, b))
        else:
            put(t, keep_home((a, b), bitwise(function, (a, b), bits)))

    return step


@pure("bit.not")
def _not(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    if kind == "pred":
        return Pure(kind, (kind,), lambda p: not p)
    return Pure(kind, (kind,), lambda a: bitwise(_BITWISE["not"], (a,), kind_bits(kind)))


@pure("bit.cnot")
def _cnot(slots: Slots, numbers: Numbers) -> Pure:
    kind = f"u{kind_bits(slots['type'])}"
    return Pure(kind, (kind,), lambda a: int(a == 0))


def lop3(a: int, b: int, c: int, table: int) -> int:
    """Bit i of the table is the result for a's bit i>>2, b's bit i>>1 & 1, c's bit i & 1."""
    result = 0
    for i in range(8):
        if table >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result


@pure("bit.lop3")
def _lop3(slots: Slots, numbers: Numbers) -> Pure:
    def function(a: Unit, b: Unit, c: Unit, table: int) -> Unit:
        return bitwise(lambda x, y, z: lop3(x, y, z, table), (a, b, c), 32)

    return Pure("b32", ("b32", "b32", "b32", "u32"), function)


@handles("bit.lop3.bool")
def _lop3_bool(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """d = the word, p = (d != 0) op q."""
    target, *sources, table, other = instr.operands
    if not isinstance(target, Pair) or not isinstance(table, Imm):
        raise Unsupported("unsupported.operand")
    lut, combine = table.value, PREDICATES[slots["bool"]]
    put, put_predicate = decoder.store(target.first, "u32"), decoder.store(target.second, "pred")
    loads, third = [decoder.load(op, "u32") for op in sources], decoder.load(other, "pred")

    def step(t: Thread) -> None:
        values, q = [load(t) for load in loads], third(t)
        if ABSORB in values:
            put(t, ABSORB)
            put_predicate(t, combine(ABSORB, q))
            return
        a, b, c = values
        word = lop3(a, b, c, lut) & 0xFFFFFFFF
        put(t, word)
        put_predicate(t, combine(word != 0, q))

    return step


# shifts ------------------------------------------------------------------------------------------


def shift_left(a: Unit, n: int, bits: int) -> Unit:
    """a << n, 0 from `bits` on."""
    if n >= bits:
        return 0
    return concat([(0, n), (slice_bits(a, 0, bits - n), bits - n)]) if n else a


def shift_right(a: Unit, n: int, bits: int, signed: bool) -> Unit:
    """a >> n, filled with 0 or the sign."""
    n = min(n, bits)
    if not n:
        return a
    fill = _filled(slice_bits(a, bits - 1, 1) if signed else 0, n)
    return concat([(slice_bits(a, n, bits - n), bits - n), *fill]) if n < bits else concat(fill)


@pure("bit.shl")
def _shl(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    bits = kind_bits(kind)
    return Pure(kind, (kind, "u32"), lambda a, n: shift_left(a, n, bits))


@pure("bit.shr")
def _shr(slots: Slots, numbers: Numbers) -> Pure:
    bits, signed = kind_bits(slots["type"]), slots["type"][0] == "s"
    kind = f"b{bits}"
    return Pure(kind, (kind, "u32"), lambda a, n: shift_right(a, n, bits, signed))


@pure("bit.shf")
def _shf(slots: Slots, numbers: Numbers) -> Pure:
    left, wraps = slots["dir"] == "l", slots["mode"] == "wrap"

    def function(a: Unit, b: Unit, c: int) -> Unit:
        n = c & 31 if wraps else min(c, 32)
        both = concat([(a, 32), (b, 32)])
        return slice_bits(both, 32 - n if left else n, 32)

    return Pure("b32", ("b32", "b32", "u32"), function)


# prmt --------------------------------------------------------------------------------------------

_SELECTORS: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda i, n: n + i,
    "b4e": lambda i, n: (n - i) & 7,
    "rc8": lambda i, n: n,
    "ecl": lambda i, n: max(i, n),
    "ecr": lambda i, n: min(i, n),
    "rc16": lambda i, n: 2 * (n & 1) + (i & 1),
}


@pure("bit.prmt")
def _prmt(slots: Slots, numbers: Numbers) -> Pure:
    mode = slots["mode"]

    def nibble(i: int, control: int) -> int:
        return _SELECTORS[mode](i, control & 3) if mode else control >> 4 * i & 15

    def function(a: Unit, b: Unit, control: int) -> Unit:
        both = concat([(a, 32), (b, 32)])
        pieces: list[tuple[Unit, int]] = []
        for i in range(4):
            selector = nibble(i, control)
            byte = slice_bits(both, 8 * (selector & 7), 8)
            if selector & 8:
                pieces += _filled(slice_bits(byte, 7, 1), 8)
            else:
                pieces.append((byte, 8))
        return concat(pieces)

    return Pure("b32", ("b32", "b32", "u32"), function)
