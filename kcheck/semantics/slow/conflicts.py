"""Two accesses to the same bytes: are they ordered, may they be exchanged, what race are they?"""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.clocks import Knowledge
from kcheck.semantics.slow.errors import Triple
from kcheck.semantics.slow.sameness import same_units
from kcheck.semantics.slow.shadow import Access
from kcheck.semantics.slow.units import Pack, Unit, slice_bits


@dataclass(frozen=True)
class Side:
    """One of two accesses: the instruction, its thread and CTA, the thread's last barrier."""

    instr: Instr
    thread: Triple
    cta: Triple
    last: Instr | None = None


@dataclass
class Race:
    """Two instructions whose accesses nothing orders; `first` came first in this run.

    `buffer` and `byte`: where the first pair that was seen overlaps. `count`: pairs seen. `equal`:
    all of them were stores of equal values.
    """

    reason: str
    first: Side
    second: Side
    buffer: str
    byte: int
    count: int = 1
    equal: bool = False

    @property
    def lines(self) -> tuple[int, int]:
        """The lines of both instructions, the smaller one first."""
        a, b = self.first.instr.span.line, self.second.instr.span.line
        return min(a, b), max(a, b)


def exempt(old: Access, new: Access) -> bool:
    """May both come in any order: commutative updates, or a wait and the write it waits for?"""
    a, b = old.kind, new.kind
    if a.copy or b.copy:
        return False
    if not old.operations.isdisjoint(new.operations):
        return a.is_part_of("seed") or b.is_part_of("seed") or _covers(old, new)
    waits = (a.is_part_of("wait") and b.strong) or (b.is_part_of("wait") and a.strong)
    return waits and _covers(old, new)


def same_stores(old: Access, new: Access, at: int, mask: int) -> bool:
    """Did lanes of one instruction store the same to the bytes of `mask` from `at` on?"""
    if old.kind.pc != new.kind.pc or old.thread.cta is not new.thread.cta:
        return False
    return old.instance == new.instance and equal_stores(old, new, at, mask)


def equal_stores(old: Access, new: Access, at: int, mask: int) -> bool:
    """Did two plain stores leave the same in the bytes of `mask` from `at` on?"""
    if not (old.values and new.values):
        return False
    low = (mask & -mask).bit_length() - 1
    at, nbytes = at + low, mask.bit_length() - low
    if (old.offset, old.width) != (new.offset, new.width):
        return same_units(_bytes(old, at, nbytes), _bytes(new, at, nbytes))
    first, last = (at - old.offset) // old.width, (at + nbytes - 1 - old.offset) // old.width
    pairs = zip(old.values[first : last + 1], new.values[first : last + 1], strict=True)
    return all(same_units(x, y) for x, y in pairs)


def ordered(old: Access, known: Knowledge) -> bool:
    """Did an access happen before what the thread does next?"""
    time = old.time
    if old.window is not None:
        if old.window.done is None:
            return False
        time = old.window.done
    agent = old.knowledge.agent
    if agent == known.agent or known.seen.get(agent, 0) >= time:
        return True
    return old.serial != 0 and old.serial in known.seen


def reason_of(old: Access, new: Access) -> str:
    """The name of a race."""
    if old.kind.nc or new.kind.nc:
        return "race.nc"
    if old.window or new.window:
        return "race.async"
    if old.thread.cta is not new.thread.cta:
        return "race.global"
    if old.kind.strong and new.kind.strong:
        return "race.unordered"
    return "race.write-write" if old.writes and new.writes else "race.read-write"


def _covers(old: Access, new: Access) -> bool:
    """Do both scopes hold both threads?"""
    a, b = old.knowledge.place, new.knowledge.place
    return a.reached(old.kind.scope, b) and b.reached(new.kind.scope, a)


def _bytes(access: Access, at: int, nbytes: int) -> Unit:
    pack = Pack(
        tuple((value, access.width * 8) for value in access.values),
        access.nbytes * 8,
    )
    return slice_bits(pack, (at - access.offset) * 8, nbytes * 8)
