"""A hunt for false proofs: expressions of the shapes that laws speak of, with parts in common."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.known import approximation
from kcheck.canon.term.domain import TermDomain
from tests.canon.term.expressions import (
    INPUTS,
    KNOWN,
    Expr,
    build,
    call,
    compute,
    constant,
    number,
    points,
)

Make = Callable[[], Expr]
NUMBERS = [Fraction(n) for n in (-2, -1, 0, 1, 2, 3)] + [Fraction(1, 2), Fraction(-1, 3)]
FAMILIES = (
    ("scaled", "root", "product", "sum", "neg"),
    ("scaled", "logarithm", "power", "product", "root", "exponential"),
    ("scaled", "greatest", "shifted", "chosen", "sum"),
    ("scaled", "quotient", "greatest", "exponential", "sum"),
    ("scaled", "tanh", "by exponentials", "logistic", "erf", "sum", "product"),
    ("logistic", "tanh", "logarithm", "softplus", "greatest", "scaled", "sum"),
    ("chosen", "indicator", "root", "product", "scaled"),
)


class Hunter:
    """Random expressions; `part`: one of those that were made, or a new one."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.shapes = rng.choice(FAMILIES)
        self.pool: list[Expr] = []

    def number(self) -> Expr:
        return number(self.rng.choice(NUMBERS))

    def constant(self) -> Expr:
        """A known constant, a product or a quotient of two, or a sum with a number."""
        rng = self.rng
        a, b = (constant(rng.choice(tuple(KNOWN))) for _ in range(2))
        return rng.choice((a, a, a * b, a / b, a * self.number(), a + self.number(), a - b))

    def leaf(self) -> Expr:
        rng = self.rng
        x, y = (Expr(f"in:{rng.choice(INPUTS)}") for _ in range(2))
        return rng.choice((x, x - y, x * self.constant(), x + self.constant(), self.constant()))

    def part(self, depth: int) -> Expr:
        if self.pool and self.rng.random() < 0.3:
            return self.rng.choice(self.pool)
        if depth == 0:
            return self.leaf()
        made = self.shaped(self.rng.choice(self.shapes), lambda: self.part(depth - 1))
        self.pool.append(made)
        return made

    def compared(self, inner: Make) -> Expr:
        return Expr(self.rng.choice(("lt", "le", "gt", "ge")), (inner(), inner()))

    def shaped(self, shape: str, inner: Make) -> Expr:
        """An expression of a shape, of parts that `inner` makes."""
        rng, a, b, k = self.rng, inner(), inner(), self.constant()
        top = rng.choice(("maximum", "minimum"))
        up = call("exp2", a * constant("log2e"))
        some: dict[str, tuple[Expr, ...]] = {
            "scaled": (a * k, a / k, k * b),
            "sum": (a + b, a - b),
            "product": (a * b,),
            "neg": (-a,),
            "root": tuple(
                call("sqrt", e) for e in (a * a, a * a + 1, a * a * k, call("exp2", a) * k, a, k)
            ),
            "logarithm": tuple(
                call("lg2", e) for e in (a * b, a * a, a / b, a * k, call("exp2", a) * b, k, a)
            ),
            "power": (call("exp2", call("lg2", a) * self.number()), call("exp2", a * k + b)),
            "exponential": (call("exp2", a), call("exp2", a * k)),
            "greatest": (call(top, a, b), call(top, a * k, b * k)),
            "shifted": (call(top, a * k + b, inner() * k + b), call(top, a + b, inner() + b)),
            "quotient": (a / b, a / (b * k), a / (b + k), number(1) / (a + b)),
            "tanh": (call("tanh", a), call("tanh", -a), call("tanh", a * k)),
            "by exponentials": ((up - 1) / (up + 1), (up * up - 1) / (up * up + 1)),
            "logistic": (number(1) / (up + 1), up / (up + 1), a / (up + 1)),
            "softplus": (call("lg2", up + 1), call("maximum", a, 0) + call("lg2", up + 1)),
            "erf": (call("erf", a), call("erf", -a), call("erf", a * k)),
            "chosen": (call("select", self.compared(inner), a, b),),
            "indicator": (call("select", self.compared(inner), 1, 0),),
        }
        return rng.choice(some[shape])


def inputs() -> dict[str, Any]:
    """Those of `points`, and values of the constants, on either side of 0."""
    sizes = [float(approximation(k)) for k in KNOWN.values()]
    rng = np.random.default_rng(1)
    more = rng.choice([*sizes, *(-s for s in sizes), *(1 / s for s in sizes), 0, 1], (96, 3))
    small = points(0)
    return {name: np.concatenate([small[name], more[:, i]]) for i, name in enumerate(INPUTS)}


POINTS = inputs()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_no_false_proof_of_shapes(seed: int) -> None:
    """Proved equal: the same numbers wherever both are numbers."""
    hunter = Hunter(random.Random(seed))
    pool = [hunter.part(hunter.rng.choice((1, 1, 2))) for _ in range(12)]
    domain, made = TermDomain(), dict[Expr, Any]()
    values = [build(e, domain, made) for e in pool]
    with np.errstate(all="ignore"):
        numbers = [compute(e, POINTS) for e in pool]
        for i, j in combinations(range(len(pool)), 2):
            x, y = numbers[i], numbers[j]
            sure = np.isfinite(x) & np.isfinite(y) & (abs(x) < 1e8)
            differ = sure & (abs(x - y) > 1e-6 * (1 + abs(x) + abs(y)))
            if pool[i] != pool[j] and differ.any():
                assert not domain.equal(values[i], values[j]).all(), f"{pool[i]} = {pool[j]}"
