"""Pools of values that share what they are made of, in the term engine and in float64.

A value counts at a point where it is a number there: what an arm that is not taken divides by does
not matter. Points hold many ties and zeros, where guards and indicators change.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.domain import TermDomain
from tests.canon.term.expressions import INPUTS, Expr, X, Y, Z, apply, in_float, number

COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
FAMILIES = (
    ("add", "mul", "sqrt", "neg", "select"),
    ("mul", "lg2", "exp2", "add", "half", "sqrt"),
    ("maximum", "minimum", "select", "sub", "mul", "neg"),
    ("select", "sqrt", "div", "mul", "maximum"),
    ("select", "guard", "mul", "sub", "add"),
    ("guard", "div", "sub", "mul", "guard", "exp2"),
    ("guard", "div", "mul", "maximum", "guard"),
    ("guard", "select", "lg2", "exp2", "mul", "sub", "half", "neg"),
    ("add", "sub", "mul", "div", "sqrt", "guard", "select", "maximum", "minimum", "exp2", "neg"),
    ("div", "add", "mul", "select"),
)
NUMBERS = [Fraction(n, d) for n in (-2, -1, 0, 1, 2, 3) for d in (1, 2)]
# float64 can't tell numbers beyond, nor a difference of that size from rounding
LARGE, CLOSE = 1e7, 1e-6


def _points() -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(7)
    grid = np.array(list(itertools.product((-2, -1, 0, 1, 2), repeat=3)), float)
    ties = np.repeat(rng.integers(-6, 7, (60, 2)) / 4, 2, axis=1)
    rows = [
        grid,
        rng.integers(-8, 9, (120, 3)) / 4,
        rng.normal(size=(100, 3)) * 2,
        rng.uniform(0.1, 3, (80, 3)),
        ties[:, 1:],
        ties[:, :3],
    ]
    return dict(zip(INPUTS, np.concatenate(rows).T, strict=True))


POINTS = _points()


@dataclass(frozen=True)
class Made:
    """An expression, its node, its values at the points, and where these count."""

    expr: Expr
    value: Any
    at: NDArray[np.float64]
    counts: NDArray[np.bool_]

    def differs(self, other: Made) -> bool:
        """From another one, at a point where both count."""
        x, y = self.at, other.at
        with np.errstate(all="ignore"):
            apart = abs(x - y) > CLOSE * (1 + abs(x) + abs(y))
        return bool((apart & self.counts & other.counts).any())


class Pool:
    """Random values of one family of operations. `budget`: terms that a normal form may have."""

    def __init__(self, seed: int, steps: int, budget: int = 2000) -> None:
        self.rng = rng = random.Random(seed)
        self.domain = TermDomain()
        for how in self.domain.equality.ways:
            how.times.budget = budget
        self.made = [self._leaf(e) for e in rng.choice(((X,), (X, Y), (X, Y, Z)))]
        self.made += [self._leaf(number(k)) for k in rng.sample(NUMBERS, 3)]
        family = rng.choice(FAMILIES)
        for _ in range(steps):
            made = self._step(rng.choice(family))
            if len(str(made.expr)) < 400:
                self.made.append(made)

    def _leaf(self, e: Expr) -> Made:
        if e.op.startswith("in:"):
            at = POINTS[e.op[3:]]
        else:
            at = np.full(POINTS["x"].size, float(Fraction(e.op[1:])))
        return Made(e, apply(self.domain, e.op, []), at, np.ones(at.size, bool))

    def pick(self) -> Made:
        """One of all, or of the latest."""
        return self.rng.choice(self.made if self.rng.random() < 0.5 else self.made[-12:])

    def call(self, op: str, *args: Made) -> Made:
        """An operation."""
        value = apply(self.domain, op, [arg.value for arg in args])
        columns = [arg.at for arg in args]
        with np.errstate(all="ignore"):
            at = np.asarray(in_float(op, columns), float)
            counts = _counts(op, args) & np.isfinite(at) & (abs(at) < LARGE)
        return Made(Expr(op, tuple(arg.expr for arg in args)), value, at, counts)

    def _step(self, op: str) -> Made:
        pick = self.pick
        if op == "half":
            return self.call("mul", self._leaf(number(Fraction(1, 2))), pick())
        if op == "select":
            return self.call("select", self.compare(pick(), pick()), pick(), pick())
        if op == "guard":
            return self._guard(pick(), pick(), pick())
        arity = 1 if op in ("neg", "exp2", "sqrt", "lg2") else 2
        return self.call(op, *(pick() for _ in range(arity)))

    def _guard(self, over: Made, by: Made, other: Made) -> Made:
        """A quotient under a comparison of its divisor, the other arm without it.

        Half of the time the quotient is multiplied again; what an engine could take that for, if it
        were careless about where the divisor is 0, joins the pool.
        """
        zero, condition = self._leaf(number(0)), None
        if by.expr.op == "sub" and self.rng.random() < 0.7:
            a, b = (next((m for m in self.made if m.expr == e), zero) for e in by.expr.args)
            condition = self.compare(a, b)
        condition = condition or self.compare(by, zero)
        swap = self.rng.random() < 0.5

        def chosen(one: Made, two: Made) -> Made:
            return self.call("select", condition, *((two, one) if swap else (one, two)))

        one = self.call("div", over, by)
        if self.rng.random() < 0.5:
            factors = [one, by, self.pick()]
            self.rng.shuffle(factors)
            one = self.call("mul", self.call("mul", *factors[:2]), factors[2])
            rest = self.call("mul", over, next(f for f in factors if f not in (one, by)))
            self.made.append(chosen(rest, other))
            self.made.append(self.call("add", rest, chosen(zero, other)))
        return chosen(one, other)

    def compare(self, a: Made, b: Made) -> Made:
        """A random comparison."""
        return self.call(self.rng.choice(COMPARES), a, b)

    def changed(self, made: Made) -> Made:
        """The same value but where two others are equal, or ordered."""
        pick = self.pick
        return self.call("select", self.compare(pick(), pick()), pick(), made)


def _counts(op: str, args: tuple[Made, ...]) -> NDArray[np.bool_]:
    """Where an operation is defined, and is not a matter of rounding."""
    first, last = args[0], args[-1]
    if op == "select":
        _, yes, no = args
        return first.counts & np.where(first.at != 0, yes.counts, no.counts)
    out = np.logical_and.reduce([arg.counts for arg in args])
    if op == "lg2":
        out &= first.at > 0
    elif op == "sqrt":
        out &= first.at >= 0
    elif op == "div":
        out &= abs(last.at) > 1e-9
    elif op in COMPARES:
        gap = abs(first.at - last.at)
        out &= (gap == 0) | (gap > 1e-9)
    return out
