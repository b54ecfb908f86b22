"""What the elementwise integer instructions compute: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.semantics import integers as ops
from kcheck.semantics.values import (
    UNSIGNED,
    Array,
)

Slots = dict[str, str]
# (bytes of each source, bytes of the result, function, what becomes of the region)
Spec = tuple[tuple[int, ...], int, Callable[..., Array], Any]


def of_type(n: int, fn: Callable[..., Array], region: Any = None) -> Callable[[Slots], Spec]:
    """`n` sources and a result of the instruction's type; fn takes arrays and the type."""

    def spec(slots: Slots) -> Spec:
        t = slots["type"]
        return (ops.width(t),) * n, ops.width(t), lambda *a: fn(*a, t), region

    return spec


def _signed_min(x: Array, y: Array, t: str) -> Array:
    return ops.bits(np.minimum(ops.view(x, t), ops.view(y, t)))


def _signed_max(x: Array, y: Array, t: str) -> Array:
    return ops.bits(np.maximum(ops.view(x, t), ops.view(y, t)))


def _int64(x: Array) -> Array:
    return ops.view(x, "s").astype(np.int64)


def product(slots: Slots) -> Callable[[Array, Array], Array]:
    """The lower or upper half of a product."""
    t = slots["type"]
    if slots["mode"] == "hi":
        return lambda x, y: ops.mul_hi(x, y, t)
    return lambda x, y: x * y


def _mul_spec(slots: Slots) -> Spec:
    w = ops.width(slots["type"])
    return (w, w), w, product(slots), None


def _mad_spec(slots: Slots) -> Spec:
    w = ops.width(slots["type"])
    mul = product(slots)
    return (w, w, w), w, lambda x, y, z: mul(x, y) + z, "c"


def _wide_spec(slots: Slots) -> Spec:
    t = slots["type"]
    w = ops.width(t)
    return (w, w), 2 * w, lambda x, y: ops.mul_wide(x, y, t), None


def _mad_wide_spec(slots: Slots) -> Spec:
    t = slots["type"]
    w = ops.width(t)
    return (w, w, 2 * w), 2 * w, lambda x, y, z: ops.mul_wide(x, y, t) + z, "c"


def _mad_sat_spec(slots: Slots) -> Spec:
    def fn(x: Array, y: Array, z: Array) -> Array:
        return ops.saturate(_int64(ops.mul_hi(x, y, "s32")) + _int64(z), "s32")

    return (4, 4, 4), 4, fn, None


def _mul24(slots: Slots) -> Callable[[Array, Array], Array]:
    t = slots["type"]
    shift = np.uint64(16 if slots.get("mode") != "lo" else 0)
    return lambda x, y: (ops.mul24(x, y, t) >> shift).astype(np.uint32)


def _mad24_sat_spec(slots: Slots) -> Spec:
    mul = _mul24(slots)

    def fn(x: Array, y: Array, z: Array) -> Array:
        return ops.saturate(_int64(mul(x, y)) + _int64(z), "s32")

    return (4, 4, 4), 4, fn, None


def _sad(x: Array, y: Array, z: Array, t: str) -> Array:
    a, b = ops.view(x, t), ops.view(y, t)
    return z + np.where(a < b, y - x, x - y)


def _neg(x: Array, t: str) -> Array:
    return (~x) + UNSIGNED[x.itemsize](1)


def _bit(fn: Callable[..., Array], n: int = 2, region: Any = "join") -> Callable[[Slots], Spec]:
    return of_type(n, lambda *a: fn(*a[:-1]), region)


def _shift(slots: Slots) -> Spec:
    t = slots["type"]
    return (ops.width(t), 4), ops.width(t), lambda x, n: ops.shift_right(x, n, t), None


def _bfe(slots: Slots) -> Spec:
    t = slots["type"]
    w = ops.width(t)
    return (w, 4, 4), w, lambda x, p, n: ops.extract_field(x, p, n, t), None


def _bfi(slots: Slots) -> Spec:
    w = ops.width(slots["type"])
    return (w, w, 4, 4), w, ops.insert_field, None


def _count(fn: Callable[[Array], Array]) -> Callable[[Slots], Spec]:
    return lambda slots: ((ops.width(slots["type"]),), 4, fn, None)


def _bfind(slots: Slots) -> Spec:
    t, amount = slots["type"], bool(slots["shiftamt"])
    return (ops.width(t),), 4, lambda x: ops.bfind(x, t, amount), None


def _szext(slots: Slots) -> Spec:
    t, mode = slots["type"], slots["mode"]
    return (4, 4), 4, lambda x, n: ops.sign_extend(x, n, t, mode), None


def _dp(slots: Slots) -> Spec:
    a, b = slots["atype"], slots["btype"]
    lanes = {"": (0, 1, 2, 3), "lo": (0, 1), "hi": (2, 3)}[slots.get("mode", "")]
    return (4, 4, 4), 4, lambda x, y, z: ops.dot(x, y, z, a, b, lanes), None


def _pack16(slots: Slots) -> Spec:
    t = slots["d"]

    def fn(x: Array, y: Array) -> Array:
        hi, lo = (ops.saturate(_int64(v), t).astype(np.uint32) for v in (x, y))
        return hi << np.uint32(16) | lo

    return (4, 4), 4, fn, None


def _pack8(slots: Slots) -> Spec:
    t = slots["d"]

    def fn(x: Array, y: Array, z: Array) -> Array:
        hi, lo = (ops.saturate(_int64(v), t).astype(np.uint32) for v in (x, y))
        return z << np.uint32(16) | hi << np.uint32(8) | lo

    return (4, 4, 4), 4, fn, None


SPECS: dict[str, Callable[[Slots], Spec]] = {
    "int.add": of_type(2, lambda x, y, t: x + y, "join"),
    "int.sub": of_type(2, lambda x, y, t: x - y, "minus"),
    "int.add.sat": of_type(2, lambda x, y, t: ops.saturate(_int64(x) + _int64(y), t)),
    "int.sub.sat": of_type(2, lambda x, y, t: ops.saturate(_int64(x) - _int64(y), t)),
    "int.mul": _mul_spec,
    "int.mad": _mad_spec,
    "int.mul.wide": _wide_spec,
    "int.mad.wide": _mad_wide_spec,
    "int.mad.sat": _mad_sat_spec,
    "int.mul24": lambda s: ((4, 4), 4, _mul24(s), None),
    "int.mad24": lambda s: ((4, 4, 4), 4, lambda x, y, z: _mul24(s)(x, y) + z, "c"),
    "int.mad24.sat": _mad24_sat_spec,
    "int.sad": of_type(3, _sad),
    "int.abs": of_type(1, lambda x, t: ops.magnitude(x)),
    "int.neg": of_type(1, _neg),
    "int.min": of_type(2, _signed_min, "join"),
    "int.max": of_type(2, _signed_max, "join"),
    "int.popc": _count(ops.popcount),
    "int.clz": _count(ops.leading_zeros),
    "int.bfind": _bfind,
    "int.brev": _bit(ops.reverse_bits, 1, None),
    "int.bfe": _bfe,
    "int.bfi": _bfi,
    "int.szext": _szext,
    "int.bmsk": lambda s: ((4, 4), 4, lambda x, y: ops.bit_mask(x, y, s["mode"]), None),
    "int.dp4a": _dp,
    "int.dp2a": _dp,
    "bit.and": _bit(np.bitwise_and),
    "bit.or": _bit(np.bitwise_or),
    "bit.xor": _bit(np.bitwise_xor),
    "bit.not": _bit(np.bitwise_not, 1, None),
    "bit.cnot": _bit(lambda x: (x == 0).astype(x.dtype), 1, None),
    "bit.shl": lambda s: ((ops.width(s["type"]), 4), ops.width(s["type"]), ops.shift_left, None),
    "bit.shr": _shift,
    "bit.shf": lambda s: (
        (4, 4, 4),
        4,
        lambda x, y, n: ops.funnel(x, y, n, s["dir"], s["mode"]),
        None,
    ),
    "bit.prmt": lambda s: ((4, 4, 4), 4, lambda x, y, n: ops.permute(x, y, n, s["mode"]), None),
    "cvt.pack": _pack16,
    "cvt.pack8": _pack8,
}
