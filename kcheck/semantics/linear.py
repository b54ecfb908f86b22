"""Integers as sums of multiples of others: what cancels is left out, so what is left has a range.

Compilers write x % d as x - d (x / d), and x / 4 of a signed x by adding 3 where x is negative.
Intervals alone do not know that such a difference is small.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.canon.real import Reals
from kcheck.semantics.values import EXACT
from kcheck.semantics.words import Source, Terms, magnitude, sign, truncated

# summands that are kept in mind
MOST = 8


def terms_of(source: Source) -> Terms:
    """Integers with factors, whose sum a source is."""
    return source.terms or ((source.n, 1),)


def summed(reals: Reals[Any], x: Source, y: Source) -> Source:
    """x + y."""
    merged: dict[int, tuple[Real[Any], int]] = {}
    for real, c in (*terms_of(x), *terms_of(y)):
        merged[id(real)] = real, merged.get(id(real), (real, 0))[1] + c
    kept = tuple((real, c) for real, c in merged.values() if c)
    if len(kept) == len(merged):
        n = reals.add(x.n, y.n)
    else:
        n = reals.constant(0)
        for real, c in kept:
            n = reals.add(n, real if c == 1 else reals.mul(reals.constant(c), real))
    kept = kept if len(kept) <= MOST else ()
    for a, b in ((x, y), (y, x)):
        if a.base is not None and a.shift and b.n is a.base:
            return _multiple(reals, n, a, kept)
    return Source(_narrowed(reals, n, kept), terms=kept)


def _multiple(reals: Reals[Any], n: Real[Any], a: Source, terms: Terms) -> Source:
    """floor(x m / 2^k) + x, which is floor(x (m + 2^k) / 2^k)."""
    assert a.base is not None
    factor, most = a.factor + (1 << a.shift), magnitude(reals, a.base)
    if most is not None and (most := (most * abs(factor) >> a.shift) + 1) < EXACT:
        n = reals.narrow(n, -most, most)
    return Source(n, a.base, factor, terms, a.shift)


def scaled(x: Source, n: Real[Any], by: int) -> Source:
    """x times a number, which is `n`."""
    return Source(n, terms=tuple((real, c * by) for real, c in terms_of(x)))


def _narrowed(reals: Reals[Any], n: Real[Any], terms: Terms) -> Real[Any]:
    """The sum, with its range if it is x - c q where q is x / c, or x + k where x is negative."""
    if len(terms) < 2 or not reals.ranged:
        return n
    for i, (x, one) in enumerate(terms):
        others = terms[:i] + terms[i + 1 :]
        factors = {c for _, c in others}
        most = magnitude(reals, x)
        if one != 1 or len(factors) > 1 or most is None or most >= EXACT:
            continue
        q, c = functools.reduce(reals.add, (real for real, _ in others)), -factors.pop()
        ends = _of_remainder(reals, x, q, c) if c > 1 else None
        if c == -1:
            ends = _towards_zero(reals, x, q)
        if ends is not None:
            return reals.narrow(n, *ends)
    return n


def _of_remainder(reals: Reals[Any], x: Real[Any], q: Real[Any], c: int) -> tuple[int, int] | None:
    """Between what x - c q lies, if q is x / c rounded towards 0."""
    if (reals.ends(x)[0] >= 0).all():
        quotient = reals.function("floor", reals.div(x, reals.constant(c)))
        return (0, c - 1) if _equal(reals, q, quotient) else None
    return (1 - c, c - 1) if _equal(reals, q, truncated(reals, x, c)) else None


def _towards_zero(reals: Reals[Any], x: Real[Any], up: Real[Any]) -> tuple[int, int] | None:
    """Between what x + `up` lies, if `up` is k where x is negative, else 0."""
    (low, high), (least, most) = reals.ends(x), reals.ends(up)
    k = float(np.max(most))
    if not (np.min(low) < 0 <= np.min(least) and k < EXACT and (most == k).all()):
        return None
    if not _equal(reals, up, reals.mul(reals.constant(-int(k)), sign(reals, x))):
        return None
    return min(int(np.min(low)) + int(k), 0), max(int(np.max(high)), int(k) - 1)


def _equal(reals: Reals[Any], a: Real[Any], b: Real[Any]) -> bool:
    same = reals.ids(a, (1,)) == reals.ids(b, (1,))
    return bool((same & reals.domain.equal(reals.value(a), reals.value(b))).all())
