"""Which registers an instruction reads and writes, and where a value can go.

The shape of the code only: both evaluators use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.idioms import LIBRARY
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr, Mem, Target, registers

# forms that touch memory, other threads or control; all other forms only map values
EFFECTS = frozenset(
    {"ld", "st", "prefetch", "ldmatrix", "activemask", "fence", "nanosleep"}
    | {"atom.add", "atom.op", "atom.exch", "atom.cas", "red.add", "red.op"}
    | {"cp.async", "cp.async.commit", "cp.async.wait"}
    | {"bar.sync", "bar.arrive", "bar.warp", "bar.red"}
    | {"bra", "call", "ret", "exit", "trap"}
)
# forms that pass a value to other lanes
EXCHANGES = frozenset({"shfl", "vote", "vote.ballot", "redux", "match.any", "match.all", "bar.red"})
ATOMICS = frozenset({"atom.add", "atom.op", "atom.exch", "atom.cas", "red.add", "red.op"})


def form_name(instr: Instr) -> str:
    """The name of an instruction's row in the table of forms; "" if it has none."""
    found = match(instr.opcode)
    return found.form.name if found else ""


def _roles(instr: Instr) -> tuple[str, ...]:
    """The roles of an instruction's operands; () if they are not known."""
    if instr.opcode[0] == LIBRARY:
        return ("d", *("a" for _ in instr.operands[1:]))
    found = match(instr.opcode)
    return found.form.roles if found else ()


@dataclass(frozen=True)
class Use:
    """A register is read at `pc` in the role of the table of forms, `address` or `guard`."""

    pc: int
    role: str


class Flow:
    """Definitions, uses and successors of a kernel's instructions."""

    def __init__(self, kernel: Kernel) -> None:
        self.code = kernel.code
        self.names = [form_name(instr) for instr in kernel.code]

    @cached_property
    def defs(self) -> list[frozenset[str]]:
        """The registers that each instruction writes."""
        return [frozenset(self._defs(instr)) for instr in self.code]

    def _defs(self, instr: Instr) -> Iterator[str]:
        if _roles(instr)[:1] == ("d",) and instr.operands:
            yield from registers(instr.operands[0])

    @cached_property
    def uses(self) -> list[dict[str, set[str]]]:
        """Per instruction the registers that it reads, each with the roles."""
        return [self._uses(instr) for instr in self.code]

    def _uses(self, instr: Instr) -> dict[str, set[str]]:
        roles = _roles(instr)
        if len(roles) > len(instr.operands):
            roles = (*roles[: len(instr.operands) - 1], roles[-1])  # an optional one is missing
        used: dict[str, set[str]] = {}
        for i, operand in enumerate(instr.operands):
            role = roles[i] if i < len(roles) else "?"
            if role == "d":
                continue
            role = "address" if isinstance(operand, Mem) else role
            for name in registers(operand):
                used.setdefault(name, set()).add(role)
        if instr.guard is not None:
            used.setdefault(instr.guard.reg.name, set()).add("guard")
        return used

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The instructions that may follow each."""
        return [tuple(self._after(pc)) for pc in range(len(self.code))]

    def _after(self, pc: int) -> Iterator[int]:
        instr = self.code[pc]
        name = self.names[pc]
        if name == "bra":
            yield from (op.index for op in instr.operands if isinstance(op, Target))
        stays = name not in ("bra", "ret", "exit", "trap") or instr.guard is not None
        if stays and pc + 1 < len(self.code):
            yield pc + 1

    def reached(self, pc: int, register: str) -> list[Use]:
        """Where the value that `pc` writes into a register may be read."""
        found = []
        seen: set[int] = set()
        todo = list(self.successors[pc])
        while todo:
            at = todo.pop()
            if at in seen or at >= len(self.code):
                continue
            seen.add(at)
            found += [Use(at, role) for role in self.uses[at].get(register, ())]
            if register not in self.defs[at] or self.code[at].guard is not None:
                todo += self.successors[at]
        return found

    def live(self, pc: int) -> bool:
        """Does anything but other registers hang on what `pc` writes?"""
        return bool(self.ends(pc))

    def ends(self, pc: int) -> list[tuple[Use, bool]]:
        """The uses where the values that `pc` writes end up, and whether only a comparison does.

        Values are followed through instructions that map values and through other lanes, not
        through memory.
        """
        found: set[tuple[int, str, bool]] = set()
        seen: set[tuple[int, bool]] = set()
        todo = [(pc, False)]
        while todo:
            at, compared = todo.pop()
            if (at, compared) in seen:
                continue
            seen.add((at, compared))
            for name in self.defs[at]:
                for use in self.reached(at, name):
                    form = self.names[use.pc]
                    passes = form not in EFFECTS and not (form in EXCHANGES and use.role == "mask")
                    if passes or (form == "bar.red" and use.role == "p"):
                        todo.append((use.pc, compared or "setp" in form))
                    else:
                        found.add((use.pc, use.role, compared))
        return [(Use(at, role), compared) for at, role, compared in found]

    def cycle(self, pc: int, allowed: Iterable[int]) -> frozenset[int]:
        """The instructions on cycles through `pc` whose others are all in `allowed`."""
        inside = {*allowed, pc}
        forward = self._walk(pc, inside, {at: self.successors[at] for at in inside})
        before: dict[int, list[int]] = {}
        for at in inside:
            for after in self.successors[at]:
                before.setdefault(after, []).append(at)
        return frozenset(forward & self._walk(pc, inside, before))

    def _walk(self, pc: int, inside: set[int], edges: Mapping[int, Sequence[int]]) -> set[int]:
        seen: set[int] = set()
        todo = list(edges.get(pc, ()))
        while todo:
            at = todo.pop()
            if at not in seen and at in inside:
                seen.add(at)
                todo += edges.get(at, ())
        return seen

    def sources(self, names: Iterable[str], within: frozenset[int]) -> set[int]:
        """The instructions of `within` on whose results the registers hang."""
        found: set[int] = set()
        todo = list(names)
        seen = set(todo)
        while todo:
            name = todo.pop()
            for at in within:
                if name in self.defs[at] and at not in found:
                    found.add(at)
                    fresh = set(self.uses[at]) - seen
                    seen |= fresh
                    todo += fresh
        return found
