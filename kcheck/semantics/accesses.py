"""Executed accesses in the monitor's log, and the cells that two of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcheck.semantics.orders import TIME_SHIFT
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import CTA_SHIFT, EPOCH_SHIFT, Shadow
from kcheck.semantics.values import Array, Bool


@dataclass
class Access:
    """One executed memory instruction in the log: `cells` (k, lanes), `lanes` (lanes,).

    `base`: the epochs, `own` the clocks, `last` the last barriers of all lanes when it ran.
    `tail`: by CTAs that took themselves for the last (`semantics.tickets`).
    """

    at: int
    shadow: Shadow
    region: Region
    cells: Array
    lanes: Array
    kind: int
    op: int
    base: Array
    own: Array
    last: Array
    tail: bool = False

    def times(self, lanes: Array) -> Array:
        """When these of its lanes made it, as `semantics.orders` has it."""
        epochs = (self.base[lanes] & (1 << CTA_SHIFT) - 1) >> EPOCH_SHIFT
        return np.asarray(epochs << TIME_SHIFT | self.own[lanes])


def pairs_of(earlier: Access, cells: Array, lanes: Array) -> tuple[Array, Array, Array]:
    """Cells that an earlier access shares with sorted `cells` of `lanes`: the cell, the lane of
    these, and the lane of the earlier access, once for each pair.
    """
    theirs = earlier.cells.reshape(-1)
    left, right = np.searchsorted(cells, theirs, "left"), np.searchsorted(cells, theirs, "right")
    many = right - left
    which = np.repeat(np.arange(len(theirs)), many)
    start = np.repeat(left - np.cumsum(many) + many, many)
    me = lanes[start + np.arange(len(which))]
    other = np.broadcast_to(earlier.lanes, earlier.cells.shape).reshape(-1)[which]
    return theirs[which], me, other


def may_conflict(earlier: Access, access: Access, against: int) -> bool:
    """Same memory, the kind looked for, and not twice the same commutative update."""
    if earlier.shadow is not access.shadow or earlier.kind != against:
        return False
    return not access.op or earlier.op >> 1 != access.op >> 1


def by_cell(access: Access, chosen: Bool) -> tuple[Array, Array]:
    """The chosen cells in order, and the lanes that access them."""
    cells = access.cells[chosen]
    lanes = np.broadcast_to(access.lanes, access.cells.shape)[chosen]
    order = cells.argsort(kind="stable")
    return cells[order], lanes[order]
