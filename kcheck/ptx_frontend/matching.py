"""Where a kernel's code is a pattern of the library: same data flow, same branches, other names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import permutations

from kcheck.ptx_frontend.dataflow import UNDEFINED, DataFlow, Value, targets
from kcheck.ptx_frontend.library import Pattern, operands, plain, same
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Mem, Reg, Sym, Target

# the first two operands of these may be swapped
_COMMUTATIVE = frozenset({"add", "mul", "fma", "mad", "min", "max", "and", "or", "xor"})
# alternatives that one match may try in all
_PATIENCE = 4000

Goal = tuple[Value, Value]


@dataclass
class Bound:
    """An argument: what it holds, and the instructions (of the kernel) that read it."""

    value: Value
    reads: list[int] = field(default_factory=list[int])


@dataclass
class Embedding:
    """Instructions of the pattern -> instructions of the kernel, blocks, and arguments."""

    instrs: dict[int, int] = field(default_factory=dict[int, int])
    taken: set[int] = field(default_factory=set[int])
    blocks: dict[int, int] = field(default_factory=dict[int, int])
    arguments: dict[int, Bound] = field(default_factory=dict[int, Bound])

    def copy(self) -> Embedding:
        """One that can be dropped."""
        bound = {n: Bound(b.value, list(b.reads)) for n, b in self.arguments.items()}
        return Embedding(dict(self.instrs), set(self.taken), dict(self.blocks), bound)


class Matcher:
    """The embeddings of one pattern into one kernel."""

    def __init__(self, pattern: Pattern, flow: DataFlow) -> None:
        self.pattern, self.flow = pattern, flow
        self.mine, self.code = pattern.kernel.code, flow.kernel.code
        self._tried = 0

    def at(self, root: int) -> Embedding | None:
        """The embedding in which the pattern's last root is this instruction."""
        self._tried = 0
        return self._roots(Embedding(), root)

    def _roots(self, found: Embedding, root: int) -> Embedding | None:
        first, *others = sorted(self.pattern.roots, reverse=True)
        if not self._pair(found, first, root):
            return None
        solved = self._solve(found, list(self._goals(first, root, found)))
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
                solved = self._solve(trial, list(self._goals(other, at, trial)))
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
        a, b = self.mine[mine], self.code[other]
        if plain(a.opcode) != plain(b.opcode) or (a.guard is None) != (b.guard is None):
            return False
        if a.guard and b.guard and a.guard.negated != b.guard.negated:
            return False
        return _shape(a) == _shape(b) and _shape(b).count("?") == 0

    def _pair(self, found: Embedding, mine: int, other: int) -> bool:
        """Bind two instructions, and their blocks."""
        if mine in found.instrs or other in found.taken:
            return found.instrs.get(mine) == other
        if UNDEFINED in (mine, other) or not self._alike(mine, other):
            return False
        if not self._blocks(found, self.pattern.flow.block_of[mine], self.flow.block_of[other]):
            return False
        found.instrs[mine] = other
        found.taken.add(other)
        return True

    @staticmethod
    def _blocks(found: Embedding, mine: int, other: int) -> bool:
        if mine not in found.blocks and other in found.blocks.values():
            return False
        return found.blocks.setdefault(mine, other) == other

    def _goals(self, mine: int, other: int, found: Embedding) -> Iterator[tuple[list[Goal], ...]]:
        """The operands that must agree: alternatives, each a list of pairs."""
        a, b = self.mine[mine], self.code[other]
        x = [self.pattern.flow.value(mine, o) for o in operands(a)]
        y = [self.flow.value(other, o) for o in operands(b)]
        if a.guard is not None and b.guard is not None:
            x.append(self.pattern.flow.value(mine, a.guard.reg))
            y.append(self.flow.value(other, b.guard.reg))
        pairs = [(u, v) for u, v in zip(x, y, strict=True) if u and v]
        if a.opcode[0] in _COMMUTATIVE and len(pairs) > 1:
            swapped = [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1])]
            yield pairs[:2], swapped
            pairs = pairs[2:]
        for pair in pairs:
            yield ([pair],)

    # all pairs

    def _solve(self, found: Embedding, goals: list[tuple[list[Goal], ...]]) -> Embedding | None:
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

    def _argument(self, mine: Value) -> int | None:
        """The number of the argument that a value is; pointers to scratch memory follow them."""
        if len(mine.defs) == 1:
            (only,) = mine.defs
            if only in self.pattern.inputs:
                return self.pattern.inputs.index(only)
            if only in self.pattern.pointers:
                return len(self.pattern.inputs)
        return None

    def _plausible(self, found: Embedding, goal: Goal) -> bool:
        """A cheap look at what `_agree` will see."""
        mine, other = goal
        number = self._argument(mine)
        if number is not None:
            bound = found.arguments.get(number)
            return bound is None or same(bound.value, other)
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

    def _agree(self, found: Embedding, goal: Goal, goals: list[tuple[list[Goal], ...]]) -> bool:
        """Bind a pair of values; what follows from it is added to the goals."""
        if not self._plausible(found, goal):
            return False
        mine, other = goal
        number = self._argument(mine)
        if number is not None:
            found.arguments.setdefault(number, Bound(other)).reads.append(other.at)
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
        goals += self._goals(a, b, found)
        return True

    def _joined(self, mine: Value, other: Value, goals: list[tuple[list[Goal], ...]]) -> bool:
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

    # branches

    def _region(self, found: Embedding) -> Embedding | None:
        """Blocks that correspond from the first one on, with all that the inner ones hold."""
        if 0 not in found.blocks:
            return None
        pending, seen = [0], {0}
        goals: list[tuple[list[Goal], ...]] = []
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
                    goals += self._goals(mine, other, found)
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
        return None if solved is None else self._effects(solved)

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
        """Instructions of inner blocks that no result needs, in order: stores to scratch memory."""
        for block in self.pattern.inner:
            mine = self._left(self.pattern.flow, block, set(found.instrs))
            other = self._left(self.flow, found.blocks[block], found.taken)
            if len(mine) != len(other):
                return None
            for a, b in zip(mine, other, strict=True):
                if not self._pair(found, a, b):
                    return None
                solved = self._solve(found, list(self._goals(a, b, found)))
                if solved is None:
                    return None
                found = solved
        return found

    @staticmethod
    def _left(flow: DataFlow, block: int, taken: Iterable[int]) -> list[int]:
        bounds = flow.kernel.blocks[block]
        return [
            at
            for at in range(bounds.start, bounds.end)
            if at not in taken and flow.moved(at) is None
        ]


def _shape(instr: Instr) -> list[str]:
    """What kind of operand stands where; registers and literals are compared by what they hold."""
    kinds = []
    for operand in instr.operands:
        if isinstance(operand, Mem) and not operand.coords:
            kinds.append(f"[{operand.offset}]")
        elif isinstance(operand, (Reg, Sym, Imm, Flt)):
            kinds.append("value")
        else:
            kinds.append("target" if isinstance(operand, Target) else "?")
    return kinds
