from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.known import LOG2E, SQRT_PI, Known, Number, approximation, known, times
from kcheck.canon.literals import (
    HEIGHT,
    constants,
    identify,
    products,
    ratios,
    simple,
    simplest,
)


def rounded(number: Number, fmt: str) -> Fraction:
    """The float of a format that is nearest to a number."""
    value = approximation(number)
    digits = {"f32": 24, "f64": 53}[fmt]
    exponent = math.floor(math.log2(abs(value))) - digits + 1
    scaled = value / Fraction(2) ** exponent
    return round(scaled) * Fraction(2) ** exponent


def of_bits(bits: int) -> Fraction:
    return Fraction(float(np.uint32(bits).view(np.float32)))


LOG = {LOG2E: 1}
EXPECTED: dict[int, Number] = {
    0x3FB8AA3B: known(1, LOG),
    0x3E38AA3B: known(Fraction(1, 8), LOG),
    0x3E0293EE: known(Fraction(1, 16), {LOG2E: 1, "sqrt 2": 1}),
    0x4038AA3B: known(2, LOG),
    0x3F317218: known(1, {LOG2E: -1}),
    0x40490FDB: known(1, {SQRT_PI: 2}),
    0x3F4C422A: known(1, {SQRT_PI: -1, "sqrt 2": 1}),
    0x3D122279: known(Fraction(8943, 200000), {SQRT_PI: -1, "sqrt 2": 1}),
    0x401D265F: known(Fraction(851, 500), LOG),
    0x3F3504F3: known(Fraction(1, 2), {"sqrt 2": 1}),
    0x3DB504F3: known(Fraction(1, 16), {"sqrt 2": 1}),
    0x3D372713: Fraction(8943, 200000),
    0x3DCCCCCD: Fraction(1, 10),
    0xBDCCCCCD: Fraction(-1, 10),
    0x3EAAAAAB: Fraction(1, 3),
    0x3FD9DB23: Fraction(851, 500),
    0x3727C5AC: Fraction(1, 10**5),
    0x358637BD: Fraction(1, 10**6),
    0x2B8CBCCC: Fraction(1, 10**12),
    0x41200000: Fraction(10),
    0x7F7FFFFF: of_bits(0x7F7FFFFF),
    0xFF7FFFFF: of_bits(0xFF7FFFFF),
    0x4B40007F: Fraction(12583039),
    0x3BBB989D: of_bits(0x3BBB989D),
}


@pytest.mark.parametrize("bits", EXPECTED, ids=hex)
def test_literals_of_kernels(bits: int) -> None:
    assert identify(of_bits(bits), "f32") == EXPECTED[bits]


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_constants_are_found_again(fmt: str) -> None:
    for factor in (Fraction(1), Fraction(1, 16), Fraction(-8)):
        for k in constants():
            number = times(k, factor)
            assert number is not None
            assert identify(rounded(number, fmt), fmt) == number
        missed = [p for p in products() if identify(rounded(p, fmt), fmt) != p]
        # that a rational of small height rounds to the same float is rare
        assert len(missed) <= (2 if fmt == "f32" else 0)


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_multiples_are_found_again(fmt: str) -> None:
    """In f32 a few meet a rational or one another, in f64 none does."""
    candidates = [times(k, r) for k in constants() for r in ratios(15)]
    candidates += [times(k, r) for k in products()[::9] for r in ratios(7)]
    missed = sum(n is None or identify(rounded(n, fmt), fmt) != n for n in candidates)
    assert missed <= (len(candidates) // 50 if fmt == "f32" else 0)


@given(st.integers(1, HEIGHT), st.integers(1, HEIGHT), st.sampled_from(["f32", "f64"]))
def test_rationals_are_found_again(up: int, down: int, fmt: str) -> None:
    value = Fraction(up, down)
    assert identify(rounded(value, fmt), fmt) == value


@given(st.integers(1, 2**12 - 1), st.integers(-100, 100), st.sampled_from(["f32", "f64"]))
def test_simple_numbers_are_meant_as_written(n: int, exponent: int, fmt: str) -> None:
    value = n * Fraction(2) ** exponent
    assert simple(value)
    assert identify(value, fmt) == value


@given(st.integers(2**23, 2**24 - 1), st.integers(-60, 60))
def test_what_is_identified_rounds_to_the_literal(mantissa: int, exponent: int) -> None:
    value = mantissa * Fraction(2) ** (exponent - 23)
    assert rounded(identify(value, "f32"), "f32") == value
    # an f32 that was widened means the same
    assert identify(value, "f64") == identify(value, "f32")


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**6, max_denominator=10**9),
    st.integers(2, 10**9),
)
def test_simplest(low: Fraction, parts: int) -> None:
    high = low + low / parts
    found = simplest(low, high)
    assert low < found < high
    # no smaller denominator fits
    for down in range(1, min(found.denominator, 300)):
        up = math.floor(low * down) + 1
        assert Fraction(up, down) >= high


@pytest.mark.parametrize(
    ("low", "rationals", "constants"),
    [(Fraction(1), 0.03, 0.008), (Fraction(1, 256), 0.002, 0.008), (Fraction(64), 0.01, 0.008)],
)
def test_how_many_random_literals_are_taken_for_something(
    low: Fraction, rationals: float, constants: float
) -> None:
    """The chance that data are: rationals and constants per f32 of a binade."""
    rng = random.Random(1)
    kinds: Counter[str] = Counter()
    draws = 4000
    for _ in range(draws):
        value = low * Fraction(2**23 + rng.getrandbits(23), 2**23)
        number = identify(value, "f32")
        kinds["known" if isinstance(number, Known) else "same" if number == value else "ratio"] += 1
    assert kinds["ratio"] <= rationals * draws
    assert kinds["known"] <= constants * draws


def test_random_doubles_are_exact() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        value = Fraction(rng.uniform(0.01, 100))
        assert identify(value, "f64") == value


def test_formats_without_literals_are_exact() -> None:
    assert identify(Fraction(1639, 16384), "f16") == Fraction(1639, 16384)
