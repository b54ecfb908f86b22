"""Products of powers of generators, known by 64-bit keys.

A product of at most two generators with positive powers is its own key: (high << 31) | low, low 0
for one alone, 0 for none. Other products are interned; their keys are negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kcheck import limits

Keys = NDArray[np.int64]
# (generator, power) by rising generator, no power 0
Powers = tuple[tuple[int, int], ...]
# a product as coefficient id, key and exponential id
Term = tuple[int, int, int]

SHIFT = 31
LOW = (1 << SHIFT) - 1
# generators below are inputs, from here on atoms
ATOMS = 1 << 30


class Monomials:
    """Keys and their products. `laws`: applied to products that hold generators with laws."""

    def __init__(self, laws: Callable[[Powers], Term]) -> None:
        self._laws = laws
        self._content: list[Powers] = []
        self._ids: dict[Powers, int] = {}
        self._memo: dict[tuple[int, int], Term] = {}
        # per atom: have its products with other such atoms a law?
        self.lawful = np.zeros(64, bool)

    def note_atom(self, generator: int, lawful: bool) -> None:
        """A new atom."""
        i = generator - ATOMS
        if i >= self.lawful.size:
            self.lawful = np.concatenate([self.lawful, np.zeros_like(self.lawful)])
        self.lawful[i] = lawful

    def any_lawful(self, keys: Keys) -> bool:
        """Does one of these (not negative) keys hold a generator that `lawful` marks?"""
        found = np.concatenate([keys >> SHIFT, keys & LOW])
        return bool(self.lawful[found[found >= ATOMS] - ATOMS].any())

    def powers(self, key: int) -> Powers:
        """What a key stands for."""
        if key < 0:
            return self._content[-1 - key]
        if key == 0:
            return ()
        high, low = key >> SHIFT, key & LOW
        if low == 0:
            return ((high, 1),)
        return ((high, 2),) if high == low else ((low, 1), (high, 1))

    def key(self, powers: Powers) -> int:
        """The key of a product."""
        degree = sum(n for _, n in powers)
        if degree <= 2 and all(n > 0 and g > 0 for g, n in powers):
            flat = [g for g, n in powers for _ in range(n)]
            return (flat[-1] << SHIFT if flat else 0) | (flat[0] if degree == 2 else 0)
        found = self._ids.get(powers)
        if found is None:
            self._content.append(powers)
            found = self._ids[powers] = -len(self._content)
        return found

    def multiply(self, p: int, q: int) -> Term:
        """The product of two keys."""
        found = self._memo.get((p, q))
        if found is None:
            limits.check()
            powers = dict(self.powers(p))
            for g, n in self.powers(q):
                powers[g] = powers.get(g, 0) + n
            found = self._laws(tuple(sorted((g, n) for g, n in powers.items() if n)))
            self._memo[p, q] = found
        return found

    def mul(self, p: Keys, q: Keys) -> tuple[NDArray[np.int32] | None, Keys, Keys | None]:
        """Products, element by element: coefficients, keys, exponentials (None: all 1)."""
        if not p.any():
            return None, q, None
        if not q.any():
            return None, p, None
        first, second = p >> SHIFT, q >> SHIFT
        high, low = np.maximum(first, second), np.minimum(first, second)
        simple = (p > 0) & (q > 0) & (p & LOW == 0) & (q & LOW == 0)
        atoms = simple & (high >= ATOMS)
        if atoms.any():
            one, other = (self.lawful[np.maximum(g[atoms] - ATOMS, -1)] for g in (low, high))
            simple[atoms] = (low[atoms] < ATOMS) | ~(one & other)
        keys = high << SHIFT | low
        if simple.all():
            return None, keys, None
        keys = np.where(simple, keys, p + q)  # one of them is 0, or it is overwritten
        rest = np.flatnonzero(~simple & (p != 0) & (q != 0))
        coefs, exps = np.ones(p.size, np.int32), np.zeros(p.size, np.int64)
        if rest.size:
            order = np.lexsort((q[rest], p[rest]))
            a, b = p[rest][order], q[rest][order]
            new = np.concatenate([[True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])])
            terms = np.array(
                [
                    self.multiply(*pair)
                    for pair in zip(a[new].tolist(), b[new].tolist(), strict=True)
                ]
            )
            where, index = rest[order], new.cumsum() - 1
            coefs[where], keys[where], exps[where] = terms[index].T
        return coefs, keys, exps
