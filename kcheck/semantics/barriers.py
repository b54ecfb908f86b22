"""Barriers among the lanes of a batch: who waits where, and when they go on (DESIGN.md 5).

Arrival counts by warps: a warp has arrived when all its live lanes wait at one barrier (of an
aligned form: at one instruction). Exited threads are not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.values import Bool, Unsupported
from kcheck.semantics.votes import Votes

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# barrier ids of lanes that wait for nothing, and of those at a bar.warp.sync
NONE, WARP_BARRIER = -1, -2
# the count of a barrier over the whole CTA
WHOLE = 0
# barriers of a CTA (PTX ISA 9.7.13.1)
BARRIERS = 16

Numbers = NDArray[np.int64]


def outside_own(m: Machine, masks: NDArray[np.uint32]) -> Bool:
    """Lanes whose own bit is not in the member mask that they name."""
    return masks >> (m.lane % 32).astype(np.uint32) & 1 == 0


class Barriers:
    """The lanes that wait; `release` sends on those whose barrier is complete."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        lanes = machine.lanes
        self.ident: Numbers = np.full(lanes, NONE, np.int64)
        self.count: Numbers = np.zeros(lanes, np.int64)
        self.block: Numbers = np.zeros(lanes, np.int64)
        self.place: Numbers = np.zeros(lanes, np.int64)
        # what the lanes of a warp must share: the instruction, or -1 for a form not aligned
        self.site: Numbers = np.zeros(lanes, np.int64)
        self.members = np.zeros(lanes, np.uint32)
        # barrier -> warps that arrived without waiting, and the count they gave, per CTA
        self.arrived: dict[int, tuple[Numbers, Numbers]] = {}
        self.waiting = False
        self.votes = Votes(machine)

    # arrivals

    def sync(
        self, ident: Numbers, threads: Numbers | None, block: int, aligned: bool
    ) -> int | None:
        """The group waits at barriers `ident` for so many threads (None: all of the CTA).

        It goes on at `block`. Returns `block` if the whole batch may pass at once, else None: the
        lanes are parked.
        """
        m = self.machine
        self._check(ident, threads)
        count = np.full(1, WHOLE, np.int64) if threads is None else threads
        whole = self._whole(ident, count)
        if whole and int(count[0]) != WHOLE:  # a count waits for threads that left, too
            whole = bool(m.alive.reshape(-1, 32).any(1).all())
        # no barrier of a part of the CTA in this epoch, whose uses would have to be told apart
        plain = whole and (m.races is None or m.races.generations.none)
        alone = not self.waiting and not self.arrived and plain
        if alone and (m.mask is None or not (m.alive & ~m.mask).any()):
            if m.races is not None:
                m.races.end_epoch(np.ones(len(m.ctas), bool))
            self.votes.count(m.group())
            return block
        if m.races is not None and not plain:
            for one in np.unique(self._mine(ident)):
                m.races.generations.come(int(one), m.group() & (ident == one))
        self._park(m.group(), ident, count, block)
        if not aligned:
            self.site = np.where(m.group(), -1, self.site)
        self.release()
        return None

    def _check(self, ident: Numbers, threads: Numbers | None) -> None:
        if (self._mine(ident) >= BARRIERS).any():
            raise Unsupported("barrier-count", f"a barrier has a number of {BARRIERS} or more")
        if threads is not None:
            counts = self._mine(threads)
            if ((counts == 0) | (counts % 32 != 0)).any():
                raise Unsupported("barrier-count", "a count that is no multiple of the warp size")

    def _mine(self, x: Numbers) -> Numbers:
        """The group's lanes of an operand."""
        mask = self.machine.mask
        return x if mask is None or x.size == 1 else x[mask]

    def _whole(self, ident: Numbers, count: Numbers) -> bool:
        uniform = len(ident) == 1 and len(count) == 1
        return uniform and int(count[0]) in (WHOLE, self.machine.threads)

    def _park(self, lanes: Bool, ident: Numbers, count: Numbers, block: int) -> None:
        self.ident = np.where(lanes, ident, self.ident)
        self.count = np.where(lanes, count, self.count)
        self.block[lanes] = block
        self.place[lanes] = self.site[lanes] = self.machine.at
        self.waiting = True

    def arrive(self, ident: Numbers, count: Numbers) -> None:
        """`bar.arrive`: the group's warps arrive and go on."""
        m = self.machine
        self._check(ident, count)
        group = m.group()
        warps = group.reshape(-1, 32).any(1)
        if (warps & (m.alive & ~group).reshape(-1, 32).any(1)).any():
            raise Unsupported("convergence", "a part of a warp arrives at a barrier")
        ids = np.broadcast_to(ident, (m.lanes,))
        counts = np.broadcast_to(count, (m.lanes,))
        for one in np.unique(ids[group]):
            at = (ids == one) & group
            here = at.reshape(-1, 32).any(1).reshape(len(m.ctas), -1).sum(1)
            wanted = np.where(at, counts, 0).reshape(len(m.ctas), -1).max(1)
            before, given = self.arrived.get(int(one), (np.zeros_like(here), wanted))
            if ((before > 0) & (here > 0) & (given != wanted)).any():
                raise Unsupported("barrier-count", f"different counts at barrier {one}")
            self.arrived[int(one)] = (before + here, np.maximum(given, wanted))
            if m.races is not None:
                m.races.arrived(int(one), at)
        self.release()
        for one, (arrived, wanted) in list(self.arrived.items()):
            # nobody waits: a full barrier starts again
            left = np.where((wanted > 0) & (arrived * 32 >= wanted), 0, arrived)
            self._keep(one, left, wanted)

    def _keep(self, one: int, arrived: Numbers, wanted: Numbers) -> None:
        if arrived.any():
            self.arrived[one] = (arrived, np.where(arrived > 0, wanted, 0))
        else:
            self.arrived.pop(one, None)

    def warp(self, members: NDArray[np.uint32], block: int) -> int | None:
        """`bar.warp.sync`: the group waits for the lanes of its mask."""
        m = self.machine
        group = m.group()
        outside = group & outside_own(m, members)
        if outside.any():
            m.fault("undefined.convergence", outside, "a lane is not in its own mask")
        if self._together(members, group):
            if m.races is not None:
                m.races.warps_meet(group)
            return block
        self.members = np.where(group, members, self.members)
        self._park(group, np.array([WARP_BARRIER]), np.array([WHOLE]), block)
        self.release()
        return None

    def _together(self, members: NDArray[np.uint32], group: Bool) -> bool:
        """The group's lanes of each warp name one mask, and all its live lanes are there."""
        masks = np.where(group, members, np.uint32(0))
        union = np.bitwise_or.reduce(masks.reshape(-1, 32), axis=1)
        if (group & (masks != np.repeat(union, 32))).any():
            return False
        named = (union[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool).reshape(-1)
        return not (named & self.machine.alive & ~group).any()

    # release

    def _leave(self, done: Bool) -> None:
        self.ident = np.where(done, NONE, self.ident)
        self.waiting = bool((self.ident != NONE).any())

    def release(self) -> bool:
        """Send on every lane whose barrier is complete; True if there was one."""
        if not self.waiting:
            return False
        done = self._complete()
        for block in np.unique(self.block[done]):
            self.machine.send(int(block), done & (self.block == block))
        self._leave(done)
        return bool(done.any())

    def _complete(self) -> Bool:
        done = np.zeros(self.machine.lanes, bool)
        for one in np.unique(self.ident[self.ident != NONE]):
            here = self.ident == one
            done |= self._complete_warps(here) if one == WARP_BARRIER else self._full(int(one))
        return done

    def _full(self, one: int) -> Bool:
        """The lanes whose wait at barrier `one` is over."""
        m = self.machine
        ctas = len(m.ctas)
        alive = m.alive.reshape(-1, 32)
        here = (self.ident == one).reshape(-1, 32)
        warps = here.any(1) & (here | ~alive).all(1) & self._agree(here)
        live = alive.any(1).reshape(ctas, -1)
        whole = warps.reshape(ctas, -1)
        counts = np.where(warps, np.where(here, self.count.reshape(-1, 32), 0).max(1), -1)
        counts = counts.reshape(ctas, -1)
        wanted = counts.max(1)
        zero = np.zeros(ctas, np.int64)
        extra, given = self.arrived.get(one, (zero, zero))
        differ = (whole & (counts != wanted[:, None])).any(1)
        differ |= (wanted >= 0) & (extra > 0) & (given != wanted)
        if differ.any():
            raise Unsupported("barrier-count", f"different counts at barrier {one}")
        places = np.where(wanted == WHOLE, whole.shape[1], wanted // 32 - extra)
        full = np.where(
            wanted == WHOLE, (whole | ~live).all(1) & whole.any(1), whole.sum(1) >= places
        ) & (wanted >= 0)
        # of more warps than there are places the first go on: one of the possible schedules
        leaving = whole & full[:, None] & (whole.cumsum(1) <= places[:, None])
        if one in self.arrived:
            self._keep(one, np.where(full, 0, extra), given)
        gone = np.repeat(leaving.reshape(-1), 32) & here.reshape(-1)
        self.votes.count(gone, extra=bool((extra > 0).any()))
        if m.races is not None and gone.any():
            m.races.passed(one, gone)
            late = np.repeat((whole & full[:, None] & ~leaving).reshape(-1), 32) & here.reshape(-1)
            m.races.surplus(one, late)
        return gone

    def _agree(self, here: Bool) -> Bool:
        """Per warp: the lanes that are here came with one count, to one instruction."""
        same = np.ones(len(here), bool)
        for what in (self.count.reshape(-1, 32), self.site.reshape(-1, 32)):
            top = np.where(here, what, -(1 << 40)).max(1)
            same &= (~here | (what == top[:, None])).all(1)
        return same

    def _complete_warps(self, here: Bool) -> Bool:
        """The lanes here whose mask's live lanes all wait here with the same mask."""
        m = self.machine
        masks, waits = self.members.reshape(-1, 32), here.reshape(-1, 32)
        named = (masks[:, :, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
        with_it = waits[:, None, :] & (masks[:, :, None] == masks[:, None, :])
        missing = named & m.alive.reshape(-1, 1, 32) & ~with_it
        done = here & ~missing.any(2).reshape(-1)
        if m.races is not None and done.any():
            for mask in np.unique(self.members[done]):
                m.races.warps_meet(done & (self.members == mask))
        return done

    @property
    def waits(self) -> Bool:
        """The lanes that wait."""
        return np.asarray(self.ident != NONE)

    def deadlock(self) -> None:
        """Nothing can run: whoever still waits waits for ever."""
        m = self.machine
        stuck = self.ident != NONE
        waits = stuck.reshape(-1, 32)
        idents = self.ident.reshape(-1, 32)
        apart = ~self._agree(waits) | (waits & (idents == WARP_BARRIER)).any(1)
        apart |= (waits & (idents != np.where(waits, idents, NONE).max(1)[:, None])).any(1)
        divergent = np.repeat(apart, 32)
        for place in np.unique(self.place[stuck]):
            lanes = stuck & (self.place == place)
            for reason, these in (
                ("deadlock.divergent", lanes & divergent),
                ("deadlock.barrier", lanes & ~divergent),
            ):
                if these.any():
                    m.fault(reason, these, self._message(these), int(place))

    def _message(self, lanes: Bool) -> str:
        m = self.machine
        lane = int(lanes.argmax())
        here = int(lanes.reshape(len(m.ctas), -1)[lane // m.threads].sum())
        if self.ident[lane] == WARP_BARRIER:
            return f"{here} threads of the CTA wait for lanes of their warp that can't come"
        wanted = int(self.count[lane])
        threads = "all threads" if wanted == WHOLE else f"{wanted} threads"
        return (
            f"barrier {int(self.ident[lane])} waits for {threads} of the CTA, "
            f"{here} wait here and no other can come"
        )
