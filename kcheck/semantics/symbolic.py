"""What a guard that depends on tensor values does: the result is a select (DESIGN.md 4)."""

from __future__ import annotations

from kcheck.ptx_frontend.tree import Instr, Pair, Reg, Vec, type_bytes
from kcheck.semantics.access import address
from kcheck.semantics.arm_sums import is_sum
from kcheck.semantics.branching import only_computes, pure
from kcheck.semantics.decode import Decoder, Guarded, put
from kcheck.semantics.flow import Flow
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory_builders import gather, narrowed, scatter, store_source
from kcheck.semantics.predicates import negate
from kcheck.semantics.selection import select, stored
from kcheck.semantics.sums import sum_under
from kcheck.semantics.values import Pred, Unsupported


def guarded_symbolically(d: Decoder, instr: Instr, run: Step) -> Guarded:
    """A function (machine, predicate, negated) for an instruction under a symbolic guard."""
    if pure(instr):
        return _pure(d, instr, run)
    if instr.opcode[0] == "ld" and only_computes(instr):
        return _load(d, instr, run)
    if instr.opcode[0] == "st":
        return _store(d, instr)

    if d.machine.arithmetic is None and is_sum(d.kernel, d.at) and _is_dead(d):
        add = sum_under(d, d.at)
        return lambda m, p, negated: add(m, negate(m, p) if negated else p)

    def refuse(m: Machine, p: Pred, negated: bool) -> None:
        raise Unsupported("predicated", f"{instr.name} under a predicate on a tensor value")

    return refuse


def _is_dead(d: Decoder) -> bool:
    """Does nothing read the old value of an atomic?"""
    flow = d.machine.plan.flow or Flow(d.kernel)
    return not any(flow.reached(d.at, name) for name in flow.defs[d.at])


def _pure(d: Decoder, instr: Instr, run: Step) -> Guarded:
    target = instr.operands[0]
    items = target.items if isinstance(target, Vec) else (target,)
    if isinstance(target, Pair):
        items = (target.first, target.second)
    slots = [d.reg(op) for op in items if isinstance(op, Reg)]
    sizes = [type_bytes(d.kernel.registers[op.name]) for op in items if isinstance(op, Reg)]

    def choose(m: Machine, p: Pred, negated: bool) -> None:
        old = [m.regs[s] for s in slots]
        run(m)
        q = negate(m, p) if negated else p
        for slot, before, size in zip(slots, old, sizes, strict=True):
            put(m, slot, select(m, q, m.regs[slot], before, size))

    return choose


def _load(d: Decoder, instr: Instr, run: Step) -> Guarded:
    """A load in all lanes, which counts only where the guard holds."""
    choose = _pure(d, instr, run)

    def load(m: Machine, p: Pred, negated: bool) -> None:
        conditional, m.conditional = m.conditional, True
        choose(m, p, negated)
        m.conditional = conditional

    return load


def _store(d: Decoder, instr: Instr) -> Guarded:
    target, source = instr.operands
    t = instr.opcode[-1]
    items = source.items if isinstance(source, Vec) else (source,)
    sources = [store_source(d, op, t) for op in items]
    spaces = [w for w in instr.opcode if w in ("global", "shared", "shared::cta", "local")]
    at = address(d, target, spaces[0] if spaces else "")
    size, count = type_bytes(t), len(items)

    def store(m: Machine, p: Pred, negated: bool) -> None:
        q = negate(m, p) if negated else p
        conditional, m.conditional = m.conditional, True
        old = gather(m, at, size, count, watch=None)
        new = [
            stored(m, select(m, q, narrowed(m, m.regs[s], size), o, size), size)
            for s, o in zip(sources, old, strict=True)
        ]
        scatter(m, at, size, count, new)
        m.conditional = conditional

    return store
