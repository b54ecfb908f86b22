"""Which combinations of compares can be: x < 1 and 1 <= y leave no x >= y.

Products of sums are taken for independent numbers, so that what holds is linear inequalities; those
are eliminated variable by variable (Fourier, Motzkin). Too many are taken for possible.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kcheck import limits
from kcheck.canon.term.algebra import INDICATORS, Algebra
from kcheck.canon.term.functions import Functions

# indicators whose combinations are told apart; inequalities that one elimination may make
MOST, LONG = 8, 64
Variable = tuple[int, int]


class Inequality(NamedTuple):
    """The sum of coefficients times variables, plus a number, is positive (or not negative)."""

    coefs: dict[Variable, Fraction]
    number: Fraction
    strict: bool


def vanishes(f: Functions, poly: int, known: tuple[Inequality, ...] = ()) -> bool:
    """Is a sum 0 for every combination of its indicators that can be, where `known` holds?"""
    a = f.a
    found = sorted(g for g in f.generators(poly) if a.kind(g)[0] in INDICATORS)
    if poly == 0 or not found or len(found) > MOST:
        return poly == 0
    limits.check()
    g = found[0]
    for value in (True, False):
        more = known + _inequalities(a, g, value)
        if _possible(more) and not vanishes(f, a.restricted(poly, g, value), more):
            return False
    return True


def _inequalities(a: Algebra, indicator: int, value: bool) -> tuple[Inequality, ...]:
    """What an indicator says that is 1 or 0."""
    kind, s = a.kind(indicator)
    if kind == "positive":
        return (_inequality(a, s, 1 if value else -1, value),)
    return tuple(_inequality(a, s, sign, False) for sign in (1, -1)) if value else ()


def _inequality(a: Algebra, poly: int, sign: int, strict: bool) -> Inequality:
    coefs = {(p, x): sign * a.q.values[c] for c, p, x in a.terms(poly)}
    return Inequality(coefs, coefs.pop((0, 0), Fraction(0)), strict)


def _possible(inequalities: tuple[Inequality, ...]) -> bool:
    """Is there no contradiction among them?"""
    left = list(inequalities)
    while True:
        for _, number, strict in (i for i in left if not i.coefs):
            if number < 0 or (strict and number == 0):
                return False
        left = [i for i in left if i.coefs]
        if not left or len(left) > LONG:
            return True
        variable = min(left[0].coefs)
        ups = [i for i in left if i.coefs.get(variable, 0) > 0]
        downs = [i for i in left if i.coefs.get(variable, 0) < 0]
        left = [i for i in left if variable not in i.coefs]
        left += [_without(variable, up, down) for up in ups for down in downs]


def _without(variable: Variable, up: Inequality, down: Inequality) -> Inequality:
    """The sum of multiples of two inequalities in which a variable cancels."""
    m, n = -down.coefs[variable], up.coefs[variable]
    coefs = {
        v: c
        for v in up.coefs.keys() | down.coefs.keys()
        if (c := m * up.coefs.get(v, 0) + n * down.coefs.get(v, 0))
    }
    return Inequality(coefs, m * up.number + n * down.number, up.strict or down.strict)
