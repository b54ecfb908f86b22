"""Laws of inputs that are promised to be positive: x and y here, but not z."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.term.domain import TermDomain
from tests.canon.term.expressions import ARITY, Expr, X, Y, Z, build, call, compute, number
from tests.canon.term.test_laws import exp2, lg2, select, sqrt, top

HALF = number(Fraction(1, 2))

EQUAL = {
    "lg2 of a product": (lg2(X * Y), lg2(X) + lg2(Y)),
    "lg2 of a quotient": (lg2(X / Y), lg2(X) - lg2(Y)),
    "lg2 of a square": (lg2(X * X), lg2(X) * 2),
    "lg2 of a product with a sum": (lg2(X * (X + Z)), lg2(X + Z) + lg2(X)),
    "lg2 of what is positive beside it": (lg2(X * Z), lg2(X) + lg2(Z)),
    "lg2 of a product of roots": (lg2(sqrt(X) * Y), lg2(X) * HALF + lg2(Y)),
    "a sum that is positive": (lg2(Z / (X + Y)), lg2(Z) - lg2(Y + X)),
    "sqrt of a product": (sqrt(X * Y), sqrt(X) * sqrt(Y)),
    "sqrt of a square": (sqrt(X * X), X),
    "sqrt of a cube": (sqrt(X * X * X * Z), X * sqrt(X) * sqrt(Z)),
    "sqrt of an inverse": (sqrt(Z / X), sqrt(Z) * sqrt(X) / X),
    "a power": (exp2(lg2(X * Y) * HALF), sqrt(X) * sqrt(Y)),
    "a maximum": (top(X * Y, X * Z), X * top(Y, Z)),
    "a maximum of quotients": (top(Y / X, Z / X), top(Y, Z) / X),
    "a maximum shifted and scaled": (top(X * Y + Z, X * Z + Z), Z + X * top(Z, Y)),
    "a large maximum": (
        top(*(X * Z * Z * k + X * Y * (k * k) for k in range(12))),
        X * top(*(Z * Z * k + Y * (k * k) for k in range(12))),
    ),
    "a maximum of scaled maxima": (top(X * top(Y, Z), Z), top(X * Y, Z, X * Z)),
    "a scaled maximum and a sum": (top(X * top(Y, Z) + Z, Y), top(X * Y + Z, Y, X * Z + Z)),
    "a compare": (select("gt", X * Z, 0, Y, Z), select("gt", Z, 0, Y, Z)),
    "a tie": (select("eq", X * Z, 0, Y, Z), select("eq", Z, 0, Y, Z)),
    "a compare that is decided": (select("gt", X + Y, 0, Y, Z), Y),
}

DIFFERENT = {
    "sqrt of a square": (sqrt(Z * Z), Z),
    "sqrt of the square of a product": (sqrt(X * X * Z * Z), X * Z),
    "lg2 of a difference": (lg2(X - Y), lg2(X) - lg2(Y)),
    "a maximum": (top(Z * X, Z * Y), Z * top(X, Y)),
    "a maximum scaled by -x": (top(-(X * Y), -(X * Z)), -(X * top(Y, Z))),
    "a maximum in part": (top(X * Y, Z), X * top(Y, Z)),
    "maxima of maxima scaled by z": (top(Z * top(X, Y), X), top(Z * X, Z * Y, X)),
    "a compare": (select("gt", X * Z, 0, X, Y), X),
    "a compare of a difference": (select("gt", X - Y, 0, X, Y), X),
    "a tie": (select("eq", X * Z, 0, X, Y), Y),
}


def proved(pair: tuple[Expr, Expr], positive: tuple[str, ...] = ("x", "y")) -> bool:
    domain, made = TermDomain(positive=positive), dict[Expr, Any]()
    return bool(domain.equal(*(build(e, domain, made) for e in pair)).all())


@pytest.mark.parametrize("law", EQUAL)
def test_law(law: str) -> None:
    assert proved(EQUAL[law])


@pytest.mark.parametrize("law", [law for law in EQUAL if "beside" not in law])
def test_nothing_is_used_that_is_not_promised(law: str) -> None:
    assert not proved(EQUAL[law], ())


@pytest.mark.parametrize("pair", DIFFERENT)
def test_what_differs_is_not_proved(pair: str) -> None:
    assert not proved(DIFFERENT[pair])


@pytest.mark.parametrize("law", EQUAL)
def test_laws_hold_in_numbers(law: str) -> None:
    """In float64, at numbers that keep the promise, where both sides are defined."""
    x, y, z = np.random.default_rng(1).uniform(0.1, 4, (3, 50))
    a, b = (compute(e, {"x": x, "y": y, "z": z}) for e in EQUAL[law])
    np.testing.assert_allclose(a, b, rtol=1e-9)


def test_elements_of_other_inputs_are_no_class_with_those_that_are_promised() -> None:
    """sqrt(x x) = x for x > 0 says nothing of z."""
    d = TermDomain(positive={"x"})
    v = d.stack([d.input("x", 2), d.input("z", 2)])
    root = d.atom("sqrt", [d.mul(v, v)])
    assert d.equal(root, v).tolist() == [[True, True], [False, False]]
    assert d.equal(root[::-1], v[::-1]).tolist() == [[False, False], [True, True]]


OPS = ("mul", "mul", "div", "add", "sub", "lg2", "sqrt", "maximum", "select", "neg", "exp2")


def some_product(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice((X, X, Y, Z, number(2)))
    op = rng.choice(OPS)
    if op == "select":
        first, second, a, b = (some_product(rng, depth - 1) for _ in range(4))
        return select(rng.choice(("gt", "ge", "eq")), first, second, a, b)
    return call(
        op,
        *(some_product(rng, depth - 1) for _ in range((ARITY | {"lg2": 1, "sqrt": 1}).get(op, 2))),
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_no_false_proof(seed: int) -> None:
    """What is proved equal is so in numbers, where it is defined."""
    rng = random.Random(seed)
    pool = [some_product(rng, rng.choice((1, 2, 2, 3))) for _ in range(14)]
    domain, made = TermDomain(positive=("x", "y")), dict[Expr, Any]()
    x, y, z = np.random.default_rng(seed).uniform(0.2, 3, (3, 60))
    at = {"x": x, "y": y, "z": np.where(np.arange(60) % 2, z, -z)}
    for a, b in combinations(pool, 2):
        if domain.equal(build(a, domain, made), build(b, domain, made)).all():
            with np.errstate(all="ignore"):
                u, v = compute(a, at), compute(b, at)
            there = np.isfinite(u) & np.isfinite(v)
            np.testing.assert_allclose(u[there], v[there], rtol=1e-6, atol=1e-9)
