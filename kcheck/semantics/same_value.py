"""Lanes of one instruction that store to one address: no race if the values are equal.

Every reduction of Triton over several warps does it (DESIGN.md 5): a ledger entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.real import Real
from kcheck.semantics.values import Array, Bool, Int, Packed

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.machine import Machine


def same_instruction(m: Machine, place: Place, size: int, values: list[Any], clash: Bool) -> None:
    """Judge the cells (flags (k, lanes) of the place) to which several lanes stored `values`."""
    races = m.races
    assert races is not None
    cells, lanes = races.cells_of(place, size * len(values))
    row, column = np.nonzero(np.isin(cells, cells[clash]))
    cell, lane = cells[row, column], lanes[column]
    order = cell.argsort(kind="stable")
    cell, lane, offset = cell[order], lane[order], row[order] * place.region.memory.granule
    leader = np.searchsorted(cell, cell)
    cta = lane // m.threads
    equal = (offset == offset[leader]) & (cta == cta[leader])
    for i, value in enumerate(values):
        here = np.flatnonzero(equal & (offset // size == i))
        equal[here] = lanes_equal(m, value, lane[here], lane[leader[here]])
    followers = leader != np.arange(len(cell))
    races.same_value[m.at] = races.same_value.get(m.at, 0) + int((equal & followers).sum())
    if not equal.all():
        i = int((~equal).argmax())
        races.report_clash(
            place.region, int(cell[i]), int(lane[leader[i]]), int(lane[i]), int((~equal).sum())
        )


def lanes_equal(m: Machine, x: Any, a: Array, b: Array) -> Array:
    """Does a register hold in lanes `a` what it holds in lanes `b`?"""
    if x is None:
        return np.ones(len(a), bool)
    if type(x) is Int:
        same = _at(x.a, a) == _at(x.a, b)
        return same if x.u is None else same & (_at(x.u, a) == _at(x.u, b))
    if type(x) is Packed:
        return lanes_equal(m, x.lo, a, b) & lanes_equal(m, x.hi, a, b)
    if type(x) is not Real:
        return np.zeros(len(a), bool)
    first, second = m.reals.take(x, a), m.reals.take(x, b)
    ids = np.broadcast_to(m.reals.ids(first, (len(a),)) == m.reals.ids(second, (len(a),)), a.shape)
    values = m.domain.equal(m.reals.value(first), m.reals.value(second))
    return np.asarray(ids & np.broadcast_to(values, a.shape))


def _at(x: Array, lanes: Array) -> Array:
    return np.broadcast_to(x, lanes.shape) if x.size == 1 else x[lanes]
