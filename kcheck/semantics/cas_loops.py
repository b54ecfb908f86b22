"""CAS loops that apply one operation to a cell: read-modify-writes in several instructions."""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.tree import Instr, Operand, Reg
from kcheck.semantics.flow import Flow, registers
from kcheck.semantics.idioms import Idiom

# what may lie between the cell's bits and the operation of a CAS loop
_MOVES = frozenset({"mov"})


@dataclass(frozen=True)
class CasLoop:
    """`operation` and `fmt` (like `add`, `f32`) that a loop applies to a cell with `operand`.

    `core`: the instruction that does so; `loop`: all of the loop. `expected`: registers that hold
    what it believes the cell to hold.
    """

    loop: frozenset[int]
    core: Instr
    operation: str
    fmt: str
    operand: Operand
    expected: frozenset[str]


def cas_loop(flow: Flow, pc: int, idiom: Idiom) -> CasLoop | None:
    """The update that the loop around an atom.cas makes, or None where it can't be told."""
    loop, (_, _, expected, new) = idiom.loop, flow.code[pc].operands
    if not isinstance(expected, Reg) or not _ends_when_equal(flow, pc, loop, expected.name):
        return None
    if any(u.pc not in loop for at in loop for n in flow.defs[at] for u in flow.reached(at, n)):
        return None  # how often it goes round, or what it saw, shows
    slice_ = flow.sources(registers(new), loop) - {pc}
    cores = [at for at in slice_ if flow.names[at] == "float.add"]
    moves = slice_ - set(cores)
    if len(cores) != 1 or any(flow.names[at] not in _MOVES for at in moves):
        return None
    old = {expected.name} | {n for at in moves | {pc} for n in flow.defs[at]}
    core = flow.code[cores[0]]
    _, a, b = core.operands
    mine = [x for x in (a, b) if not (isinstance(x, Reg) and x.name in old)]
    fmt = core.opcode[-1]
    width = {"f32": "b32", "f64": "b64"}.get(fmt)
    if len(mine) != 1 or flow.code[pc].opcode[-1] != width or "sat" in core.opcode:
        return None
    if isinstance(mine[0], Reg) and any(mine[0].name in flow.defs[at] for at in loop):
        return None
    carried = {n for at in loop if flow.names[at] == "mov" for n in flow.defs[at]}
    return CasLoop(loop, core, "add", fmt, mine[0], frozenset({expected.name} | carried))


def _ends_when_equal(flow: Flow, pc: int, loop: frozenset[int], expected: str) -> bool:
    """Does the loop end, and only then, when the cell held what was expected?"""
    (old,) = flow.defs[pc] or {""}
    for at in loop:
        leaving = [after for after in flow.successors[at] if after not in loop]
        if not leaving:
            continue
        guard = flow.code[at].guard
        tests = [t for t in loop if guard is not None and guard.reg.name in flow.defs[t]]
        if guard is None or len(tests) != 1:
            return False
        test = flow.code[tests[0]]
        if flow.names[tests[0]] != "int.setp" or not _compares(test, {old, expected}):
            return False
        # taken where the guard holds; `stays`: the values differ
        differs = (test.opcode[1] == "ne") != guard.negated
        if differs != (flow.successors[at][0] in loop):
            return False
    return True


def _compares(test: Instr, names: set[str]) -> bool:
    _, a, b = test.operands
    if not isinstance(a, Reg) or not isinstance(b, Reg) or test.opcode[1] not in ("eq", "ne"):
        return False
    return {a.name, b.name} == names and test.opcode[2][1:] in ("32", "64")
