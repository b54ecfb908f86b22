"""Loops that wait for a value in memory: which of them the lane executor may run (DESIGN.md 5).

How often such a loop goes round, and what it saw, hang on the schedule: only the value that ends
it counts, and nothing else may leave the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.tree import Imm, Operand, Reg
from kcheck.semantics.flow import Flow
from kcheck.semantics.idioms import Idioms
from kcheck.semantics.peeled import NEGATED, SWAPPED

_RISING = frozenset({"gt", "ge", "hi", "hs"})


@dataclass(frozen=True)
class WaitLoop:
    """A loop around a strong load, rounds before it included.

    `test`: what ends it: `equal` and `rising` (the value is, or is at least, another one), `flip`
    (its highest bit differs from that of an arrival's old value), or "" for anything else.
    `signed`: how a rising value is compared. `seen`: registers that hold what the loop saw, and
    may be read after it.
    """

    loop: frozenset[int]
    test: str = ""
    signed: bool = False
    seen: frozenset[str] = frozenset()


def wait_loop(idioms: Idioms, pc: int) -> WaitLoop | None:
    """The loop around the strong load at `pc`, or None if more than its last value leaves it."""
    flow, idiom = idioms.flow, idioms.found[pc]
    loop = idiom.loop | idiom.peeled
    if _fenced_on_leaving(flow, idiom.load, idiom.loop):
        return None
    carried = {at for at in loop if at in flow.sources(flow.uses[at], loop)}
    reads = {at for at in loop if flow.names[at] in ("ld", "bar.red")}
    seen: set[str] = set()
    for at in loop:
        needs = flow.sources(flow.uses[at], loop) | {at}
        leaves = any(after not in loop for after in flow.successors[at])
        if leaves and needs & carried:
            return None
        for name in flow.defs[at]:
            if needs & (reads | carried) and any(
                use.pc not in loop for use in flow.reached(at, name)
            ):
                if needs & carried or any(flow.names[r] == "bar.red" for r in reads):
                    return None
                seen.add(name)
    test, signed = _test(idioms, idiom.load, idiom.loop)
    return WaitLoop(loop, test, signed, frozenset(seen))


def _fenced_on_leaving(flow: Flow, load: int, loop: frozenset[int]) -> bool:
    """May a fence in the loop order what comes after it, though the load itself does not?"""
    if "acquire" in flow.code[load].opcode:
        return False
    seen: set[tuple[int, bool]] = set()
    todo = [(after, False) for after in flow.successors[load]]
    while todo:
        at, fenced = todo.pop()
        if at not in loop and fenced:
            return True
        if at in loop and at != load and (at, fenced) not in seen:
            seen.add((at, fenced))
            fenced = fenced or flow.names[at] == "fence"
            todo += [(after, fenced) for after in flow.successors[at]]
    return False


def _test(idioms: Idioms, pc: int, loop: frozenset[int]) -> tuple[str, bool]:
    """What ends the loop, if that is one comparison."""
    flow = idioms.flow
    leaving = [at for at in loop if any(after not in loop for after in flow.successors[at])]
    guard = flow.code[leaving[0]].guard if len(leaving) == 1 else None
    if guard is None:
        return "", False
    tests = [at for at in loop if guard.reg.name in flow.defs[at]]
    if len(tests) != 1 or flow.names[tests[0]] != "int.setp":
        return "", False
    _, compare, kind = flow.code[tests[0]].opcode
    _, a, b = flow.code[tests[0]].operands
    # the branch is taken where the guard holds: into the loop, or out of it
    target = flow.successors[leaving[0]][0]
    if (target in loop) != guard.negated:
        compare = NEGATED[compare]
    if _holds(flow, pc, b):
        a, b, compare = b, a, SWAPPED.get(compare, compare)
    fixed = not isinstance(b, Reg) or not any(b.name in flow.defs[at] for at in loop)
    if compare == "eq" and _holds(flow, pc, a) and fixed:
        return "equal", False
    if _holds(flow, pc, a) and fixed and compare in _RISING:
        return "rising", kind[0] == "s"
    if _is_sign(compare, kind, b) and _flips(idioms, pc, loop, a):
        return "flip", False
    return "", False


def _holds(flow: Flow, pc: int, operand: Operand) -> bool:
    return isinstance(operand, Reg) and operand.name in flow.defs[pc]


def _is_sign(compare: str, kind: str, b: Operand) -> bool:
    """Is it a test of the highest bit of 32?"""
    number = b.value if isinstance(b, Imm) else None
    return (kind, compare, number) in (("s32", "lt", 0), ("s32", "le", -1))


def _flips(idioms: Idioms, pc: int, loop: frozenset[int], operand: Operand) -> bool:
    """Is the operand the loaded value xor the old value of an arrival?"""
    flow = idioms.flow
    if not isinstance(operand, Reg):
        return False
    made = [at for at in loop if operand.name in flow.defs[at]]
    if len(made) != 1 or flow.code[made[0]].opcode[0] != "xor":
        return False
    _, a, b = flow.code[made[0]].operands
    old = b if _holds(flow, pc, a) else a
    if not isinstance(old, Reg) or not (_holds(flow, pc, a) or _holds(flow, pc, b)):
        return False
    makers = [at for at in range(len(flow.code)) if old.name in flow.defs[at]]
    return bool(makers) and all(
        at in idioms.found and idioms.found[at].name == "arrival" for at in makers
    )
