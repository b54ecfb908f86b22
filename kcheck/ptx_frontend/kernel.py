"""A kernel lowered for execution: flat code, unique names, calls inlined, basic blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kcheck.ptx_frontend.tree import Instr, Module, Variable


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """`code[start:end]`; the indices of the blocks that may follow."""

    start: int
    end: int
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """One entry of a module, ready to execute.

    `code`: instructions of the entry with the functions it calls inlined, nested scopes
    flattened: registers and variables of inner scopes carry unique names, branch operands are
    `Target(index)`; a `ret` of an inlined function is a `bra`. A call that stays (external
    function) keeps `Sym(function)`.
    `registers`: name -> type (`pred`, `b32`, ...). `variables`: name -> shared, local, const,
    global variable, and the `.param` variables of inlined calls with space `local`.
    `params`: the entry's parameters in order. `tuning`: `maxntid`, `reqntid`, ...
    `blocks`: basic blocks in reverse post-order; unreachable code is in none.
    """

    name: str
    module: Module
    params: tuple[Variable, ...]
    registers: dict[str, str]
    variables: dict[str, Variable]
    code: tuple[Instr, ...]
    blocks: tuple[BasicBlock, ...]
    tuning: dict[str, tuple[int, ...]]

    @cached_property
    def identified(self) -> tuple[Kernel, tuple[Idiom, ...]]:
        """The kernel with library functions as one instruction each (`idioms`), and these."""
        from kcheck.ptx_frontend.idioms import identify

        return identify(self)


@dataclass(frozen=True)
class Idiom:
    """A library function that was recognized, and its lines (first, last)."""

    name: str
    lines: tuple[int, int]
