"""A pattern of the library in a kernel: which instruction stands for which, and the arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcheck.ptx_frontend.dataflow import Value


@dataclass
class Bound:
    """An argument: what it holds, and the instructions (of the kernel) that read it."""

    value: Value
    reads: list[int] = field(default_factory=list[int])


@dataclass
class Embedding:
    """Instructions of the pattern -> instructions of the kernel, blocks, and arguments.

    What leads to the branches may stand in blocks before theirs, as where another function of the
    same argument needs it first (`early`). Constants of inner blocks may be set in that of the
    first branch (`hoisted`).
    """

    instrs: dict[int, int] = field(default_factory=dict[int, int])
    early: set[int] = field(default_factory=set[int])
    hoisted: set[int] = field(default_factory=set[int])
    taken: set[int] = field(default_factory=set[int])
    blocks: dict[int, int] = field(default_factory=dict[int, int])
    arguments: dict[int, Bound] = field(default_factory=dict[int, Bound])

    def copy(self) -> Embedding:
        """One that can be dropped."""
        bound = {n: Bound(b.value, list(b.reads)) for n, b in self.arguments.items()}
        early, hoisted = set(self.early), set(self.hoisted)
        instrs, taken, blocks = dict(self.instrs), set(self.taken), dict(self.blocks)
        return Embedding(instrs, early, hoisted, taken, blocks, bound)
