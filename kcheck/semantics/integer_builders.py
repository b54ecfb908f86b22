"""Builders of integer instructions: one row each, all elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.ptx_frontend.tree import Imm, Instr, Operand, Pair
from kcheck.semantics import integers as ops
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.integer_specs import SPECS, Slots, Spec, of_type, product
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.pointers import comparable, derived, keep_bits
from kcheck.semantics.predicates import as_number, combine, negate
from kcheck.semantics.symbolic_integers import compared, converted, with_symbolic
from kcheck.semantics.tricks import TRICKS, resized
from kcheck.semantics.values import (
    UNSIGNED,
    Array,
    Int,
    Mixed,
    Pred,
    Unsupported,
    either,
)


def elementwise(dst: int, sources: list[int], spec: Spec, trick: Any) -> Step:
    """A step that applies a function lane by lane.

    `trick`: what to try when a source is no concrete integer; it returns None if it does not
    apply (then the sources must be readable as integers).
    """
    sizes, _, fn, rule = spec

    def apply(m: Machine, given: list[Any]) -> Any:
        if trick is not None:
            if any(type(x) is Mixed for x in given):
                return m.by_part(given, lambda xs: apply(m, xs))
            result = trick(m, given)
            if result is not None:
                return result
        xs = [m.integer(x, w) for x, w in zip(given, sizes, strict=True)]
        u = None
        for x in xs:
            u = either(u, x.u)
        return Int(fn(*[x.a for x in xs]), derived(m, rule, xs), u)

    def slow(m: Machine) -> Any:
        return apply(m, [m.regs[s] for s in sources])

    if len(sources) == 2:
        return _binary(dst, sources, sizes, fn, rule, slow)

    def run(m: Machine) -> None:
        regs = m.regs
        xs = [regs[s] for s in sources]
        for x, w in zip(xs, sizes, strict=True):
            if type(x) is not Int or x.u is not None or x.p is not None or x.a.itemsize != w:
                result = slow(m)
                break
        else:
            result = Int(fn(*[x.a for x in xs]))
        regs[dst] = result if m.mask is None else m.merge(regs[dst], result)

    return run


def _binary(
    dst: int,
    sources: list[int],
    sizes: tuple[int, ...],
    fn: Callable[..., Array],
    rule: Any,
    slow: Callable[[Machine], Any],
) -> Step:
    ia, ib = sources
    wa, wb = sizes

    def run(m: Machine) -> None:
        regs = m.regs
        x, y = regs[ia], regs[ib]
        if (
            type(x) is Int
            and type(y) is Int
            and (x.u is None or x.u is m.notmask)
            and (y.u is None or y.u is m.notmask)
            and x.a.itemsize == wa
            and y.a.itemsize == wb
        ):
            p = None if x.p is None and y.p is None else derived(m, rule, [x, y])
            result = Int(fn(x.a, y.a), p)
        else:
            result = slow(m)
        regs[dst] = result if m.mask is None else m.merge(regs[dst], result)

    return run


def _elementwise_builder(name: str) -> Builder:
    make = SPECS[name]

    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        if slots.get("type") == "pred":
            return predicate_logic(d, instr, name)
        spec = make(slots)
        # a signed shift copies the sign bit: no trick
        trick = None if slots.get("type", "").startswith("s") else TRICKS.get(name)
        trick = with_symbolic(name, slots, trick)
        sources = [d.integer(op, w) for op, w in zip(instr.operands[1:], spec[0], strict=True)]
        return elementwise(d.dest(instr.operands[0]), sources, spec, trick)

    return build


def _lop3(d: Decoder, instr: Instr, slots: Slots) -> Step:
    table = instr.operands[4]
    if not isinstance(table, Imm):
        raise Unsupported("operand", "the table of lop3 must be a literal")
    sources = [d.integer(op, 4) for op in instr.operands[1:4]]
    spec: Spec = ((4, 4, 4), 4, lambda a, b, c: ops.logic3(a, b, c, table.value), None)
    return elementwise(d.dest(instr.operands[0]), sources, spec, None)


def _lop3_bool(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """lop3.BoolOp d|p, a, b, c, immLut, q: d is the word, p = (d != 0) BoolOp q."""
    target, table = instr.operands[0], instr.operands[4]
    if not isinstance(table, Imm) or not isinstance(target, Pair):
        raise Unsupported("operand", "lop3 with a boolean operator needs d|p and a literal table")
    lut = table.value
    sources = [d.integer(op, 4) for op in instr.operands[1:4]]
    dst = d.dest(target.first)
    write = predicate_writer(d, target.second, instr.operands[5:], slots["bool"])

    def run(m: Machine) -> None:
        xs = [m.integer(m.regs[s], 4) for s in sources]
        keep_bits(m, xs, "combined")
        a, b, c = xs
        u = either(either(a.u, b.u), c.u)
        word = ops.logic3(a.a, b.a, c.a, lut)
        write(m, Pred(word != 0, None, None, u))
        put(m, dst, Int(word, None, u))

    return run


def _partial(make: Callable[[Slots], Spec], unspecified: Callable[..., Array]) -> Builder:
    """A function whose result the ISA leaves open for some operands: undefined there."""

    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        sizes, _, fn, _ = make(slots)
        sources = [d.integer(op, w) for op, w in zip(instr.operands[1:], sizes, strict=True)]
        dst = d.dest(instr.operands[0])

        def run(m: Machine) -> None:
            xs = [m.integer(m.regs[s], w) for s, w in zip(sources, sizes, strict=True)]
            u = None
            for x in xs:
                u = either(u, x.u)
            keep_bits(m, xs, "divided or searched")
            numbers = [x.a for x in xs]
            bad = unspecified(*numbers)
            put(m, dst, Int(fn(*numbers), None, either(u, bad) if bad.any() else u))

        return run

    return build


def _carry(name: str) -> Builder:
    """add.cc, addc, sub.cc, subc, mad.cc, madc: the carry flag is a register of the machine."""
    subtract = "sub" in name
    reads = name.endswith("c") and not name.endswith(".cc")

    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        w = ops.width(slots["type"])
        sources = [d.integer(op, w) for op in instr.operands[1:]]
        dst = d.dest(instr.operands[0])
        mul = product(slots) if len(sources) == 3 else None
        writes = name.endswith(".cc") or bool(slots.get("cc"))

        def run(m: Machine) -> None:
            xs = [m.integer(m.regs[s], w) for s in sources]
            keep_bits(m, xs, "added with carry")
            u = None
            for x in xs:
                u = either(u, x.u)
            a, b = (xs[0].a, xs[1].a) if mul is None else (mul(xs[0].a, xs[1].a), xs[2].a)
            carry = m.integer(m.carry, w) if reads else Int(np.zeros(1, UNSIGNED[w]))
            u = either(u, carry.u)
            first = a - b if subtract else a + b
            total = first - carry.a if subtract else first + carry.a
            borrow, overflow = (a < b) | (first < carry.a), (first < a) | (total < first)
            out = borrow if subtract else overflow
            put(m, dst, Int(total, None, u))
            if writes:
                flag = Int(out.astype(np.uint32), None, u)
                m.carry = flag if m.mask is None else m.merge(m.carry, flag)

        return run

    return build


def _setp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    t = slots["type"]
    w = ops.width(t)
    a, b = d.integer(instr.operands[1], w), d.integer(instr.operands[2], w)
    compare = ops.COMPARE[slots["cmp"]]
    number = "u" + t[1:] if slots["cmp"] in ("lo", "ls", "hi", "hs") else t
    write = predicate_writer(d, instr.operands[0], instr.operands[3:], slots.get("bool", ""))

    def run(m: Machine) -> None:
        x, y = m.regs[a], m.regs[b]
        if type(x) is not Int or type(y) is not Int:
            symbolic = compared(m, slots["cmp"], t, x, y)
            if symbolic is not None:
                write(m, symbolic)
                return
        if type(x) is not Int or x.u is not None or x.a.itemsize != w:
            x = m.integer(x, w)
        if type(y) is not Int or y.u is not None or y.a.itemsize != w:
            y = m.integer(y, w)
        if x.p is not None or y.p is not None:
            comparable(m, x, y)
        result = compare(ops.view(x.a, number), ops.view(y.a, number))
        write(m, Pred(result, None, None, either(x.u, y.u)))

    return run


def predicate_writer(
    d: Decoder, target: Operand, extra: tuple[Operand, ...], boolean: str
) -> Callable[[Machine, Pred], None]:
    """Writes a comparison to `p` or `p|q` (q gets its negation), combined with a predicate."""
    first = d.dest(target.first if isinstance(target, Pair) else target)
    second = d.dest(target.second) if isinstance(target, Pair) else None
    join = joined(d, extra, boolean)

    def write(m: Machine, p: Pred) -> None:
        opposite = None if second is None else join(m, negate(m, p))
        put(m, first, join(m, p))
        if second is not None and opposite is not None:
            put(m, second, opposite)

    return write


def joined(d: Decoder, extra: tuple[Operand, ...], boolean: str) -> Callable[[Machine, Pred], Pred]:
    """Combines a comparison with the predicate operand, if there is one."""
    if not extra:
        return lambda m, p: p
    slot, negated = d.predicate(extra[0])

    def join(m: Machine, p: Pred) -> Pred:
        c = m.predicate(m.regs[slot])
        return combine(m, boolean, p, negate(m, c) if negated else c)

    return join


def predicate_logic(d: Decoder, instr: Instr, name: str) -> Step:
    """and, or, xor, not of predicates."""
    dst = d.dest(instr.operands[0])
    slots = [d.predicate(op) for op in instr.operands[1:]]
    op = name.partition(".")[2]

    def run(m: Machine) -> None:
        ps = [m.predicate(m.regs[s]) for s, _ in slots]
        ps = [negate(m, p) if neg else p for p, (_, neg) in zip(ps, slots, strict=True)]
        put(m, dst, negate(m, ps[0]) if op == "not" else combine(m, op, ps[0], ps[1]))

    return run


def _set(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """`set`: the comparison as all ones or 1.0."""
    t = slots["type"]
    w = ops.width(t)
    a, b = d.integer(instr.operands[1], w), d.integer(instr.operands[2], w)
    join = joined(d, instr.operands[3:], slots.get("bool", ""))
    dst = d.dest(instr.operands[0])
    compare = ops.COMPARE[slots["cmp"]]
    number = "u" + t[1:] if slots["cmp"] in ("lo", "ls", "hi", "hs") else t

    def run(m: Machine) -> None:
        x, y = m.integer(m.regs[a], w), m.integer(m.regs[b], w)
        comparable(m, x, y)
        p = Pred(
            compare(ops.view(x.a, number), ops.view(y.a, number)), None, None, either(x.u, y.u)
        )
        put(m, dst, as_number(m, join(m, p), slots["dtype"]))

    return run


def _cvt(d: Decoder, instr: Instr, slots: Slots) -> Step:
    source, target, sat = slots["s"], slots["d"], bool(slots["sat"])
    register = d.bytes_of(instr.operands[0])
    a = d.integer(instr.operands[1], ops.width(source))
    spec: Spec = (
        (ops.width(source),),
        register,
        lambda x: ops.convert(x, source, target, sat, register),
        "c" if ops.width(target) >= 4 else None,
    )
    dst = d.dest(instr.operands[0])
    sizes = (ops.width(source), ops.width(target))
    signed = ops.is_signed(source) or sat

    def trick(m: Machine, xs: list[Any]) -> Any:
        symbolic = converted(m, xs[0], source, target)
        if symbolic is not None:
            return symbolic
        return None if signed and sizes[0] < sizes[1] else resized(m, xs[0], *sizes)

    return elementwise(dst, [a], spec, trick if sizes[1] == register and not sat else None)


INTEGER_BUILDERS: dict[str, Builder] = {
    **{name: _elementwise_builder(name) for name in SPECS},
    "bit.lop3": _lop3,
    "bit.lop3.bool": _lop3_bool,
    "int.div": _partial(of_type(2, ops.divide), lambda x, y: y == 0),
    "int.rem": _partial(of_type(2, ops.remainder), lambda x, y: y == 0),
    "int.fns": _partial(
        lambda s: ((4, 4, 4), 4, ops.find_nth, None), lambda mask, base, offset: base > 31
    ),
    **{
        name: _carry(name)
        for name in (
            "int.add.cc",
            "int.addc",
            "int.sub.cc",
            "int.subc",
            "int.mad.cc",
            "int.madc",
        )
    },
    "int.setp": _setp,
    "int.setp.bool": _setp,
    "int.set": _set,
    "int.set.bool": _set,
    "cvt.int": _cvt,
}
