"""Atoms of one function whose arguments are equal, though their normal forms differ.

Quotients have no normal form in general: they are compared by multiplying (names.py). What is
proved in that way of the arguments of two functions makes the functions one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, islice

from kcheck.canon.term.functions import Functions
from kcheck.canon.term.monomials import SHIFT
from kcheck.canon.term.rationals import ONE
from kcheck.canon.term.zeros import Substitution

# pairs of arguments that are compared for one difference
PAIRS = 16
# names, not functions; sets
_OTHERS = frozenset({"input", "form", "inverse", "max"})


def merged(
    f: Functions, poly: int, equal: Callable[[int, int], tuple[bool, bool]]
) -> tuple[int | None, bool]:
    """A sum in which two functions, or two exponentials, of equal arguments are one; None if none
    are found. `equal`: are two sums proved to be equal, and (returned too) only where something
    that may be 0 is not?
    """
    for one, other, replaced in islice(_candidates(f, poly), PAIRS):
        same, multiplied = equal(one, other)
        if same:
            return replaced(), multiplied
    return None, False


def _candidates(f: Functions, poly: int) -> Iterator[tuple[int, int, Callable[[], int]]]:
    """Two arguments, and what makes the sum if they are equal."""
    a = f.a
    functions: dict[str, list[int]] = {}
    for g in sorted(f.generators(poly)):
        if a.kind(g)[0] not in _OTHERS and len(a.inner(g)) == 1:
            functions.setdefault(a.kind(g)[0], []).append(g)
    for atoms in functions.values():
        for g, h in combinations(atoms, 2):
            one, other = a.inner(g)[0], a.inner(h)[0]
            if _divided(f, one, other) and h not in f.within(one):
                yield one, other, partial(_one_function, f, poly, g, h)
    for x, y in combinations(sorted({x for _, _, x in a.terms(poly)}), 2):
        one, other = f.exponent(x), f.exponent(y)
        if _divided(f, one, other):
            yield one, other, partial(_one_exponential, f, poly, x, y)


def _one_function(f: Functions, poly: int, g: int, h: int) -> int:
    return Substitution(f, h, f.a.poly([(ONE, g << SHIFT, 0)])).of(poly)


def _one_exponential(f: Functions, poly: int, x: int, y: int) -> int:
    return f.a.poly((c, p, x if z == y else z) for c, p, z in f.a.terms(poly))


def _divided(f: Functions, *polys: int) -> bool:
    """Is there a quotient in one of the sums?"""
    a = f.a
    powers = {q for i in polys for p in a.polys[i][1].tolist() for q in a.monomials.powers(p)}
    return any(n < 0 or a.kind(g)[0] in ("inverse", "form") for g, n in powers)
