from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.semantics.slow import Rounded

FLOATS = st.floats(-(2.0**60), 2.0**60, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


def value(x: float) -> Rounded:
    return Rounded.of(Fraction(x))


def number(x: Rounded) -> float:
    exact = x.exact()
    assert exact is not None
    return float(exact)


@given(FLOATS, FLOATS)
def test_sums_and_products_are_those_of_numpy(x: float, y: float) -> None:
    a, b = np.float32(x), np.float32(y)
    with np.errstate(all="ignore"):
        assert number(value(x).add(value(y)).rounded("f32")) == float(a + b)
        assert number(value(x).mul(value(y)).rounded("f32")) == float(a * b)
        if y:
            assert number(value(x).div(value(y)).rounded("f32")) == float(a / b)


@given(st.floats(-60000, 60000, width=32))
def test_narrow_formats_are_those_of_numpy(x: float) -> None:
    assert number(value(x).rounded("f16")) == float(np.float16(x))


@given(FLOATS, FLOATS, FLOATS)
def test_a_fused_product_is_rounded_once(x: float, y: float, z: float) -> None:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    found = number(value(x).fma(value(y), value(z)).rounded("f32"))
    if math.isfinite(found):
        near = np.float32(found)
        for other in (np.nextafter(near, np.float32(np.inf)), np.nextafter(near, -np.inf)):
            if np.isfinite(other):
                assert abs(Fraction(found) - exact) <= abs(Fraction(float(other)) - exact)


@given(FLOATS.filter(bool), st.floats(0.5, 2))
def test_directions(x: float, y: float) -> None:
    exact = value(x).mul(value(y))
    down, up = (number(exact.rounded("f32", mode)) for mode in ("rm", "rp"))
    inward = number(exact.rounded("f32", "rz"))
    assert down <= number(exact) <= up
    assert inward == (down if x > 0 else up)
    assert up <= down or np.nextafter(np.float32(down), np.float32(np.inf)) == np.float32(up)


@pytest.mark.parametrize(
    ("exact", "mode", "expected"),
    [
        (Fraction(2) ** 128, "rn", math.inf),
        (Fraction(2) ** 128, "rz", float(np.finfo(np.float32).max)),
        (-(Fraction(2) ** 128), "rp", float(np.finfo(np.float32).min)),
        (-(Fraction(2) ** 128), "rm", -math.inf),
        (Fraction(3, 2**150), "rn", 2.0**-148),
        (Fraction(1, 2**150), "rn", 0.0),
        (Fraction(12582913 * 2 + 1, 2), "rm", 12582913.0),
        (Fraction(12582913 * 2 + 1, 2), "rn", 12582914.0),
    ],
)
def test_edges(exact: Fraction, mode: str, expected: float) -> None:
    assert number(Rounded.of(exact).rounded("f32", mode)) == expected


def test_functions() -> None:
    assert number(value(0.5).exp2().rounded("f32")) == float(np.float32(math.sqrt(2)))
    assert number(value(3.0).log2().rounded("f32")) == float(np.float32(math.log2(3)))
    assert number(value(2000.0).exp2()) == math.inf
    assert number(value(0.0)) == 0
