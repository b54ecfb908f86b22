"""Which instruction's result a register operand holds: reaching definitions, found as asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import (
    Flt,
    Imm,
    Instr,
    Mem,
    Not,
    Operand,
    Reg,
    Sym,
    registers,
)

# stands among the definitions of a register that may be read before it is written
UNDEFINED = -1
# what may be computed of an address
_SUMS = frozenset({("add", "s64"), ("add", "u64")})
_SPACES = frozenset({("cvta", "local", "u64"), ("cvta", "to", "local", "u64")})


@dataclass(frozen=True)
class Value:
    """What an operand holds: a literal's `bits`, a `name` and bytes, or what one of `defs` left.

    Moves, and what is computed of the address of a local variable, are seen through while one
    definition reaches. `at`: where the register `reg` was read.
    """

    bits: int | None = None
    name: str = ""
    offset: int = 0
    defs: frozenset[int] = frozenset()
    reg: str = ""
    at: int = -1

    @property
    def key(self) -> tuple[int | None, str, int, frozenset[int]]:
        """Equal where the same definitions, literal or name are meant."""
        return self.bits, self.name, self.offset, self.defs


def sources(instr: Instr) -> tuple[Operand, ...]:
    """The operands that are read (of a form that is not known: all)."""
    found = match(instr.opcode)
    return instr.operands[1:] if found and found.form.roles[:1] == ("d",) else instr.operands


def targets(instr: Instr) -> tuple[str, ...]:
    """The registers that are written."""
    found = match(instr.opcode)
    if instr.operands and (found is None or found.form.roles[:1] == ("d",)):
        return tuple(registers(instr.operands[0]))
    return ()


class DataFlow:
    """Definitions and readers of the registers of one kernel, in its reachable code."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.block_of = [-1] * len(kernel.code)
        self.before: list[list[int]] = [[] for _ in kernel.blocks]
        # register -> block -> its definitions in order; register -> where it is read
        self._defs: dict[str, dict[int, list[int]]] = {}
        self._reads: dict[str, list[int]] = {}
        self._into: dict[tuple[int, str], frozenset[int]] = {}
        self._without: dict[int, frozenset[int]] = {}
        for b, block in enumerate(kernel.blocks):
            for after in block.successors:
                self.before[after].append(b)
            for at in range(block.start, block.end):
                self._enter(at, b)

    def _enter(self, at: int, block: int) -> None:
        instr = self.kernel.code[at]
        self.block_of[at] = block
        for name in targets(instr):
            self._defs.setdefault(name, {}).setdefault(block, []).append(at)
        read = {name for operand in sources(instr) for name in registers(operand)}
        if instr.guard is not None:
            read.add(instr.guard.reg.name)
        for name in read:
            self._reads.setdefault(name, []).append(at)

    def reaching(self, at: int, register: str) -> frozenset[int]:
        """The definitions that a read of a register at an instruction may see."""
        block = self.block_of[at]
        inside = self._defs.get(register, {}).get(block, [])
        found: set[int] = set()
        if self._last(inside[: bisect_left(inside, at)], found):
            return frozenset(found)
        return frozenset(found) | self._entering(register, block)

    def _entering(self, register: str, block: int) -> frozenset[int]:
        """At the start of a block."""
        key = (block, register)
        if key not in self._into:
            found: set[int] = set()
            seen, pending = {block}, [block]
            while pending:
                here = pending.pop()
                if here == 0:
                    found.add(UNDEFINED)
                for b in self.before[here]:
                    if not self._last(self._defs.get(register, {}).get(b, []), found):
                        pending += {b} - seen
                        seen.add(b)
            self._into[key] = frozenset(found)
        return self._into[key]

    def _last(self, inside: list[int], found: set[int]) -> bool:
        """Add the definitions that reach the end; whether one of them always happens."""
        for at in reversed(inside):
            found.add(at)
            if self.kernel.code[at].guard is None:
                return True
        return False

    def dominates(self, a: int, b: int) -> bool:
        """Every way to block b leads through block a."""
        if a not in self._without:
            self._without[a] = self._from(0, {a}) - {a} if a else frozenset()
        return b not in self._without[a]

    def reaches(self, a: int, b: int) -> bool:
        """Some way leads from block a to block b."""
        return b in self._from(a, set())

    def _from(self, start: int, closed: set[int]) -> frozenset[int]:
        """A block, those that are reached from it, and those through which no way leads."""
        seen, pending = {start, *closed}, [start]
        while pending:
            new = set(self.kernel.blocks[pending.pop()].successors) - seen
            seen |= new
            pending += new
        return frozenset(seen)

    def readers(self, at: int) -> list[int]:
        """The instructions that may see what an instruction wrote."""
        return [
            user
            for name in targets(self.kernel.code[at])
            for user in self._reads.get(name, ())
            if at in self.reaching(user, name)
        ]

    def users(self, at: int) -> Iterator[int]:
        """The same, looking through moves."""
        for reader in self.readers(at):
            if isinstance(self.moved(reader), Reg):
                yield from self.users(reader)
            else:
                yield reader

    def inside(self, blocks: Iterable[int]) -> Iterator[int]:
        """The instructions of some blocks."""
        for b in blocks:
            yield from range(self.kernel.blocks[b].start, self.kernel.blocks[b].end)

    def reads(self, register: str) -> list[int]:
        """The instructions that read a register."""
        return self._reads.get(register, [])

    def writes(self, register: str, block: int) -> list[int]:
        """The definitions of a register in a block."""
        return self._defs.get(register, {}).get(block, [])

    def definitions(self, register: str) -> list[int]:
        """All definitions of a register."""
        return [at for inside in self._defs.get(register, {}).values() for at in inside]

    def value(self, at: int, operand: Operand) -> Value | None:
        """What an operand holds; None for operands of other kinds."""
        if isinstance(operand, (Imm, Flt)):
            return literal(operand)
        if isinstance(operand, Sym):
            return Value(name=operand.name, offset=operand.offset)
        if isinstance(operand, Not):
            operand = operand.reg
        if not isinstance(operand, Reg):
            return None
        if operand.name not in self.kernel.registers:
            return Value(name=operand.name)
        defs = self.reaching(at, operand.name)
        if len(defs) == 1:
            (only,) = defs
            through = self.passed(only)
            if through is not None:
                return through
        return Value(defs=defs, reg=operand.name, at=at)

    def address(self, at: int, operand: Mem) -> Value | None:
        """The address as a value: of a register that is no known address the register."""
        value = self.value(at, operand.base)
        if value is not None and value.name:
            return replace(value, offset=value.offset + operand.offset)
        return value

    def is_local(self, value: Value | None) -> bool:
        """An address in local memory."""
        variable = self.kernel.variables.get(value.name) if value else None
        return variable is not None and variable.space == "local"

    def passed(self, at: int) -> Value | None:
        """What an instruction hands on: moves, and the address of a local variable with more."""
        if self.moved(at) is not None:
            instr = self.kernel.code[at]
            value = self.value(at, instr.operands[1])
            # special registers change
            known = value is not None and (not value.name or value.name in self.kernel.variables)
            return value if known else None
        if at == UNDEFINED or self.kernel.code[at].guard is not None:
            return None
        instr = self.kernel.code[at]
        more = 0
        if instr.opcode in _SUMS and isinstance(instr.operands[2], Imm):
            more = instr.operands[2].value
        elif instr.opcode not in _SPACES:
            return None
        value = self.value(at, instr.operands[1])
        if value is None or not self.is_local(value):
            return None
        return replace(value, offset=value.offset + more)

    def is_silent(self, at: int) -> bool:
        """It does no more than to move or pass on what it reads."""
        return self.moved(at) is not None or self.passed(at) is not None

    def moved(self, at: int) -> Operand | None:
        """What an instruction moves as it is, if it does no more than that."""
        if at == UNDEFINED:
            return None
        instr = self.kernel.code[at]
        if instr.opcode[0] != "mov" or instr.guard is not None or len(instr.operands) != 2:
            return None
        source = instr.operands[1]
        return source if isinstance(source, (Reg, Imm, Flt, Sym)) else None


def literal(operand: Imm | Flt) -> Value:
    """A literal by its bits: 32 where they say it all."""
    if isinstance(operand, Flt):
        return Value(bits=operand.bits)
    value = operand.value & (1 << 64) - 1
    return Value(bits=value & (1 << 32) - 1 if -(1 << 31) <= operand.value < 1 << 32 else value)
