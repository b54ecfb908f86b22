"""Comparison and selection (PTX ISA 9.7.6, 9.7.7)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.bits import PREDICATES
from kcheck.semantics.slow.decode import Pure, handles, pure
from kcheck.semantics.slow.integer import Numbers
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import UNDEF, Undef, Unit, as_real, concat, slice_bits

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def compare_numbers(name: str) -> Callable[[Number, Number], bool]:
    """A float comparison; those that end in `u` hold for a nan, `num` and `nan` ask for one."""
    if name == "num":
        return lambda a, b: not (a.is_nan or b.is_nan)
    if name == "nan":
        return lambda a, b: a.is_nan or b.is_nan
    unordered = name.endswith("u")
    relation = _ORDERED[name.removesuffix("u")]

    def compare(a: Number, b: Number) -> bool:
        order = a.order(b)
        return unordered if order is None else relation(order, 0)

    return compare


def _relation(slots: Slots) -> tuple[str, Callable[[Any, Any], bool]]:
    """The kind of the operands of set and setp, and the comparison."""
    kind, name = slots["type"], slots["cmp"]
    if kind[0] == "b" and kind != "bf16":
        kind = "u" + kind[1:]
    if kind[0] in "us":
        if name in ("lo", "ls", "hi", "hs"):
            kind = "u" + kind[1:]
        return kind, _ORDERED[name]
    return kind, compare_numbers(name)


def _both(p: Any) -> tuple[Any, Any]:
    return (ABSORB, ABSORB) if p is ABSORB else (p, not p)


@handles("int.setp", "float.setp", "int.setp.bool", "float.setp.bool")
def _setp(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """p = (a cmp b) op c; q = !(a cmp b) op c."""
    target, a, b, *rest = instr.operands
    kind, relation = _relation(slots)
    put = decoder.two_predicates(target)
    first, second = decoder.load(a, kind), decoder.load(b, kind)
    third = decoder.load(rest[0], "pred") if rest else None
    combine = PREDICATES[slots["bool"]] if rest else None

    def step(t: Thread) -> None:
        x, y = first(t), second(t)
        p, q = _both(ABSORB if x is ABSORB or y is ABSORB else relation(x, y))
        if third is not None and combine is not None:
            c = third(t)
            p, q = combine(p, c), combine(q, c)
        put(t, (p, q))

    return step


def _of_halves(decoder: Decoder, instr: Instr, slots: Slots) -> Callable[[Thread], tuple[Any, Any]]:
    """Reads (a cmp b) op c of the low and of the high half."""
    _, a, b, *rest = instr.operands
    fmt, relation = slots["type"].removesuffix("x2"), compare_numbers(slots["cmp"])
    first, second = decoder.raw(a, 32), decoder.raw(b, 32)
    third = decoder.load(rest[0], "pred") if rest else None

    def at(t: Thread, low: int) -> Any:
        x, y = (as_real(slice_bits(g(t), low, 16), fmt, decoder.numbers) for g in (first, second))
        p = ABSORB if isinstance(x, Undef) or isinstance(y, Undef) else relation(x, y)
        return p if third is None else PREDICATES[slots["bool"]](p, third(t))

    return lambda t: (at(t, 0), at(t, 16))


@handles("half2.setp", "half2.setp.bool")
def _setp2(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    read, put = _of_halves(decoder, instr, slots), decoder.two_predicates(instr.operands[0])
    return lambda t: put(t, read(t))


@handles("half2.set", "half2.set.bool")
def _set2(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Each half: all ones or 1.0 where its comparison holds, else 0."""
    read, put = _of_halves(decoder, instr, slots), decoder.store(instr.operands[0], "b32")
    true = _TRUE.get(slots["dtype"].removesuffix("x2"), 0xFFFF)

    def step(t: Thread) -> None:
        put(t, concat((UNDEF if p is ABSORB else true if p else 0, 16) for p in read(t)))

    return step


# 1.0 in the float types; integers are all ones
_TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


@handles("int.set", "float.set", "int.set.bool", "float.set.bool")
def _set(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """All ones or 1.0 where the comparison holds, else 0."""
    target, a, b, *rest = instr.operands
    kind, relation = _relation(slots)
    bits = kind_bits(slots["dtype"])
    true = _TRUE.get(slots["dtype"], (1 << bits) - 1)
    put = decoder.store(target, f"u{bits}")
    first, second = decoder.load(a, kind), decoder.load(b, kind)
    third = decoder.load(rest[0], "pred") if rest else None
    combine = PREDICATES[slots["bool"]] if rest else None

    def step(t: Thread) -> None:
        x, y = first(t), second(t)
        p = ABSORB if x is ABSORB or y is ABSORB else relation(x, y)
        if third is not None and combine is not None:
            p = combine(p, third(t))
        put(t, p if p is ABSORB else true if p else 0)

    return step


def _choose(p: bool, a: Unit, b: Unit) -> Unit:
    return a if p else b


@pure("selp")
def _selp(slots: Slots, numbers: Numbers) -> Pure:
    raw = f"b{kind_bits(slots['type'])}"
    return Pure(raw, (raw, raw, "pred"), lambda a, b, p: _choose(p, a, b))


@pure("slct.int")
def _slct_int(slots: Slots, numbers: Numbers) -> Pure:
    raw = f"b{kind_bits(slots['dtype'])}"
    return Pure(raw, (raw, raw, "s32"), lambda a, b, c: _choose(c >= 0, a, b))


@pure("slct.float")
def _slct_float(slots: Slots, numbers: Numbers) -> Pure:
    raw, at_least = f"b{kind_bits(slots['dtype'])}", compare_numbers("ge")
    zero = numbers.of(0)
    return Pure(raw, (raw, raw, "f32"), lambda a, b, c: _choose(at_least(c, zero), a, b))
