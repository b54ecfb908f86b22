"""What a guard that depends on tensor values does: the result is a select (DESIGN.md 4)."""

from __future__ import annotations

from typing import Any

from kcheck.ptx_frontend.tree import Instr, Pair, Reg, Vec, type_bytes
from kcheck.semantics.access import address
from kcheck.semantics.decode import Decoder, Guarded
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory_builders import gather, narrowed, scatter, store_source
from kcheck.semantics.move_builders import select
from kcheck.semantics.predicates import combine, negate
from kcheck.semantics.values import Pred, Unsupported

# instructions that write registers only, from registers only
_PURE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "fma",
        "mad",
        "div",
        "rcp",
        "sqrt",
        "rsqrt",
        "ex2",
        "lg2",
        "sin",
        "cos",
        "tanh",
        "neg",
        "abs",
        "min",
        "max",
        "mov",
        "cvt",
        "selp",
        "slct",
        "setp",
        "set",
        "copysign",
    ]
)


def guarded_symbolically(d: Decoder, instr: Instr, run: Step) -> Guarded:
    """A function (machine, predicate, negated) for an instruction under a symbolic guard."""
    if instr.opcode[0] in _PURE:
        return _pure(d, instr, run)
    if instr.opcode[0] == "st":
        return _store(d, instr)

    def refuse(m: Machine, p: Pred, negated: bool) -> None:
        raise Unsupported("predicated", f"{instr.name} under a predicate on a tensor value")

    return refuse


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
            after = m.regs[slot]
            if isinstance(after, Pred):
                m.regs[slot] = _select_predicate(m, q, after, m.predicate(before))
            else:
                m.regs[slot] = _select(m, q, after, before, size)

    return choose


def _select(m: Machine, q: Pred, after: Any, before: Any, size: int) -> Any:
    if before is None:
        raise Unsupported("predicated", "a register is written only where a tensor value says so")
    chosen = select(m, q, after, before, size)
    return chosen if m.mask is None else m.merge(before, chosen)


def _select_predicate(m: Machine, q: Pred, after: Pred, before: Pred) -> Pred:
    return combine(m, "or", combine(m, "and", q, after), combine(m, "and", negate(m, q), before))


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
        m.conditional = True
        old = gather(m, at, size, count, watch=None)
        new = [
            select(m, q, narrowed(m, m.regs[s], size), o, size)
            for s, o in zip(sources, old, strict=True)
        ]
        scatter(m, at, size, count, new)
        m.conditional = False

    return store
