"""The writes of a cell by which threads tell one another something, in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kcheck.semantics.orders import Told
from kcheck.semantics.values import Array
from kcheck.semantics.wait_loops import WaitLoop


@dataclass
class Write:
    """One write of a cell. `value`: what it holds from then on (None: no plain integer).

    `operation` and `operand` of a read-modify-write that commutes, else "" and 0. `knew`: up to
    which write of the cell its thread knew. `told`: what a reader learns. `tail`: by a CTA that
    took itself for the last.
    """

    lane: int
    at: int
    time: int
    value: int | None
    operation: str
    operand: int
    knew: int
    told: Told
    tail: bool


@dataclass
class Ended:
    """A wait loop that began to look at a write of a cell and ended with another (0: the initial
    value). `since`: up to which write its thread knew of all before its own arrival.
    """

    lane: int
    time: int
    start: int
    position: int
    loop: WaitLoop
    at: int
    since: int


@dataclass
class History:
    """The writes of one cell in their order. `agent`: the cell among the agents of a clock."""

    agent: int
    region: int
    cell: int
    size: int
    initial: int | None
    undefined: bool
    writes: list[Write] = field(default_factory=list[Write])
    ended: list[Ended] = field(default_factory=list[Ended])
    closed: bool = False

    def value(self, position: int) -> int | None:
        """What it holds after so many writes."""
        return self.writes[position - 1].value if position else self.initial

    def base(self, position: int) -> int:
        """The last write up to a position that is no commuting update (0: none)."""
        while position and self.writes[position - 1].operation:
            position -= 1
        return position

    def told(self, position: int) -> Told:
        """What a reader of a write learns: also of the updates before it (PTX ISA 8.7)."""
        return self.writes[position - 1].told if position else Told()


def signed(value: int, history: History) -> int:
    """The bits of a cell as a signed number."""
    half = 1 << 8 * history.size - 1
    return ((value ^ half) & (2 * half - 1)) - half


def in_turn(
    found: list[tuple[int, History]],
    operands: Array,
    apply: Callable[[Array, Array, Array], None],
    kind: np.dtype[np.generic],
) -> tuple[list[int | None], list[int | None]]:
    """Old and new values of an update by one lane of `found` after another."""
    held: dict[int, int | None] = {}
    olds: list[int | None] = []
    news: list[int | None] = []
    unsigned = np.dtype(f"u{kind.itemsize}")
    for (_, history), operand in zip(found, operands, strict=True):
        position = len(history.writes)
        old = held.get(history.agent, history.value(position))
        new: int | None = None
        if old is not None:
            cell = np.array([old], unsigned).view(kind)
            apply(cell, np.zeros(1, np.int64), np.array([operand]).view(kind))
            new = int(cell.view(unsigned)[0])
        held[history.agent] = new
        olds.append(old)
        news.append(new)
    return olds, news
