"""Builders of moves and selections."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Flt, Instr, Operand, Sym, Vec, type_bytes
from kcheck.semantics import integers
from kcheck.semantics.access import to_generic
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.float_builders import compare
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.selection import choose, select
from kcheck.semantics.symbolic_integers import as_symbolic, concatenated, is_symbolic
from kcheck.semantics.units import undefined
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Int,
    Mixed,
    Packed,
    Part,
    Pred,
    Symbolic,
    Unsupported,
)

Slots = dict[str, str]


def type_size(type_name: str) -> int:
    """Bytes of a memory type."""
    return type_bytes(type_name)


# moves


def _mov(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    t = slots["type"]
    if isinstance(source, Vec):
        return _pack(d, target, source, t)
    if isinstance(target, Vec):
        return _unpack(d, target, source, t)
    dst = d.dest(target)
    if t == "pred":
        slot, negated = d.predicate(source)
        if negated:
            raise Unsupported("operand", "a negated predicate is moved")
    elif t in FMT_BYTES and isinstance(source, Flt) and source.bits << 1 & (1 << source.width) - 1:
        slot = d.real(source, t)
    else:
        slot = d.integer(source, type_size(t))
    size = type_size(t)

    def run(m: Machine) -> None:
        x = m.regs[slot]
        if x is None:
            x = undefined(size)
        elif type(x) is Int and x.a.itemsize != size and t != "pred":
            x = m.integer(x, size)
        m.regs[dst] = x if m.mask is None else m.merge(m.regs[dst], x)

    return run


def _pack(d: Decoder, target: Operand, source: Vec, t: str) -> Step:
    """mov.b32 d, {lo, hi} and the like."""
    size = type_size(t) // len(source.items)
    slots = [d.integer(op, size) for op in source.items]
    dst = d.dest(target)

    def run(m: Machine) -> None:
        parts = [m.regs[s] for s in slots]
        plain = all(type(p) is Int and m.live(p.u) is None for p in parts)
        plain = plain or any(is_symbolic(p) for p in parts)
        if size == 2 and len(parts) == 2 and not plain:
            lo, hi = (undefined(2) if p is None else p for p in parts)
            put(m, dst, Packed(_half(m, lo), _half(m, hi)))
            return
        whole_f64 = m.joined(parts[0], parts[1]) if size == 4 and len(parts) == 2 else None
        if whole_f64 is not None:
            put(m, dst, whole_f64)
            return
        if any(is_symbolic(p) for p in parts):
            words = [as_symbolic(m, p, size) for p in parts]
            if all(w is not None for w in words):
                put(m, dst, concatenated(m, [w for w in words if w is not None]))
                return
        xs = [m.integer(p, size) for p in parts]
        whole = xs[0].a.astype(UNSIGNED[size * len(xs)])
        u = xs[0].u
        for i, x in enumerate(xs[1:], 1):
            kind = UNSIGNED[size * len(xs)]
            whole = whole | x.a.astype(kind) << kind(8 * size * i)
            u = x.u if u is None else u if x.u is None else u | x.u
        put(m, dst, Int(whole, None, u))

    return run


def _half(m: Machine, x: Any) -> Any:
    """A 16-bit register as half of a word."""
    if type(x) is Mixed:
        for _, part in x.parts:
            if type(part) is Real:
                return m.real(x, part.fmt)
        return m.integer(x, 2)
    if type(x) is Real:
        if FMT_BYTES.get(x.fmt) != 2:
            raise Unsupported("reinterpret", f"an {x.fmt} becomes half of a word")
        return x
    return m.integer(x, 2)


def _unpack(d: Decoder, target: Vec, source: Operand, t: str) -> Step:
    """mov.b32 {lo, hi}, a and the like."""
    n = len(target.items)
    size = type_size(t) // n
    slot = d.integer(source, type_size(t))
    dsts = [d.dest(op) for op in target.items]

    def run(m: Machine) -> None:
        x = m.regs[slot]
        if n == 2 and size == 2:
            for dst, half in zip(dsts, m.halves(x), strict=True):
                put(m, dst, half)
            return
        if n == 2 and size == 4 and type(x) is Real and x.fmt == "f64":
            for i, dst in enumerate(dsts):
                put(m, dst, Part(x, i))
            return
        word = as_symbolic(m, x, size * n) if is_symbolic(x) else None
        if word is not None:
            for i, dst in enumerate(dsts):
                field = word.bits.field(8 * size * i, 8 * size, 8 * size)
                put(m, dst, Symbolic(size, None, word=field, u=word.u))
            return
        whole = m.integer(x, size * n)
        keep_bits(m, [whole], "taken apart")
        for i, dst in enumerate(dsts):
            part = (whole.a >> UNSIGNED[size * n](8 * size * i)).astype(UNSIGNED[size])
            put(m, dst, Int(part, None, whole.u))

    return run


def _cvta(d: Decoder, instr: Instr, slots: Slots) -> Step:
    w = integers.width(slots["size"])
    dst, source = instr.operands
    if isinstance(source, Sym) and source.name not in d.machine.regions.symbols:
        raise Unsupported("symbol", f"the generic address of {source.name}")
    a, out = d.integer(source, w), d.dest(dst)

    def run(m: Machine) -> None:
        put(m, out, to_generic(m, m.integer(m.regs[a], w), slots["space"], bool(slots["to"])))

    return run


def _isspacep(d: Decoder, instr: Instr, slots: Slots) -> Step:
    a, dst = d.integer(instr.operands[1], 8), d.dest(instr.operands[0])
    wanted = slots["space"].partition("::")[0]

    def run(m: Machine) -> None:
        x = m.integer(m.regs[a], 8)
        if x.p is None:
            raise Unsupported("isspacep", "an address of unknown origin")
        regions = m.regions.items
        p = np.atleast_1d(np.asarray(x.p))
        hits = np.array([regions[int(i)].space == wanted if i >= 0 else False for i in p])
        put(m, dst, Pred(hits, None, None, x.u))

    return run


# selection


def _selp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    t = slots["type"]
    size = type_size(t)
    fmt = t if t in FMT_BYTES else ""
    a, b = (d.real(o, fmt) if fmt else d.integer(o, size) for o in instr.operands[1:3])
    slot, negated = d.predicate(instr.operands[3])
    dst = d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        p = m.predicate(m.regs[slot])
        x, y = m.regs[a], m.regs[b]
        if negated:
            x, y = y, x
        result = select(m, p, x, y, size, fmt)
        if p.u is not None:
            result = choose(m, p.u, undefined(size), result, size)
        put(m, dst, result)

    return run


def _slct(d: Decoder, instr: Instr, slots: Slots) -> Step:
    t, by = slots["dtype"], slots["type"]
    size = type_size(t)
    fmt = t if t in FMT_BYTES else ""
    a, b = (d.real(o, fmt) if fmt else d.integer(o, size) for o in instr.operands[1:3])
    c = d.real(instr.operands[3], by) if by == "f32" else d.integer(instr.operands[3], 4)
    dst = d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        if by == "f32":
            zero = m.reals.constant(0)
            p = compare(m, "ge", m.real(m.regs[c], by), zero)
        else:
            x = m.integer(m.regs[c], 4)
            p = Pred(integers.view(x.a, by) >= 0, None, None, x.u)
        result = select(m, p, m.regs[a], m.regs[b], size, fmt)
        if p.u is not None:
            result = choose(m, p.u, undefined(size), result, size)
        put(m, dst, result)

    return run


MOVE_BUILDERS: dict[str, Builder] = {
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "selp": _selp,
    "slct.int": _slct,
    "slct.float": _slct,
}
