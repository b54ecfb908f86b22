"""Which registers could stand for one another at an instruction of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.registers import is_special, splits
from kcheck.ptx_frontend.tree import Instr, Mem, Not, Operand, Pair, Reg, Vec
from kcheck.ptx_frontend.tree import Registers as Declaration

_REALS = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "tf32", "m8n8"})
_INTEGERS = frozenset(f"{sign}{width}" for sign in "su" for width in (8, 16, 32, 64))
# operands that hold the same number as the result
_ALIKE = {"mov": "a", "selp": "ab", "shfl": "a", "and": "ab", "or": "ab", "xor": "ab", "slct": "ab"}
# operands that are integers whatever the type of the instruction
_COUNTS = frozenset({"shl", "shr", "shfl"})


def names(operand: Operand) -> Iterator[str]:
    """The registers in an operand."""
    match operand:
        case Reg(name) | Not(reg=Reg(name)) | Mem(base=Reg(name)):
            yield name
        case Vec(items):
            for item in items:
                yield from names(item)
        case Pair(first, second):
            yield from names(first)
            yield from names(second)


def _roles(instr: Instr) -> tuple[str, ...]:
    found = match(instr.opcode)
    roles = found.form.roles if found else ()
    return roles + ("",) * (len(instr.operands) - len(roles))


def results(instr: Instr) -> list[str]:
    """The registers that an instruction assigns."""
    pairs = zip(_roles(instr), instr.operands, strict=False)
    return [name for role, operand in pairs if role == "d" for name in names(operand)]


class Registers:
    """The registers of a kernel that its outermost scope declares."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._at: dict[tuple[int, tuple[str, ...]], int] = {}
        for at, instr in enumerate(kernel.code):
            self._at.setdefault((instr.span.start, instr.opcode), at)
        body = next(f for f in kernel.module.entries if f.name == kernel.name).body
        assert body is not None
        declared = {s.name: s.count for s in body.body if isinstance(s, Declaration)}
        self._outermost = {
            name
            for name in kernel.registers
            if (name in declared and declared[name] is None)
            or any(n < (declared.get(prefix) or 0) for prefix, n in splits(name))
        }

    def index(self, instr: Instr) -> int | None:
        """The place of an instruction of the syntax tree in the kernel's code, if reachable."""
        at = self._at.get((instr.span.start, instr.opcode))
        return at if at in self._assigned else None

    def sources(self, instr: Instr) -> Iterator[tuple[int, Operand]]:
        """The operands that an instruction reads, with their positions."""
        for i, (role, operand) in enumerate(zip(_roles(instr), instr.operands, strict=False)):
            if role != "d":
                yield i, operand

    def alternatives(self, at: int, name: str) -> list[str]:
        """Registers that may stand for `name` in instruction `at`."""
        if is_special(name):
            register, _, axis = name.partition(".")
            return [f"{register}.{other}" for other in "xy" if axis and other != axis]
        if name not in self._outermost:
            return []
        kind = self.kernel.registers[name], self._numbers[name]
        return [
            other
            for other in sorted(self._assigned[at])
            if other in self._outermost
            and other != name
            and (self.kernel.registers[other], self._numbers[other]) == kind
        ]

    @cached_property
    def _assigned(self) -> dict[int, frozenset[str]]:
        """Reachable instruction -> the registers that every path to it assigns."""
        blocks, code = self.kernel.blocks, self.kernel.code
        before: list[frozenset[str] | None] = [None] * len(blocks)
        before[0] = frozenset()
        changed = True
        while changed:
            changed = False
            for block, known in zip(blocks, list(before), strict=True):
                if known is None:
                    continue
                after = known.union(
                    *(results(i) for i in code[block.start : block.end] if i.guard is None)
                )
                for successor in block.successors:
                    there = before[successor]
                    joined = after if there is None else there & after
                    if joined != there:
                        before[successor] = joined
                        changed = True
        out = {}
        for block, known in zip(blocks, before, strict=True):
            for at in range(block.start, block.end):
                assert known is not None
                out[at] = known
                if code[at].guard is None:
                    known = known.union(results(code[at]))
        return out

    @cached_property
    def _numbers(self) -> dict[str, frozenset[str]]:
        """Register -> the kinds of number that it and its copies are used as."""
        leader: dict[str, str] = {}

        def find(name: str) -> str:
            while leader.get(name, name) != name:
                name = leader[name]
            return name

        kinds: dict[str, set[str]] = {}
        for instr in self.kernel.code:
            self._note(instr, kinds)
            roles = dict(zip(_roles(instr), instr.operands, strict=False))
            for role in _ALIKE.get(instr.opcode[0], ""):
                if isinstance(roles.get(role), Reg) and isinstance(roles.get("d"), Reg):
                    leader[find(next(names(roles[role])))] = find(next(names(roles["d"])))
        for name in list(kinds):
            kinds.setdefault(find(name), set()).update(kinds[name])
        return {r: frozenset(kinds.get(find(r), ())) for r in self.kernel.registers}

    @staticmethod
    def _note(instr: Instr, kinds: dict[str, set[str]]) -> None:
        words = set(instr.opcode)
        for role, operand in zip(_roles(instr), instr.operands, strict=False):
            kind = "real" if words & _REALS else "integer" if words & _INTEGERS else ""
            if instr.opcode[0] == "cvt" and len(instr.opcode) > 2:
                word = instr.opcode[-2 if role == "d" else -1]
                kind = "real" if word in _REALS else "integer" if word in _INTEGERS else ""
            if instr.opcode[0] in ("ld", "st", "selp", "mov") and kind == "integer":
                kind = ""  # compilers move bits of any kind under an integer's type
            counts = instr.opcode[0] in _COUNTS and role not in "da"
            if isinstance(operand, Mem) or counts or role in ("id", "mask", "count", "size"):
                kind = "integer"
            for name in names(operand):
                if kind:
                    kinds.setdefault(name, set()).add(kind)
