"""What number a float literal was meant to be (DESIGN.md 6, constants).

A literal is a rounded number. In this order it stands for: itself, if it is simple; a known
constant times a power of 2; the simplest rational of small height that rounds to it; a short
decimal; a known constant, or a product of two, times a simple rational; itself.
`tests/canon/test_literals.py` measures how many random literals are taken for something: 2% of f32
between 1 and 2, most of them for rationals, and 0.4% for irrational constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.known import (
    LOG2_10,
    LOG2E,
    SQRT_PI,
    Known,
    Number,
    approximation,
    known,
    times,
)

# integers below this, times a power of 2, are meant as they are written
SIMPLE = 2**12
HEIGHT = 1000
# significant bits of the formats whose literals are no simple numbers
PRECISION = {"f32": 24, "f64": 53}

# the cubic coefficient of GELU's tanh form (Hendrycks and Gimpel 2016)
_GELU = Fraction(44715, 10**6)
# 1 to 99 times 10^-1 to 10^-20: the epsilons of norms, learning rates
_DECIMALS = (99, 20)
# odd parts of the rationals that multiply one constant, a product of two
_SINGLE, _PAIR = 63, 15
# log2 e is also multiplied by decimals of three places below this (1.702, attention scales)
_SCALES = 10


def simple(value: Fraction) -> bool:
    """An integer, or a power of 2 times an integer below `SIMPLE`."""
    up, down = abs(value.numerator), value.denominator
    if down == 1 or up == 0:
        return True
    return down & (down - 1) == 0 and up < SIMPLE


def identify(value: Fraction, fmt: str) -> Number:
    """The number that a literal of a format (a finite one, as it is written) stands for."""
    if simple(value) or fmt not in PRECISION:
        return value
    if value < 0:
        number = times(identify(-value, fmt), Fraction(-1))
        assert number is not None
        return number
    digits = PRECISION[fmt]
    if value.numerator.bit_length() <= PRECISION["f32"]:  # an f32 that was widened
        digits = PRECISION["f32"]
    low, high = _interval(value, digits)
    product = _product(low, high)
    if product is not None and _odd(product.factor) == 1 and product.powers in _plain():
        return product  # 1 / pi in f32 is 113 / 355 as well
    rational = simplest(low, high)
    if max(rational.numerator, rational.denominator) <= HEIGHT:
        return rational
    return _decimal(low, high) or product or value


def _interval(value: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """What rounds to a positive number with so many binary digits, without the ties."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > value
    half = Fraction(2) ** (exponent - digits)
    below = half / 2 if value == Fraction(2) ** exponent else half
    return value - below, value + half


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least height strictly between two positive ones (Stern and Brocot)."""
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    # 1 / (x - whole) of what is left, whose upper end is infinite if `low` is whole
    rest = 1 / (high - whole)
    if low == whole:
        return whole + 1 / Fraction(rest.numerator // rest.denominator + 1)
    return whole + 1 / simplest(rest, 1 / (low - whole))


def _decimal(low: Fraction, high: Fraction) -> Fraction | None:
    if low < _GELU < high:
        return _GELU
    most, places = _DECIMALS
    for k in range(1, places + 1):
        n = math.floor(high * 10**k)
        if n > most:
            return None
        if n and low < Fraction(n, 10**k) < high:
            return Fraction(n, 10**k)
    return None


class _Table(NamedTuple):
    """Products by their mantissa in [1, 2), rising, to float64; `cost` orders candidates."""

    mantissas: NDArray[np.float64]
    costs: NDArray[np.float64]
    monomials: NDArray[np.int64]
    ratios: NDArray[np.int64]
    constants: list[Known]
    factors: list[Fraction]


def constants() -> list[Known]:
    """The known constants, with factor 1; inverses of roots are multiples of roots."""
    powers: list[dict[str, int]] = [
        {LOG2E: 1},
        {LOG2E: -1},
        {LOG2_10: 1},
        {LOG2_10: -1},
        {LOG2_10: 1, LOG2E: -1},
        {LOG2_10: -1, LOG2E: 1},
        {SQRT_PI: 2},
        {SQRT_PI: -2},
        {SQRT_PI: 1},
        {SQRT_PI: -1},
        {SQRT_PI: 1, "sqrt 2": 1},
        {SQRT_PI: -1, "sqrt 2": 1},
    ]
    for d in (2, 3, 5, 6, 7, 10, 11, 13, 14, 15, 22, 26, 30):
        powers.append({f"sqrt {p}": 1 for p in (2, 3, 5, 7, 11, 13) if d % p == 0})
    return [k for k in (known(1, p) for p in powers) if isinstance(k, Known)]


@cache
def _plain() -> frozenset[tuple[tuple[str, int], ...]]:
    return frozenset(k.powers for k in constants())


def products() -> list[Known]:
    """Products of two of them that are none of them."""
    single = constants()
    found: dict[tuple[tuple[str, int], ...], Known] = {}
    for a, b in combinations_with_replacement(single, 2):
        product = times(a, b)
        if isinstance(product, Known):
            found[product.powers] = Known(Fraction(1), product.powers)
    for k in single:
        found.pop(k.powers, None)
    return list(found.values())


def ratios(most: int) -> Iterator[Fraction]:
    """Reduced fractions of odd numbers up to `most`."""
    for up in range(1, most + 1, 2):
        for down in range(1, most + 1, 2):
            if math.gcd(up, down) == 1:
                yield Fraction(up, down)


def _odd(value: Fraction) -> Fraction:
    up, down = value.numerator, value.denominator
    return Fraction(up // (up & -up), down // (down & -down))


class _Ratios(NamedTuple):
    """Rationals, to float64, and their costs."""

    exact: list[Fraction]
    floats: NDArray[np.float64]
    costs: NDArray[np.float64]


def _ratios(values: Iterable[Fraction]) -> _Ratios:
    exact = list(values)
    ends = np.array([(r.numerator, r.denominator) for r in exact], np.float64)
    return _Ratios(exact, ends[:, 0] / ends[:, 1], np.log2(ends.max(axis=1)))


def _families() -> Iterator[tuple[Known, _Ratios]]:
    """Constants, each with its rationals up to powers of 2; the likelier first."""
    log2e = constants()[0]
    single, pair, gelu = _ratios(ratios(_SINGLE)), _ratios(ratios(_PAIR)), _ratios([_odd(_GELU)])
    scales = (Fraction(n, 125) for n in range(1, 1000 * _SCALES, 2))  # times powers of 2
    for k in constants():
        yield k, single
    yield log2e, _ratios(scales)
    for k in products():
        yield k, pair
        if dict(k.powers).get(SQRT_PI) == -1:
            yield k, gelu
    for k in constants():
        if dict(k.powers).get(SQRT_PI) == -1:
            yield k, gelu


@cache
def _table() -> _Table:
    families = list(_families())
    numbers = np.concatenate([float(approximation(k)) * r.floats for k, r in families])
    costs = np.concatenate([len(k.powers) + r.costs for k, r in families])
    sizes = [len(r.exact) for _, r in families]
    mantissas = np.frexp(numbers)[0] * 2
    order = mantissas.argsort(kind="stable")
    return _Table(
        mantissas[order],
        costs[order],
        np.repeat(np.arange(len(families)), sizes)[order],
        order.astype(np.int64),
        [k for k, _ in families],
        [ratio for _, r in families for ratio in r.exact],
    )


# relative error of the table, generously
_SLACK = 2.0**-48


def _product(low: Fraction, high: Fraction) -> Known | None:
    """The simplest constant times a rational between two positive numbers."""
    table = _table()
    scale = Fraction(2) ** math.frexp(float(low))[1] / 2
    ends = float(low / scale) * (1 - _SLACK), float(high / scale) * (1 + _SLACK)
    first, last = np.searchsorted(table.mantissas, ends)
    for i in sorted(range(int(first), int(last)), key=lambda i: float(table.costs[i])):
        k = table.constants[table.monomials[i]]
        factor = table.factors[table.ratios[i]]
        size = approximation(k) * factor
        exponent = math.frexp(float(low / size))[1]
        for shift in (exponent - 1, exponent):
            if low < size * Fraction(2) ** shift < high:
                return Known(factor * Fraction(2) ** shift, k.powers)
    return None
