"""Builders for a run in true formats: floats are concrete bits, and rounded as the ISA says.

What only moves bits, or computes with integers, is built as over the reals; all else that isn't
named here is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kcheck.canon.domain import Arithmetic, NoRule
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.tree import Instr, Pair
from kcheck.semantics import integers
from kcheck.semantics.access import Place, address
from kcheck.semantics.atomic_builders import (
    ATOMIC_BUILDERS,
    atomic_code,
    cas_update,
    places,
    unstable,
    untracked,
)
from kcheck.semantics.collective_builders import COLLECTIVE_BUILDERS
from kcheck.semantics.copy_builders import COPY_BUILDERS
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.format_mma import mma
from kcheck.semantics.integer_builders import (
    INTEGER_BUILDERS,
    elementwise,
    joined,
    predicate_writer,
)
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory_builders import MEMORY_BUILDERS
from kcheck.semantics.move_builders import MOVE_BUILDERS, choose, select, type_size
from kcheck.semantics.predicates import as_number
from kcheck.semantics.sync_builders import SYNC_BUILDERS
from kcheck.semantics.units import undefined
from kcheck.semantics.values import FMT_BYTES, Array, Int, Pred, Unsupported, either
from kcheck.semantics.warp_builders import WARP_BUILDERS

Slots = dict[str, str]
Function = Callable[..., Array]


def _arithmetic(d: Decoder) -> Arithmetic:
    assert d.machine.arithmetic is not None
    return d.machine.arithmetic


def _rule(d: Decoder, instr: Instr, op: str, fmt: str, slots: Mapping[str, str]) -> Function:
    """The function of an instruction; Unsupported if the arithmetic has none."""
    try:
        return _arithmetic(d).operation(op, fmt, slots)
    except NoRule as error:
        raise Unsupported(instr.name, str(error)) from error


def _halves(fn: Function) -> Function:
    """A function of 16-bit patterns on both halves of words."""

    def run(*words: Array) -> Array:
        low = fn(*[w.astype(np.uint16) for w in words])
        high = fn(*[(w >> np.uint32(16)).astype(np.uint16) for w in words])
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

    return run


def _operation(op: str) -> Builder:
    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        fmt = slots["type"].removesuffix("x2")
        fn = _rule(d, instr, op, fmt, slots)
        size = FMT_BYTES[fmt]
        if fmt != slots["type"]:
            fn, size = _halves(fn), 4
        sources = [d.integer(o, size) for o in instr.operands[1:]]
        spec = ((size,) * len(sources), size, fn, None)
        return elementwise(d.dest(instr.operands[0]), sources, spec, None)

    return build


# comparison

Read = Callable[[Machine], list[Pred]]


def _comparison(d: Decoder, instr: Instr, slots: Slots) -> Read:
    """The comparison of an instruction: one predicate, or one for each half."""
    fmt, pair = slots["type"].removesuffix("x2"), slots["type"].endswith("x2")
    fn = _arithmetic(d).comparison(slots["cmp"], fmt, bool(slots.get("ftz")))
    size = 4 if pair else FMT_BYTES[fmt]
    sources = [d.integer(o, size) for o in instr.operands[1:3]]

    def read(m: Machine) -> list[Pred]:
        x, y = (m.integer(m.regs[s], size) for s in sources)
        u = either(x.u, y.u)
        if not pair:
            return [Pred(fn(x.a, y.a), None, None, u)]
        parts = [[(w.a >> np.uint32(shift)).astype(np.uint16) for w in (x, y)] for shift in (0, 16)]
        return [Pred(fn(*part), None, None, u) for part in parts]

    return read


def _setp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    read = _comparison(d, instr, slots)
    write = predicate_writer(d, instr.operands[0], instr.operands[3:], slots.get("bool", ""))
    return lambda m: write(m, read(m)[0])


def _half2_setp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target = instr.operands[0]
    if not isinstance(target, Pair):
        raise Unsupported("operand", "setp on halves needs p|q")
    dsts = [d.dest(target.first), d.dest(target.second)]
    read, join = (
        _comparison(d, instr, slots),
        joined(d, instr.operands[3:], slots.get("bool", "")),
    )

    def run(m: Machine) -> None:
        for dst, p in zip(dsts, [join(m, p) for p in read(m)], strict=True):
            put(m, dst, p)

    return run


def _set(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """1.0, or all ones, where the comparison holds; for halves in each half."""
    read, join = (
        _comparison(d, instr, slots),
        joined(d, instr.operands[3:], slots.get("bool", "")),
    )
    dst, dtype = d.dest(instr.operands[0]), slots["dtype"]
    half = dtype.removesuffix("x2") if dtype.endswith("x2") else "u16"

    def run(m: Machine) -> None:
        flags = [join(m, p) for p in read(m)]
        if len(flags) == 1:
            put(m, dst, as_number(m, flags[0], dtype))
            return
        low, high = (as_number(m, p, half) for p in flags)
        word = low.a.astype(np.uint32) | high.a.astype(np.uint32) << np.uint32(16)
        put(m, dst, Int(word, None, either(low.u, high.u)))

    return run


def _slct(d: Decoder, instr: Instr, slots: Slots) -> Step:
    size = type_size(slots["dtype"])
    a, b = (d.integer(o, size) for o in instr.operands[1:3])
    c, dst = d.integer(instr.operands[3], 4), d.dest(instr.operands[0])
    fn = _arithmetic(d).comparison("ge", "f32", bool(slots["ftz"]))

    def run(m: Machine) -> None:
        x = m.integer(m.regs[c], 4)
        p = Pred(fn(x.a, np.zeros(1, np.uint32)), None, None, x.u)
        result = select(m, p, m.regs[a], m.regs[b], size)
        put(m, dst, result if p.u is None else choose(m, p.u, undefined(size), result, size))

    return run


def _testp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    fmt, test = slots["type"], slots["test"]
    size, arithmetic = FMT_BYTES[fmt], _arithmetic(d)
    a, dst = d.integer(instr.operands[1], size), d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        x = m.integer(m.regs[a], size)
        put(m, dst, Pred(arithmetic.classified(test, fmt, x.a), None, None, x.u))

    return run


# conversion


def _width(t: str) -> int:
    return 4 if t == "tf32" else FMT_BYTES[t] if t in FMT_BYTES else integers.width(t)


def _cvt(d: Decoder, instr: Instr, slots: Slots) -> Step:
    source, target = slots["s"], slots["d"]
    integer = target not in FMT_BYTES and target != "tf32"
    register = d.bytes_of(instr.operands[0]) if integer else _width(target)
    fn = _arithmetic(d).convert(source, target, slots, register)
    size = _width(source)
    spec = ((size,), register, fn, None)
    return elementwise(d.dest(instr.operands[0]), [d.integer(instr.operands[1], size)], spec, None)


def _cvt_half2(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """cvt d, a, b: a becomes the upper half (PTX ISA 9.7.9, cvt)."""
    fmt = slots["d"].removesuffix("x2")
    fn = _arithmetic(d).convert("f32", fmt, slots)

    def both(a: Array, b: Array) -> Array:
        return fn(b).astype(np.uint32) | fn(a).astype(np.uint32) << np.uint32(16)

    sources = [d.integer(o, 4) for o in instr.operands[1:]]
    return elementwise(d.dest(instr.operands[0]), sources, ((4, 4), 4, both, None), None)


# atomics


def in_turn(add: Function) -> Callable[[Array, Array, Array], None]:
    """Add operands to cells in place, in the order of the lanes: one of the orders there may be."""

    def apply(cells: Array, index: Array, values: Array) -> None:
        order = index.argsort(kind="stable")
        ranks = np.arange(index.size) - index[order].searchsorted(index[order])
        values = np.broadcast_to(values, index.shape)
        for turn in range(int(ranks.max(initial=-1)) + 1):
            lanes = order[ranks == turn]
            cells[index[lanes]] = add(cells[index[lanes]], values[lanes])

    return apply


def _atomic_add(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """atom.add, red.add of floats; f32 in global memory flushes subnormals (PTX ISA, atom)."""
    t = slots["type"]
    fmt = t.removesuffix("x2")
    if fmt not in FMT_BYTES:
        return ATOMIC_BUILDERS["red.add"](d, instr, slots)
    size = FMT_BYTES[fmt] * (2 if t != fmt else 1)
    *dsts, target, source = instr.operands
    at, slot = address(d, target, slots["space"]), d.integer(source, size)
    dst, code = d.dest(dsts[0]) if dsts else None, atomic_code("add", t, slots["scope"])

    def adder(extra: Mapping[str, str]) -> Callable[[Array, Array, Array], None]:
        add = _rule(d, instr, "add", fmt, extra)
        return in_turn(_halves(add) if t != fmt else add)

    keep, flush = adder({}), adder({"ftz": "ftz"})

    def run(m: Machine) -> None:
        for place in places(m, at, size, code):
            untracked(m, place, size)
            operand = m.integer(m.regs[slot], size)
            apply = flush if fmt == "f32" and place.region.space == "global" else keep
            place.region.memory.update(place.cell, size, operand, place.mask, apply, False)
        unstable(m, dst)

    return run


def _cas(d: Decoder, instr: Instr, slots: Slots) -> Step:
    loop = d.machine.plan.cas.get(d.at)
    if loop is None:
        return ATOMIC_BUILDERS["atom.cas"](d, instr, slots)
    found = match(loop.core.opcode)
    assert found is not None
    size, operand = FMT_BYTES[loop.fmt], d.integer(loop.operand, FMT_BYTES[loop.fmt])
    apply = in_turn(_rule(d, loop.core, loop.operation, loop.fmt, found.slots))

    def add(m: Machine, place: Place) -> None:
        number = m.integer(m.regs[operand], size)
        place.region.memory.update(place.cell, size, number, place.mask, apply, False)

    return cas_update(d, instr, slots, loop, add)


_OPERATIONS = (
    *("add", "sub", "mul", "fma", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos"),
    *("tanh", "neg", "abs", "min", "max", "min.xorsign", "max.xorsign", "copysign"),
)
_HALF = ("add", "sub", "mul", "fma", "ex2", "tanh", "neg", "abs", "min", "max")
# forms of mixed groups that leave bits as they are, or compute with integers
_SHARED = {
    **{name: ATOMIC_BUILDERS[name] for name in ("atom.op", "red.op", "atom.exch")},
    **{name: WARP_BUILDERS[name] for name in ("shfl", "vote", "vote.ballot", "ldmatrix")},
}

TRUE_FORMATS: dict[str, Builder] = {
    **INTEGER_BUILDERS,
    **MOVE_BUILDERS,
    **MEMORY_BUILDERS,
    **COLLECTIVE_BUILDERS,
    **COPY_BUILDERS,
    **SYNC_BUILDERS,
    **_SHARED,
    **{f"float.{op}": _operation(op) for op in _OPERATIONS},
    **{f"half.{op}": _operation(op) for op in _HALF},
    "float.setp": _setp,
    "float.setp.bool": _setp,
    "half2.setp": _half2_setp,
    "half2.setp.bool": _half2_setp,
    "float.set": _set,
    "float.set.bool": _set,
    "half2.set": _set,
    "half2.set.bool": _set,
    "slct.float": _slct,
    "float.testp": _testp,
    "float.testp.class": _testp,
    "cvt.float": _cvt,
    "cvt.relu": _cvt,
    "cvt.satfinite": _cvt,
    "cvt.integral": _cvt,
    "cvt.tf32": _cvt,
    "cvt.int.float": _cvt,
    "cvt.float.int": _cvt,
    "cvt.half2": _cvt_half2,
    "atom.add": _atomic_add,
    "atom.cas": _cas,
    "red.add": _atomic_add,
    "mma": mma,
}
