"""A variance has one form, in whatever order it is computed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kcheck.canon.term.dag import TermValue
from kcheck.canon.term.domain import TermDomain

# more than a product of sums may have to be multiplied out at once
N = 40
Moments = tuple[TermValue, TermValue]


def total(d: TermDomain, values: list[TermValue]) -> TermValue:
    out = values[0]
    for v in values[1:]:
        out = d.add(out, v)
    return out


def scaled(d: TermDomain, v: TermValue, by: Fraction) -> TermValue:
    return d.mul(v, d.constants([by], np.zeros(1, np.int64)))


def two_passes(d: TermDomain, x: list[TermValue]) -> Moments:
    mean = scaled(d, total(d, x), Fraction(1, len(x)))
    squares = [d.mul(d.sub(v, mean), d.sub(v, mean)) for v in x]
    return mean, scaled(d, total(d, squares), Fraction(1, len(x)))


def one_pass(d: TermDomain, x: list[TermValue]) -> Moments:
    mean = scaled(d, total(d, x[::-1]), Fraction(1, len(x)))
    squares = scaled(d, total(d, [d.mul(v, v) for v in x]), Fraction(1, len(x)))
    return mean, d.sub(squares, d.mul(mean, mean))


def welford(d: TermDomain, x: list[TermValue]) -> Moments:
    mean, squares = x[0], d.sub(x[0], x[0])
    for n, v in enumerate(x[1:], 2):
        step = d.sub(v, mean)
        mean = d.add(mean, scaled(d, step, Fraction(1, n)))
        squares = d.add(squares, d.mul(step, d.sub(v, mean)))
    return mean, scaled(d, squares, Fraction(1, len(x)))


def biased(d: TermDomain, x: list[TermValue]) -> Moments:
    mean, variance = one_pass(d, x)
    return mean, scaled(d, variance, Fraction(len(x) + 1, len(x)))


def normalized(d: TermDomain, x: list[TermValue], how: Callable[..., Moments]) -> Any:
    mean, variance = how(d, x)
    eps = d.constants([Fraction(1, 100000)], np.zeros(1, np.int64))
    return d.div(d.sub(x[3], mean), d.atom("sqrt", [d.add(variance, eps)]))[0]


@pytest.mark.parametrize(("how", "n"), [(one_pass, N), (welford, N // 2)])
def test_variance(how: Callable[..., Moments], n: int) -> None:
    d = TermDomain()
    x = [d.input("x", n)[i : i + 1] for i in range(n)]
    a, b = (normalized(d, x, each) for each in (two_passes, how))
    assert d.equal(a, b).all()


def test_another_variance() -> None:
    d = TermDomain()
    x = [d.input("x", N)[i : i + 1] for i in range(N)]
    a, b = (normalized(d, x, each) for each in (two_passes, biased))
    assert not d.equal(a, b).any()
