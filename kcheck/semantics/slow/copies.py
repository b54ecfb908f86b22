"""Asynchronous copies: agents of their own from issue to the wait (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.tree import Imm, Instr
from kcheck.semantics.slow.address import Accessor
from kcheck.semantics.slow.decode import handles
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.memory import Memory
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots
from kcheck.semantics.slow.shadow import Window
from kcheck.semantics.slow.state import Cta, Step, Thread
from kcheck.semantics.slow.units import UNDEF

# chance that a copy is done as soon as it is issued, in a random schedule
AT_ONCE = 0.3


@dataclass(eq=False)
class Copy:
    """One cp.async: `used` bytes from the source, then zeros.

    `source` is None where nothing may be read (what is missing is undefined).
    """

    target: Memory
    to: int
    nbytes: int
    source: Memory | None
    start: int
    used: int
    window: Window | None = None
    done: bool = False

    def perform(self) -> None:
        """Move the bytes, unless that was done before."""
        if self.done:
            return
        self.done = True
        if self.source is not None:
            self.target.copy(self.to, self.source, self.start, self.used)
        elif self.used:
            self.target.write_each(self.to, self.used, UNDEF)
        self.target.write_each(self.to + self.used, self.nbytes - self.used, 0)


def perform_one(cta: Cta) -> None:
    """Do one of the open copies of a CTA, any one."""
    chance = cta.context.chance
    assert chance is not None
    copy = cta.copies.pop(chance.randrange(len(cta.copies)))
    copy.perform()


def perform_all(cta: Cta) -> None:
    """At the end of a CTA."""
    while cta.copies:
        perform_one(cta)


@handles("cp.async")
def _cp_async(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Without a random schedule it is done at issue; the bytes past src-size are zero."""
    target, source, size, *rest = instr.operands
    if not isinstance(size, Imm):
        raise Unsupported("unsupported.operand")
    nbytes = size.value
    writer = Accessor(decoder, instr, target, "shared", nbytes, True)
    reader = Accessor(decoder, instr, source, "global", nbytes, False)
    count = decoder.load(rest[0], "u32") if rest else None

    def step(t: Thread) -> None:
        used = nbytes if count is None else count(t)
        if used is ABSORB or used > nbytes:
            t.cta.find("undefined.size", "the source size is undefined", instr, t)
            return
        to = writer.place(t)
        come = reader.place(t, used) if used else None
        if to is None:
            return
        copy = Copy(to[0], to[1], nbytes, come and come[0], come[1] if come else 0, used)
        monitor = t.cta.context.monitor
        if monitor is not None:
            copy.window = monitor.copy(t, (*to, nbytes), (*come, used) if come else None)
        t.groups[-1].append(copy)
        _issue(t, copy)

    return step


def _issue(t: Thread, copy: Copy) -> None:
    context = t.cta.context
    context.progress += 1
    if context.chance is None or context.chance.random() < AT_ONCE:
        copy.perform()
    else:
        t.cta.copies.append(copy)


@handles("cp.async.commit")
def _commit(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    return lambda t: t.groups.append([])


@handles("cp.async.wait")
def _wait(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """wait_group N: all but the last N committed groups; wait_all: also the open one."""
    pending = None
    if instr.operands:
        (operand,) = instr.operands
        if not isinstance(operand, Imm):
            raise Unsupported("unsupported.operand")
        pending = operand.value

    def step(t: Thread) -> None:
        if pending is None:
            finished, t.groups = t.groups, [[]]
        else:
            last = max(0, len(t.groups) - 1 - pending)
            finished, t.groups = t.groups[:last], t.groups[last:]
        copies = [copy for group in finished for copy in group]
        for copy in copies:
            copy.perform()
            if copy in t.cta.copies:
                t.cta.copies.remove(copy)
        monitor = t.cta.context.monitor
        if monitor is not None:
            monitor.waited(t, [copy.window for copy in copies if copy.window])

    return step
