"""cvt (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kcheck.semantics.slow.decode import Pure, pure
from kcheck.semantics.slow.floats import finish, relu
from kcheck.semantics.slow.formats import largest
from kcheck.semantics.slow.integer import Numbers, limits, saturate
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import Slots, kind_bits
from kcheck.semantics.slow.units import (
    Real,
    Undef,
    Unit,
    as_int,
    as_real,
    concat,
    slice_bits,
)


@pure("cvt.int")
def _cvt_int(slots: Slots, numbers: Numbers) -> Pure:
    target, source = slots["d"], slots["s"]
    if slots["sat"]:
        return Pure(target, (source,), lambda a: saturate(a, target))
    raw = f"b{kind_bits(source)}"
    return Pure(target, (raw,), lambda a: resized(a, source, target), address=True)


def resized(unit: Unit, source: str, target: str) -> Unit:
    """Cut off, or extended by the source's sign; what only moves works on reals too."""
    have, want = kind_bits(source), kind_bits(target)
    if isinstance(unit, Undef):
        return unit
    if source[0] == "s" and want > have:
        value = as_int(unit, have)
        return value if isinstance(value, Undef) else value - (value >> have - 1 << have)
    if want > have:
        return concat([(slice_bits(unit, 0, have), have), (0, want - have)])
    return slice_bits(unit, 0, want)


@pure("cvt.int.float")
def _cvt_int_float(slots: Slots, numbers: Numbers) -> Pure:
    return Pure(slots["d"], (slots["s"],), lambda a: finish(slots, numbers.of(a)))


def to_int(value: Number, mode: str, source: str, target: str) -> int:
    """Rounded and clamped; a nan gives 0, or the top bit alone if a side has 64 bits."""
    if value.is_nan:
        wide = source == "f64" or target in ("s64", "u64")
        return 1 << kind_bits(target) - 1 if wide else 0
    low, high = limits(target)
    if value.special is not None:
        return high if value.special > 0 else low
    return saturate(value.integer(mode), target)


@pure("cvt.float.int")
def _cvt_float_int(slots: Slots, numbers: Numbers) -> Pure:
    source, target, mode = slots["s"], slots["d"], slots["rnd"]
    return Pure(target, (source,), lambda a: to_int(a, mode, source, target))


@pure("cvt.float")
def _cvt_float(slots: Slots, numbers: Numbers) -> Pure:
    return Pure(slots["d"], (slots["s"],), lambda a: finish(slots, a))


@pure("cvt.integral")
def _cvt_integral(slots: Slots, numbers: Numbers) -> Pure:
    mode = slots["rnd"]
    return Pure(slots["d"], (slots["s"],), lambda a: finish(slots, a.round(mode)))


@pure("cvt.tf32")
def _cvt_tf32(slots: Slots, numbers: Numbers) -> Pure:
    return Pure("f32", ("f32",), lambda a: a)


def narrowed(slots: Slots, value: Number, fmt: str) -> Number:
    """`.relu` and `.satfinite` of a conversion to a 16-bit format; a nan stays."""
    if slots.get("relu"):
        value = relu(value)
    if slots.get("satfinite") and not value.is_nan:
        bound: Fraction = largest(fmt)
        value = value.clamp(-bound, bound)
    return value


@pure("cvt.relu", "cvt.satfinite")
def _cvt_narrow(slots: Slots, numbers: Numbers) -> Pure:
    fmt = slots["d"]
    return Pure(fmt, ("f32",), lambda a: narrowed(slots, a, fmt))


@pure("cvt.half2")
def _cvt_half2(slots: Slots, numbers: Numbers) -> Pure:
    """The first source is the upper half."""
    fmt = slots["d"].removesuffix("x2")

    def function(high: Unit, low: Unit) -> Unit:
        return concat((_half(slots, unit, fmt, numbers), 16) for unit in (low, high))

    return Pure("b32", ("b32", "b32"), function)


def _half(slots: Slots, unit: Unit, fmt: str, numbers: Numbers) -> Unit:
    from kcheck.semantics.slow.units import Undef

    value = as_real(unit, "f32", numbers)
    return value if isinstance(value, Undef) else Real(fmt, narrowed(slots, value, fmt))


@pure("cvt.pack")
def _cvt_pack(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["d"]
    return Pure("u32", ("s32", "s32"), lambda a, b: _packed(kind, a, b))


@pure("cvt.pack8")
def _cvt_pack8(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["d"]
    return Pure("u32", ("s32", "s32", "u32"), lambda a, b, c: _packed(kind, a, b) | c << 16)


def _packed(kind: str, a: int, b: int) -> Any:
    """b below, a above, both saturated."""
    bits = kind_bits(kind)
    mask = (1 << bits) - 1
    return (saturate(a, kind) & mask) << bits | saturate(b, kind) & mask
