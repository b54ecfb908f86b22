"""Sums, products and maxima of a slice as wholes, whatever the order of their parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.dag import ADD, ARITY, ATOM, CONST, MAX, MUL, NEG, SUB
from kcheck.canon.term.slice import Places, Slice

# operations whose order and grouping mean nothing, and the kinds of wholes that they make
SUMS = (ADD, SUB, NEG)
NONE, SUM, PRODUCT, MAXIMUM = range(4)
# inner operations of one whole
PARTS = 1 << 14


class Wholes:
    """`group`: the kind of whole that each place of a slice belongs to, NONE for most."""

    def __init__(self, s: Slice) -> None:
        self.s = s
        kinds = [np.isin(s.op, SUMS), s.op == MUL, s.op == MAX]
        self.group = np.select(kinds, [SUM, PRODUCT, MAXIMUM], NONE)
        self.group[: s.symbols] = NONE

    def inside(self, here: NDArray[np.bool_], root: int) -> NDArray[np.bool_]:
        """Places that only pass into a larger sum, product or maximum of their kind."""
        s = self.s
        outside = np.zeros(s.size, bool)
        outside[root] = True
        users = np.flatnonzero(here)
        users = users[users >= s.symbols]
        for i in range(3):
            arg = s.args[i, users]
            valid = (arg >= 0) & ((i == 0) | (s.op[users] != ATOM)) & (s.op[users] != CONST)
            alike = self.group[users] == self.group[np.where(valid, arg, 0)]
            outside[arg[valid & ~(alike & (self.group[users] > 0))]] = True
        return ~outside & (self.group > 0)

    def parts(self, place: int) -> tuple[Places, Places, Places]:
        """What a place is made of, as a whole: parts, their signs, and where each joins.

        OverflowError if there are too many.
        """
        s = self.s
        kind = self.group[place]
        none = np.zeros(0, np.int64)
        found = [(none, none, none)]
        front, sign, join = np.array([place]), np.ones(1, np.int64), np.array([place])
        size, first = 0, True
        while front.size:
            inner = (self.group[front] == kind) & (kind != NONE)
            if first:
                inner[:] = True
            found.append((front[~inner], sign[~inner], join[~inner]))
            at, signs = front[inner], sign[inner]
            size += at.size
            if size > PARTS:
                raise OverflowError("too many parts")
            columns = []
            for i in range(3):
                has = (i < ARITY[s.op[at]]) & (s.args[i, at] >= 0)
                turned = ((s.op[at] == SUB) & (i == 1)) | (s.op[at] == NEG)
                signs_i = np.where(turned & (kind == SUM), -signs, signs)
                columns.append((s.args[i, at][has], signs_i[has], at[has]))
            front, sign, join = (np.concatenate([c[k] for c in columns]) for k in range(3))
            first = False
        parts, signs, joins = (np.concatenate([f[k] for f in found]) for k in range(3))
        order = joins.argsort(kind="stable")
        return parts[order], signs[order], joins[order]

    def alike(self, root: int, odd: frozenset[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """The largest values (place, sign, where it joins) that are made of `odd` parts (place,
        sign) of a whole only, in order.
        """
        below: dict[tuple[int, int], list[tuple[int, int]]] = {}
        left = [(root, 1)]
        while left:
            node = left.pop()
            if node in below or (node[0] != root and self.group[node[0]] != self.group[root]):
                continue
            below[node] = self._terms(*node)
            left += below[node]
        whole = set(odd)
        for node in sorted(below):  # what a place is made of lies before it
            if node[0] != root and all(part in whole for part in below[node]):
                whole.add(node)
        found = {
            (*part, node[0])
            for node, parts in below.items()
            for part in parts
            if part in whole and node not in whole
        }
        return sorted(found, key=lambda part: part[2])

    def _terms(self, place: int, sign: int) -> list[tuple[int, int]]:
        """The arguments of a place with their signs."""
        s, op = self.s, int(self.s.op[place])
        args = s.args[: int(ARITY[op]), place].tolist()
        turned = op in (NEG, SUB)
        last = len(args) - 1
        return [(a, -sign if turned and i == last else sign) for i, a in enumerate(args)]
