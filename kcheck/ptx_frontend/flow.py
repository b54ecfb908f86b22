"""Where control meets again behind a branch, and which registers are still read from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kcheck.ptx_frontend.blocks import leaves
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.idioms import LIBRARY
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr, registers

_ENDS = frozenset({"ret", "exit", "trap"})
# the end of the kernel as a block
EXIT = -1


@dataclass(frozen=True)
class Region:
    """What lies between a branch and the block where all its ways meet (`EXIT`: the end).

    `written`: registers that its instructions write; `live`: those of them that may be read at
    the join before they are written again.
    """

    join: int
    written: frozenset[str]
    live: frozenset[str]


class ControlFlow:
    """The graph of a kernel's blocks; each answer is made when it is first asked for."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._regions: dict[int, Region | None] = {}
        n = len(kernel.blocks)
        self._after = [
            {*block.successors} | ({n} if self._may_end(block.end) else set())
            for block in kernel.blocks
        ]

    def _may_end(self, end: int) -> bool:
        code = self.kernel.code
        last = code[end - 1]
        return last.opcode[0] in _ENDS or (end == len(code) and not leaves(last))

    def region(self, block: int) -> Region | None:
        """The region behind the last instruction of a block; None if its ways need not meet."""
        if block not in self._regions:
            self._regions[block] = self._region(block)
        return self._regions[block]

    def _region(self, block: int) -> Region | None:
        join = self.join(block)
        if join is None:
            return None
        inside = self.inside(block, join)
        written = frozenset[str]().union(*(self._effects[b][1] for b in inside))
        live = frozenset[str]() if join == EXIT else written & self._live[join]
        return Region(join, written, live)

    def join(self, block: int) -> int | None:
        """Where all ways from the end of a block meet first; None if they need not meet."""
        meeting = self._meetings[block] & ~(1 << block)
        # of the blocks that all ways pass the one that all the others lie behind
        n = len(self.kernel.blocks)
        meets = (b for b in _members(meeting, n + 1) if self._meetings[b] == meeting)
        found = next(meets, None)
        return EXIT if found == n else found

    def inside(self, block: int, join: int) -> set[int]:
        """The blocks on the ways from the end of a block to its join."""
        inside: set[int] = set()
        todo = list(self._after[block])
        while todo:
            b = todo.pop()
            if b not in inside and b not in (join, len(self.kernel.blocks)):
                inside.add(b)
                todo += self._after[b]
        return inside

    @cached_property
    def _meetings(self) -> list[int]:
        """Per block the blocks that every way from it to the end passes, itself included, as a
        bit set; the last entry is the end itself. A block that never ends has them all.
        """
        n = len(self.kernel.blocks)
        sets = [(1 << n + 1) - 1] * n + [1 << n]
        changed = True
        while changed:
            changed = False
            for b in reversed(range(n)):
                common = -1
                for after in self._after[b]:
                    common &= sets[after]
                new = sets[b] & (common | 1 << b)
                changed |= new != sets[b]
                sets[b] = new
        return sets

    @cached_property
    def _effects(self) -> list[tuple[frozenset[str], frozenset[str], frozenset[str]]]:
        """Per block the registers that are read before they are written, those that are written
        at all, and those that are written whatever guards say.
        """
        out = []
        for block in self.kernel.blocks:
            read: set[str] = set()
            written: set[str] = set()
            surely: set[str] = set()
            for instr in self.kernel.code[block.start : block.end]:
                sources, targets = uses(instr)
                read |= sources - surely
                written |= targets
                if instr.guard is None:
                    surely |= targets
            out.append((frozenset(read), frozenset(written), frozenset(surely)))
        return out

    @cached_property
    def _live(self) -> list[frozenset[str]]:
        """Per block the registers that may be read from its start on before they are written."""
        n = len(self.kernel.blocks)
        live = [read for read, _, _ in self._effects]
        changed = True
        while changed:
            changed = False
            for b in reversed(range(n)):
                behind = frozenset[str]().union(*(live[a] for a in self._after[b] if a < n))
                new = live[b] | (behind - self._effects[b][2])
                changed |= len(new) > len(live[b])
                live[b] = new
        return live


def _members(bits: int, n: int) -> Iterator[int]:
    return (i for i in range(n) if bits >> i & 1)


def uses(instr: Instr) -> tuple[set[str], set[str]]:
    """The registers that an instruction reads, and those that it writes.

    Of an instruction without a form all count as read.
    """
    found = match(instr.opcode)
    operands = instr.operands
    targets: set[str] = set()
    writes = found is not None and found.form.roles[:1] == ("d",)
    if (writes or instr.opcode[0] == LIBRARY) and operands:
        targets = set(registers(operands[0]))
        operands = operands[1:]
    sources = {name for operand in operands for name in registers(operand)}
    if instr.guard is not None:
        sources.add(instr.guard.reg.name)
    return sources, targets
