"""Names of sums written out: what they stand for in their place."""

from __future__ import annotations

import numpy as np

from kcheck import limits
from kcheck.canon.term.dag import BudgetSpent
from kcheck.canon.term.functions import Functions
from kcheck.canon.term.terms import Terms


class Writer:
    """Writes names out. `left`: products that it may still make."""

    def __init__(self, f: Functions, budget: int) -> None:
        self.f, self.left = f, budget

    def step(self, poly: int) -> tuple[int | None, bool]:
        """A sum times the named sums that it is divided by, or with those it is multiplied by in
        place, for the latest name in it (None if it has none); and whether it was multiplied by
        what may be 0. BudgetSpent at the end of the budget.
        """
        limits.check()
        f, a = self.f, self.f.a
        used = map(a.kind, f.generators(poly))
        forms = [what[1] for what in used if what[0] in ("form", "inverse")]
        if not forms:
            return None, False
        inner = max(forms)  # it may contain earlier ones
        terms = a.terms(poly)
        powers = [a.form_power(p, inner) for _, p, _ in terms]
        least = min(*powers, 0)
        size = a.size(inner)
        total = sum(size ** (n - least) if n > least else 1 for n in powers)
        self.left -= total
        if self.left < 0:
            raise BudgetSpent(f"a sum of {total} terms")
        parts: dict[int, list[tuple[int, int, int]]] = {}
        for term, n in zip(terms, powers, strict=True):
            bare = a.times(term, a.power(a.lazy(inner), -n)) if n else term
            parts.setdefault(n - least, []).append(bare)
        made = a.sum(*(_times_power(f, a.poly(part), inner, n) for n, part in parts.items()))
        return made, least < 0 and f.sign(inner) is None


def spelled(f: Functions, poly: int, budget: int) -> int:
    """A sum with the names in it written out, if it is divided by none of them and it stays
    within the budget; else the sum.
    """
    writer, found = Writer(f, budget), poly
    while True:
        kinds = {f.a.kind(g)[0] for g in f.generators(found)}
        if "form" not in kinds:
            return found
        if "inverse" in kinds:
            return poly
        try:
            step, _ = writer.step(found)
        except BudgetSpent:
            return poly
        if step is None:
            return found
        found = step


def _times_power(f: Functions, poly: int, inner: int, n: int) -> int:
    for _ in range(n):
        poly = _product(f, poly, inner)
    return poly


def _product(f: Functions, x: int, y: int) -> int:
    """The product of two sums, term by term."""
    a = f.a
    c, p, e = a.polys[x]
    d, q, g = a.polys[y]
    i, j = np.repeat(np.arange(c.size), d.size), np.tile(np.arange(d.size), c.size)
    t = Terms(np.zeros(i.size, np.int64), c[i], p[i], e[i])
    return a.intern(*a.combine(a.multiply(t, d[j], q[j], g[j]))[1:])
