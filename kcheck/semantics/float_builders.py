"""Builders of float arithmetic over the reals (DESIGN.md 6): rounding and .ftz mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.constants import CASED, FINITE, NAN, NAN_DIV, NINF, PINF, UNDEF, UNKNOWN
from kcheck.canon.lanes import CONST, SYM, Real
from kcheck.ptx_frontend.tree import Instr, Operand, Pair
from kcheck.semantics import integers
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.integer_builders import joined, predicate_writer
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.predicates import as_number
from kcheck.semantics.values import (
    FMT_BYTES,
    FRACTION,
    MAGIC,
    Int,
    Packed,
    Pred,
    Unsupported,
    either,
)

Slots = dict[str, str]
R = Real[Any]
Function = Callable[..., R]


def check_magic(m: Machine, fmt: str, x: R, y: R, total: R) -> None:
    """Refuse a sum (or difference) of symbolic data and a large constant, or one of some integers.

    A sum of integers that the format holds as well as their sum is exact; others count where they
    are exponents (`semantics.large_sums`).
    """
    if x.kind == y.kind and (x.kind == CONST or (x.kind == SYM and not m.reals.ranged)):
        return
    limit = MAGIC.get(fmt)
    if limit is None:
        return
    for known, data in ((x, y), (y, x)):
        large = m.reals.large(known, limit) | m.reals.large_integers(known, limit)
        lanes = large & m.symbolic_lanes(data)
        if lanes.any():
            most = 2 << FRACTION[fmt]
            exact = [m.reals.integers_within(v, most) for v in (known, data, total)]
            lanes = lanes & ~(exact[0] & exact[1] & exact[2])
        lanes = lanes if m.mask is None else lanes & m.mask
        if lanes.any() and not m.large_sums.only_exponents(m.at):
            raise Unsupported(
                "magic-rounding",
                f"a constant of magnitude {float(limit):g} or more is added to data",
            )


def _add(m: Machine, fmt: str, x: R, y: R) -> R:
    total = m.reals.add(x, y)
    check_magic(m, fmt, x, y, total)
    return total


def _sub(m: Machine, fmt: str, x: R, y: R) -> R:
    total = m.reals.sub(x, y)
    check_magic(m, fmt, x, y, total)
    return total


def _fma(m: Machine, fmt: str, x: R, y: R, z: R) -> R:
    if x.kind != SYM or y.kind != SYM or z.kind != SYM or m.reals.ranged:
        product = m.reals.mul(x, y)
        total = m.reals.add(product, z)
        check_magic(m, fmt, product, z, total)
        return total
    return m.reals.fma(x, y, z)


def _rsqrt(m: Machine, fmt: str, x: R) -> R:
    return m.reals.rcp(m.reals.function("sqrt", x))


def _atom(name: str) -> Callable[[Machine, str, R], R]:
    return lambda m, fmt, x: m.reals.function(name, x)


# form -> function of (machine, format, sources); the slots sat, relu and NaN are applied around
FUNCTIONS: dict[str, Function] = {
    "add": _add,
    "sub": _sub,
    "mul": lambda m, fmt, x, y: m.reals.mul(x, y),
    "fma": _fma,
    "div": lambda m, fmt, x, y: m.reals.div(x, y),
    "rcp": lambda m, fmt, x: m.reals.rcp(x),
    "sqrt": _atom("sqrt"),
    "rsqrt": _rsqrt,
    "ex2": lambda m, fmt, x: m.reals.exp2(x),
    "lg2": _atom("lg2"),
    "sin": _atom("sin"),
    "cos": _atom("cos"),
    "tanh": _atom("tanh"),
    "neg": lambda m, fmt, x: m.reals.neg(x),
    "abs": lambda m, fmt, x: m.reals.abs(x),
    "min": lambda m, fmt, x, y: m.reals.minimum(x, y),
    "max": lambda m, fmt, x, y: m.reals.maximum(x, y),
    "min.NaN": lambda m, fmt, x, y: m.reals.minimum(x, y, nan=True),
    "max.NaN": lambda m, fmt, x, y: m.reals.maximum(x, y, nan=True),
}


def _function(op: str, slots: Slots) -> Function:
    """The row's function with its saturation."""
    fn = FUNCTIONS[f"{op}.NaN" if slots.get("NaN") else op]
    if slots.get("sat"):
        return lambda m, fmt, *xs: m.reals.clamp(fn(m, fmt, *xs), 0, 1)
    if slots.get("relu"):
        return lambda m, fmt, *xs: m.reals.relu(fn(m, fmt, *xs))
    return fn


def _scalar(dst: int, sources: list[int], fmt: str, fn: Function) -> Step:
    """A step on floats of one format."""

    def run(m: Machine) -> None:
        regs = m.regs
        xs = []
        for s in sources:
            x = regs[s]
            if type(x) is not Real or x.fmt != fmt or x.u is not None:
                x = m.real(x, fmt)
            xs.append(x)
        result = fn(m, fmt, *xs)
        result.fmt = fmt
        regs[dst] = result if m.mask is None else m.merge(regs[dst], result)

    return run


def _pair(dst: int, sources: list[int], fmt: str, fn: Function) -> Step:
    """A step on both halves of 32-bit registers."""

    def run(m: Machine) -> None:
        pairs = [m.halves(m.regs[s]) for s in sources]
        out = []
        for i in range(2):
            result = fn(m, fmt, *[m.real(pair[i], fmt) for pair in pairs])
            result.fmt = fmt
            out.append(result)
        put(m, dst, Packed(out[0], out[1]))

    return run


def _arithmetic(op: str) -> Builder:
    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        fn = _function(op, slots)
        t = slots["type"]
        dst = d.dest(instr.operands[0])
        if t.endswith("x2"):
            fmt = t[:-2]
            return _pair(dst, [d.integer(o, 4) for o in instr.operands[1:]], fmt, fn)
        return _scalar(dst, [float_source(d, o, t) for o in instr.operands[1:]], t, fn)

    return build


def float_source(d: Decoder, op: Operand, fmt: str) -> int:
    """A float operand; a 16-bit literal stands for its bits."""
    return d.integer(op, 2) if FMT_BYTES[fmt] == 2 else d.real(op, fmt)


# comparison

_ORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


def refuse_unknown(m: Machine, ids: Any, use: str) -> None:
    """Refuse lanes that may be infinite, a NaN or a number: x / 0 is any of them on hardware."""
    unknown = np.isin(ids, (UNKNOWN, NAN_DIV)) | (ids >= CASED)
    lanes = np.broadcast_to(unknown, (*ids.shape[:-1], m.lanes))
    if (lanes if m.mask is None else lanes & m.mask).any():
        raise Unsupported("infinity", f"{use} a value that met an infinity or a division by zero")


def compare(m: Machine, cmp: str, x: R, y: R) -> Pred:
    """setp on floats (PTX ISA 9.7.6, floating-point comparisons)."""
    if cmp in ("num", "nan"):
        ids = np.stack(np.broadcast_arrays(m.reals.ids(x), m.reals.ids(y)))
        refuse_unknown(m, ids, "a comparison of")
        isnan = np.asarray((ids == NAN).any(0))
        bad = np.asarray((ids == UNDEF).any(0))
        return Pred(isnan if cmp == "nan" else ~isnan, None, None, bad if bad.any() else None)
    known, v = m.reals.compare(_ORDERED.get(cmp, cmp), cmp in _ORDERED, x, y)
    if (known == 3).any():
        lanes = np.broadcast_to(known == 3, (m.lanes,))
        if (lanes if m.mask is None else lanes & m.mask).any():
            raise Unsupported("infinity", "a comparison of a value that met an infinity")
    undefined = known == 2
    symbolic = known < 0
    return Pred(
        known == 1,
        symbolic if symbolic.any() else None,
        v,
        undefined if undefined.any() else None,
    )


def _float_setp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    fmt, cmp = slots["type"], slots["cmp"]
    a, b = (float_source(d, o, fmt) for o in instr.operands[1:3])
    write = predicate_writer(d, instr.operands[0], instr.operands[3:], slots.get("bool", ""))

    def run(m: Machine) -> None:
        write(m, compare(m, cmp, m.real(m.regs[a], fmt), m.real(m.regs[b], fmt)))

    return run


def _half2_comparison(
    d: Decoder, instr: Instr, slots: Slots
) -> Callable[[Machine], tuple[Pred, Pred]]:
    """The comparisons of both halves, each combined with the predicate operand."""
    fmt, cmp = slots["type"][:-2], slots["cmp"]
    a, b = (d.integer(o, 4) for o in instr.operands[1:3])
    join = joined(d, instr.operands[3:], slots.get("bool", ""))

    def read(m: Machine) -> tuple[Pred, Pred]:
        pairs = zip(m.halves(m.regs[a]), m.halves(m.regs[b]), strict=True)
        p, q = (compare(m, cmp, m.real(x, fmt), m.real(y, fmt)) for x, y in pairs)
        return join(m, p), join(m, q)

    return read


def _half2_setp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target = instr.operands[0]
    if not isinstance(target, Pair):
        raise Unsupported("operand", "setp on halves needs p|q")
    first, second = d.dest(target.first), d.dest(target.second)
    comparison = _half2_comparison(d, instr, slots)

    def run(m: Machine) -> None:
        for slot, p in zip((first, second), comparison(m), strict=True):
            put(m, slot, p)

    return run


def _half2_set(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """Each half of d: 1.0 or 16 ones where its comparison holds."""
    dst = d.dest(instr.operands[0])
    half = slots["dtype"].removesuffix("x2") if slots["dtype"].endswith("x2") else "u16"
    comparison = _half2_comparison(d, instr, slots)

    def run(m: Machine) -> None:
        low, high = (as_number(m, p, half) for p in comparison(m))
        if half != "u16":
            put(m, dst, Packed(low, high))
            return
        word = low.a.astype(np.uint32) | high.a.astype(np.uint32) << np.uint32(16)
        put(m, dst, Int(word, None, either(low.u, high.u)))

    return run


def _float_set(d: Decoder, instr: Instr, slots: Slots) -> Step:
    fmt = slots["type"]
    a, b = (float_source(d, o, fmt) for o in instr.operands[1:3])
    join = joined(d, instr.operands[3:], slots.get("bool", ""))
    dst = d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        p = compare(m, slots["cmp"], m.real(m.regs[a], fmt), m.real(m.regs[b], fmt))
        put(m, dst, as_number(m, join(m, p), slots["dtype"]))

    return run


def _testp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    fmt = slots["type"]
    a, dst = d.real(instr.operands[1], fmt), d.dest(instr.operands[0])
    test = slots["test"]

    def run(m: Machine) -> None:
        ids = m.reals.ids(m.real(m.regs[a], fmt))
        refuse_unknown(m, ids, "a test of")
        infinite, nan = np.isin(ids, (PINF, NINF)), ids == NAN
        b = {
            "finite": ~infinite & ~nan,
            "infinite": infinite,
            "notanumber": nan,
            "number": ~nan,
        }[test]
        bad = ids == UNDEF
        put(m, dst, Pred(b, None, None, bad if bad.any() else None))

    return run


# the exponents of the smallest normal and of the smallest subnormal number
_SMALLEST = {"f32": (-126, -149), "f64": (-1022, -1074)}


def _testp_class(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """testp.normal and .subnormal: of constants only; a zero is normal (PTX ISA 9.7.3)."""
    fmt = slots["type"]
    a, dst = d.real(instr.operands[1], fmt), d.dest(instr.operands[0])
    normal, unit = (Fraction(2) ** e for e in _SMALLEST[fmt])

    def subnormal(value: Fraction) -> bool:
        if not 0 < abs(value) < normal:
            return False
        if (value / unit).denominator != 1:
            raise Unsupported("testp", f"a constant that is no {fmt} is tested")
        return True

    def run(m: Machine) -> None:
        x = m.real(m.regs[a], fmt)
        if (m.symbolic_lanes(x) & m.group()).any():
            raise Unsupported("testp", "the class of a tensor value is tested")
        ids = m.reals.ids(x)
        refuse_unknown(m, ids, "a test of")
        used, index = np.unique(ids, return_inverse=True)
        values = m.reals.constants.values
        small = np.array([i >= FINITE and subnormal(values[i]) for i in used.tolist()])
        b = small[index].reshape(ids.shape)
        bad = ids == UNDEF
        b = b if slots["test"] == "subnormal" else (ids >= FINITE) & ~b
        put(m, dst, Pred(b, None, None, bad if bad.any() else None))

    return run


def _xorsign(op: str) -> Builder:
    """min, max of the magnitudes, with the product of the signs: of known bits only."""

    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        fmt = slots["type"]
        sources = [d.real(o, fmt) for o in instr.operands[1:]]
        dst = d.dest(instr.operands[0])
        fn = _function(op, slots)

        def run(m: Machine) -> None:
            x, y = (m.integer(m.regs[s], FMT_BYTES[fmt]) for s in sources)
            negative = np.asarray(integers.view(x.a ^ y.a, "s") < 0)
            size = fn(m, fmt, *[m.reals.abs(m.real(m.regs[s], fmt)) for s in sources])
            result = m.reals.where(negative, m.reals.neg(size), size)
            result.fmt = fmt
            result.u = either(x.u, y.u)
            put(m, dst, result)

        return run

    return build


def _copysign(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """copysign d, a, b: the magnitude of b with the sign of a."""
    fmt = slots["type"]
    a, b = (d.real(o, fmt) for o in instr.operands[1:])
    dst = d.dest(instr.operands[0])
    w = FMT_BYTES[fmt]

    def run(m: Machine) -> None:
        bits = m.integer(m.regs[a], w)
        sign = integers.view(bits.a, "s") < 0
        size = m.reals.abs(m.real(m.regs[b], fmt))
        result = m.reals.where(np.asarray(sign), m.reals.neg(size), size)
        result.fmt = fmt
        result.u = bits.u
        put(m, dst, result)

    return run


FLOAT_BUILDERS: dict[str, Builder] = {
    **{f"float.{op}": _arithmetic(op) for op in FUNCTIONS if "." not in op},
    **{
        f"half.{op}": _arithmetic(op)
        for op in ("add", "sub", "mul", "fma", "ex2", "tanh", "neg", "abs", "min", "max")
    },
    "float.setp": _float_setp,
    "float.setp.bool": _float_setp,
    "half2.setp": _half2_setp,
    "half2.setp.bool": _half2_setp,
    "half2.set": _half2_set,
    "half2.set.bool": _half2_set,
    "float.set": _float_set,
    "float.set.bool": _float_set,
    "float.testp": _testp,
    "float.testp.class": _testp_class,
    "float.min.xorsign": _xorsign("min"),
    "float.max.xorsign": _xorsign("max"),
    "float.copysign": _copysign,
}
