"""The three number classes: enclosures hold the exact result, exact ones refuse."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.semantics.slow import Ambiguous, Double, Enclosure, Exact, Inexact
from kcheck.semantics.slow.formats import FIELDS, decode, encode

floats = st.floats(allow_nan=False, allow_infinity=False)
small = st.floats(-300, 300)
E = Enclosure


def holds(x: Enclosure, value: Fraction) -> bool:
    low, high = x.bounds()
    return (low == -math.inf or Fraction(low) <= value) and (
        high == math.inf or value <= Fraction(high)
    )


@given(floats, floats, floats)
def test_enclosures_hold_sums_and_products(a: float, b: float, c: float) -> None:
    x, y, z = Fraction(a), Fraction(b), Fraction(c)
    assert holds(E.of(a).add(E.of(b)), x + y)
    assert holds(E.of(a).sub(E.of(b)).mul(E.of(c)), (x - y) * z)
    assert holds(E.of(a).fma(E.of(b), E.of(c)), x * y + z)
    assert holds(E.dot([E.of(a), E.of(b)], [E.of(b), E.of(c)], E.of(c)), x * y + y * z + z)
    if b:
        assert holds(E.of(a).div(E.of(b)), x / y)


@given(st.floats(1e-60, 1e60), st.floats(-1e60, -1e-60))
def test_enclosures_are_tight(a: float, b: float) -> None:
    for result in (E.of(a).add(E.of(b)), E.of(a).mul(E.of(b))):
        low, high = result.bounds()
        assert high <= math.nextafter(low, math.inf)


@given(st.integers(-(2**26), 2**26), st.integers(-(2**26), 2**26))
def test_small_integers_stay_points(a: int, b: int) -> None:
    assert E.of(a).add(E.of(b)).exact() == a + b
    assert E.of(a).mul(E.of(b)).exact() == a * b
    assert E.dot([E.of(a)], [E.of(b)], E.of(7)).exact() == a * b + 7


@given(small, st.floats(0, 1))
def test_enclosures_of_functions_hold_points_of_the_interval(a: float, width: float) -> None:
    x = E.between(a, a + width)
    inner = a + width / 2
    for name, function in (
        ("exp2", lambda v: 2.0**v),
        ("tanh", math.tanh),
        ("sin", math.sin),
        ("cos", math.cos),
    ):
        low, high = getattr(x, name)().bounds()
        assert low <= function(inner) <= high, name
    if a > 0:
        for name, function in (("log2", math.log2), ("sqrt", math.sqrt)):
            low, high = getattr(x, name)().bounds()
            assert low <= function(inner) <= high, name


@given(floats, floats, floats, floats, st.floats(0, 1), st.floats(0, 1))
def test_wide_products_hold_products_of_inner_points(
    a: float, b: float, c: float, d: float, s: float, t: float
) -> None:
    x, y = E.between(min(a, b), max(a, b)), E.between(min(c, d), max(c, d))
    p = Fraction(a) + Fraction(s) * (Fraction(b) - Fraction(a))
    q = Fraction(c) + Fraction(t) * (Fraction(d) - Fraction(c))
    assert holds(x.mul(y), p * q)
    assert holds(E.dot([x, E.of(a)], [y, E.of(c)], x), p * q + Fraction(a) * Fraction(c) + p)
    if c * d > 0:
        assert holds(x.div(y), p / q)


def test_extrema_of_waves() -> None:
    assert E.between(1.5, 1.6).sin().bounds()[1] == 1.0
    assert E.between(-1.6, -1.5).sin().bounds()[0] == -1.0
    assert E.between(3.1, 3.2).cos().bounds()[0] == -1.0
    assert E.between(-0.1, 0.1).cos().bounds()[1] == 1.0
    assert E.between(0.1, 0.2).cos().bounds()[1] < 1.0
    assert E.between(0.0, 10.0).sin().bounds() == (-1.0, 1.0)


def test_exp2_at_the_ends() -> None:
    assert E.of(-5000).exp2().bounds() == (0.0, 5e-324)
    assert E.of(5000).exp2().bounds() == (math.nextafter(math.inf, 0), math.inf)
    assert E.of(-1074).exp2().exact() == Fraction(1, 2**1074)
    assert E.of(3).exp2().exact() == 8


def test_enclosures_that_overlap_are_ambiguous() -> None:
    wide = E.between(-1.0, 1.0)
    with pytest.raises(Ambiguous):
        wide.order(E.of(0))
    with pytest.raises(Ambiguous):
        E.of(1).div(wide)
    with pytest.raises(Ambiguous):
        E.between(0.4, 0.6).round("rni")
    assert wide.order(wide) == 0
    assert wide.order(E.of(2)) == -1
    assert wide.maximum(E.of(0)).bounds() == (0.0, 1.0)
    assert wide.absolute().bounds() == (0.0, 1.0)
    assert wide.order(E.of(math.inf)) == -1


@pytest.mark.parametrize("cls", [Exact, Enclosure, Double])
def test_specials(cls: type[Exact] | type[Enclosure] | type[Double]) -> None:
    inf, nan, one = cls.of(math.inf), cls.nan("why"), cls.of(1)
    assert nan.add(one).reason == nan.mul(inf).reason == nan.exp2().reason == "why"  # type: ignore[arg-type]
    assert one.div(cls.of(0)).reason == "division-by-zero"  # type: ignore[arg-type]
    assert inf.neg().exp2().exact() == 0
    assert one.div(inf).exact() == 0  # type: ignore[arg-type]
    assert inf.sub(inf).is_nan  # type: ignore[arg-type]
    assert cls.of(0).mul(inf).is_nan  # type: ignore[arg-type]
    assert nan.maximum(one) is one  # type: ignore[arg-type]
    assert nan.order(one) is None  # type: ignore[arg-type]


def test_exact_refuses_irrational_results() -> None:
    for name, value in (
        ("exp2", Fraction(1, 2)),
        ("sqrt", 2),
        ("log2", 3),
        ("tanh", 1),
        ("sin", 1),
    ):
        with pytest.raises(Inexact):
            getattr(Exact.of(value), name)()
    assert Exact.of(Fraction(4, 9)).sqrt().exact() == Fraction(2, 3)


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_formats_round_trip(fmt: str) -> None:
    """All patterns but -0 and the nans that are not canonical."""
    exponent, fraction = FIELDS[fmt]
    for bits in range(2**16):
        value = decode(bits, fmt)
        if value != value:
            assert encode(value, fmt) == 0x7FFF
        elif bits != 1 << (exponent + fraction):
            assert encode(value, fmt) == bits


@given(floats)
def test_f64_round_trips(x: float) -> None:
    bits = encode(Fraction(x), "f64")
    assert bits is not None
    assert decode(bits, "f64") == x
