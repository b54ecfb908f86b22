"""What a CTA does that did not draw the last ticket: nothing that counts, or kcheck can't tell.

The lane executor runs every CTA as if it were the last. What the others do is followed here by
the shape of the code: from the draw on, with the comparisons lost, as far as the outcome can be
told; where it can't, both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kcheck.ptx_frontend.tree import Imm, Instr, Mem, Not, Operand, Reg, Sym
from kcheck.semantics.flow import EFFECTS, Flow

# states that are followed before giving up
MOST = 20_000
_QUIET = frozenset({"fence", "nanosleep", "bar.sync", "bar.warp", "bar.arrive", "bar.red", "bra",
                    "ret", "exit", "prefetch", "activemask"})  # fmt: skip
Known = frozenset[tuple[str, int]]


@dataclass
class Lost:
    """One kernel and one ticket's comparisons. `broadcast`: shared variable -> what losers see."""

    flow: Flow
    compares: frozenset[int]
    broadcast: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    forked: bool = False

    def harmless(self, drawers: list[int], others: list[int]) -> bool:
        """Does no way on from these instructions have an effect outside of its CTA?

        `drawers`: where those that drew go on. `others`: where the other threads do.
        """
        self.forked = False
        if not self._walk(drawers):
            return False
        if self.forked:
            self.broadcast.clear()
        self._keep_private()
        told = None
        while told != self.broadcast:  # until no store that the others meet changes what they see
            told = dict(self.broadcast)
            if not self._walk(others):
                return False
        return True

    def _walk(self, starts: list[int]) -> bool:
        todo: list[tuple[int, Known]] = [(at, frozenset()) for at in starts]
        seen: set[tuple[int, Known]] = set()
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            if len(seen) > MOST:
                return False
            at, known = state
            values = dict(known)
            code = self.flow.code
            if at >= len(code):
                continue
            runs = self._guard(code[at], values)
            self.forked |= runs is None
            if runs is not False and not self._quiet(at, values):
                return False
            if runs is not False:
                self._execute(at, values, runs is None)
            after = self.flow.successors[at]
            if self.flow.names[at] == "bra" and code[at].guard is not None and runs is not None:
                after = after[:1] if runs else after[1:]
            elif self.flow.names[at] in ("ret", "exit") and runs:
                after = ()
            todo += [(there, frozenset(values.items())) for there in after]
        return True

    def _guard(self, instr: Instr, values: dict[str, int]) -> bool | None:
        """Is the instruction executed? None: it can't be told."""
        if instr.guard is None:
            return True
        held = values.get(instr.guard.reg.name)
        return None if held is None else bool(held) != instr.guard.negated

    def _quiet(self, at: int, values: dict[str, int]) -> bool:
        name, instr = self.flow.names[at], self.flow.code[at]
        if name not in EFFECTS:
            return bool(name)  # a form that is not known may do anything
        if name in _QUIET:
            return True
        space = next((w for w in instr.opcode if w in ("shared", "shared::cta", "local")), "")
        if name == "st" and space.startswith("shared"):
            self._stored(instr, values)
        return name in ("ld", "st", "atom.add", "atom.op", "red.add", "red.op") and (
            bool(space) or (name == "ld" and bool({"param", "const"} & set(instr.opcode)))
        )

    def _stored(self, instr: Instr, values: dict[str, int]) -> None:
        """A store of a variable: what others find there, if it is the same whenever it is done."""
        name = _variable(instr.operands[0])
        if name:
            held = _value(instr.operands[1], values)
            first = name not in self.broadcast
            self.broadcast[name] = held if first or self.broadcast[name] == held else None

    def _keep_private(self) -> None:
        """Keep the broadcast variables that nothing but the seen stores can write."""
        for instr in self.flow.code:
            for operand in instr.operands:
                if isinstance(operand, Sym):  # its address is taken
                    self.broadcast.pop(operand.name, None)

    def _execute(self, at: int, values: dict[str, int], perhaps: bool) -> None:
        result = self._result(at, values)
        for name in self.flow.defs[at]:
            if perhaps and values.get(name) != result:
                result = None
            if result is None:
                values.pop(name, None)
            else:
                values[name] = result

    def _result(self, at: int, values: dict[str, int]) -> int | None:
        instr, name = self.flow.code[at], self.flow.names[at]
        if at in self.compares:
            return int("ne" in instr.opcode)
        if len(self.flow.defs[at]) != 1:
            return None
        if name == "ld":
            variable = _variable(instr.operands[1])
            shared = "shared" in "".join(instr.opcode)
            return self.broadcast.get(variable) if variable and shared else None
        ins = [_value(operand, values) for operand in instr.operands[1:]]
        if name in ("mov", "cvt.int"):
            return ins[0]
        if name == "selp":
            return None if ins[2] is None else ins[0] if ins[2] else ins[1]
        if name == "int.setp" and instr.opcode[1] in ("eq", "ne"):
            if ins[0] is None or ins[1] is None:
                return None
            return int((ins[0] == ins[1]) == (instr.opcode[1] == "eq"))
        if "pred" in instr.opcode:
            return _logic(name, ins)
        if name == "bit.and" and 0 in ins:
            return 0
        return None


def _logic(name: str, ins: list[Any]) -> int | None:
    if name == "bit.not" and ins[0] is not None:
        return 1 - int(ins[0])
    if name == "bit.and" and 0 in ins:
        return 0
    if name == "bit.or" and 1 in ins:
        return 1
    if None in ins or name not in ("bit.and", "bit.or", "bit.xor"):
        return None
    a, b = ins
    return int({"bit.and": a & b, "bit.or": a | b, "bit.xor": a ^ b}[name])


def _value(operand: Operand, values: dict[str, int]) -> int | None:
    if isinstance(operand, Imm):
        return operand.value
    if isinstance(operand, Reg):
        return values.get(operand.name)
    if isinstance(operand, Not):
        held = values.get(operand.reg.name)
        return None if held is None else 1 - held
    return None


def _variable(operand: Operand) -> str:
    """The shared variable that a memory operand names, if it is at its start."""
    if isinstance(operand, Mem) and isinstance(operand.base, Sym) and not operand.offset:
        return operand.base.name if not operand.base.offset else ""
    return ""
