"""What ends a block: branches, exits and barriers, which say where its lanes go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kcheck.ptx_frontend.flow import EXIT
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.tree import Guard, Instr, Target, Vec
from kcheck.semantics.arms import END
from kcheck.semantics.decode import Decoder, refusing, step
from kcheck.semantics.extremes import in_arms
from kcheck.semantics.machine import Machine, Outcome, Step
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.sign_pairs import Arms
from kcheck.semantics.sums import in_arm
from kcheck.semantics.values import Pred, Unsupported

# what ends a block: says which block is next, or where the lanes go
End = Callable[[Machine], Outcome]
# instructions that end a block without being branches
BARRIERS = ("bar.sync", "bar.arrive", "bar.warp", "bar.red")
EXITS = ("ret", "exit", "trap")


def _split(m: Machine, b: Any, yes: int, no: int) -> Outcome:
    """Lanes where `b` holds go to block `yes`, the others to `no`."""
    group = m.group()
    taken = np.broadcast_to(b, group.shape) & group
    if not taken.any():
        return no
    rest = group & ~taken
    return [(yes, taken), (no, rest)] if rest.any() else yes


def _guard(decoder: Decoder, guard: Guard | None) -> Callable[[Machine], Any] | None:
    if guard is None:
        return None
    slot, negated = decoder.reg(guard.reg), guard.negated

    def read(m: Machine) -> Any:
        b = m.concrete(m.regs[slot], "branch")
        return ~b if negated else b

    return read


def branch(decoder: Decoder, instr: Instr, block: int, target: int, follow: int) -> End:
    """bra from `block` to block `target`, or to `follow` where its guard does not hold."""
    guard = instr.guard
    if guard is None:
        return lambda m: target
    slot, negated = decoder.reg(guard.reg), guard.negated
    ways = (follow, target) if negated else (target, follow)

    def end(m: Machine) -> Outcome:
        p = m.regs[slot]
        if type(p) is Pred and p.s is not None and m.live(p.s) is not None:
            return decoder.branching.branch(m, block, p, *ways)
        return _split(m, m.concrete(p, "branch"), *ways)

    return end


def at_once(decoder: Decoder, at: int, starts: Mapping[int, int], end: End) -> End:
    """A branch whose arms hold nothing but atomics that may be done at once."""
    found = decoder.pairs.branches.get(at) or decoder.sums.get(at)
    guard = decoder.kernel.code[at].guard
    if found is None or guard is None or (found.join != END and found.join not in starts):
        return end
    join = EXIT if found.join == END else starts[found.join]
    maps = [(pc, step(decoder, decoder.kernel.code[pc])) for pc in found.maps]
    try:
        if isinstance(found, Arms):
            done = in_arms(decoder, found, guard, maps)
        else:
            done = in_arm(decoder, found, guard, maps)
    except Unsupported:
        return end
    return lambda m: join if done(m) else end(m)


def indexed(decoder: Decoder, instr: Instr, starts: Mapping[int, int]) -> End:
    """brx.idx: each lane goes to the target of its index (PTX ISA 9.7.12); raises Unsupported."""
    index, table = instr.operands
    assert isinstance(table, Vec)
    blocks = [starts[item.index] for item in table.items if isinstance(item, Target)]
    slot = decoder.integer(index, 4)

    def jump(m: Machine) -> Outcome:
        keep_bits(m, [m.regs[slot]], "the index of a branch")
        (numbers,) = defined(m, [slot], "undefined.branch")
        group = m.group()
        chosen = np.broadcast_to(numbers, group.shape)
        if (chosen[group] >= len(blocks)).any():
            raise Unsupported("brx", "the index of a branch is beyond its list of targets")
        lanes = [(block, group & (chosen == i)) for i, block in enumerate(blocks)]
        return [(block, some) for block, some in lanes if some.any()]

    return jump


def exits(decoder: Decoder, instr: Instr, name: str, block: int, follow: int) -> End:
    """ret, exit, and trap, which is refused where it is reached."""
    leave = branch(decoder, instr, block, EXIT, follow)

    def trap(m: Machine) -> Outcome:
        outcome = leave(m)
        ways = outcome if isinstance(outcome, list) else [(outcome, m.group())]
        if any(target == EXIT and lanes.any() for target, lanes in ways):
            raise Unsupported("trap", "a trap is reached")
        return outcome

    return trap if name == "trap" else leave


def defined(m: Machine, slots: list[int], reason: str) -> list[Any]:
    """32-bit operands of a barrier or brx; lanes where one is undefined are a defect, and leave."""
    numbers = []
    for slot in slots:
        x = m.integer(m.regs[slot], 4)
        if x.u is not None:
            gone = np.broadcast_to(x.u, (m.lanes,)) & m.group()
            m.fault(reason, gone, "an operand is undefined")
            m.exit(gone)
            m.enter(m.group() & ~gone)
        numbers.append(x.a)
    return numbers


def where_guarded(
    decoder: Decoder, instr: Instr, follow: int, build: Callable[[], End], barrier: int = -1
) -> End:
    """What ends a block, where its guard holds; the other lanes go to block `follow`.

    `barrier`: the block, if a barrier ends it. What `build` raises is raised when the instruction
    is reached.
    """
    guard = _guard(decoder, instr.guard)
    try:
        action = build()
    except Unsupported as error:
        refused = refusing(error)

        def action(m: Machine) -> Outcome:
            refused(m)
            return []

    if guard is None:
        return action

    def end(m: Machine) -> Outcome:
        group = m.group()
        here = np.broadcast_to(guard(m), group.shape) & group
        ways = [(follow, group & ~here)]
        if here.any():
            if barrier >= 0:
                m.convergence.guarded(barrier, here, group & ~here)
            m.enter(here)
            outcome = action(m)
            ways += outcome if isinstance(outcome, list) else [(outcome, m.group())]
        return [(block, lanes) for block, lanes in ways if lanes.any()]

    return end


def arrival(decoder: Decoder, instr: Instr, name: str, follow: int) -> End:
    """What the group does at a barrier; raises Unsupported."""
    found = match(instr.opcode)
    if found is None or not found.form.least <= len(instr.operands) <= len(found.form.roles):
        raise Unsupported(instr.name, f"{len(instr.operands)} operands")
    ops = instr.operands
    vote = _vote(decoder, instr, found.slots["op"]) if name == "bar.red" else None
    slots = [decoder.integer(op, 4) for op in (ops[1:-1] if vote else ops)]
    aligned = instr.opcode[0] == "bar" or "aligned" in instr.opcode
    reason = "undefined.mask" if name == "bar.warp" else "undefined.barrier"

    def arrive(m: Machine) -> Outcome:
        numbers = defined(m, slots, reason)
        if m.mask is not None and not m.mask.any():
            return []
        if name == "bar.warp":
            passed = m.barriers.warp(numbers[0], follow)
        elif name == "bar.arrive":
            ident, count = (n.astype(np.int64) for n in numbers)
            passed = m.barriers.arrive(ident, count, follow, aligned)
        else:
            ident, *counts = (n.astype(np.int64) for n in numbers)
            if vote is not None:
                vote(m)
            passed = m.barriers.sync(ident, counts[0] if counts else None, follow, aligned)
        return [] if passed is None else passed

    return arrive


def _vote(decoder: Decoder, instr: Instr, op: str) -> Step:
    """What the group says at a barrier.red."""
    target = decoder.dest(instr.operands[0])
    slot, negated = decoder.predicate(instr.operands[-1])

    def vote(m: Machine) -> None:
        b = m.concrete(m.regs[slot], "vote")
        m.barriers.votes.cast(op, target, ~b if negated else b)

    return vote
