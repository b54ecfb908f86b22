"""Products of indicators as one condition each: all of a long list of masks holds, or not.

Such a product is 0 or 1 whatever its factors are. So where a sum holds many indicators, but these
in a few products only, the cases of the products are told apart as those of single indicators are.
Combinations that can't be (a product is 1, a part of it 0) vanish with their factor.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.canon.term.algebra import INDICATORS, Algebra
from kcheck.canon.term.monomials import ATOMS, Powers

Product = tuple[int, ...]

# indicators in the arguments of a function, up to which all their cases are told apart
CASES = 4


def products(a: Algebra, polys: Iterable[int]) -> set[Product]:
    """The products of indicators (sorted generators) in the terms of sums, each as a whole."""
    keys = {key for poly in polys for key in a.polys[poly][1].tolist()}
    return {found for key in keys if (found := _indicators(a, a.monomials.powers(key)))}


def where(a: Algebra, poly: int, product: Product, value: bool) -> int:
    """A sum where a product is 1 or 0; terms with more or fewer indicators stay as they are."""
    out = []
    for c, key, x in a.terms(poly):
        powers = a.monomials.powers(key)
        if _indicators(a, powers) != product:
            out.append((c, key, x))
        elif value:
            rest = tuple(power for power in powers if power[0] not in product)
            out.append((c, a.monomials.key(rest), x))
    return a.poly(out)


def monomial(a: Algebra, product: Product) -> int:
    """The key of a product."""
    return a.monomials.key(tuple((g, 1) for g in product))


def _indicators(a: Algebra, powers: Powers) -> Product:
    return tuple(sorted(g for g, _ in powers if g >= ATOMS and a.kind(g)[0] in INDICATORS))
