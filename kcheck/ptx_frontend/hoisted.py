"""Steps that nvcc has moved from behind a logarithm into its last select, moved back.

Of `x == 0 ? -inf : q` times 1/2 it makes `x == 0 ? -inf : q / 2`, and so on with a few steps whose
other operands are literals. The steps and the select are put behind what stands among them, the
select first, which is the same for any q: each step does to -inf what nvcc did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kcheck.ptx_frontend.dataflow import UNDEFINED, DataFlow, targets
from kcheck.ptx_frontend.library import plain
from kcheck.ptx_frontend.powers import as_bits, as_float
from kcheck.ptx_frontend.tree import Flt, Instr, Operand, Reg

LOGARITHMS = frozenset({"logf", "log2f", "log10f"})
# log10 e, a step within log10f
_LOG10_E = 0x3EDE5BD9
STEPS: dict[tuple[str, ...], Callable[..., float]] = {
    ("neg", "f32"): lambda a: -a,
    ("add", "f32"): lambda a, b: a + b,
    ("sub", "f32"): lambda a, b: a - b,
    ("mul", "f32"): lambda a, b: a * b,
    ("fma", "f32"): lambda a, b, c: a * b + c,
    ("div", "f32"): lambda a, b: a / b,
    ("rcp", "f32"): lambda a: 1 / a,
}


@dataclass
class _Chain:
    """The steps on what register `held` holds, in order, and the select behind them."""

    held: str
    steps: list[int]
    select: int


def moved_back(flow: DataFlow) -> DataFlow:
    """The same kernel with all such steps behind their selects."""
    while True:
        code, done = list(flow.kernel.code), -1
        for chain in _chains(flow):
            if chain.steps[0] > done:
                done = chain.select
                code[chain.steps[0] : done + 1] = _turned(flow, chain)
        if done < 0:
            return flow
        flow = DataFlow(replace(flow.kernel, code=tuple(code)))


def _turned(flow: DataFlow, chain: _Chain) -> Iterator[Instr]:
    """The select in front of the steps, and both behind what stands among them."""
    code, mine = flow.kernel.code, {*chain.steps, chain.select}
    yield from (code[at] for at in range(chain.steps[0], chain.select) if at not in mine)
    select, read = code[chain.select], Reg(chain.held)
    results = [code[at].operands[0] for at in (*chain.steps, chain.select)]
    infinity = Flt(as_bits(-math.inf), 32)
    yield replace(select, operands=(results[0], infinity, read, select.operands[3]))
    for at, source, result in zip(chain.steps, results, results[1:], strict=False):
        operands = (_literal(flow, at, o) or source for o in code[at].operands[1:])
        yield replace(code[at], operands=(result, *operands))


def _literal(flow: DataFlow, at: int, operand: Operand) -> Flt | None:
    value = flow.value(at, operand)
    return Flt(value.bits, 32) if value is not None and value.bits is not None else None


def _chains(flow: DataFlow) -> Iterator[_Chain]:
    for at, instr in enumerate(flow.kernel.code):
        if plain(instr.opcode) != ("selp", "f32") or instr.guard or flow.block_of[at] < 0:
            continue
        folded = _literal(flow, at, instr.operands[1])
        chain = _chain(flow, at) if folded and _of_zero(flow, at) else None
        if folded is None or chain is None or not _may_move(flow, chain):
            continue
        if _of_infinity(flow, chain) == folded.bits:
            yield chain


def _of_zero(flow: DataFlow, select: int) -> bool:
    """It asks whether something is 0."""
    predicate = flow.value(select, flow.kernel.code[select].operands[3])
    defs = predicate.defs - {UNDEFINED} if predicate else frozenset[int]()
    asked = [flow.kernel.code[at] for at in defs]
    return bool(asked) and all(
        plain(instr.opcode) == ("setp", "eq", "f32") and Flt(0, 32) in instr.operands
        for instr in asked
    )


def _chain(flow: DataFlow, select: int) -> _Chain | None:
    """As many steps as there are, on what the two ways through a logarithm leave."""
    steps: list[int] = []
    at, operand = select, flow.kernel.code[select].operands[2]
    while isinstance(operand, Reg):
        defs = flow.reaching(at, operand.name)
        if len(defs) == 2 or any(_is_of_log10(flow, d) for d in defs):
            return _Chain(operand.name, steps, select) if steps else None
        (only,) = defs if len(defs) == 1 else (UNDEFINED,)
        inner = _step(flow, only)
        if inner is None or flow.readers(only) != [at]:
            return None
        steps.insert(0, only)
        at, operand = only, inner
    return None


def _is_of_log10(flow: DataFlow, at: int) -> bool:
    return at != UNDEFINED and any(
        (literal := _literal(flow, at, o)) is not None and literal.bits == _LOG10_E
        for o in flow.kernel.code[at].operands[1:]
    )


def _step(flow: DataFlow, at: int) -> Reg | None:
    """The one operand of a step that is no literal."""
    if at == UNDEFINED:
        return None
    instr = flow.kernel.code[at]
    if plain(instr.opcode) not in STEPS or instr.guard:
        return None
    left = {o for o in instr.operands[1:] if _literal(flow, at, o) is None}
    (only,) = left if len(left) == 1 else (None,)
    return only if isinstance(only, Reg) else None


def _of_infinity(flow: DataFlow, chain: _Chain) -> int | None:
    """What the steps make of -inf, if they do so without rounding."""
    result = -math.inf
    for at in chain.steps:
        instr = flow.kernel.code[at]
        if result and not math.isinf(result):
            return None
        literals = [_literal(flow, at, o) for o in instr.operands[1:]]
        held = [result if known is None else as_float(known.bits) for known in literals]
        try:
            result = STEPS[plain(instr.opcode)](*held)
        except ZeroDivisionError:
            return None
    if math.isnan(result) or not _is_f32(result):
        return None
    return as_bits(result)


def _is_f32(x: float) -> bool:
    try:
        return as_float(as_bits(x)) == x
    except OverflowError:
        return False


def _may_move(flow: DataFlow, chain: _Chain) -> bool:
    """In one block, and nothing among them writes what they read or write."""
    code, mine = flow.kernel.code, {*chain.steps, chain.select}
    first, last = chain.steps[0], chain.select
    if flow.block_of[first] != flow.block_of[last]:
        return False
    names = {name for at in mine for name in targets(code[at])} | {chain.held}
    others = [at for at in range(first, last) if at not in mine]
    return not any(names.intersection(targets(code[at])) for at in others)
