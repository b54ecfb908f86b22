"""Lanes of one instruction that store to one address: no race if the values are equal.

Every reduction of Triton over several warps does it (DESIGN.md 5): a ledger entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.semantics.values import Array, Bool, Int, Packed, Rows, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.machine import Machine


def same_instruction(
    m: Machine,
    place: Place,
    size: int,
    values: list[Any],
    clash: Bool,
    *,
    updates: bool = False,
    narrow: bool = False,
) -> None:
    """Judge the cells (flags (k, lanes) of the place) to which several lanes stored `values`.

    `updates`: what several threads, also of several CTAs, do at once to a cell comes to the same in
    any order if it is the same; `narrow`: within a CTA only, where their scope ends.
    """
    races = m.races
    assert races is not None
    cells, lanes = races.cells_of(place, size * len(values))
    row, column = np.nonzero(np.isin(cells, cells[clash]))
    cell, lane = cells[row, column], lanes[column]
    order = np.lexsort((lane, cell))
    cell, lane, offset = cell[order], lane[order], row[order] * place.region.memory.granule
    cta = lane // m.threads if narrow or not updates else np.zeros_like(lane)
    first = np.searchsorted(cell, cell)
    apart = cta != cta[first]
    # per cell and CTA the first lane stands for those that store what it stores
    leader = np.flatnonzero(np.diff(cell * len(m.ctas) + cta, prepend=-1))
    leader = np.repeat(leader, np.diff(leader, append=len(cell)))
    equal = offset == offset[leader]
    followers = leader != np.arange(len(cell))
    for i, value in enumerate(values):
        here = np.flatnonzero(equal & followers & (offset // size == i))
        equal[here] = lanes_equal(m, value, lane[here], lane[leader[here]])
    if not updates:
        races.same_value[m.at] = races.same_value.get(m.at, 0) + int((equal & followers).sum())
    if races.strict and not updates:
        equal = ~followers
    if m.tail and m.tickets is not None:  # alternatives, not lanes that run together
        alike = apart & m.tickets.same_tail(lane, lane[first])
        for i, value in enumerate(values):
            here = np.flatnonzero(alike & (offset // size == i))
            if not lanes_equal(m, value, lane[here], lane[first[here]]).all():
                raise Unsupported("unstable", "what is stored depends on which CTA is the last")
        apart &= ~alike
    for wrong, other in ((~equal, leader), (apart, first)):
        if wrong.any():
            i = int(wrong.argmax())
            who = int(lane[other[i]]), int(lane[i])
            races.report_clash(place.region, int(cell[i]), *who, int(wrong.sum()))


def lanes_equal(m: Machine, x: Any, a: Array, b: Array) -> Array:
    """Does a register hold in lanes `a` what it holds in lanes `b`?"""
    return values_equal(m, x, a, x, b)


def values_equal(m: Machine, x: Any, a: Array, y: Any, b: Array) -> Array:
    """Does register `x` hold in lanes `a` what `y`, of the same kind, holds in lanes `b`?

    Or do several registers, all of them?
    """
    if isinstance(x, tuple):
        each = [values_equal(m, v, a, w, b) for v, w in zip(x, y, strict=True)]
        return np.asarray(np.logical_and.reduce(each))
    if x is None or not len(a):
        return np.ones(len(a), bool)
    if type(x) is Int:
        same = _at(x.a, a) == _at(y.a, b)
        for u, v in ((x.u, y.u), (x.p, y.p)):
            if u is not None or v is not None:
                same = same & (_at(np.asarray(u), a) == _at(np.asarray(v), b))
        return np.asarray(same)
    if type(x) is Packed:
        return values_equal(m, x.lo, a, y.lo, b) & values_equal(m, x.hi, a, y.hi, b)
    if type(x) is Rows and type(y) is Rows and x.width == y.width:
        return values_equal(m, tuple(x.units), a, tuple(y.units), b)
    if type(x) is not Real or type(y) is not Real or x.fmt != y.fmt:
        return np.zeros(len(a), bool)
    first, second = m.reals.take(x, a), m.reals.take(y, b)
    ids = np.broadcast_to(m.reals.ids(first, (len(a),)) == m.reals.ids(second, (len(a),)), a.shape)
    values = m.domain.equal(m.reals.value(first), m.reals.value(second))
    return np.asarray(ids & np.broadcast_to(values, a.shape))


def _at(x: Array, lanes: Array) -> Array:
    return np.broadcast_to(x, lanes.shape) if x.size == 1 else x[lanes]
