"""Where an undefined value came from: one thread of a run, followed backwards."""

from __future__ import annotations

from kcheck.semantics.flow import Flow
from kcheck.semantics.slow.errors import Triple, Unevaluated
from kcheck.semantics.slow.machine import SlowMachine
from kcheck.semantics.slow.state import Signal, Step, Thread
from kcheck.semantics.slow.units import Pack, Undef, Unit


class _Reached(Exception):
    """The instruction that uses the value."""


class _Trace:
    """The instructions that one thread executes, each with the undefined registers it reads."""

    def __init__(self, machine: SlowMachine, cta: Triple, thread: Triple, at: int) -> None:
        self.who = cta, thread
        self.at = at
        self.code = machine.context.kernel.code
        self.flow = Flow(machine.context.kernel)
        self.slots = machine.decoder.slots
        self.entries: list[tuple[int, frozenset[str]]] = []

    def step(self, pc: int, step: Step) -> Step:
        """The same step, traced."""

        def traced(t: Thread) -> Signal | None:
            if (t.cta.index, t.tid) == self.who and self._executes(t, pc):
                names = (name for name in self.flow.uses[pc] if name in self.slots)
                bad = frozenset(n for n in names if _undefined(t.regs[self.slots[n]]))
                self.entries.append((pc, bad))
                if pc == self.at and bad:
                    raise _Reached
            return step(t)

        return traced

    def _executes(self, t: Thread, pc: int) -> bool:
        guard = self.code[pc].guard
        return guard is None or t.regs[self.slots[guard.reg.name]] is not guard.negated

    def origin(self) -> int | None:
        """The instruction that got an undefined value out of defined ones."""
        _, wanted = self.entries.pop()
        while self.entries:
            pc, bad = self.entries.pop()
            if self.flow.defs[pc] & wanted:
                if not bad:
                    return pc
                wanted = bad
        return None


def origin(machine: SlowMachine, cta: Triple, thread: Triple, at: int) -> int | None:
    """The load (or shuffle) of the undefined value that a thread uses at instruction `at`.

    `machine`: of the thread's CTA, not yet run. None: it uses none, or one of a register that
    nothing wrote. What a load got is not followed to who stored it.
    """
    trace = _Trace(machine, cta, thread, at)
    machine.steps = [trace.step(pc, step) for pc, step in enumerate(machine.steps)]
    try:
        machine.run()
    except _Reached:
        return trace.origin()
    except Unevaluated:
        pass
    return None


def _undefined(unit: Unit) -> bool:
    if isinstance(unit, Pack):
        return any(_undefined(part) for part, _ in unit.pieces)
    return isinstance(unit, Undef)
