"""Instructions to closures over register slots: done once per kernel and launch.

Each form of `ptx_frontend.forms` has a builder; an instruction without a form, or with operands
that its builder does not take, becomes a step that refuses itself when it is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from kcheck.ptx_frontend.flow import EXIT
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.idioms import LIBRARY, NOTHING
from kcheck.ptx_frontend.tree import (
    Flt,
    Guard,
    Imm,
    Instr,
    Not,
    Operand,
    Reg,
    Sink,
    Sym,
    Target,
    Vec,
    type_bytes,
)
from kcheck.semantics import special
from kcheck.semantics.arm_sums import arm_sums
from kcheck.semantics.arms import END
from kcheck.semantics.branching import Branching, only_computes
from kcheck.semantics.cas_updates import going_on
from kcheck.semantics.codec import literal_bits
from kcheck.semantics.extremes import in_arms, in_run, sign_test
from kcheck.semantics.gates import gate, judged
from kcheck.semantics.machine import Block, Machine, Outcome, Program, Step
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.sign_pairs import Arms, SignPairs, sign_pairs
from kcheck.semantics.sums import in_arm
from kcheck.semantics.values import FMT_BYTES, UNSIGNED, Int, Pred, Unsupported

Builder = Callable[["Decoder", Instr, dict[str, str]], Step]
# what an instruction does under a predicate (negated or not) that depends on tensor values
Guarded = Callable[[Machine, Pred, bool], None]
GuardBuilder = Callable[["Decoder", Instr, Step], Guarded]
# what ends a block: says which block is next, or where the lanes go
End = Callable[[Machine], Outcome]
# instructions that end a block without being branches
_BARRIERS = ("bar.sync", "bar.arrive", "bar.warp", "bar.red")
_EXITS = ("ret", "exit", "trap")


class Decoder:
    """Slots for registers and constants, and the builders' view of operands."""

    def __init__(
        self, machine: Machine, builders: Mapping[str, Builder], guarded: GuardBuilder
    ) -> None:
        self.machine = machine
        self.builders = builders
        self.guarded = guarded
        self.kernel = machine.kernel
        self.registers: list[Any] = []
        self.specials: list[tuple[int, str]] = []
        self._slots: dict[Any, int] = {}
        # the instruction that is decoded
        self.at = 0
        self.branching = Branching(self)
        # in true formats a float is its bits: no pair is anything else than its atomics
        real = machine.arithmetic is None
        self.pairs = sign_pairs(self.kernel) if real else SignPairs()
        self.sums = arm_sums(self.kernel) if real else {}

    def _new(self, key: Any, value: Any) -> int:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self.registers)
            self.registers.append(value)
        return slot

    def reg(self, op: Operand) -> int:
        """The slot of a register operand."""
        if not isinstance(op, Reg):
            raise Unsupported("operand", f"a register is expected, not {op}")
        if op.name in self.kernel.registers:
            return self._new(op.name, None)
        if not special.known(op.name):
            raise Unsupported("special", f"special register {op.name}")
        seen = op.name in self._slots
        slot = self._new(op.name, None)
        if not seen:
            self.specials.append((slot, op.name))
        return slot

    def known_slot(self, name: str) -> int:
        """The slot of a declared register, -1 if no instruction names it."""
        return self._slots.get(name, -1)

    def dest(self, op: Operand) -> int:
        """The slot that a result goes to; a sink has one of its own."""
        return self._new("_", None) if isinstance(op, Sink) else self.reg(op)

    def bytes_of(self, op: Operand) -> int:
        """Bytes of a declared register."""
        if not isinstance(op, Reg) or op.name not in self.kernel.registers:
            raise Unsupported("operand", f"a register is expected, not {op}")
        return type_bytes(self.kernel.registers[op.name])

    def integer(self, op: Operand, size: int) -> int:
        """The slot of an integer operand of `size` bytes."""
        if isinstance(op, Reg):
            return self.reg(op)
        if isinstance(op, Imm):
            return self._int(op.value, size)
        if isinstance(op, Flt):
            return self._int(_literal(op, size), size)
        if isinstance(op, Sym):
            return self._symbol(op, size)
        raise Unsupported("operand", f"operand {op}")

    def _int(self, value: int, size: int) -> int:
        value &= (1 << 8 * size) - 1
        return self._new((value, size), Int(np.array([value], UNSIGNED[size])))

    def _symbol(self, op: Sym, size: int) -> int:
        regions = self.machine.regions
        ident = regions.symbols.get(op.name)
        if ident is None:
            raise Unsupported("symbol", f"the address of {op.name}")
        region = regions.items[ident]
        address = np.array([region.base + op.offset], np.int64).astype(UNSIGNED[size])
        return self._new((op, size), Int(address, ident))

    def real(self, op: Operand, fmt: str) -> int:
        """The slot of a float operand of a format; literals become exact constants.

        In true formats they are their bits.
        """
        if isinstance(op, Reg):
            return self.reg(op)
        if self.machine.arithmetic is not None:
            return self.integer(op, FMT_BYTES[fmt])
        if isinstance(op, Flt):
            machine = self.machine
            ident = machine.codec.ident(_literal(op, FMT_BYTES[fmt]), fmt)
            constant = machine.reals.uniform(ident)
            constant.fmt = fmt
            return self._new((op, fmt), constant)
        raise Unsupported("operand", f"a float is expected, not {op}")

    def predicate(self, op: Operand) -> tuple[int, bool]:
        """The slot of a predicate operand, and whether it is negated."""
        if isinstance(op, Not):
            return self.reg(op.reg), True
        if isinstance(op, Imm):
            return self._new(("p", bool(op.value)), Pred(np.array([bool(op.value)]))), False
        return self.reg(op), False


def _literal(op: Flt, size: int) -> int:
    bits = literal_bits(op.bits, op.width, size)
    if bits is None:
        raise Unsupported("operand", f"a literal of {op.width} bits for {size} bytes")
    return bits


def put(m: Machine, slot: int, value: Any) -> None:
    """Write a register under the group's mask."""
    m.regs[slot] = value if m.mask is None else m.merge(m.regs[slot], value)


def decode(machine: Machine, builders: Mapping[str, Builder], guarded: GuardBuilder) -> Program:
    """Decode all reachable blocks. `guarded` builds what a symbolic guard does."""
    decoder = Decoder(machine, builders, guarded)
    blocks = [_block(decoder, index) for index in range(len(machine.blocks))]
    if machine.plan.flow is not None:
        for index, block in enumerate(blocks):
            block.gate = gate(decoder, index)
    return Program(blocks, decoder.registers, decoder.specials)


def _refuse(error: Unsupported) -> Step:
    def refuse(m: Machine) -> None:
        raise Unsupported(error.form, error.message)

    return refuse


def step(decoder: Decoder, instr: Instr) -> Step:
    """The closure of one instruction, its guard included."""
    try:
        run = _unguarded(decoder, instr)
    except Unsupported as error:
        run = _refuse(error)
        if instr.guard is not None:
            return _guarded(decoder, instr.guard, run, lambda m, p, negated: run(m))
    if instr.guard is None:
        return run
    return _guarded(decoder, instr.guard, run, decoder.guarded(decoder, instr, run))


def _step_at(decoder: Decoder, at: int) -> Step:
    decoder.at = at
    run = step(decoder, decoder.kernel.code[at])
    pairs, choosing = decoder.pairs, decoder.machine.plan.choosing
    if at in choosing:
        return going_on(decoder, decoder.kernel.code[at], *choosing[at])
    if at in pairs.signs:
        return sign_test(decoder, at, pairs.signs[at], run)
    if at in pairs.runs:
        atomics = sorted(half.at for pair in pairs.runs[at] for half in pair)
        steps = [(pc, step(decoder, decoder.kernel.code[pc])) for pc in atomics]
        return in_run(decoder, pairs.runs[at], steps)
    if at in pairs.members or at in decoder.machine.plan.idle:
        return lambda m: None  # done with another one
    return judged(decoder, at, run) if at in decoder.machine.plan.compares else run


def refusal(decoder: Decoder, instr: Instr) -> Unsupported | None:
    """Why an instruction is refused wherever it is reached, or None."""
    found = match(instr.opcode)
    name = found.form.name if found else ""
    if name in ("bra", "brx.idx", *_EXITS):
        return None
    decoder.at = next(at for at, other in enumerate(decoder.kernel.code) if other is instr)
    try:
        if name in _BARRIERS:
            _arrival(decoder, instr, name, 0)
        else:
            _unguarded(decoder, instr)
    except Unsupported as error:
        return error
    return None


def _unguarded(decoder: Decoder, instr: Instr) -> Step:
    if instr.opcode[0] == LIBRARY:
        return decoder.builders[instr.opcode[1]](decoder, instr, {})
    found = match(instr.opcode)
    builder = decoder.builders.get(found.form.name) if found else None
    if found is None or builder is None:
        raise Unsupported(instr.name, "the instruction is not supported")
    if not found.form.least <= len(instr.operands) <= len(found.form.roles):
        raise Unsupported(instr.name, f"{len(instr.operands)} operands")
    return builder(decoder, instr, found.slots)


def _guarded(
    decoder: Decoder, guard: Guard, run: Step, symbolic: Callable[[Machine, Pred, bool], None]
) -> Step:
    """`run` where the guard holds; `symbolic` is what a guard on tensor values does."""
    slot, negated = decoder.reg(guard.reg), guard.negated

    def guarded(m: Machine) -> None:
        p = m.regs[slot]
        if type(p) is Pred and p.s is not None and m.live(p.s) is not None:
            symbolic(m, p, negated)
            return
        b = m.concrete(p, "predicate")
        if negated:
            b = ~b
        under(m, b, run)

    return guarded


def under(m: Machine, b: Any, run: Step) -> None:
    """Run a step in the lanes of the group where `b` holds."""
    outer, notouter = m.mask, m.notmask
    if outer is not None:
        b = b & outer
    if b.all():
        run(m)
        return
    if not b.any():
        return
    if outer is not None and (b == outer).all():
        run(m)
        return
    m.mask, m.notmask = b, ~b
    try:
        run(m)
    finally:
        m.mask, m.notmask = outer, notouter


def _block(decoder: Decoder, index: int) -> Block:
    kernel, all_blocks = decoder.kernel, decoder.machine.blocks
    block = all_blocks[index]
    last = kernel.code[block.end - 1]
    found = match(last.opcode)
    name = found.form.name if found else ""
    starts = {b.start: i for i, b in enumerate(all_blocks)}
    stop = block.end
    follow = starts.get(block.end, -1)
    end: End = lambda m: follow  # noqa: E731
    if name == "bra":
        assert isinstance(last.operands[0], Target)
        stop, end = stop - 1, _branch(decoder, last, index, starts[last.operands[0].index], follow)
        end = _at_once(decoder, stop, starts, end)
    elif name == "brx.idx":
        jump = partial(_indexed, decoder, last, starts)
        stop, end = stop - 1, _where_guarded(decoder, last, follow, jump)
    elif name in _EXITS:
        stop, end = stop - 1, _exit(decoder, last, name, index, follow)
    elif name in _BARRIERS:
        arrive = partial(_arrival, decoder, last, name, follow)
        stop, end = stop - 1, _where_guarded(decoder, last, follow, arrive, index)
    code = kernel.code
    needed = [at for at in range(block.start, stop) if code[at].opcode[0] != NOTHING]
    steps = [(at, _step_at(decoder, at)) for at in needed]
    inside = range(block.start, block.end)
    barred = next((at for at in inside if not only_computes(code[at])), -1)
    here = block.end - 1

    def finish(m: Machine) -> Outcome:
        m.at = here
        return end(m)

    return Block(steps, finish if stop != block.end else end, barred=barred)


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


def _branch(decoder: Decoder, instr: Instr, block: int, target: int, follow: int) -> End:
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


def _at_once(decoder: Decoder, at: int, starts: Mapping[int, int], end: End) -> End:
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


def _indexed(decoder: Decoder, instr: Instr, starts: Mapping[int, int]) -> End:
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


def _exit(decoder: Decoder, instr: Instr, name: str, block: int, follow: int) -> End:
    leave = _branch(decoder, instr, block, EXIT, follow)

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


def _where_guarded(
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
        refuse = _refuse(error)

        def action(m: Machine) -> Outcome:
            refuse(m)
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


def _arrival(decoder: Decoder, instr: Instr, name: str, follow: int) -> End:
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
