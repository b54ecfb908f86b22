"""What a group meets at the start of a block where threads wait for one another through memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kcheck.ptx_frontend.tree import Pair, Reg
from kcheck.semantics.values import Bool, Pred, Unstable, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine, Step
    from kcheck.semantics.wait_loops import WaitLoop

Gate = Callable[["Machine", Bool], Bool]


def gate(decoder: Decoder, index: int) -> Gate | None:
    """The gate of a block, or None: which lanes of a group may go on now."""
    machine = decoder.machine
    plan, start = machine.plan, machine.blocks[index].start
    assert plan.flow is not None
    gates: list[Gate] = []
    loops = {wait.loop: wait for wait in plan.waits.values()}
    before = {at for at in range(len(plan.flow.code)) if start in plan.flow.successors[at]}
    for wait in loops.values():
        if start not in wait.loop and before & wait.loop:
            gates.append(_leaving(decoder, wait))
        elif start in wait.loop:
            gates.append(_entering(wait))
    if start in plan.waits:
        gates.append(_waiting(index, start))
    if start in plan.spins:
        gates.append(_spinning(start, start in plan.hopeless))
    if start - 1 in plan.tickets:
        gates.append(_drawing(index))
    if not gates:
        return None

    def every(m: Machine, group: Bool) -> Bool:
        for one in gates:
            group = one(m, group)
        return group

    return every


def _leaving(decoder: Decoder, wait: WaitLoop) -> Gate:
    """Lanes come from a wait loop: what they saw in it is nobody's business any more."""
    slots = [decoder.reg(Reg(name)) for name in sorted(wait.seen)]
    at = min(wait.loop)

    def leave(m: Machine, group: Bool) -> Bool:
        assert m.flags is not None
        left = m.flags.leave(wait, group)
        if left and slots:
            outer = m.mask
            here = np.zeros_like(group)
            here[left] = True
            m.enter(here)
            for slot in slots:
                seen = Unstable("what a loop saw that waits for a value", at)
                m.regs[slot] = seen if m.mask is None else m.merge(m.regs[slot], seen)
            m.enter(outer)
        return group

    return leave


def _entering(wait: WaitLoop) -> Gate:
    def enter(m: Machine, group: Bool) -> Bool:
        assert m.flags is not None
        m.flags.enter(wait, group)
        return group

    return enter


def _waiting(index: int, at: int) -> Gate:
    def wait(m: Machine, group: Bool) -> Bool:
        assert m.flags is not None
        return m.flags.gate(index, at, group)

    return wait


def _spinning(at: int, hopeless: bool) -> Gate:
    """A loop that goes round again for a value that nobody can be told to have written."""

    def spin(m: Machine, group: Bool) -> Bool:
        came = m.came.get(at)
        again = hopeless or (came is not None and (came & group).any())
        if again:
            m.at = at
            raise Unsupported("spin", "when the loop ends hangs on what other threads write")
        m.came[at] = group if came is None else came | group
        return group

    return spin


def _drawing(index: int) -> Gate:
    def park(m: Machine, group: Bool) -> Bool:
        assert m.tickets is not None
        return m.tickets.gate(index, group)

    return park


def judged(decoder: Decoder, at: int, run: Step) -> Step:
    """A comparison of tickets: `semantics.tickets` has the last word on its outcome."""
    instr = decoder.kernel.code[at]
    target, *operands = instr.operands
    pair = (target.first, target.second) if isinstance(target, Pair) else (target,)
    slots = [decoder.reg(op) for op in pair if isinstance(op, Reg)]
    equal = "eq" in instr.opcode
    flow = decoder.machine.plan.flow
    assert flow is not None
    old = flow.defs[decoder.machine.plan.compares[at]]
    itself = [isinstance(op, Reg) and op.name in old for op in operands]
    other = decoder.integer(operands[itself.index(True) ^ 1], 4) if any(itself) else None

    def watched(m: Machine) -> None:
        run(m)
        assert m.tickets is not None
        if instr.guard is not None:
            raise Unsupported("unstable", "a ticket is compared under a guard")
        for i, slot in enumerate(slots):
            p = m.predicate(m.regs[slot])
            if p.u is not None or p.s is not None:
                continue
            wanted = equal != bool(i)
            number = None if other is None else m.integer(m.regs[other], 4)
            b = m.tickets.compared(at, p.b == wanted, number)
            m.regs[slot] = Pred(np.where(m.group(), b == wanted, p.b))

    return watched
