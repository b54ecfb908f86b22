"""Uses of values that hang on the schedule which are right all the same (DESIGN.md 5).

Recognized by the shape of the code around an instruction. Both evaluators use this: the shape of
the code is read once, what it means they work out apart.

- `wait`: a strong load in a loop without effects that only ends on the loaded value.
- `ticket`: atom.add or atom.inc whose old value is compared for equality and only decides branches
  (also after a broadcast of the outcome through shared memory).
- `arrival`: atom.add whose old value is only compared in a `wait` loop (grid barriers).
- `cas`: an atom.cas loop that applies one commutative operation; `seed`: the load before it.
- `aggregate`: activemask that only chooses a leader, a lane mask and the operand of an atomic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.flow import ATOMICS, EFFECTS, Flow, Use
from kcheck.semantics.peeled import peeled_rounds

# forms that a loop may hold which waits for a value
_HARMLESS = frozenset({"ld", "fence", "nanosleep", "bar.red", "bra", "prefetch"})
# operations of a CAS loop; others may only move bits
_CORES = frozenset(f"{kind}.{op}" for kind in ("float", "half") for op in ("add", "max", "min"))
_MOVES = frozenset(
    {"mov", "selp", "cvt.float", "cvt.int", "cvt.half2", "int.setp"}
    | {"bit.prmt", "bit.and", "bit.or", "bit.shl", "bit.shr", "int.bfe", "int.bfi"}
)
_STRONG = frozenset({"volatile", "relaxed", "acquire"})


@dataclass(frozen=True)
class Idiom:
    """What an instruction is part of.

    `loop`: the instructions of a `wait` loop, `load` the load in it, `peeled` the rounds that
    stand before it. `compares`: the setp of a `ticket`. `operation`: of a `cas` or its `seed`,
    like `add.f32`.
    """

    name: str
    loop: frozenset[int] = frozenset()
    load: int = -1
    peeled: frozenset[int] = frozenset()
    compares: frozenset[int] = frozenset()
    operation: str = ""


class Idioms:
    """The idioms of a kernel by instruction index."""

    def __init__(self, kernel: Kernel) -> None:
        self.flow = Flow(kernel)
        self.found: dict[int, Idiom] = {}
        for finder in (self._wait, self._cas, self._ticket, self._aggregate):
            for pc, instr in enumerate(kernel.code):
                idiom = None if pc in self.found else finder(pc, instr)
                if idiom is not None:
                    self.found[pc] = idiom
        for pc, idiom in list(self.found.items()):
            if idiom.name == "cas":
                self._seeds(pc, idiom)
            elif idiom.name == "wait":
                self._first_loads(pc, idiom)

    @cached_property
    def _harmless(self) -> list[int]:
        names = self.flow.names
        return [pc for pc, name in enumerate(names) if name not in EFFECTS or name in _HARMLESS]

    def _blocking_loop(self, pc: int) -> frozenset[int]:
        """The effectless loop around `pc` all of whose exits hang on what `pc` writes."""
        flow = self.flow
        loop = flow.cycle(pc, self._harmless)
        base = {n for n, roles in flow.uses[pc].items() if "address" in roles} if loop else set()
        if not loop or any(base & flow.defs[at] for at in loop):
            return frozenset()
        for at in loop:
            leaving = [after for after in flow.successors[at] if after not in loop]
            guards = [n for n, roles in flow.uses[at].items() if "guard" in roles]
            if leaving and (not guards or pc not in flow.sources(guards, loop)):
                return frozenset()
        return loop

    def _wait(self, pc: int, instr: Instr) -> Idiom | None:
        if self.flow.names[pc] != "ld" or not _STRONG & set(instr.opcode):
            return None
        loop = self._blocking_loop(pc)
        return Idiom("wait", loop, pc, peeled_rounds(self.flow, pc, loop)) if loop else None

    def _first_loads(self, wait: int, idiom: Idiom) -> None:
        """The load before the loop, if the loop is one of `while` and not of `do`; or those of
        rounds before the loop.
        """
        flow = self.flow
        for pc in idiom.peeled:
            if flow.names[pc] == "ld":
                self.found.setdefault(pc, idiom)
        ends = {use for use, _ in flow.ends(wait)}
        for pc, name in enumerate(flow.names):
            alike = name == "ld" and flow.code[pc].opcode == flow.code[wait].opcode
            if alike and pc not in self.found and flow.defs[pc] == flow.defs[wait]:
                mine = {use for use, _ in flow.ends(pc)}
                if mine and mine <= ends:
                    self.found[pc] = idiom

    def _cas(self, pc: int, instr: Instr) -> Idiom | None:
        flow = self.flow
        if flow.names[pc] != "atom.cas":
            return None
        loop = self._blocking_loop(pc)
        if not loop or not self._ends_in(pc, pc, loop):
            return None
        new = [n for n, roles in flow.uses[pc].items() if "b" in roles]
        slice_ = flow.sources(new, loop) - {pc}
        cores = [at for at in slice_ if flow.names[at] in _CORES]
        others = {flow.names[at] for at in slice_} - _CORES
        if len(cores) != 1 or not others <= _MOVES:
            return None
        opcode = flow.code[cores[0]].opcode
        return Idiom("cas", loop, operation=operation(opcode[0], opcode[-1]))

    def _ends_in(self, pc: int, cas: int, loop: frozenset[int]) -> bool:
        """Is a value only given to a CAS and compared with what it gives back, in its loop?"""
        ends = self.flow.ends(pc)
        allowed = {(cas, "a"), (cas, "b")}
        return all(
            (use.pc, use.role) in allowed or (use.role == "guard" and compared and use.pc in loop)
            for use, compared in ends
        ) and any(use.pc == cas for use, _ in ends)

    def _seeds(self, cas: int, idiom: Idiom) -> None:
        for pc, name in enumerate(self.flow.names):
            if name != "ld" or pc in self.found or not self._ends_in(pc, cas, idiom.loop):
                continue
            if any(use == Use(cas, "a") for use, _ in self.flow.ends(pc)):
                self.found[pc] = Idiom("seed", operation=idiom.operation)

    def _ticket(self, pc: int, instr: Instr) -> Idiom | None:
        flow = self.flow
        name, opcode = flow.names[pc], instr.opcode
        counts = name == "atom.add" or (name == "atom.op" and "inc" in opcode)
        if not counts or not flow.live(pc):
            return None
        ends = flow.ends(pc)
        if not all(compared and self._decides(use) for use, compared in ends):
            return None
        compares = self._compares(pc)
        loops = [idiom.loop | idiom.peeled for idiom in self.found.values() if idiom.name == "wait"]
        if all(any(at in loop for loop in loops) for at in compares):
            return Idiom("arrival")
        equal = all({"eq", "ne"} & set(flow.code[at].opcode) for at in compares)
        return Idiom("ticket", compares=compares) if equal else None

    def _decides(self, use: Use) -> bool:
        name = self.flow.names[use.pc]
        stores = name == "st" and "shared" in "".join(self.flow.code[use.pc].opcode)
        return use.role == "guard" or (stores and use.role == "a")

    def _compares(self, pc: int) -> frozenset[int]:
        """The comparisons that the value of `pc` meets first."""
        flow = self.flow
        found: set[int] = set()
        seen = {pc}
        todo = [pc]
        while todo:
            at = todo.pop()
            for name in flow.defs[at]:
                for use in flow.reached(at, name):
                    if "setp" in flow.names[use.pc]:
                        found.add(use.pc)
                    elif use.pc not in seen and flow.names[use.pc] not in EFFECTS:
                        seen.add(use.pc)
                        todo.append(use.pc)
        return frozenset(found)

    def _aggregate(self, pc: int, instr: Instr) -> Idiom | None:
        flow = self.flow
        if flow.names[pc] != "activemask":
            return None
        for use, _ in flow.ends(pc):
            operand = flow.names[use.pc] in ATOMICS and use.role in ("a", "b")
            if use.role not in ("guard", "mask") and not operand:
                return None
        return Idiom("aggregate")


def operation(op: str, kind: str) -> str:
    """The name of an operation on a cell; sums do not depend on the sign."""
    if op == "add" and kind[0] in "us":
        kind = "i" + kind[1:]
    return f"{op}.{kind}"
