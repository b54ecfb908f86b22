from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kcheck.canon.bound import BoundDomain
from kcheck.canon.constants import SYMBOLIC, Constants
from kcheck.canon.domain import Domain
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.canon.folding import Folding
from kcheck.canon.known import (
    CLOSE,
    LOG2_10,
    LOG2E,
    MAX_POWER,
    RANDOM_BITS,
    ROOTS,
    SQRT_PI,
    SYMBOLS,
    Known,
    Number,
    RandomSymbols,
    approximation,
    close,
    digits,
    known,
    plus,
    root,
    times,
)
from kcheck.canon.theorem import Claim, error_log2

FLOATS = {LOG2E: math.log2(math.e), LOG2_10: math.log2(10), SQRT_PI: math.sqrt(math.pi)}
NUMBERS = st.builds(
    known,
    st.fractions(max_denominator=50).filter(bool),
    st.dictionaries(st.sampled_from(SYMBOLS), st.integers(-3, 3)),
)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_digits(symbol: str) -> None:
    expected = FLOATS.get(symbol) or math.sqrt(int(symbol.split()[1]))
    assert float(digits(symbol)) == pytest.approx(expected, rel=1e-15)


def test_many_digits() -> None:
    """Against literature: 60 decimals of pi, ln 2 and log2 10."""
    pi = Fraction("3.141592653589793238462643383279502884197169399375105820974944")
    ln2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680")
    log2_10 = Fraction("3.321928094887362347870319429489390175864831393024580612054756")
    assert abs(digits(SQRT_PI) ** 2 - pi) < Fraction(1, 10**60)
    assert abs(1 / digits(LOG2E) - ln2) < Fraction(1, 10**60)
    assert abs(digits(LOG2_10) - log2_10) < Fraction(1, 10**60)


@given(NUMBERS, NUMBERS)
def test_products_and_quotients(a: Number, b: Number) -> None:
    for power in (1, -1):
        product = times(a, b, power)
        assert product is not None
        exact = approximation(a) * approximation(b) ** power
        assert close(approximation(product), exact)
        assert times(product, b, -power) == a


@given(NUMBERS, NUMBERS)
def test_equal_products_are_equal_objects(a: Number, b: Number) -> None:
    assert times(a, b) == times(b, a)
    assert times(a, a, -1) == 1
    assert plus(a, a) == times(a, Fraction(2))


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000))
def test_square_roots(value: Fraction) -> None:
    found = root(value)
    if found is not None:
        assert times(found, found) == value


def test_roots_of_head_sizes() -> None:
    for d in (32, 40, 64, 72, 80, 96, 112, 128, 160, 192, 256):
        assert root(Fraction(d)) is not None
    assert root(Fraction(17)) is None
    assert str(root(Fraction(128))) == "8 sqrt 2"
    assert root(Fraction(9, 4)) == Fraction(3, 2)


def test_laws() -> None:
    log2e, ln2, sqrt2 = known(1, {LOG2E: 1}), known(1, {LOG2E: -1}), known(1, {"sqrt 2": 1})
    assert times(log2e, ln2) == 1
    assert times(sqrt2, sqrt2) == 2
    assert known(1, {"sqrt 2": -1}) == times(sqrt2, Fraction(1, 2))
    assert plus(log2e, sqrt2) is None


def test_products_that_grow_are_left_to_the_domain() -> None:
    power: Number | None = known(1, {SQRT_PI: MAX_POWER})
    assert power is not None
    assert times(power, known(1, {SQRT_PI: 1})) is None
    assert times(known(Fraction(2) ** 4000, {LOG2E: 1}), Fraction(2) ** 200) is None


def test_numbers_that_are_close() -> None:
    pi = approximation(known(1, {SQRT_PI: 2}))
    assert close(pi, pi + Fraction(1, 2 ** (CLOSE + 8)))
    assert not close(pi, pi + Fraction(1, 2 ** (CLOSE - 16)))


def test_random_integers_keep_products() -> None:
    symbols = RandomSymbols(b"key")
    log2e, ln2 = known(3, {LOG2E: 1}), known(Fraction(1, 3), {LOG2E: -1})
    assert symbols.rational(log2e) * symbols.rational(ln2) == 1
    assert symbols.rational(Fraction(5, 7)) == Fraction(5, 7)
    assert RandomSymbols(b"other").rational(log2e) != symbols.rational(log2e)


# folding


def _fold(name: str, *numbers: Number) -> Number | None:
    constants = Constants()
    folding = Folding(constants)
    ids = [constants.intern(n) for n in numbers]
    table = folding.unary if len(ids) == 1 else folding.binary
    found = table[name](*ids)
    return None if found == SYMBOLIC else constants.number(found)


LOG, ROOT = known(1, {LOG2E: 1}), known(1, {"sqrt 2": 1})


def test_folding() -> None:
    assert _fold("mul", ROOT, ROOT) == 2
    assert _fold("sqrt", Fraction(2)) == ROOT
    assert _fold("add", LOG, LOG) == known(2, {LOG2E: 1})
    assert _fold("add", LOG, Fraction(1)) is None
    assert _fold("sub", LOG, LOG) == 0
    assert _fold("div", Fraction(1), LOG) == known(1, {LOG2E: -1})
    assert _fold("max", LOG, ROOT) == LOG
    assert _fold("min", LOG, Fraction(1)) == 1
    assert _fold("floor", LOG) == 1
    assert _fold("abs", known(-1, {LOG2E: 1})) == LOG
    for name in ("exp2", "lg2", "sqrt", "tanh", "sin"):
        assert _fold(name, LOG) is None


def test_comparing() -> None:
    constants = Constants()
    folding = Folding(constants)
    log2e, root2, one = (constants.intern(n) for n in (LOG, ROOT, Fraction(1)))
    near = constants.intern(approximation(LOG))
    assert folding.compare("lt", False, root2, log2e) == 1
    assert folding.compare("gt", False, one, log2e) == 0
    assert folding.compare("eq", False, log2e, log2e) == 1
    assert folding.compare("eq", False, log2e, near) == -1
    assert folding.maximum(log2e, near) == SYMBOLIC


def test_printing() -> None:
    assert str(known(Fraction(3, 8), {LOG2E: 1})) == "3/8 log2 e"
    assert str(known(-1, {SQRT_PI: 2})) == "-1 pi"
    assert str(known(1, {LOG2E: -1, "sqrt 2": 1})) == "ln 2 sqrt 2"
    assert isinstance(LOG, Known)


# in domains


def _lanes(domain: Domain[Any], *numbers: Number | None) -> Any:
    values = [n for n in numbers if n is not None]
    return domain.constants(values, np.arange(len(values)))


@pytest.mark.parametrize("levels", [1, 2])
def test_the_field_keeps_products(levels: int) -> None:
    domain = FieldDomain(1, 4, levels)
    log2e, ln2 = known(1, {LOG2E: 1}), known(1, {LOG2E: -1})
    a, b = _lanes(domain, log2e, ROOT, log2e), _lanes(domain, ln2, log2e, log2e)
    c = _lanes(domain, Fraction(1), times(ROOT, log2e), ROOT)
    assert domain.equal(domain.mul(a, b), c).tolist() == [True, True, False]


def test_the_bound_charges_for_symbols() -> None:
    def claim(number: Number) -> Claim:
        domain = BoundDomain(FieldDomain(1, 4, 2), {"x": (4,)})
        x = domain.input("x", 4)
        y = domain.exp2(domain.mul(x, _lanes(domain, number)))
        return domain.claim([(y, y)])

    rational, symbol = claim(Fraction(3)), claim(LOG)
    assert (rational.relations, symbol.relations) == (0, 1 + 4**2)
    assert symbol.zero.bits >= rational.zero.bits + RANDOM_BITS - 2
    assert symbol.condition.reason is None
    many = [error_log2(c, 64, 2)[0] for c in (rational, symbol)]
    # what no number of trials lowers
    assert many[0] is not None
    assert many[1] is not None
    assert many[0] < many[1] < -100


def test_enclosures_hold_the_number() -> None:
    low, high = _lanes(EnclosureDomain({}), LOG, ROOT).ends
    for a, b, number in zip(low, high, (LOG, ROOT), strict=True):
        assert Fraction(a) < approximation(number) < Fraction(b)
        assert b - a < 1e-15
    wide = _lanes(EnclosureDomain({}, widen=True), LOG)
    assert wide.high[0] - wide.low[0] > 1e-7


ROOTED = st.builds(
    known,
    st.fractions(-5, 5, max_denominator=20).filter(bool),
    st.dictionaries(st.sampled_from(list(ROOTS)), st.integers(0, 1)),
)


@given(ROOTED, ROOTED, st.integers(1, 3), st.integers(0, 2**40))
def test_the_field_relates_roots_to_their_squares(
    a: Number, b: Number, levels: int, seed: int
) -> None:
    """Products in the field are those of the numbers, at every level; others are told apart."""
    used = {s for x in (a, b) if isinstance(x, Known) for s, _ in x.powers}
    field = FieldDomain(seed, 2, levels, roots=used)
    assume(field.roots == used)
    product, minus = times(a, b), times(times(a, b) or Fraction(0), Fraction(-1))
    assert product is not None
    assert minus is not None
    x, y, z, other = (field.constants([n], np.zeros(1, np.int64)) for n in (a, b, product, minus))
    assert (field.mul(x, y).r == z.r).all()
    assert not field.equal(field.mul(x, y), other).any()
    assert field.unrelated == set()
