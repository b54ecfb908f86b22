"""Where the lanes of a warp that took different ways to an aligned barrier meet again.

A barrier that part of a warp comes to waits for those of its lanes that have not exited (PTX ISA
9.7.13.1); an aligned one must be reached by all of them. Lanes that are past the place where the
ways meet have not come and will not; but if nothing is left to do there, they count as exited.
Both evaluators use this: the shape of the code is read once, who passed what they see apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from kcheck.ptx_frontend.flow import EXIT, ControlFlow
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.branching import pure

_ENDS = frozenset({"bra", "brx", "ret", "exit"})


def is_aligned(instr: Instr) -> bool:
    """Is it a CTA barrier that a warp must reach as a whole?"""
    name = instr.opcode[0]
    return (name == "bar" and "warp" not in instr.opcode) or (
        name == "barrier" and "cluster" not in instr.opcode and "aligned" in instr.opcode
    )


def rejoins(flow: ControlFlow) -> dict[int, int]:
    """Branches with an aligned barrier behind them, and such barriers under a guard -> the
    instruction where their ways meet, if more than the end of the kernel comes there.
    """
    kernel = flow.kernel
    found: dict[int, int] = {}
    if not any(is_aligned(instr) for instr in kernel.code):
        return found
    starts = {block.start: i for i, block in enumerate(kernel.blocks)}
    barred = {i for i, b in enumerate(kernel.blocks) if is_aligned(kernel.code[b.end - 1])}
    idle = idle_blocks(kernel)
    for i, block in enumerate(kernel.blocks):
        last = kernel.code[block.end - 1]
        if is_aligned(last) and last.guard is not None:
            join = starts.get(block.end)
        elif last.opcode[0] in ("bra", "brx") and len(block.successors) > 1:
            join = flow.join(i)
            if join is None or join == EXIT or join in idle:
                join = _common(kernel, i, idle)  # some lanes leave, the others may still meet
                if join is None or not barred & _reached(kernel, block.successors, {i, join}):
                    continue
            elif not barred & flow.inside(i, join):
                continue
        else:
            continue
        if join is not None and join != EXIT and join not in idle:
            found[block.end - 1] = kernel.blocks[join].start
    return found


def _reached(kernel: Kernel, starts: Iterable[int], without: set[int]) -> set[int]:
    """Blocks that are reached, not through some."""
    found, todo = set[int](), [i for i in starts if i != EXIT and i not in without]
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += [j for j in kernel.blocks[i].successors if j != EXIT and j not in without]
    return found


def _common(kernel: Kernel, branch: int, idle: frozenset[int]) -> int | None:
    """Where ways of a branch come together before its next turn, if there is one place with
    something left to do.
    """
    sides = [_reached(kernel, (i,), {branch}) for i in set(kernel.blocks[branch].successors)]
    shared = set.union(*(a & b for a, b in combinations(sides, 2))) - idle if sides[1:] else set()
    entries = {
        j
        for i in set.union(*sides) - shared | {branch}
        for j in kernel.blocks[i].successors
        if j in shared
    }
    return entries.pop() if len(entries) == 1 else None


def idle_blocks(kernel: Kernel) -> frozenset[int]:
    """Blocks from which the kernel's end is reached for certain, and nothing that counts before."""
    pure_blocks = {
        i: block.successors
        for i, block in enumerate(kernel.blocks)
        if all(
            pure(instr) or instr.opcode[0] in _ENDS
            for instr in kernel.code[block.start : block.end]
        )
    }
    idle: set[int] = set()
    while True:
        more = {i for i, after in pure_blocks.items() if i not in idle and idle.issuperset(after)}
        if not more:
            return frozenset(idle)
        idle |= more
