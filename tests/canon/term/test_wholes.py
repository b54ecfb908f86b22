"""Sums, products and maxima as wholes."""

from __future__ import annotations

import numpy as np

from kcheck.canon.term.dag import TermValue
from kcheck.canon.term.domain import TermDomain
from kcheck.canon.term.slice import Slice, slice_of
from kcheck.canon.term.wholes import MAXIMUM, NONE, PRODUCT, SUM, Wholes


def built(*nodes: TermValue, d: TermDomain) -> tuple[Slice, Wholes, list[int]]:
    s = slice_of(d, [int(n.n[0]) for n in nodes])
    return s, Wholes(s), s.roots.tolist()


def test_parts_of_a_sum() -> None:
    """(x0 - (x1 - x2 x3)) + exp2(x4): signs, the product as one part, where each joins."""
    d = TermDomain()
    x = [d.input("x", 5)[i : i + 1] for i in range(5)]
    inner = d.sub(x[1], d.mul(x[2], x[3]))
    first = d.sub(x[0], inner)
    root = d.add(first, d.exp2(x[4]))
    s, wholes, (top, left, low) = built(root, first, inner, d=d)
    parts, signs, joins = wholes.parts(top)
    product, power = (int(p) for p in parts if p >= s.symbols)
    if wholes.group[product] != PRODUCT:
        product, power = power, product
    assert sorted(zip(parts.tolist(), signs.tolist(), joins.tolist(), strict=True)) == sorted(
        [(0, 1, left), (1, -1, low), (product, 1, low), (power, 1, top)]
    )
    assert [int(wholes.group[p]) for p in (top, product, power, 0)] == [SUM, PRODUCT, NONE, NONE]
    here = s.reach(top)
    assert np.flatnonzero(wholes.inside(here, top)).tolist() == sorted([left, low])
    # a sum that something else uses too is a value of its own
    assert not wholes.inside(s.reach(low), low)[low]


def test_parts_of_a_maximum() -> None:
    d = TermDomain()
    x = [d.input("x", 3)[i : i + 1] for i in range(3)]
    s, wholes, (top,) = built(d.maximum(d.maximum(x[0], x[1]), d.maximum(x[1], x[2])), d=d)
    parts, signs, _ = wholes.parts(top)
    assert sorted(parts.tolist()) == [0, 1, 1, 2]
    assert set(signs.tolist()) == {1}
    assert wholes.group[top] == MAXIMUM
    # of anything else the parts are its arguments
    s, wholes, (top,) = built(d.div(x[0], d.add(x[1], x[2]))[0], d=d)
    assert wholes.parts(top)[0].tolist() == s.args[:2, top].tolist()


def test_the_largest_value_of_odd_parts() -> None:
    """In x0 - (x1 + x2) + x3 the inner sum is named, not its first part; x3 by itself."""
    d = TermDomain()
    x = [d.input("x", 4)[i : i + 1] for i in range(4)]
    inner = d.add(x[1], x[2])
    first = d.sub(x[0], inner)
    _, wholes, (top, left, low) = built(d.add(first, x[3]), first, inner, d=d)
    assert wholes.alike(top, frozenset({(1, -1), (2, -1)})) == [(low, -1, left)]
    assert wholes.alike(top, frozenset({(1, -1)})) == [(1, -1, low)]
    assert wholes.alike(top, frozenset({(1, -1), (3, 1)})) == [(1, -1, low), (3, 1, top)]
    assert wholes.alike(top, frozenset()) == []
