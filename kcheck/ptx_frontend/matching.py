"""Where a kernel's code is a pattern of the library: same data flow, same branches, other names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations, product

from kcheck.ptx_frontend.dataflow import UNDEFINED, DataFlow, Value, sources, targets
from kcheck.ptx_frontend.embedding import Bound, Embedding
from kcheck.ptx_frontend.library import Pattern, operands, plain, same
from kcheck.ptx_frontend.negated import forms
from kcheck.ptx_frontend.powers import as_float
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Mem, Reg, Sym, Target

# the first two operands of these may be swapped
_COMMUTATIVE = frozenset({"add", "mul", "fma", "mad", "min", "max", "and", "or", "xor"})
_STORES = frozenset({"st"})
# alternatives that one match may try in all
_PATIENCE = 4000

Goal = tuple[Value, Value]
# alternatives, each a list of goals
Ways = tuple[list[Goal], ...]


class Matcher:
    """The embeddings of one pattern into one kernel."""

    def __init__(self, pattern: Pattern, flow: DataFlow) -> None:
        self.pattern, self.flow = pattern, flow
        self.mine, self.code = pattern.kernel.code, flow.kernel.code
        self._tried = 0
        self._known: dict[int, list[tuple[Instr, int]]] = {}

    def at(self, root: int) -> Embedding | None:
        """The embedding in which the pattern's last root is this instruction."""
        self._tried = 0
        return self._roots(Embedding(), root)

    def _roots(self, found: Embedding, root: int) -> Embedding | None:
        first, *others = sorted(self.pattern.roots, reverse=True)
        if not self._pair(found, first, root):
            return None
        solved = self._solve(found, list(self._goals(first, root)))
        if solved is None:
            return None
        for other in others:
            solved = self._root(solved, other)
            if solved is None:
                return None
        return self._region(solved) if self.pattern.inner else solved

    def _root(self, found: Embedding, other: int) -> Embedding | None:
        """Another root: of a product anywhere, else one that writes the same register."""
        if other in found.instrs:
            return found
        for at in self._candidates(other, found):
            if at in found.taken or not self._alike(other, at):
                continue
            trial = found.copy()
            if self._pair(trial, other, at):
                solved = self._solve(trial, list(self._goals(other, at)))
                if solved is not None:
                    return solved
        return None

    def _candidates(self, mine: int, found: Embedding) -> Iterator[int]:
        """What writes the result; of a product readers of what is known already, else all code."""
        if not self.pattern.product:
            (register,) = targets(self.code[found.instrs[max(self.pattern.roots)]])
            yield from self.flow.definitions(register)
            return
        for operand in operands(self.mine[mine]):
            value = self.pattern.flow.value(mine, operand)
            known = value.defs & found.instrs.keys() if value else frozenset()
            if known:
                there = found.instrs[min(known)]
                yield from self.flow.readers(there)
                yield from self.flow.users(there)
                return
        block = found.blocks.get(self.pattern.flow.block_of[mine])
        if block is not None:
            bounds = self.flow.kernel.blocks[block]
            yield from range(bounds.start, bounds.end)
        else:
            yield from (at for at, b in enumerate(self.flow.block_of) if b >= 0)

    # one pair

    def _alike(self, mine: int, other: int) -> bool:
        return any(self._fits(mine, *form) for form in self._forms(other))

    def _forms(self, other: int) -> list[tuple[Instr, int]]:
        """What an instruction of the kernel is, first as it stands, and where it reads."""
        if other not in self._known:
            self._known[other] = list(forms(self.flow, other))
        return self._known[other]

    def _fits(self, mine: int, b: Instr, place: int) -> bool:
        a = self.mine[mine]
        if plain(a.opcode) != plain(b.opcode) or (a.guard is None) != (b.guard is None):
            return False
        if a.guard and b.guard and a.guard.negated != b.guard.negated:
            return False
        shape = _shape(self.flow, b, place)
        return shape == _shape(self.pattern.flow, a, mine) and "?" not in shape

    def _pair(self, found: Embedding, mine: int, other: int) -> bool:
        """Bind two instructions, and their blocks."""
        if mine in found.instrs or other in found.taken:
            return found.instrs.get(mine) == other
        if UNDEFINED in (mine, other) or not self._alike(mine, other):
            return False
        if not self._place(found, mine, other):
            return False
        found.instrs[mine] = other
        found.taken.add(other)
        return True

    def _place(self, found: Embedding, mine: int, other: int) -> bool:
        """Bind the blocks of two instructions; before the branches any block will do for now."""
        block, there = self.pattern.flow.block_of[mine], self.flow.block_of[other]
        movable = _is_pure(self.code[other]) and mine not in self.pattern.roots
        if block == 0 and self.pattern.inner and movable:
            found.early.add(there)
            return True
        if found.blocks.get(block, there) != there and self._may_be_hoisted(mine, other):
            found.hoisted.add(there)
            return True
        return self._blocks(found, block, there)

    def _may_be_hoisted(self, mine: int, other: int) -> bool:
        """They set a constant that nothing can have overwritten where the pattern sets it."""
        flow = self.pattern.flow
        held = [flow.passed(mine), self.flow.passed(other)]
        if any(value is None or value.defs for value in held):
            return False
        (register,) = targets(self.mine[mine])
        blocks = {flow.block_of[at] for at in flow.definitions(register) if at != mine}
        return not any(flow.reaches(block, flow.block_of[mine]) for block in blocks)

    @staticmethod
    def _blocks(found: Embedding, mine: int, other: int) -> bool:
        if mine not in found.blocks and other in found.blocks.values():
            return False
        return found.blocks.setdefault(mine, other) == other

    def _goals(self, mine: int, other: int) -> Iterator[Ways]:
        """The operands that must agree, in any form that fits."""
        fitting = [form for form in self._forms(other) if self._fits(mine, *form)]
        ways = [list(self._of_form(mine, *form)) for form in fitting]
        if len(ways) == 1:
            yield from ways[0]
        else:
            yield tuple([g for w in way for g in w] for f in ways for way in product(*f))

    def _of_form(self, mine: int, b: Instr, place: int) -> Iterator[Ways]:
        a = self.mine[mine]
        x, y = _values(self.pattern.flow, a, mine), _values(self.flow, b, place)
        if a.guard is not None and b.guard is not None:
            x.append(self.pattern.flow.value(mine, a.guard.reg))
            y.append(self.flow.value(place, b.guard.reg))
        pairs = [(u, v) for u, v in zip(x, y, strict=True) if u and v]
        if a.opcode[0] in _COMMUTATIVE and len(pairs) > 1:
            swapped = [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1])]
            yield pairs[:2], swapped
            pairs = pairs[2:]
        for pair in pairs:
            yield ([pair],)

    # all pairs

    def _solve(self, found: Embedding, goals: list[Ways]) -> Embedding | None:
        """Agree on all goals; an embedding is given up at the first goal that fails."""
        while goals:
            possible = [way for way in goals.pop() if all(self._plausible(found, g) for g in way)]
            if not possible:
                return None
            if len(possible) == 1:
                if not all(self._agree(found, goal, goals) for goal in possible[0]):
                    return None
                continue
            for way in possible:
                self._tried += 1
                if self._tried > _PATIENCE:
                    return None
                trial, left = found.copy(), list(goals)
                if all(self._agree(trial, goal, left) for goal in way):
                    solved = self._solve(trial, left)
                    if solved is not None:
                        return solved
            return None
        return found

    def _argument(self, goal: Goal) -> tuple[int, Value] | None:
        """Which argument the first value is, and what it holds here.

        Scratch memory follows the others: the place in local memory where it begins.
        """
        mine, other = goal
        if mine.bits in self.pattern.literals:
            return self.pattern.number(as_float(mine.bits)), other
        if self.pattern.flow.is_local(mine):
            begin = replace(other, offset=other.offset - mine.offset)
            return len(self.pattern.inputs), begin
        if len(mine.defs) == 1:
            (only,) = mine.defs
            if only in self.pattern.inputs:
                return self.pattern.inputs.index(only), other
        return None

    def _plausible(self, found: Embedding, goal: Goal) -> bool:
        """A cheap look at what `_agree` will see."""
        through = self._handed_on(goal)
        if through is not None:
            return self._plausible(found, through[0])
        mine, other = goal
        argument = self._argument(goal)
        if argument is not None:
            number, value = argument
            bound = found.arguments.get(number)
            if number == len(self.pattern.inputs) and not self.flow.is_local(value):
                return False
            if number > len(self.pattern.inputs) and value.bits is None:
                return False
            return bound is None or same(bound.value, value)
        if not mine.defs or not other.defs:
            return same(mine, other)
        if len(mine.defs) != len(other.defs):
            return False
        if len(mine.defs) > 1:
            return True
        (a,), (b,) = mine.defs, other.defs
        if a in found.instrs or b in found.taken:
            return found.instrs.get(a) == b
        return UNDEFINED not in (a, b) and self._alike(a, b)

    def _agree(self, found: Embedding, goal: Goal, goals: list[Ways]) -> bool:
        """Bind a pair of values; what follows from it is added to the goals."""
        if not self._plausible(found, goal):
            return False
        through = self._handed_on(goal)
        if through is not None:
            behind, (a, b) = through
            return self._place(found, a, b) and self._agree(found, behind, goals)
        mine, other = goal
        argument = self._argument(goal)
        if argument is not None:
            number, value = argument
            found.arguments.setdefault(number, Bound(value)).reads.append(value.at)
            return True
        if not mine.defs:
            return True
        if len(mine.defs) > 1:
            return self._joined(mine, other, goals)
        (a,), (b,) = mine.defs, other.defs
        if a in found.instrs:
            return True
        if not self._pair(found, a, b):
            return False
        goals += self._goals(a, b)
        return True

    def _joined(self, mine: Value, other: Value, goals: list[Ways]) -> bool:
        """Values that two or more definitions leave: every way to pair these is tried."""
        if len(mine.defs) > 3:
            return False
        first = [Value(defs=frozenset({d})) for d in sorted(mine.defs)]
        ways = []
        for order in permutations(sorted(other.defs)):
            second = [Value(defs=frozenset({d}), reg=other.reg, at=other.at) for d in order]
            ways.append(list(zip(first, second, strict=True)))
        goals.append(tuple(ways))
        return True

    def _handed_on(self, goal: Goal) -> tuple[Goal, tuple[int, int]] | None:
        """What two of several definitions hand on, if one of them only does that; and these."""
        mine, other = goal
        if len(mine.defs) != 1 or len(other.defs) != 1:
            return None
        (a,), (b,) = mine.defs, other.defs
        x, y = self.pattern.flow.passed(a), self.flow.passed(b)
        return ((x or mine, y or other), (a, b)) if x or y else None

    # branches

    def _region(self, found: Embedding) -> Embedding | None:
        """Blocks that correspond from the first one on, with all that the inner ones hold."""
        if not self._head(found):
            return None
        pending, seen = [0], {0}
        goals: list[Ways] = []
        while pending:
            block = pending.pop()
            end = self._ends(found, block)
            if end is None:
                return None
            mine, other = end
            if self._is_jump(self.mine[mine]):
                if mine not in found.instrs:
                    if not self._pair(found, mine, other):
                        return None
                    goals += self._goals(mine, other)
            elif self._is_jump(self.code[other]):
                return None
            a = self.pattern.kernel.blocks[block].successors
            b = self.flow.kernel.blocks[found.blocks[block]].successors
            if len(a) != len(b):
                return None
            for x, y in zip(a, b, strict=True):
                if not self._blocks(found, x, y):
                    return None
                if x not in seen and x != self.pattern.exit:
                    seen.add(x)
                    pending.append(x)
        solved = self._solve(found, goals)
        if solved is not None:
            solved = self._effects(solved)
        return solved if solved is not None and self._dominated(solved) else None

    def _dominated(self, found: Embedding) -> bool:
        """What stands early is on every way to the branches, and these on every way behind them.

        So the first branch sees what the last turn through the earlier block left.
        """
        head, end = found.blocks[0], found.blocks[self.pattern.exit]
        early = found.early - {head}
        if found.hoisted - {head}:
            return False
        if early and not self.flow.dominates(head, end):
            return False
        return all(self.flow.dominates(b, head) for b in early)

    def _head(self, found: Embedding) -> bool:
        """Bind the block that ends in the first branch: the one before the inner blocks."""
        pending = list(found.blocks)
        while pending:
            block = pending.pop()
            mine, other = self.pattern.flow.before[block], self.flow.before[found.blocks[block]]
            if block in self.pattern.inner and len(mine) == len(other) == 1:
                new = mine[0] not in found.blocks
                if not self._blocks(found, mine[0], other[0]):
                    return False
                pending += [mine[0]] if new else []
        return 0 in found.blocks

    def _ends(self, found: Embedding, block: int) -> tuple[int, int] | None:
        """The last instructions of a block here and there."""
        there = found.blocks.get(block)
        if there is None:
            return None
        return self.pattern.kernel.blocks[block].end - 1, self.flow.kernel.blocks[there].end - 1

    @staticmethod
    def _is_jump(instr: Instr) -> bool:
        return instr.opcode[0] in ("bra", "brx", "ret", "exit", "trap")

    def _effects(self, found: Embedding) -> Embedding | None:
        """Instructions of inner blocks that no result needs: stores, in order, and what these need;
        then what else there is. Accesses to memory stand in the same order.
        """
        for block in self.pattern.inner:
            there = found.blocks[block]
            for only in (_STORES, None):
                mine = self._left(self.pattern.flow, block, set(found.instrs), only)
                other = self._left(self.flow, there, found.taken, only)
                if len(mine) != len(other):
                    return None
                for a, b in zip(mine, other, strict=True):
                    if not self._pair(found, a, b):
                        return None
                    solved = self._solve(found, list(self._goals(a, b)))
                    if solved is None:
                        return None
                    found = solved
            bounds = self.pattern.kernel.blocks[block]
            accesses = [at for at in range(bounds.start, bounds.end) if _accesses(self.mine[at])]
            order = [found.instrs[at] for at in accesses]
            if order != sorted(order):
                return None
        return found

    @staticmethod
    def _left(
        flow: DataFlow, block: int, taken: Iterable[int], only: frozenset[str] | None
    ) -> list[int]:
        bounds = flow.kernel.blocks[block]
        return [
            at
            for at in range(bounds.start, bounds.end)
            if at not in taken
            and not flow.is_silent(at)
            and (only is None or flow.kernel.code[at].opcode[0] in only)
        ]


def _accesses(instr: Instr) -> bool:
    """It reads or writes memory."""
    return instr.opcode[0] in ("ld", "st")


def _is_pure(instr: Instr) -> bool:
    return instr.guard is None and not _accesses(instr) and instr.opcode[0] != "bra"


def _values(flow: DataFlow, instr: Instr, at: int) -> list[Value | None]:
    """What the operands hold that an instruction reads; of an address its base."""
    read = sources(instr)
    held = [o for o in read if isinstance(o, (Mem, Reg, Sym, Imm, Flt))]
    return [flow.address(at, o) if isinstance(o, Mem) else flow.value(at, o) for o in held]


def _shape(flow: DataFlow, instr: Instr, at: int) -> list[str]:
    """What kind of operand stands where; registers and literals are compared by what they hold."""
    kinds = []
    for operand in instr.operands:
        if isinstance(operand, Mem) and not operand.coords:
            known = flow.address(at, operand)
            kinds.append("[]" if known and known.name else f"[{operand.offset}]")
        elif isinstance(operand, (Reg, Sym, Imm, Flt)):
            kinds.append("value")
        else:
            kinds.append("target" if isinstance(operand, Target) else "?")
    return kinds
