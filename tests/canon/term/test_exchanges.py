"""Lanes that exchange their parts: equal by the shape of what they computed, without algebra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from kcheck.canon.term.domain import TermDomain
from kcheck.canon.term.equality import Equality

LANES, MASKS = 8, (4, 2, 1)


def butterfly(domain: TermDomain, op: str, masks: Sequence[int]) -> NDArray[np.bool_]:
    """Which lanes are shown to hold what lane 0 holds after the steps of an exchange."""
    x = domain.input("x", LANES * 3).reshape((3, LANES))
    value = domain.fma(x[0], x[1], x[2])
    lanes = np.arange(LANES)
    for mask in masks:
        value = getattr(domain, op)(value, value[lanes ^ mask])
    return domain.equal(value, value[np.zeros(LANES, int)])


@pytest.fixture
def no_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is normalized."""

    def fail(*_: object) -> None:
        raise AssertionError("normalized")

    monkeypatch.setattr(Equality, "_part", fail)


@pytest.mark.usefixtures("no_algebra")
@pytest.mark.parametrize("op", ["add", "mul", "maximum"])
def test_an_exchange_gives_all_lanes_one_value(op: str) -> None:
    assert butterfly(TermDomain(), op, MASKS).all()


@pytest.mark.parametrize("op", ["add", "mul", "maximum"])
def test_a_step_is_missing(op: str) -> None:
    assert not butterfly(TermDomain(), op, MASKS[:-1])[1::2].any()


def test_a_difference_does_not_commute() -> None:
    assert np.flatnonzero(butterfly(TermDomain(), "sub", MASKS[:1])).tolist() == [0]


@pytest.mark.usefixtures("no_algebra")
def test_parts_made_in_another_order() -> None:
    """Two kernels of one shape: (xy) + (zw) where one makes xy first, the other zw."""
    domain = TermDomain()
    x, y, z, w = (domain.input(name, 1) for name in "xyzw")
    first = domain.mul(x, y), domain.mul(z, w)
    second = domain.mul(z, w), domain.mul(x, y)
    assert domain.equal(domain.add(*first), domain.add(second[1], second[0])).all()


def test_the_factors_of_a_product_stay_apart_from_its_summand() -> None:
    domain = TermDomain()
    x, y, z = (domain.input(name, 1) for name in "xyz")
    assert domain.equal(domain.fma(x, y, z), domain.fma(y, x, z)).all()
    assert not domain.equal(domain.fma(x, y, z), domain.fma(x, z, y)).any()
