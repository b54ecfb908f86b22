"""Integer, bit and permute operations of the PTX ISA (9.7.1, 9.7.2, 9.7.8), on NumPy arrays.

Arguments and results are unsigned arrays of the instruction's width; `signed` views them as two's
complement. Lanes that a mask switches off hold garbage: nothing here may raise on any bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.semantics.values import UNSIGNED, Array

SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def width(type_name: str) -> int:
    """Bytes of an integer or bit type."""
    return int(type_name[1:]) // 8


def is_signed(type_name: str) -> bool:
    """`s8` ... `s64`."""
    return type_name[0] == "s"


def view(a: Array, type_name: str) -> Array:
    """Unsigned bits as the type's numbers."""
    return a.view(SIGNED[a.itemsize]) if is_signed(type_name) else a


def bits(a: Array) -> Array:
    """Numbers as unsigned bits of their own width."""
    return a.view(UNSIGNED[a.itemsize])


def wide(a: Array, type_name: str) -> Array:
    """Numbers in twice the width (at most 64 bits)."""
    numbers = view(a, type_name)
    size = min(2 * a.itemsize, 8)
    return numbers.astype(SIGNED[size] if is_signed(type_name) else UNSIGNED[size])


def mul_hi(x: Array, y: Array, type_name: str) -> Array:
    """The upper half of the product."""
    size = x.itemsize
    if size < 8:
        product = wide(x, type_name) * wide(y, type_name)
        return (bits(product) >> UNSIGNED[2 * size](8 * size)).astype(UNSIGNED[size])
    high = _mul_hi_u64(x, y)
    if is_signed(type_name):
        zero = np.uint64(0)
        high = high - np.where(view(x, "s64") < 0, y, zero) - np.where(view(y, "s64") < 0, x, zero)
    return high


def _mul_hi_u64(x: Array, y: Array) -> Array:
    s, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> s, y & low, y >> s
    middle = (x0 * y0 >> s) + (x1 * y0 & low) + (x0 * y1 & low)
    return x1 * y1 + (x1 * y0 >> s) + (x0 * y1 >> s) + (middle >> s)


def mul_wide(x: Array, y: Array, type_name: str) -> Array:
    """The whole product in twice the width."""
    return bits(wide(x, type_name) * wide(y, type_name))


def mul24(x: Array, y: Array, type_name: str) -> Array:
    """The 48-bit product of the low 24 bits, in 64 bits."""
    x, y = x & np.uint32(0xFFFFFF), y & np.uint32(0xFFFFFF)
    if is_signed(type_name):
        eight = np.uint32(8)
        a = (view(x << eight, "s32") >> np.int32(8)).astype(np.int64)
        b = (view(y << eight, "s32") >> np.int32(8)).astype(np.int64)
        return bits(a * b)
    return x.astype(np.uint64) * y.astype(np.uint64)


def magnitude(a: Array) -> Array:
    """|a| as unsigned bits (the smallest number wraps to itself, which is right unsigned)."""
    return np.where(view(a, "s") < 0, (~a) + UNSIGNED[a.itemsize](1), a)


def divide(x: Array, y: Array, type_name: str) -> Array:
    """Division that truncates; a zero divisor gives garbage (the caller marks it)."""
    safe = np.where(y == 0, UNSIGNED[y.itemsize](1), y)
    if not is_signed(type_name):
        return x // safe
    quotient = magnitude(x) // magnitude(safe)
    negative = (view(x, "s") < 0) != (view(safe, "s") < 0)
    return np.where(negative, (~quotient) + UNSIGNED[x.itemsize](1), quotient)


def remainder(x: Array, y: Array, type_name: str) -> Array:
    """The remainder of `divide`: the sign of the dividend."""
    return x - divide(x, y, type_name) * y


def saturate(exact: Array, type_name: str) -> Array:
    """Clamp int64 numbers into a type of at most 32 bits."""
    bounds = np.iinfo((SIGNED if is_signed(type_name) else UNSIGNED)[width(type_name)])
    clipped = np.clip(exact, bounds.min, bounds.max)
    return (
        bits(clipped.astype(SIGNED[width(type_name)]))
        if is_signed(type_name)
        else (clipped.astype(UNSIGNED[width(type_name)]))
    )


def shift_left(x: Array, n: Array) -> Array:
    """`shl`: amounts past the width give 0."""
    w = 8 * x.itemsize
    amount = np.minimum(n, np.uint32(w - 1)).astype(x.dtype)
    return np.where(n >= w, UNSIGNED[x.itemsize](0), x << amount)


def shift_right(x: Array, n: Array, type_name: str) -> Array:
    """`shr`: amounts past the width give 0, or the sign."""
    w = 8 * x.itemsize
    amount = np.minimum(n, np.uint32(w - 1))
    if is_signed(type_name):
        numbers = view(x, "s")
        return bits(numbers >> amount.astype(numbers.dtype))
    return np.where(n >= w, UNSIGNED[x.itemsize](0), x >> amount.astype(x.dtype))


def funnel(low: Array, high: Array, n: Array, direction: str, mode: str) -> Array:
    """`shf`: shift the 64 bits high:low, keep 32."""
    amount = (n & np.uint32(31) if mode == "wrap" else np.minimum(n, np.uint32(32))).astype(
        np.uint64
    )
    both = high.astype(np.uint64) << np.uint64(32) | low
    if direction == "r":
        return (both >> amount).astype(np.uint32)
    return (both << amount >> np.uint64(32)).astype(np.uint32)


def popcount(x: Array) -> Array:
    """Ones in each element, as uint32."""
    v = x.astype(np.uint64)
    m1, m2, m4 = (
        np.uint64(m) for m in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)
    )
    v = v - (v >> np.uint64(1) & m1)
    v = (v & m2) + (v >> np.uint64(2) & m2)
    v = v + (v >> np.uint64(4)) & m4
    return (v * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.uint32)


def _smear(x: Array) -> Array:
    for n in (1, 2, 4, 8, 16, 32)[: 3 + x.itemsize.bit_length() - 1]:
        x = x | x >> x.dtype.type(n)
    return x


def leading_zeros(x: Array) -> Array:
    """`clz`, as uint32."""
    return np.uint32(8 * x.itemsize) - popcount(_smear(x))


def bfind(x: Array, type_name: str, shift_amount: bool) -> Array:
    """Position of the highest bit that is not a sign bit; all ones if there is none."""
    if is_signed(type_name):
        x = np.where(view(x, "s") < 0, ~x, x)
    position = np.uint32(8 * x.itemsize - 1) - leading_zeros(x)
    found = np.uint32(8 * x.itemsize - 1) - position if shift_amount else position
    return np.where(x == 0, np.uint32(0xFFFFFFFF), found)


def find_nth(mask: Array, base: Array, offset: Array) -> Array:
    """`fns`: position of the n-th set bit from `base` upwards (or downwards); all ones if none."""
    at = np.arange(32, dtype=np.int64)
    m = (mask[..., None] >> at.astype(np.uint32) & np.uint32(1)).astype(bool)
    n = view(offset, "s32").astype(np.int64)[..., None]
    start = base.astype(np.int64)[..., None]
    up = np.cumsum(m & (at >= start), -1)
    down = np.cumsum((m & (at <= start))[..., ::-1], -1)[..., ::-1]
    hit = np.where(
        n > 0,
        m & (at >= start) & (up == n),
        np.where(n < 0, m & (at <= start) & (down == -n), m & (at == start)),
    )
    return np.where(hit.any(-1), hit.argmax(-1), 0xFFFFFFFF).astype(np.uint32)


def reverse_bits(x: Array) -> Array:
    """`brev`."""
    w = 8 * x.itemsize
    out = np.zeros_like(x)
    one = x.dtype.type(1)
    for i in range(w):
        out = out | (x >> x.dtype.type(i) & one) << x.dtype.type(w - 1 - i)
    return out


def extract_field(x: Array, position: Array, length: Array, type_name: str) -> Array:
    """`bfe`: bits [pos, pos+len), zero- or sign-extended; pos and len are 8-bit."""
    w = 8 * x.itemsize
    pos = (position & np.uint32(0xFF)).astype(np.int64)
    length = (length & np.uint32(0xFF)).astype(np.int64)
    kept = shift_right(x, pos.astype(np.uint32), "u")
    mask = low_mask(length, x.itemsize)
    field = kept & mask
    if not is_signed(type_name):
        return field
    top = np.minimum(pos + length - 1, w - 1)
    sign = shift_right(x, np.maximum(top, 0).astype(np.uint32), "u") & x.dtype.type(1)
    # past the end of the word the field is filled with the word's sign bit
    field = np.where(
        sign == 1, field | ~low_mask(np.minimum(length, np.maximum(w - pos, 0)), x.itemsize), field
    )
    return np.where(length == 0, x.dtype.type(0), field)


def low_mask(length: Array, size: int) -> Array:
    """`length` ones at the bottom, at most the width."""
    w = 8 * size
    full = UNSIGNED[size](2**w - 1)
    amount = np.clip(length, 0, w - 1).astype(UNSIGNED[size])
    return np.where(length >= w, full, (UNSIGNED[size](1) << amount) - UNSIGNED[size](1))


def insert_field(x: Array, y: Array, position: Array, length: Array) -> Array:
    """`bfi`: the low bits of x put into y at [pos, pos+len)."""
    pos = position & np.uint32(0xFF)
    mask = shift_left(low_mask((length & np.uint32(0xFF)).astype(np.int64), x.itemsize), pos)
    return (y & ~mask) | (shift_left(x, pos) & mask)


def sign_extend(x: Array, n: Array, type_name: str, mode: str) -> Array:
    """`szext`: keep the low n bits, zero- or sign-extended."""
    count = (n & np.uint32(31)) if mode == "wrap" else np.minimum(n, np.uint32(32))
    mask = low_mask(count.astype(np.int64), 4)
    kept = x & mask
    if not is_signed(type_name):
        return kept
    top = shift_right(x, np.maximum(count, np.uint32(1)) - np.uint32(1), "u") & np.uint32(1)
    return np.where((top == 1) & (count > 0), kept | ~mask, kept)


def bit_mask(start: Array, length: Array, mode: str) -> Array:
    """`bmsk`: `length` ones from `start` on."""
    if mode == "wrap":
        start, length = start & np.uint32(31), length & np.uint32(31)
    count = np.minimum(length, np.uint32(32)).astype(np.int64)
    return shift_left(low_mask(count, 4), start)


def dot(a: Array, b: Array, c: Array, atype: str, btype: str, lanes: tuple[int, ...]) -> Array:
    """`dp4a` / `dp2a`: c plus the products of a's fields with the bytes of b.

    `lanes`: for dp4a the byte numbers (0, 1, 2, 3); for dp2a the bytes of b (0, 1) or (2, 3),
    against the 16-bit halves of a.
    """
    size = 8 if len(lanes) == 4 else 16
    total = view(c, "s32").astype(np.int64)
    for i, byte in enumerate(lanes):
        total = total + _field(a, size * i, size, atype) * _field(b, 8 * byte, 8, btype)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _field(a: Array, at: int, size: int, type_name: str) -> Array:
    field = (a >> np.uint32(at)).astype(np.int64) & ((1 << size) - 1)
    if is_signed(type_name):
        field = np.where(field >> (size - 1) == 1, field - (1 << size), field)
    return field


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """`lop3`: bit i of the table is the result where (a, b, c) are the bits of i."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    for i in range(8):
        if table >> i & 1:
            term = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
            out = out | term
    return out


_PRMT_MODES: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda s, i: s + i,
    "b4e": lambda s, i: (s - i) & 7,
    "rc8": lambda s, i: s,
    "ecl": lambda s, i: max(s, i),
    "ecr": lambda s, i: min(s, i),
    "rc16": lambda s, i: i & 1 | (s & 1) << 1,
}


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """`prmt`: four bytes chosen from b:a."""
    source = b.astype(np.uint64) << np.uint64(32) | a
    out = np.zeros(np.broadcast_shapes(source.shape, selector.shape), np.uint32)
    for i in range(4):
        if mode:
            table = np.array([_PRMT_MODES[mode](s, i) for s in range(4)], np.uint64)
            which = table[(selector & np.uint32(3)).astype(np.int64)]
            nibble = which
        else:
            nibble = (selector >> np.uint32(4 * i) & np.uint32(15)).astype(np.uint64)
            which = nibble & np.uint64(7)
        byte = source >> (which * np.uint64(8)) & np.uint64(255)
        sign = np.where(byte >> np.uint64(7) == 1, np.uint64(255), np.uint64(0))
        byte = np.where(nibble & np.uint64(8) != 0, sign, byte) if not mode else byte
        out = out | byte.astype(np.uint32) << np.uint32(8 * i)
    return out


COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def convert(a: Array, source: str, target: str, sat: bool, register: int) -> Array:
    """`cvt` between integer types; the result is extended to the register's `register` bytes."""
    numbers = view(a, source)
    size = width(target)
    kind = SIGNED if is_signed(target) else UNSIGNED
    if sat:
        bounds = np.iinfo(kind[size])
        if is_signed(source):
            numbers = numbers.astype(np.int64)
            numbers = np.clip(numbers, max(bounds.min, -(2**63)), min(bounds.max, 2**63 - 1))
        else:
            numbers = np.minimum(numbers.astype(np.uint64), np.uint64(bounds.max))
    narrowed = numbers.astype(kind[size])
    wide_kind = SIGNED if is_signed(target) else UNSIGNED
    return bits(narrowed.astype(wide_kind[max(register, size)]))
