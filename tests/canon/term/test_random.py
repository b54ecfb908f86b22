"""Random expressions: no false proof, and engines that agree."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.domain import Collision, LevelsExhausted
from kcheck.canon.field import FieldDomain
from kcheck.canon.term.domain import TermDomain
from tests.canon.term.expressions import Expr, build, compute, points, rewritten, some

FAMILIES = [
    ("add", "sub", "mul", "neg"),
    ("add", "mul", "exp2", "sub"),
    ("add", "mul", "maximum", "minimum", "neg"),
    ("add", "mul", "select", "maximum", "sub"),
    ("add", "mul", "div", "sub"),
    ("add", "mul", "sqrt", "lg2", "exp2", "div"),
    ("add", "mul", "exp2", "lg2", "sqrt", "known"),
    ("add", "mul", "neg", "tanh", "erf", "known"),
    ("add", "mul", "maximum", "minimum", "div", "known"),
    ("add", "sub", "mul", "fma", "exp2", "maximum", "minimum", "select", "div", "lg2", "sqrt"),
]
SEEDS = st.integers(0, 2**32)


def differ(a: Expr, b: Expr) -> bool:
    """Do two expressions differ in float64 somewhere, beyond rounding?"""
    inputs = points(0)
    with np.errstate(all="ignore"):
        x, y = compute(a, inputs), compute(b, inputs)
        apart = abs(x - y) > 1e-9 * (1 + abs(x) + abs(y))
    return bool((apart & np.isfinite(x) & np.isfinite(y)).any())


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_false_proof(seed: int) -> None:
    """What is proved equal among many small expressions is equal in numbers."""
    rng = random.Random(seed)
    ops, depth = rng.choice(FAMILIES), rng.choice((1, 2, 2, 2, 3))
    pool = [some(rng, depth, ops) for _ in range(8)]
    pool += [Expr(rng.choice(("add", "mul")), tuple(rng.sample(pool, 2))) for _ in range(4)]
    domain, made = TermDomain(), dict[Expr, Any]()
    values = [build(e, domain, made) for e in pool]
    for (a, x), (b, y) in combinations(list(zip(pool, values, strict=True)), 2):
        if domain.equal(x, y).all():
            assert not differ(a, b), f"{a} = {b}"


def in_sympy(e: Expr) -> sympy.Expr:
    if e.op.startswith("in:"):
        return sympy.Symbol(e.op[3:])
    if e.op.startswith("#"):
        return sympy.Rational(e.op[1:])
    args = [in_sympy(arg) for arg in e.args]
    if e.op == "add":
        return args[0] + args[1]
    if e.op == "sub":
        return args[0] - args[1]
    if e.op == "neg":
        return -args[0]
    return args[0] * args[1] if e.op == "mul" else args[0] / args[1]


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_rational_functions_are_decided(seed: int) -> None:
    """Equal exactly where sympy finds the difference to vanish."""
    rng = random.Random(seed)
    ops = rng.choice([("add", "sub", "mul", "neg"), ("add", "mul", "div", "sub")])

    def plain(depth: int) -> Expr:
        e = some(rng, depth, ops)
        return plain(depth) if "exp2" in str(e) else e

    a = plain(2)
    b = rng.choice([plain(2), rewritten(rng, a)])
    domain = TermDomain()
    equal = bool(domain.equal(build(a, domain), build(b, domain)).all())
    assert equal == (
        sympy.together(in_sympy(a) - in_sympy(b)).expand() == 0
        or sympy.cancel(in_sympy(a) - in_sympy(b)) == 0
    )


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_rewritten_expressions_are_proved(seed: int) -> None:
    """Laws of rings, exponentials and maxima: the proof is found, and the field agrees."""
    rng = random.Random(seed)
    ops = rng.choice([FAMILIES[0], FAMILIES[1], FAMILIES[4], ("add", "mul", "maximum", "exp2")])
    a = some(rng, 3, ops)
    b = rewritten(rng, a)
    domain = TermDomain()
    assert domain.equal(build(a, domain), build(b, domain)).all(), f"{a} = {b}"
    try:
        field = FieldDomain(seed, 2, 4)
        assert field.equal(build(a, field), build(b, field)).all()
    except (Collision, LevelsExhausted):
        pass


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_field_different_is_never_proved(seed: int) -> None:
    """Without functions that the field takes for atoms both engines say the same."""
    rng = random.Random(seed)
    ops = rng.choice([FAMILIES[0], FAMILIES[1], FAMILIES[4]])
    a, b = (some(rng, 2, ops) for _ in range(2))
    b = rng.choice([b, rewritten(rng, a)])
    term, field = TermDomain(), FieldDomain(seed, 2, 4)
    try:
        tested = bool(field.equal(build(a, field), build(b, field)).all())
    except (Collision, LevelsExhausted):
        return
    assert bool(term.equal(build(a, term), build(b, term)).all()) == tested, f"{a} = {b}"
