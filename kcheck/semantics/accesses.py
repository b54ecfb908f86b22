"""Executed accesses, and the cells that two of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcheck.semantics.orders import TIME_SHIFT
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import Shadow
from kcheck.semantics.values import Array, Bool


@dataclass
class Access:
    """One executed memory instruction: `cells` (k, lanes), `lanes` (lanes,).

    The rows of `cells` follow one another: each lane accesses k cells from its first one on.
    `epoch`: of all CTAs, `own` the clocks, `last` the last barriers of all lanes when it ran.
    `tail`: by CTAs that took themselves for the last (`semantics.tickets`).
    """

    at: int
    shadow: Shadow
    region: Region
    cells: Array
    lanes: Array
    kind: int
    op: int
    epoch: Array
    own: Array
    last: Array
    tail: bool = False

    def epochs(self, lanes: Array) -> Array:
        """The epochs in which these of its lanes made it."""
        return np.asarray(self.epoch[lanes // (len(self.own) // len(self.epoch))])

    def times(self, lanes: Array) -> Array:
        """When these of its lanes made it, as `semantics.orders` has it."""
        return np.asarray(self.epochs(lanes) << TIME_SHIFT | self.own[lanes])


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


def by_cell(access: Access, chosen: Bool) -> tuple[Array, Array]:
    """The chosen cells in order, and the lanes that access them."""
    cells = access.cells[chosen]
    lanes = np.broadcast_to(access.lanes, access.cells.shape)[chosen]
    order = cells.argsort(kind="stable")
    return cells[order], lanes[order]
