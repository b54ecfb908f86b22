import math
from collections.abc import Callable
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.enclosure import FUNCTIONS, Enclosure, EnclosureDomain

D = EnclosureDomain({})
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
MODEST = st.floats(-1e6, 1e6)
ENDS = FINITE | MODEST | st.integers(-20, 20).map(float)


def box(low: float, high: float) -> Enclosure:
    return Enclosure(np.array([low]), np.array([high]))


def ends(e: Enclosure) -> tuple[float, float]:
    return float(e.low[0]), float(e.high[0])


def inside(value: Fraction, e: Enclosure) -> bool:
    low, high = float(e.low[0]), float(e.high[0])
    assert not math.isnan(low)
    assert not math.isnan(high)
    assert low < math.inf
    assert high > -math.inf
    above = low == -math.inf or Fraction(low) <= value
    return above and (high == math.inf or value <= Fraction(high))


@st.composite
def enclosed(draw: st.DrawFn) -> tuple[Fraction, Enclosure]:
    """A real and an enclosure of it: a point, an interval or a half line."""
    low, value, high = sorted(draw(st.lists(ENDS, min_size=3, max_size=3)))
    kind = draw(st.sampled_from(["point", "interval", "below", "above"]))
    if kind == "point":
        return Fraction(value), box(value, value)
    low = -math.inf if kind == "below" else low
    return Fraction(value), box(low, math.inf if kind == "above" else high)


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
}


@given(enclosed(), enclosed(), st.sampled_from(sorted(EXACT)))
@settings(max_examples=400, deadline=None)
def test_arithmetic_encloses(
    a: tuple[Fraction, Enclosure], b: tuple[Fraction, Enclosure], name: str
) -> None:
    assert inside(EXACT[name](a[0], b[0]), getattr(D, name)(a[1], b[1]))
    assert inside(-a[0], D.neg(a[1]))


@given(enclosed(), enclosed(), enclosed())
@settings(max_examples=200, deadline=None)
def test_fma_and_division_enclose(
    a: tuple[Fraction, Enclosure], b: tuple[Fraction, Enclosure], c: tuple[Fraction, Enclosure]
) -> None:
    assert inside(a[0] * b[0] + c[0], D.fma(a[1], b[1], c[1]))
    quotient, zero = D.div(a[1], b[1])
    assert not zero[0] or b[0] == 0
    if b[0]:
        assert inside(a[0] / b[0], quotient)
    if b[1].low[0] == b[1].high[0] == 0:
        assert zero[0]


@given(st.lists(enclosed(), min_size=6, max_size=6))
@settings(max_examples=150, deadline=None)
def test_matmul_encloses(entries: list[tuple[Fraction, Enclosure]]) -> None:
    values = [v for v, _ in entries]
    vector = Enclosure(
        np.array([e.low[0] for _, e in entries]), np.array([e.high[0] for _, e in entries])
    )
    out = D.matmul(vector[:3].reshape((1, 3)), vector[3:].reshape((3, 1)))
    expected = sum((values[i] * values[i + 3] for i in range(3)), Fraction(0))
    assert inside(expected, out.reshape((1,)))


@given(st.integers(0, 999))
@settings(max_examples=20, deadline=None)
def test_matmul_of_narrow_intervals_stays_narrow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 16)), rng.standard_normal((16, 3))
    out = D.matmul(Enclosure(a, a), Enclosure(b, b))
    assert (out.high - out.low < 1e-12).all()
    for i, j in np.ndindex(2, 3):
        exact = sum(Fraction(a[i, k]) * Fraction(b[k, j]) for k in range(16))
        assert Fraction(out.low[i, j]) <= exact <= Fraction(out.high[i, j])


MP: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "lg2": lambda x: mpmath.log(x, 2),
    "sqrt": mpmath.sqrt,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "atan": mpmath.atan,
    "round": lambda x: mpmath.sign(x) * mpmath.floor(abs(x) + 0.5),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "rint": lambda x: mpmath.mpf(round(Fraction(float(x)))),
    "trunc": lambda x: mpmath.mpf(math.trunc(Fraction(float(x)))),
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
}


@given(enclosed(), st.sampled_from(sorted(FUNCTIONS)))
@settings(max_examples=500, deadline=None)
def test_functions_enclose(a: tuple[Fraction, Enclosure], name: str) -> None:
    value = float(a[0])
    if (name == "lg2" and value <= 0) or (name == "sqrt" and value < 0):
        return
    # sine and cosine of 1e308 need 1024 bits for the reduction
    with mpmath.workprec(1400 if name in ("sin", "cos") else 200):
        expected = MP[name](mpmath.mpf(value))
        out = D.atom(name, [a[1]])
        assert out.low[0] <= expected <= out.high[0]


@given(enclosed())
@settings(max_examples=300, deadline=None)
def test_exp2_encloses(a: tuple[Fraction, Enclosure]) -> None:
    out = D.exp2(a[1])
    value = float(a[0])
    assert not np.isnan([out.low[0], out.high[0]]).any()
    with mpmath.workprec(200):
        expected = mpmath.power(2, mpmath.mpf(max(min(value, 1e5), -1e5)))
        assert out.low[0] <= expected
        assert expected <= out.high[0]


def test_exp2_at_the_ends() -> None:
    assert ends(D.exp2(box(10, 10))) == (1024, 1024)
    tiny, huge = D.exp2(box(-5000, -4000)), D.exp2(box(5000, 6000))
    assert tiny.low[0] == 0
    assert 0 < tiny.high[0] < 1e-300
    assert 1e308 < huge.low[0] < math.inf
    assert huge.high[0] == math.inf
    narrow = D.exp2(box(0.3, 0.3))
    assert 0 < narrow.high[0] - narrow.low[0] < 1e-14


def test_points_stay_points() -> None:
    three, seven = box(3, 3), box(7, 7)
    for e in (D.add(three, seven), D.mul(three, seven), D.fma(three, seven, three)):
        assert e.low[0] == e.high[0]
    assert ends(D.div(box(21, 21), seven)[0]) == (3, 3)
    assert ends(D.atom("sqrt", [box(49, 49)])) == (7, 7)
    assert ends(D.atom("lg2", [box(0.25, 0.25)])) == (-2, -2)
    third = D.div(box(1, 1), three)[0]
    assert third.high[0] == np.nextafter(np.nextafter(third.low[0], 1), 1)


EXTREMES = [3e-170, 7e-160, 5e-324, 1.1e-308, 1 / 3, 1e154, 1.7e308, 3e300, 1 + 2**-52]


@pytest.mark.parametrize("x", EXTREMES)
@pytest.mark.parametrize("y", EXTREMES)
def test_operations_on_extreme_points_enclose(x: float, y: float) -> None:
    a, b = box(x, x), box(-y, -y)
    p, q = Fraction(x), Fraction(-y)
    assert inside(p * q, D.mul(a, b))
    assert inside(p / q, D.div(a, b)[0])
    assert inside(p + q, D.add(a, b))
    assert inside(p * q, D.matmul(a.reshape((1, 1)), b.reshape((1, 1))).reshape((1,)))
    root = D.atom("sqrt", [a])
    assert Fraction(root.low[0]) ** 2 <= p <= Fraction(root.high[0]) ** 2


def test_a_divisor_around_zero() -> None:
    line, zero = D.div(box(1, 1), box(-1, 2))
    assert ends(line) == (-math.inf, math.inf)
    assert not zero[0]
    assert D.div(box(1, 1), box(0, 0))[1][0]
    assert not D.div(box(1, 1), box(0, 1))[1][0]


def test_undefined_functions_enclose_everything() -> None:
    for name, e in (("sqrt", box(-1, 1)), ("lg2", box(-1, 1)), ("unknown", box(1, 2))):
        assert ends(D.atom(name, [e])) == (-math.inf, math.inf)


TRUTH: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@given(enclosed(), enclosed(), st.sampled_from(sorted(TRUTH)))
@settings(max_examples=300, deadline=None)
def test_compares_and_selects(
    a: tuple[Fraction, Enclosure], b: tuple[Fraction, Enclosure], op: str
) -> None:
    p = D.compare(op, a[1], b[1])
    truth = TRUTH[op](a[0], b[0])
    assert inside(Fraction(int(truth)), p)
    assert D.decide(p)[0] in (-1, int(truth))
    points = a[1].low == a[1].high and b[1].low == b[1].high
    if points or D.distinct(a[1], b[1])[0]:
        assert D.decide(p)[0] == int(truth)
    assert inside(a[0] if truth else b[0], D.select(p, a[1], b[1]))
    assert not (D.distinct(a[1], b[1])[0] and a[0] == b[0])
    assert D.equal(a[1], b[1])[0] != D.distinct(a[1], b[1])[0]


@given(st.fractions())
@settings(deadline=None)
def test_constants_enclose(value: Fraction) -> None:
    e = D.constants([value], np.zeros(1, np.int64))
    assert inside(value, e)
    assert (e.low[0] == e.high[0]) == (Fraction(float(value)) == value)


def test_huge_constants_enclose() -> None:
    big = D.constants([Fraction(10) ** 400, -(Fraction(10) ** 400)], np.array([0, 1]))
    assert big.high[0] == math.inf
    assert big.low[0] > 1e308
    assert big.low[1] == -math.inf


def test_inputs_and_memory() -> None:
    d = EnclosureDomain({"x": np.arange(6.0).reshape(2, 3)})
    assert d.input("x", 4).low.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="6 elements, not 7"):
        d.input("x", 7)
    store = d.store(4)
    store.write(np.array([1, 2]), d.input("x", 6)[4:])
    store.add(np.array([[1, 1], [3, 1]]), d.input("x", 4).reshape((2, 2)))
    assert store.read(np.arange(4)).low.tolist() == [0, 4 + 0 + 1 + 3, 5, 2]
    assert d.stack([d.input("x", 2), d.input("x", 2)]).shape == (2, 2)
    swapped = d.where(np.array([True, False]), d.input("x", 2), box(9, 9))
    assert swapped.high.tolist() == [0, 9]
