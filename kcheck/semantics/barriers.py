"""Barriers among the lanes of a batch: who waits where, and when they go on (DESIGN.md 5).

Arrival counts by warps. Exited threads are not waited for by barriers of the whole CTA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kcheck.semantics.values import Bool

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# barrier ids of lanes that wait for nothing, and of those at a bar.warp.sync
NONE, WARP_BARRIER = -1, -2
# the count of a barrier over the whole CTA
WHOLE = 0


class Barriers:
    """The lanes that wait; `release` sends on those whose barrier is complete."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        lanes = machine.lanes
        self.ident: NDArray[np.int64] = np.full(lanes, NONE, np.int64)
        self.count = np.zeros(lanes, np.int64)
        self.block = np.zeros(lanes, np.int64)
        self.place = np.zeros(lanes, np.int64)
        self.members = np.zeros(lanes, np.uint32)
        # warps that arrived without waiting, per CTA and id
        self.arrived: dict[int, NDArray[np.int64]] = {}
        self.waiting = False

    # arrivals

    def sync(self, ident: NDArray[np.int64], count: NDArray[np.int64], block: int) -> int | None:
        """The group waits at barriers `ident` for `count` threads; it goes on at `block`.

        Returns `block` if the whole batch may pass at once, else None: the lanes are parked.
        """
        m = self.machine
        if m.mask is None and not self.waiting and not self.arrived and self._whole(ident, count):
            return block
        self._divergence(m.group())
        self._park(m.group(), ident, count, block)
        self.release()
        return None

    def _whole(self, ident: NDArray[np.int64], count: NDArray[np.int64]) -> bool:
        uniform = len(ident) == 1 and len(count) == 1
        return uniform and int(count[0]) in (WHOLE, self.machine.threads)

    def _park(
        self, lanes: Bool, ident: NDArray[np.int64], count: NDArray[np.int64], block: int
    ) -> None:
        self.ident = np.where(lanes, ident, self.ident)
        self.count = np.where(lanes, count, self.count)
        self.block[lanes] = block
        self.place[lanes] = self.machine.at
        self.waiting = True

    def _divergence(self, lanes: Bool) -> None:
        """An aligned barrier needs all live lanes of a warp together."""
        m = self.machine
        warps = lanes.reshape(-1, 32).any(1)
        absent = m.alive & ~lanes
        partial = warps & absent.reshape(-1, 32).any(1)
        if partial.any():
            here = np.repeat(partial, 32) & lanes
            m.fault("deadlock.divergent", here, "a barrier is reached by a part of a warp")

    def arrive(self, ident: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        """`bar.arrive`: the group's warps arrive and go on."""
        m = self.machine
        group = m.group()
        self._divergence(group)
        warps = group.reshape(-1, 32).any(1).reshape(len(m.ctas), -1)
        ids = np.broadcast_to(ident, (m.lanes,))[group]
        for one in np.unique(ids):
            at = (np.broadcast_to(ident, (m.lanes,)) == one) & group
            here = at.reshape(-1, 32).any(1).reshape(warps.shape).sum(1)
            self.arrived[int(one)] = self.arrived.get(int(one), np.zeros_like(here)) + here
        self.release()

    def warp(self, members: NDArray[np.uint32], block: int) -> int | None:
        """`bar.warp.sync`: the group waits for the lanes of its mask."""
        m = self.machine
        group = m.group()
        named = self._named(members)
        if not (named & ~group & m.alive).any():
            return block
        self.members = np.where(group, members, self.members)
        self._park(group, np.array([WARP_BARRIER]), np.array([WHOLE]), block)
        self.release()
        return None

    def _named(self, members: NDArray[np.uint32]) -> Bool:
        """Lanes that some lane of the group names in its mask."""
        m = self.machine
        masks = np.where(m.group(), members, 0).astype(np.uint32).reshape(-1, 32)
        union = np.bitwise_or.reduce(masks, axis=1)
        return (union[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool).reshape(-1)

    # release

    def release(self) -> bool:
        """Send on every lane whose barrier is complete; True if there was one."""
        if not self.waiting:
            return False
        done = self._complete()
        for block in np.unique(self.block[done]):
            self.machine.send(int(block), done & (self.block == block))
        self.ident = np.where(done, NONE, self.ident)
        self.waiting = bool((self.ident != NONE).any())
        return bool(done.any())

    def _complete(self) -> Bool:
        m = self.machine
        done = np.zeros(m.lanes, bool)
        ctas = len(m.ctas)
        alive = m.alive.reshape(ctas, -1)
        for one in np.unique(self.ident[self.ident != NONE]):
            here = self.ident == one
            if one == WARP_BARRIER:
                done |= self._complete_warps(here)
                continue
            per_cta = here.reshape(ctas, -1)
            extra = self.arrived.get(int(one), np.zeros(ctas, np.int64))
            warps = per_cta.reshape(ctas, -1, 32).any(2).sum(1) + extra
            wanted = np.where(here, self.count, WHOLE).reshape(ctas, -1).max(1)
            all_here = (per_cta | ~alive).all(1)
            full = np.where(wanted == WHOLE, all_here, warps * 32 >= wanted)
            full &= per_cta.any(1)
            if full.any():
                done |= (per_cta & full[:, None]).reshape(-1)
                if int(one) in self.arrived:
                    self.arrived[int(one)] = np.where(full, 0, extra)
        return done

    def _complete_warps(self, here: Bool) -> Bool:
        m = self.machine
        absent = (m.alive & ~here).reshape(-1, 32)
        bits = (absent.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(1)
        missing = self.members.reshape(-1, 32) & bits[:, None].astype(np.uint32)
        return here & (missing == 0).reshape(-1)

    def deadlock(self) -> None:
        """Nothing can run: whoever still waits waits for ever."""
        m = self.machine
        for place in np.unique(self.place[self.ident != NONE]):
            lanes = (self.ident != NONE) & (self.place == place)
            lane = int(lanes.argmax())
            wanted = int(self.count[lane])
            per_cta = lanes.reshape(len(m.ctas), -1)[lane // m.threads]
            threads = "all threads" if wanted == WHOLE else f"{wanted} threads"
            m.fault(
                "deadlock.barrier",
                lanes,
                f"barrier {int(self.ident[lane])} waits for {threads} of the CTA, "
                f"{int(per_cta.sum())} wait here and no other can come",
                int(place),
            )
