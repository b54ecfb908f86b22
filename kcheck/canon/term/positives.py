"""What is positive for all inputs that count: exponentials, inputs by promise, sums of such."""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.canon.term.algebra import SIGNS, Algebra
from kcheck.canon.term.monomials import ATOMS


class Positives:
    """Signs of sums, and positive factors of them. Only what is never 0 may be taken out."""

    def __init__(self, algebra: Algebra) -> None:
        self.a = algebra
        self._signs: dict[int, int | None] = {}

    def generator(self, g: int) -> bool:
        """Is a generator positive? A name, or a root, is if its sum is."""
        if g < ATOMS:
            return self.a.promised(g)
        kind, *inner = self.a.kind(g)
        return (kind in SIGNS or kind == "sqrt") and self.sign(inner[0]) == 1

    def sign(self, poly: int) -> int | None:
        """1, 0 or -1 where all terms are positive, up to numbers of one sign, else None."""
        if poly not in self._signs:  # named sums in named sums are met again and again
            self._signs[poly] = self._sign(poly)
        return self._signs[poly]

    def _sign(self, poly: int) -> int | None:
        a = self.a
        c, p, _ = a.polys[poly]
        if not c.size:
            return 0
        signs = {a.q.values[i] > 0 for i in set(c.tolist())}
        if len(signs) > 1:
            return None
        for key in p.tolist():
            if not all(self.generator(g) for g, _ in a.monomials.powers(key)):
                return None
        return 1 if signs == {True} else -1

    def content(self, polys: Iterable[int]) -> int:
        """The product of powers of promised inputs that all terms of some sums have as a factor."""
        a = self.a
        least: dict[int, int] | None = None
        if not a.promises:
            return 0
        for key in {key for poly in polys for key in a.polys[poly][1].tolist()}:
            here = {g: n for g, n in a.monomials.powers(key) if g < ATOMS and a.promised(g)}
            if least is None:
                least = here
            both = least.keys() | here.keys()
            least = {g: min(least.get(g, 0), here.get(g, 0)) for g in both}
        return a.monomials.key(tuple(sorted((g, n) for g, n in (least or {}).items() if n)))
