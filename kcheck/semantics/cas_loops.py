"""CAS loops that apply one operation to a cell: read-modify-writes in several instructions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Operand, Reg, registers, type_bytes
from kcheck.semantics.cas_words import RULES, Change, Unclear, Words
from kcheck.semantics.codec import decode
from kcheck.semantics.flow import Flow
from kcheck.semantics.idioms import CORES, Idiom, constant_of, fixed


@dataclass(frozen=True)
class CasLoop:
    """`operation` (add, max, min) that a loop applies to a cell, or to a part of it.

    `core`: the instruction that does so, `fmt` its format; it adds the product of the `operands`
    if there are two of them. `loop`: all of the loop. `expected`: registers that hold what it
    believes the cell to hold, `believed` the one that it compares, `new` what it puts there.
    `width`: bytes of the cell. `inputs`: registers that the loop reads to move bits. `part`: it
    changes a part of the cell, or that in another format. `idle`: what only prepares `new`.
    """

    flow: Flow
    loop: frozenset[int]
    core: int
    operation: str
    fmt: str
    operands: tuple[Operand, ...]
    expected: frozenset[str]
    believed: str
    new: Operand
    width: int
    inputs: tuple[str, ...]
    part: bool
    idle: frozenset[int]

    def change(self, known: dict[str, int]) -> Change:
        """What becomes of the cell where the inputs hold these numbers; raises Unclear."""
        old = frozenset({self.believed})
        return Words(self.flow, self.loop, self.core, old, self.width, known).change(self.new)


def cas_loop(flow: Flow, pc: int, idiom: Idiom) -> CasLoop | None:
    """The update that the loop around an atom.cas makes, or None where it can't be told."""
    loop, (_, _, expected, new) = idiom.loop, flow.code[pc].operands
    if idiom.choice is not None or not isinstance(expected, Reg):
        return None
    if any(flow.names[at] == "bar.red" for at in loop):
        return None  # threads that go round another number of times would not meet
    if not _ends_when_equal(flow, pc, loop, expected.name):
        return None
    if any(u.pc not in loop for at in loop for n in flow.defs[at] for u in flow.reached(at, n)):
        return None  # how often it goes round, or what it saw, shows
    slice_ = flow.sources(registers(new), loop) - {pc}
    cores = [at for at in slice_ if flow.names[at] in CORES]
    # what hands the value that was seen to the next round is none of the update's moves
    carried = {at for at in loop if flow.names[at] == "mov" and expected.name in flow.defs[at]}
    moves = slice_ - {*cores, *carried}
    if len(cores) != 1 or any(flow.names[at] not in RULES for at in moves):
        return None
    core = flow.code[cores[0]]
    operands = _operands(flow, core, loop)
    if not operands or {"sat", "relu"} & set(core.opcode):
        return None
    made = {n for at in loop for n in flow.defs[at]} | {expected.name}
    copies = {n for at in loop if flow.names[at] == "mov" for n in flow.defs[at]}
    found = CasLoop(
        flow,
        loop,
        cores[0],
        CORES[flow.names[cores[0]]],
        core.opcode[-1],
        operands,
        frozenset({expected.name} | copies),
        expected.name,
        new,
        type_bytes(flow.code[pc].opcode[-1]),
        tuple(sorted({n for at in moves for n in flow.uses[at]} - made)),
        idiom.operation.count(".") == 2,
        _only_for(flow, pc, moves | set(cores)),
    )
    return found if found.inputs or _is_clear(found) else None


def _only_for(flow: Flow, pc: int, slice_: set[int]) -> frozenset[int]:
    """Those of a slice whose results serve nothing but the atomic at `pc`."""
    only = set(slice_)
    while True:
        uses = {at: {u.pc for n in flow.defs[at] for u in flow.reached(at, n)} for at in only}
        served = {at for at in only if uses[at] <= only | {pc}}
        if served == only:
            return frozenset(only)
        only = served


def _is_clear(loop: CasLoop) -> bool:
    try:
        loop.change({})
    except Unclear:
        return False
    return True


def _operands(flow: Flow, core: Instr, loop: frozenset[int]) -> tuple[Operand, ...]:
    """What an operation is given besides the old value: one operand, or two factors."""
    _, *sources = core.operands
    if len(sources) == 3:
        factors = [_constant(flow, op, loop) for op in sources[:2]]
        mine = [op for op in factors if not _is_one(op, core.opcode[-1])] or factors[:1]
        return tuple(mine) if not fixed(flow, sources[2], loop) else ()
    kept = [op for op in sources if fixed(flow, op, loop)]
    return (_constant(flow, kept[0], loop),) if len(kept) == 1 else ()


def _constant(flow: Flow, op: Operand, loop: frozenset[int]) -> Operand:
    """An operand, or the number that the loop moves to it."""
    makers = [at for at in loop if isinstance(op, Reg) and op.name in flow.defs[at]]
    number = constant_of(flow, makers[0]) if makers else None
    return op if number is None else number


def _is_one(op: Operand, fmt: str) -> bool:
    """Is it the number 1 (in both halves)?"""
    bits = op.value if isinstance(op, Imm) else op.bits if isinstance(op, Flt) else None
    if bits is None:
        return False
    plain = fmt.removesuffix("x2")
    size = 8 * type_bytes(plain)
    parts = [bits & (1 << size) - 1, bits >> size] if fmt != plain else [bits]
    return all(decode(part, plain) == Fraction(1) for part in parts)


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
    return {a.name, b.name} == names and test.opcode[2][1:] in ("16", "32", "64")
