"""`barrier.red`: what the threads that meet at a barrier vote (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.values import Bool, Int, Pred, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine


class Votes:
    """The votes of lanes that wait; `count` gives those that go on the result."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.vote: Bool = np.zeros(machine.lanes, bool)
        # lanes, operation, register of the result
        self.ballots: list[tuple[Bool, str, int]] = []

    def cast(self, op: str, target: int, vote: Bool) -> None:
        """The group votes in a reduction by `popc`, `and` or `or`."""
        group = self.machine.group()
        self.vote = np.where(group, vote, self.vote)
        self.ballots.append((group, op, target))

    def count(self, lanes: Bool, extra: bool = False) -> None:
        """These lanes go on together; `extra`: others arrived without waiting."""
        voters = np.zeros(len(lanes), bool)
        for group, _, _ in self.ballots:
            voters |= group & lanes
        if not voters.any():
            return
        m = self.machine
        operations = {op for group, op, _ in self.ballots if (group & lanes).any()}
        if extra or (voters != lanes).any() or len(operations) > 1:
            raise Unsupported("barrier-count", "different operations at one barrier")
        kept = []
        outer = m.mask
        for group, op, target in self.ballots:
            here = group & lanes
            if here.any():
                m.enter(here)
                result = self._result(op, lanes)
                m.regs[target] = result if m.mask is None else m.merge(m.regs[target], result)
            if (group & ~lanes).any():
                kept.append((group & ~lanes, op, target))
        m.enter(outer)
        self.ballots = kept

    def _result(self, op: str, lanes: Bool) -> Int | Pred:
        """Per lane, over the CTA."""
        m = self.machine
        shape = len(m.ctas), m.threads
        yes, here = (self.vote & lanes).reshape(shape), lanes.reshape(shape)
        if op == "popc":
            return Int(np.repeat(yes.sum(1).astype(np.uint32), m.threads))
        result = yes.any(1) if op == "or" else (yes | ~here).all(1)
        return Pred(np.repeat(result, m.threads))
