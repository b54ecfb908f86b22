"""Library functions in a kernel, each recognized as a whole and replaced by one instruction.

The instruction is `(LIBRARY, name)` with the result and the arguments; what is no longer needed
becomes `(NOTHING,)`, and of a function with branches the first one becomes a jump behind it. So
instructions keep their places. No PTX text can hold these opcodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kcheck.ptx_frontend.blocks import basic_blocks
from kcheck.ptx_frontend.dataflow import DataFlow, targets
from kcheck.ptx_frontend.embedding import Bound, Embedding
from kcheck.ptx_frontend.hoisted import LOGARITHMS, moved_back
from kcheck.ptx_frontend.kernel import Idiom, Kernel
from kcheck.ptx_frontend.library import PAIRS, Pattern, operands, pattern, plain, same, signatures
from kcheck.ptx_frontend.matching import Matcher
from kcheck.ptx_frontend.negated import differences
from kcheck.ptx_frontend.powers import OF_SQUARES, POWER, SIGN, as_bits, as_float
from kcheck.ptx_frontend.signs import at_least_0
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Operand, Reg, Target

LIBRARY, NOTHING = "<library>", "<nothing>"
_ONE = 0x3F800000


@dataclass
class _Found:
    """An embedding that was checked. `slot`: where the result is written; `blocks`: inner ones."""

    function: str
    arguments: list[Bound]
    pattern: Pattern
    embedding: Embedding
    slot: int
    roots: frozenset[int]
    inner: frozenset[int]


def identify(kernel: Kernel) -> tuple[Kernel, tuple[Idiom, ...]]:
    """The kernel with its library functions in place of their expansions, and which they are."""
    literals = {o.bits for i in kernel.code for o in i.operands if isinstance(o, Flt)}
    held = literals | {bits ^ SIGN for bits in literals}
    words = {".".join(word) for word in {plain(i.opcode) for i in kernel.code}}
    names = [n for n, (bits, rare) in signatures().items() if bits <= held and rare <= words]
    if not names:
        return kernel, ()
    flow = DataFlow(kernel)
    if LOGARITHMS.intersection(names):
        flow = moved_back(flow)
    if POWER in names:
        flow = differences(flow)
    alone = [(f,) for name in names for f in _Search(pattern(name), flow).all()]
    found = _with_their_memory(flow, _apart([*alone, *_pairs(flow, names)]))
    if not found:
        return kernel, ()
    code = _rewritten(flow, found)
    idioms = sorted((_idiom(flow.kernel, f) for f in found), key=lambda idiom: idiom.lines)
    return replace(kernel, code=code, blocks=basic_blocks(code)), tuple(idioms)


def _idiom(kernel: Kernel, found: _Found) -> Idiom:
    lines = [kernel.code[at].span.line for at in found.embedding.taken]
    return Idiom(found.function, (min(lines), max(lines)))


def _apart(found: Sequence[tuple[_Found, ...]]) -> list[_Found]:
    """Those (all of a tuple, or none) that share no result and no branches with another."""
    out: list[_Found] = []
    used: set[int] = set()
    blocks: set[int] = set()
    for group in found:
        mine = {at for f in group for at in (f.slot, *f.roots)}
        inner = {b for f in group for b in f.inner}
        if not (mine & used or inner & blocks):
            out += group
            used |= mine
            blocks |= inner
    return out


def _pairs(flow: DataFlow, names: Sequence[str]) -> Iterator[tuple[_Found, _Found]]:
    """Two functions of one argument with the same branches, which neither has to itself."""
    for pair in PAIRS:
        if not set(pair) <= set(names):
            continue
        one, two = (_Search(pattern(name), flow) for name in pair)
        for a, b in product(list(one.embeddings()), list(two.embeddings())):
            if a.blocks == b.blocks and same(a.arguments[0].value, b.arguments[0].value):
                found = one.checked(a, b), two.checked(b, a)
                if found[0] is not None and found[1] is not None:
                    yield found[0], found[1]


def _with_their_memory(flow: DataFlow, found: list[_Found]) -> list[_Found]:
    """Functions with scratch memory only where nothing else in the kernel uses such memory."""
    taken = {at for f in found for at in f.embedding.taken}
    for at, instr in enumerate(flow.kernel.code):
        if "local" not in instr.opcode or at in taken:
            continue
        if instr.opcode[0] != "cvta" or _is_used(flow, at):
            return [f for f in found if not f.pattern.scratch]
    return found


def _is_used(flow: DataFlow, at: int) -> bool:
    """More is done with an address of scratch memory than to compute another."""
    if flow.kernel.code[at].opcode[:3] == ("cvta", "to", "local"):
        return False  # what is done then says so
    return any(flow.passed(r) is None or _is_used(flow, r) for r in flow.readers(at))


class _Search:
    """All places where a pattern is embedded and may be replaced."""

    def __init__(self, pattern: Pattern, flow: DataFlow) -> None:
        self.pattern, self.flow, self.code = pattern, flow, flow.kernel.code
        self.matcher = Matcher(pattern, flow)

    def all(self) -> Iterator[_Found]:
        """In the order of their last instruction."""
        for embedding in self.embeddings():
            found = self.checked(embedding)
            if found is not None:
                yield found

    def embeddings(self) -> Iterator[Embedding]:
        """Unchecked ones, in the order of their last instruction."""
        if self.pattern.scratch and not self._same_tables():
            return
        last = plain(self.pattern.kernel.code[max(self.pattern.roots)].opcode)
        for at, instr in enumerate(self.code):
            if plain(instr.opcode) == last and self.flow.block_of[at] >= 0:
                embedding = self.matcher.at(at)
                if embedding is not None:
                    yield embedding

    def _same_tables(self) -> bool:
        mine, other = self.pattern.kernel.variables, self.flow.kernel.variables
        tables = [name for name, v in mine.items() if v.space in ("global", "const")]
        return all(name in other and other[name].init == mine[name].init for name in tables)

    def checked(self, e: Embedding, beside: Embedding | None = None) -> _Found | None:
        """It may be replaced; `beside`: together with another function in the same blocks."""
        pattern = self.pattern
        function = self._function(e)
        count = len(pattern.inputs) + pattern.scratch + len(pattern.literals)
        if not function or len(e.arguments) != count or not self._in_order(e):
            return None
        roots = frozenset(e.instrs[r] for r in pattern.roots)
        inner = frozenset(e.blocks[b] for b in pattern.inner)
        taken, ends = e.taken, roots
        if beside is not None:
            last = beside.instrs[max(beside.instrs)]
            taken, ends = taken | beside.taken, roots | {last}
        if not self._closed(e, taken, ends, roots, inner):
            return None
        if pattern.product:
            first, second = (e.instrs[r] for r in pattern.roots)
            slots = [first] if self._is_product(first, second) else []
        elif len(roots) == 1:
            slots = list(roots)
        else:  # in place of the first branch; the jump follows, in an inner block
            head = self.flow.kernel.blocks[e.blocks[0]]
            slots = [head.end - 1] if self.flow.block_of[head.end] in inner else []
        arguments = [e.arguments[n] for n in range(len(pattern.inputs))]
        if pattern.name in OF_SQUARES and not at_least_0(self.flow, arguments[0].value):
            return None
        if pattern.literal is not None:
            given = e.arguments[pattern.number(pattern.literal.given)]
            arguments.insert(0 if pattern.literal.first else len(arguments), given)
        for slot in slots:
            if all(self._holds(e, bound, slot) for bound in arguments):
                return _Found(function, arguments, pattern, e, slot, roots, inner)
        return None

    def _function(self, e: Embedding) -> str:
        """Which function it is with the literals that stand here, "" if they do not fit."""
        literal = self.pattern.literal
        if literal is None:
            return self.pattern.function
        bound = [e.arguments.get(n) for n in map(self.pattern.number, literal.all(literal.given))]
        held = [b.value.bits for b in bound if b is not None]
        given = as_float(held[0]) if held and held[0] is not None else math.nan
        fits = len(held) == len(bound) and held == [as_bits(x) for x in literal.all(given)]
        return literal.function(given) if fits else ""

    def _in_order(self, e: Embedding) -> bool:
        """What is read in a block after it is written there, is here too."""
        mine, flow = self.pattern.flow, self.flow
        blocks = e.early.union(e.blocks.values())
        for a, b in e.instrs.items():
            pairs = zip(operands(mine.kernel.code[a]), operands(self.code[b]), strict=True)
            for _, y in pairs:
                value = flow.value(b, y)
                if value is None or not value.defs & e.taken:
                    continue
                if flow.block_of[value.at] not in blocks:
                    return False
                for d in value.defs & e.taken:
                    here = flow.block_of[d] == flow.block_of[b]
                    if here and not (d < value.at <= b or self._loops(e, a, d)):
                        return False
        return True

    def _loops(self, e: Embedding, a: int, d: int) -> bool:
        """In the pattern too, this definition comes behind the reader: from the turn before."""
        flow = self.pattern.flow
        turns = [x for x, y in e.instrs.items() if y == d]
        return any(flow.block_of[mine] == flow.block_of[a] and mine >= a for mine in turns)

    def _closed(
        self,
        e: Embedding,
        taken: set[int],
        ends: frozenset[int],
        roots: frozenset[int],
        inner: frozenset[int],
    ) -> bool:
        """Inner blocks hold nothing else, are entered from here only, and leave results only.

        `taken`, `ends`: all instructions and results of what is replaced together. A result that
        several instructions write is read where any of them may have.
        """
        flow, blocks = self.flow, self.flow.kernel.blocks
        region = inner | ({e.blocks[0]} if inner else set())
        for b in inner:
            if not set(flow.before[b]) <= region:
                return False
            for at in range(blocks[b].start, blocks[b].end):
                if at not in taken and not flow.is_silent(at):
                    return False
                if at in ends:
                    continue
                beyond = {r for r in flow.readers(at) if flow.block_of[r] not in inner}
                if not all(self._goes(r, taken, ends) for r in beyond):
                    return False
        if self.pattern.product or len(roots) == 1:
            return True
        names = {name for at in roots for name in targets(self.code[at])}
        outside = {r for at in roots for r in flow.readers(at)} - e.taken
        return len(names) == 1 and all(roots <= flow.reaching(r, *names) for r in outside)

    def _goes(self, at: int, taken: set[int], ends: frozenset[int]) -> bool:
        """The instruction is a result, or nothing but the function's own needs it."""
        if at in ends or at not in taken:
            return at in ends
        behind = (r for r in self.flow.readers(at) if r != at)
        return all(self._goes(r, taken, ends) for r in behind)

    def _holds(self, e: Embedding, bound: Bound, slot: int) -> bool:
        """All instructions that read an argument, and the slot, see one and the same value."""
        value, flow = bound.value, self.flow
        if not value.defs:
            return value.bits is not None
        if flow.reaching(slot, value.reg) != value.defs:
            return False
        within = set(flow.inside(e.blocks[b] for b in self.pattern.inner))
        if value.defs & within - {e.instrs[r] for r in self.pattern.roots}:
            return False  # gone with the blocks, but a later turn would read it
        blocks = set(e.blocks.values())
        reads = [*bound.reads, slot]
        # in an earlier block, which dominates these, a single definition is the same one
        if len(value.defs) > 1 and any(flow.block_of[r] not in blocks for r in reads):
            return False
        for b in blocks:
            here = [r for r in reads if flow.block_of[r] == b]
            written = flow.writes(value.reg, b)
            if here and any(min(here) <= d < max(here) for d in written):
                return False
            # behind the first block: only after all reads
            late = b != e.blocks.get(0, b)
            if late and written and (not here or min(written) < max(here)):
                return False
        return True

    # two factors

    def _is_product(self, e: int, s: int) -> bool:
        """Each use of one factor, or of its negative, is its multiplication with the other."""
        factors = [self._ways(e), self._ways(s)]
        both = {*factors[0], *factors[1]}
        for mine in factors:
            for at in mine:
                for reader in self.flow.users(at):
                    if reader not in both and not self._multiplies(reader, *factors):
                        return False
        return True

    def _ways(self, at: int) -> set[int]:
        """A factor and its negatives."""
        negatives = [r for r in self.flow.users(at) if plain(self.code[r].opcode) == ("neg", "f32")]
        return {at, *negatives}

    def _multiplies(self, at: int, first: set[int], second: set[int]) -> bool:
        instr = self.code[at]
        if plain(instr.opcode) not in (("mul", "f32"), ("fma", "f32")) or instr.guard:
            return False
        held = [self.flow.value(at, o) for o in operands(instr)]
        defs = [set(v.defs) if v else set() for v in held]
        if any(len(d) != 1 for d in defs[:2]):
            return False
        if any(d & (first | second) for d in defs[2:]):
            return False
        a, b = defs[:2]
        return bool((a & first and b & second) or (a & second and b & first))


# the new code


def _rewritten(flow: DataFlow, found: list[_Found]) -> tuple[Instr, ...]:
    code = list(flow.kernel.code)
    new: dict[int, Instr] = {}
    for f in found:
        new.update(_replacements(flow, f))
    for at in _removed(flow, found, set(new)):
        code[at] = replace(code[at], opcode=(NOTHING,), operands=(), guard=None)
    for at, instr in new.items():
        code[at] = instr
    return tuple(code)


def _replacements(flow: DataFlow, f: _Found) -> Iterator[tuple[int, Instr]]:
    code, e = flow.kernel.code, f.embedding
    result = code[max(f.roots)].operands[0] if not f.pattern.product else code[f.slot].operands[0]
    arguments = map(_operand, f.arguments)
    opcode = (LIBRARY, f.function)
    new = replace(code[f.slot], opcode=opcode, operands=(result, *arguments), guard=None)
    yield f.slot, new
    if f.pattern.product:
        for at in f.roots - {f.slot}:
            one = (code[at].operands[0], Imm(_ONE))
            yield at, replace(code[at], opcode=("mov", "b32"), operands=one)
    if f.inner:
        branch = flow.kernel.blocks[e.blocks[0]].end - 1
        jump = branch + (f.slot == branch)
        behind = Target(flow.kernel.blocks[e.blocks[f.pattern.exit]].start)
        yield jump, replace(code[jump], opcode=("bra",), operands=(behind,), guard=None)


def _operand(bound: Bound) -> Operand:
    value = bound.value
    return Flt(value.bits, 32) if value.bits is not None else Reg(value.reg)


def _removed(flow: DataFlow, found: list[_Found], kept: set[int]) -> set[int]:
    """Instructions whose results nobody reads any more, and the results that are replaced."""
    certain = {at for f in found for at in f.roots.union(flow.inside(f.inner))} - kept
    gone = {at for f in found for at in f.embedding.taken} - kept
    pending = list(gone)
    while pending:  # moves of what is gone
        for reader in flow.readers(pending.pop()):
            if reader not in gone and reader not in kept and isinstance(flow.moved(reader), Reg):
                gone.add(reader)
                pending.append(reader)
    # arguments may be results within another function
    gone -= {d for f in found for b in f.embedding.arguments.values() for d in b.value.defs}
    while True:
        dead = gone | kept | certain
        live = {at for at in gone - certain if not dead.issuperset(flow.readers(at))}
        if not live:
            return gone | certain
        gone -= live
