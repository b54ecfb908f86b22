"""Values computed again from the graph: over enclosures as numbers, with an FMA in two parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.canon.term.dag import ADD, CONST, MUL, BudgetSpent, TermValue, TracedDag
from kcheck.canon.term.domain import TermDomain
from kcheck.canon.term.slice import Slice, slice_of

# an operation of the domain, and what it does to numbers
STEPS: list[tuple[str, int, Callable[..., float]]] = [
    ("neg", 1, lambda a: -a),
    ("add", 2, lambda a, b: a + b),
    ("sub", 2, lambda a, b: a - b),
    ("mul", 2, lambda a, b: a * b),
    ("fma", 3, lambda a, b, c: a * b + c),
    ("maximum", 2, max),
    ("minimum", 2, min),
]


def ends(s: Slice, numbers: list[float]) -> list[tuple[float, float]]:
    """The roots at one point, in float64 enclosures."""
    points = np.array(numbers).reshape(-1, 1)
    domain = EnclosureDomain({"": points})
    symbols = domain.input("", points.size).reshape(points.shape)
    low, high = s.replay(domain, symbols, 1).read(s.roots).ends
    return list(zip(low.tolist(), high.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.tuples(*[st.integers(0, 999)] * 3)), max_size=25),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
)
def test_replay_gives_the_numbers(
    program: list[tuple[int, tuple[int, int, int]]], numbers: list[int]
) -> None:
    d = TermDomain()
    x = d.input("x", 3)
    half = d.constants([Fraction(1, 2)], np.zeros(1, np.int64))
    nodes = [x[i : i + 1] for i in range(3)] + [half]
    values = [float(n) for n in numbers] + [0.5]
    for which, places in program:
        name, arity, apply = STEPS[which]
        used = [p % len(nodes) for p in places[:arity]]
        made = apply(*(values[p] for p in used))
        if abs(made) > 2**20 or made * 2**20 != int(made * 2**20):
            continue
        nodes.append(getattr(d, name)(*(nodes[p] for p in used)))
        values.append(made)
    s = slice_of(d, [int(n.n[0]) for n in nodes])
    assert s.names == [("x", 0), ("x", 1), ("x", 2)]
    assert ends(s, values[:3]) == [(v, v) for v in values]


def test_functions_and_conditions() -> None:
    d = TermDomain()
    x = d.input("x", 2)
    a, b = x[0:1], x[1:2]
    nodes = [
        d.exp2(a),
        d.div(a, b)[0],
        d.atom("sqrt", [b]),
        d.compare("lt", a, b),
        d.compare("ge", a, b),
        d.compare("eq", a, b),
        d.select(d.compare("gt", a, b), a, b),
    ]
    s = slice_of(d, [int(n.n[0]) for n in nodes])
    for numbers, wanted in (
        ([3.0, 4.0], [8, 0.75, 2, 1, 0, 0, 4]),
        ([4.0, 4.0], [16, 1, 2, 0, 1, 1, 4]),
        ([5.0, 4.0], [32, 1.25, 2, 0, 1, 0, 5]),
    ):
        for (low, high), value in zip(ends(s, numbers), wanted, strict=True):
            assert low <= value <= high
            assert math.isclose(low, high, rel_tol=1e-12)


def test_only_what_the_roots_hang_on() -> None:
    """Columns are variants; what no root needs is left out; an FMA is a product and a sum."""
    d = TermDomain()
    x = d.input("x", 5)
    d.mul(x[0:1], x[1:2])
    total = d.fma(x[2:3], x[3:4], d.constants([Fraction(7)], np.zeros(1, np.int64)))
    s = slice_of(d, [int(total.n[0])])
    assert s.names == [("x", 2), ("x", 3)]
    assert s.op[s.symbols :].tolist() == [CONST, MUL, ADD]
    assert s.row[3] == s.row[4]
    points = np.array([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]])
    domain = EnclosureDomain({"": points})
    store = s.replay(domain, domain.input("", 6).reshape((2, 3)), 3)
    assert store.read(int(s.roots[0]) * 3 + np.arange(3)).low.tolist() == [12, 19, 28]


def test_values_can_be_held() -> None:
    """The latest one counts, and what hangs on it follows."""
    d = TermDomain()
    x = d.input("x", 2)
    product = d.mul(x[0:1], x[1:2])
    s = slice_of(d, [int(n.n[0]) for n in (product, d.add(product, x[0:1]))])
    domain = FieldDomain(1, 2, 1)
    symbols = domain.input("x", 2).reshape((2, 1))
    held = [
        (s.roots[:1], domain.constants([Fraction(n)], np.zeros((1, 1), np.int64))) for n in (9, 5)
    ]
    store = s.replay(domain, symbols, 1, held)
    five = domain.constants([Fraction(5)], np.zeros(1, np.int64))
    assert domain.equal(store.read(s.roots[1:]), domain.add(five, symbols[0])).all()


def test_reach() -> None:
    d = TermDomain()
    x = d.input("x", 3)
    first, second = d.mul(x[0:1], x[1:2]), d.add(x[1:2], x[2:3])
    s = slice_of(d, [int(first.n[0]), int(second.n[0])])
    reach = [np.flatnonzero(s.reach(int(root))).tolist() for root in s.roots]
    assert reach == [[0, 1, int(s.roots[0])], [1, 2, int(s.roots[1])]]


def test_rows_know_where_they_were_made() -> None:
    dag = TracedDag(most=8)
    d = TermDomain(dag)
    x = d.input("x", 4)
    dag.where = lambda: 7
    sums = d.add(x, x)
    dag.where = lambda: 9
    products = d.mul(sums, x)
    assert dag.places(sums.n).tolist() == [7] * 4
    assert dag.places(products.n).tolist() == [9] * 4
    with pytest.raises(BudgetSpent, match="more than 8"):
        d.neg(TermValue(products.n))
