"""Races as they are found: one entry per two instructions and reason, with the first example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kcheck import limits
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import WRITE
from kcheck.semantics.values import Array, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.accesses import Access
    from kcheck.semantics.machine import Machine


@dataclass
class Race:
    """Two accesses that nothing orders, the earlier one first.

    `count`: pairs of lanes seen; where they are many, the later lanes of some pairs.

    `first_who`, `second_who`: thread and CTA, both linear. `offset`: bytes into the region.
    `conditional`: only where a predicate on an input holds that guards one of the accesses.
    """

    reason: str
    first: int
    second: int
    first_who: tuple[int, int]
    second_who: tuple[int, int]
    region: str
    offset: int
    count: int = 1
    # the barriers that the two threads had passed last, as instructions; -1: none, or not kept
    synced: tuple[int, int] = (-1, -1)
    conditional: bool = False


class Reports:
    """The part of the monitor that keeps what it found."""

    # the last barrier that each lane passed
    last: Array

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.found: dict[tuple[str, int, int], Race] = {}
        # instructions whose accesses a predicate on an input guarded, at least once
        self.guarded: set[int] = set()
        self.strong = [_strong(i.opcode) for i in self.machine.kernel.code]

    def reason_of(self, earlier: Access, access: Access) -> str:
        """The name of a race within a CTA."""
        if self.strong[earlier.at] and self.strong[access.at]:
            return "race.unordered"
        both = earlier.kind == WRITE and access.kind == WRITE
        return "race.write-write" if both else "race.read-write"

    def who(self, lane: int) -> tuple[int, int]:
        """(thread, CTA), both linear."""
        m = self.machine
        return lane % m.threads, int(m.ctas[lane // m.threads])

    def report(
        self,
        reason: str,
        first: int,
        second: int,
        first_who: tuple[int, int],
        second_who: tuple[int, int],
        region: Region,
        cell: int,
        count: int,
        synced: tuple[int, int] = (-1, -1),
    ) -> Race:
        """Note a race of two instructions, or count one that is known.

        Unsupported where one asks for what the other writes: perhaps that is meant to order them.
        """
        if self.strong[first] and self.strong[second]:
            for at in {first, second} & self.machine.plan.polls:
                self.machine.at = at
                message = "what is done next hangs on what another thread writes meanwhile"
                raise Unsupported("unstable", message)
        key = (reason, first, second)
        known = self.found.get(key) or self.found.get((reason, second, first))
        if known is not None:
            known.count += count
            return known
        offset = self._offset(region, cell, second_who[1])
        conditional = not self.guarded.isdisjoint((first, second))
        limits.keep(True)
        race = self.found[key] = Race(
            reason, first, second, first_who, second_who, region.name, offset, count, synced,
            conditional,
        )  # fmt: skip
        return race

    def _offset(self, region: Region, cell: int, cta: int) -> int:
        """The byte offset in the region of a cell of its memory."""
        granule = region.memory.granule
        if region.space != "shared":
            return cell * granule
        m = self.machine
        batch = int(np.flatnonzero(m.ctas == cta)[0])
        return (cell - batch * (m.regions.shared_bytes // granule)) * granule - region.base

    def report_clash(self, region: Region, cell: int, first: int, second: int, count: int) -> None:
        """Two lanes of the running instruction stored different values to one cell."""
        at = self.machine.at
        who = self.who(first), self.who(second)
        reason = "race.unordered" if self.strong[at] else "race.write-write"
        reason = reason if who[0][1] == who[1][1] else "race.global"
        synced = int(self.last[first]), int(self.last[second])
        self.report(reason, at, at, *who, region, cell, count, synced)

    def report_pairing(
        self, first: int, first_lane: int, lane: int, ident: int, at: int | None = None
    ) -> None:
        """An arrival (`at`) that may count in either of two generations of a barrier."""
        key = ("race.barrier-pairing", first, self.machine.at if at is None else at)
        known = self.found.get(key)
        if known is not None:
            known.count += 1
            return
        who = self.who(first_lane), self.who(lane)
        limits.keep(True)
        self.found[key] = Race(*key, *who, f"barrier {ident}", 0)

    def report_async(
        self, copy: Access, access: Access, other: int, me: int, cell: int, count: int
    ) -> None:
        """An access meets a copy that is under way."""
        who = self.who(other), self.who(me)
        synced = int(copy.last[other]), int(access.last[me])
        self.report("race.async", copy.at, access.at, *who, access.region, cell, count, synced)


def _strong(opcode: tuple[str, ...]) -> bool:
    """Atomics, and loads and stores that are volatile or carry an order (PTX ISA 8.4)."""
    return opcode[0] in ("atom", "red") or bool(
        {"volatile", "relaxed", "acquire", "release", "acq_rel"} & set(opcode)
    )
