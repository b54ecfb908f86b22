"""What ranges decide is true of all inputs within them, and all else is left to the domain."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.canon.ranged import RangedDomain, RangedValue, plain
from kcheck.canon.term.domain import TermDomain

OPS = ("lt", "le", "gt", "ge", "eq", "ne")
COMPARE: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
ENDS = st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 2.0**-149, 1.0, 4.0, np.inf])
Range = tuple[float, float]


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, high = sorted([draw(ENDS), draw(ENDS)])
    if low == np.inf or high == -np.inf:
        return 0.0, 1.0
    return low, high


def steps(draw: Any, domain: Any) -> list[Any]:
    """Values of a short program over x and y, the same for each domain given the same draws."""
    values = [domain.input("x", 3), domain.input("y", 3), domain.constants([Fraction(1, 2)], ONE)]
    for op, i, j in draw:
        a, b = values[i % len(values)], values[j % len(values)]
        values.append(getattr(domain, op)(a, b))
    return values


ONE = np.zeros(3, np.int64)
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(["add", "sub", "mul", "maximum", "minimum"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=5,
)


@given(ranges(), ranges(), PROGRAMS, st.sampled_from(OPS), st.integers(0, 999))
@settings(max_examples=150, deadline=None)
def test_decisions_are_true(x: Range, y: Range, program: Any, op: str, seed: int) -> None:
    """On inputs within the ranges, in exact enclosures of points: none contradicts."""
    domain = RangedDomain(TermDomain(), {"x": x, "y": y})
    values = steps(program, domain)
    decided = domain.decide(domain.compare(op, values[-1], values[0]))
    rng = np.random.default_rng(seed)
    inputs = {}
    for name, (low, high) in (("x", x), ("y", y)):
        drawn = np.round(rng.uniform(max(low, -8), max(min(high, 8), max(low, -8)), 3) * 4) / 4
        inputs[name] = np.clip(drawn, low, high)
    points = EnclosureDomain(inputs)
    exact = steps(program, points)
    truth = points.decide(points.compare(op, exact[-1], exact[0]))
    known = np.broadcast_to(decided, (3,))
    assert not ((known >= 0) & (truth >= 0) & (known != truth)).any()
    for value, point in zip(values, exact, strict=True):
        assert (value.e.low <= point.high).all()
        assert (value.e.high >= point.low).all()


@given(ranges(), ranges(), PROGRAMS)
@settings(max_examples=60, deadline=None)
def test_engines_agree_under_ranges(x: Range, y: Range, program: Any) -> None:
    """Equal for terms implies equal over the field."""
    runs = []
    for inner in (TermDomain(), FieldDomain(7, 2, 1)):
        domain = RangedDomain(inner, {"x": x, "y": y})
        values = steps(program, domain)
        same = [np.broadcast_to(domain.equal(v, values[-1]), (3,)) for v in values]
        runs.append(np.stack(same))
    assert (~runs[0] | runs[1]).all()


def within(**known: Range) -> RangedDomain:
    return RangedDomain(FieldDomain(3, 2, 2), known)


def test_a_maximum_is_one_of_its_arguments() -> None:
    d = within(x=(1.0, 2.0), y=(2.0, 3.0))
    x, y, free = d.input("x", 4), d.input("y", 4), d.input("free", 4)
    assert d.equal(d.maximum(x, y), y).all()
    assert d.equal(d.minimum(x, y), x).all()
    assert not d.equal(d.maximum(x, free), x).any()
    assert not d.equal(d.maximum(x, free), free).any()
    halves = d.where(np.array([True, True, False, False]), y, free)
    assert d.equal(d.maximum(x, halves), y).tolist() == [True, True, False, False]
    assert d.equal(d.maximum(halves, x), y).tolist() == [True, True, False, False]


def test_through_memory_shapes_and_functions() -> None:
    d = within(x=(0.25, 1.0))
    x = d.input("x", 4)
    store = d.store(8)
    index = np.arange(4)
    store.write(index, x)
    store.add(index, x)
    twice = store.read(index)
    zero = d.constants([Fraction(0)], np.zeros(1, np.int64))
    assert d.decide(d.compare("gt", twice, zero)).tolist() == [1] * 4
    # what was never written holds nothing that could be positive
    assert d.decide(d.compare("gt", store.read(index + 4), zero)).tolist() == [0] * 4
    grid = d.stack([x, twice]).reshape((4, 2))
    assert (d.decide(d.compare("le", grid[1:, :1], zero)) == 0).all()
    assert (d.decide(d.compare("gt", d.exp2(x), d.constants([Fraction(1)], index * 0))) == 1).all()
    assert d.beyond == set()
    d.div(x, twice)
    d.atom("lg2", [x])
    d.atom("sqrt", [x])
    assert d.beyond == set()
    two = d.constants([Fraction(2)], np.zeros(1, np.int64))
    d.div(x, d.sub(x, two))
    d.atom("lg2", [d.input("free", 4)])
    assert d.beyond == {"lg2"}  # x - 2 < 0
    d.div(x, d.input("free", 4))
    d.atom("sqrt", [d.neg(x)])
    assert d.beyond == {"div", "lg2", "sqrt"}


def test_what_is_not_zero() -> None:
    d = RangedDomain(FieldDomain(3, 2, 2), {}, {"x", "y"})
    x, y, free = d.input("x", 4), d.input("y", 4), d.input("free", 4)
    zero = d.constants([Fraction(0)], np.zeros(1, np.int64))

    def ne(value: Any) -> list[int]:
        return np.broadcast_to(d.decide(d.compare("ne", value, zero)), (4,)).tolist()

    assert ne(x) == ne(d.neg(x)) == ne(d.mul(x, y)) == [1] * 4
    assert d.decide(d.compare("eq", zero, x)).tolist() == [0] * 4
    assert ne(free) == ne(d.add(x, y)) == ne(d.mul(x, free)) == [-1] * 4
    assert d.decide(d.compare("eq", x, y)).tolist() == [-1] * 4
    assert ne(d.where(np.array([True, False, True, False]), x, free)) == [1, -1, 1, -1]
    assert ne(d.stack([x, free]).reshape((8,))[2:6]) == [1, 1, -1, -1]
    store = d.store(4)
    store.write(np.arange(4), x)
    store.write(np.array([0]), free[:1])
    store.add(np.array([3]), y[:1])
    assert ne(store.read(np.arange(4))) == [-1, 1, 1, -1]
    d.div(free, d.mul(x, y))
    assert d.beyond == set()
    assert ne(d.div(x, y)[0]) == [1] * 4
    d.div(x, free)
    assert d.beyond == {"div"}


@pytest.mark.parametrize("op", OPS)
def test_the_other_domain_decides_the_rest(op: str) -> None:
    d = within(x=(-np.inf, np.inf))
    x = d.input("x", 2)
    p = d.compare(op, x, x)
    assert (d.decide(p) == int(COMPARE[op](0, 0))).all()
    y = d.input("y", 2)
    assert (d.decide(d.compare(op, x, y)) == -1).all()
    assert plain(x) is x.v
    assert plain(x.v) is x.v
    assert isinstance(x[:1], RangedValue)
