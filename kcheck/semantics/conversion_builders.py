"""Builders of conversions from and to floats, over the reals (DESIGN.md 6)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.constants import FINITE, NAN, NINF, PINF, SYMBOLIC, UNDEF, ZERO
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics import integers
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.float_builders import float_source, refuse_unknown
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.selection import cases, choose
from kcheck.semantics.symbolic_integers import from_float, to_float
from kcheck.semantics.values import FMT_BYTES, UNSIGNED, Int, Packed, Unsupported

Slots = dict[str, str]
R = Real[Any]

# largest finite numbers, where .satfinite clamps
LARGEST = {
    "f16": Fraction(65504),
    "bf16": Fraction(0xFF) * Fraction(2) ** 120,
}
_ROUND = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _converted(fn: Callable[[Machine, R], R], fmt: str, target: str) -> Callable[..., Step]:
    def make(dst: int, source: int) -> Step:
        def run(m: Machine) -> None:
            x = fn(m, m.real(m.regs[source], fmt))
            result: R = Real(x.v, x.c, x.kind, target)
            put(m, dst, result)

        return run

    return make


def _cvt_float(d: Decoder, instr: Instr, slots: Slots) -> Step:
    source, target = slots["s"], {"tf32": "f32"}.get(slots["d"], slots["d"])
    rounding = _ROUND.get(slots.get("rnd", ""))

    def fn(m: Machine, x: R) -> R:
        x = m.reals.function(rounding, x) if rounding else x
        x = m.reals.clamp(x, 0, 1) if slots.get("sat") else x
        x = _satfinite(m, x, target) if slots.get("satfinite") else x
        return m.reals.relu(x) if slots.get("relu") else x

    make = _converted(fn, source, target)
    return make(d.dest(instr.operands[0]), float_source(d, instr.operands[1], source))


def _satfinite(m: Machine, x: R, fmt: str) -> R:
    """Clamp to the largest finite number; NaN stays."""
    low, high = m.reals.constant(-LARGEST[fmt]), m.reals.constant(LARGEST[fmt])
    return m.reals.minimum(m.reals.maximum(x, low, nan=True), high, nan=True)


def _cvt_half2(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """cvt d, a, b: a becomes the upper half (PTX ISA 9.7.9, cvt)."""
    fmt = slots["d"][:-2]
    dst = d.dest(instr.operands[0])
    a, b = (d.real(o, "f32") for o in instr.operands[1:])

    def run(m: Machine) -> None:
        out = []
        for s in (b, a):
            x = m.real(m.regs[s], "f32")
            x = _satfinite(m, x, fmt) if slots["satfinite"] else x
            x = m.reals.relu(x) if slots["relu"] else x
            out.append(Real(x.v, x.c, x.kind, fmt))
        put(m, dst, Packed(out[0], out[1]))

    return run


def _cvt_from_int(d: Decoder, instr: Instr, slots: Slots) -> Step:
    source, fmt = slots["s"], slots["d"]
    a = d.integer(instr.operands[1], integers.width(source))
    dst = d.dest(instr.operands[0])

    def convert(m: Machine, xs: list[Any]) -> R:
        number = to_float(m, xs[0], source)
        if number is not None:
            number = m.reals.clamp(number, 0, 1) if slots["sat"] else number
            return Real(number.v, number.c, number.kind, fmt)
        x = m.integer(xs[0], integers.width(source))
        keep_bits(m, [x], "converted to a float")
        ids = m.reals.integers(integers.view(x.a, source))
        if x.u is not None:
            ids = np.where(x.u, UNDEF, ids).astype(np.int32)
        result = m.reals.from_ids(ids)
        result = m.reals.clamp(result, 0, 1) if slots["sat"] else result
        result.fmt = fmt
        return result

    def run(m: Machine) -> None:
        def each(xs: list[Any]) -> Any:
            return m.by_part(xs, lambda parts: convert(m, parts))

        put(m, dst, cases(m, [m.regs[a]], each, FMT_BYTES[fmt]))

    return run


def _cvt_to_int(d: Decoder, instr: Instr, slots: Slots) -> Step:
    fmt, target = slots["s"], slots["d"]
    a = float_source(d, instr.operands[1], fmt)
    dst = d.dest(instr.operands[0])
    register = d.bytes_of(instr.operands[0])

    def run(m: Machine) -> None:
        argument = m.reals.settled(m.real(m.regs[a], fmt))
        refuse_unknown(m, m.reals.ids(argument), "a conversion to an integer of")
        _refuse_inexact(m, argument, fmt)
        x = m.reals.function(_ROUND[slots["rnd"]], argument)
        ids = m.reals.ids(x)
        symbolic = np.broadcast_to(m.symbolic_lanes(x), (m.lanes,)) & m.group()
        if not symbolic.any():
            put(m, dst, integer_of(m, ids, fmt, target, register))
            return
        number = from_float(m, x, target, register)
        if not (symbolic == m.group()).all():
            known = integer_of(m, np.where(ids == SYMBOLIC, ZERO, ids), fmt, target, register)
            number = choose(m, symbolic, number, known, register)
        put(m, dst, number)

    return run


def _refuse_inexact(m: Machine, x: R, fmt: str) -> None:
    """Refuse constants that hardware would have rounded before it made integers of them."""
    ids = np.broadcast_to(m.reals.ids(x), (m.lanes,))
    used = np.unique(ids if m.mask is None else ids[m.mask])
    if any(i >= FINITE and m.codec.pattern(int(i), fmt) is None for i in used):
        raise Unsupported("inexact-int", f"a constant that no {fmt} holds becomes an integer")


def integer_of(m: Machine, ids: Any, fmt: str, target: str, register: int) -> Int:
    """Constants as integers, clamped to the type.

    NaN gives 0, or the top bit alone where a side has 64 bits (PTX ISA 9.7.9, cvt).
    """
    w = integers.width(target)
    signed = integers.is_signed(target)
    low, high = (-(1 << 8 * w - 1), (1 << 8 * w - 1) - 1) if signed else (0, (1 << 8 * w) - 1)
    used, index = np.unique(ids, return_inverse=True)
    nan = (-1 if signed else 1) << 8 * w - 1 if fmt == "f64" or w == 8 else 0
    special = {PINF: high, NINF: low, NAN: nan}
    numbers = [
        special.get(int(i), 0)
        if i < FINITE
        else min(max(int(m.reals.constants.values[i]), low), high)
        for i in used
    ]
    keep = (1 << 8 * register) - 1
    bits = np.array([n & keep for n in numbers], np.uint64)[index].reshape(ids.shape)
    bad = ids == UNDEF
    return Int(bits.astype(UNSIGNED[register]), None, bad if bad.any() else None)


CONVERSION_BUILDERS: dict[str, Builder] = {
    "cvt.float": _cvt_float,
    "cvt.relu": _cvt_float,
    "cvt.satfinite": _cvt_float,
    "cvt.integral": _cvt_float,
    "cvt.tf32": _cvt_float,
    "cvt.half2": _cvt_half2,
    "cvt.int.float": _cvt_from_int,
    "cvt.float.int": _cvt_to_int,
}
