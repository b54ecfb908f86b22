"""Where two kernels first differ: the innermost values of one element without a partner.

Values are matched by their residues under random inputs (the field engine), sums, products and
maxima whatever the order of their parts. A pair of values without partners is named only if
putting the reference's in the place of the subject's makes the outputs equal.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Collision, LevelsExhausted, Store
from kcheck.canon.field import FieldDomain
from kcheck.canon.known import Known
from kcheck.canon.residues import FieldValue
from kcheck.canon.term.dag import (
    ADD,
    ARITY,
    ATOM,
    CONST,
    DIV,
    EITHER,
    EXP2,
    LESS,
    MAX,
    MUL,
    NEG,
    SAME,
    SELECT,
    SUB,
)
from kcheck.canon.term.wholes import MAXIMUM, PRODUCT, SUM, Wholes
from kcheck.contrast import Contrast

Places = NDArray[np.int64]
Keys = NDArray[np.uint64]
Held = tuple[Places, FieldValue]
# two primes of 31 bits tell values apart; exp2 in exp2 needs more levels, up to 4
TRIALS, LEVELS = 2, 3
# innermost values that are combined, swaps that are tried in a round
PAIRS, SWAPS = 16, 64
# work of all swaps: a step costs as much as so many values (measured)
WORK, STEP = 1_500_000, 100
# differences that follow from one another
ROUNDS = 4
# what counts as a partner (_Matching: signed, whole), in the order in which it is tried
VIEWS = ((True, True), (True, False), (False, True))
# values above an innermost one that are tried in its place
ABOVE = 4
# parts of a sum that are written out
FEW = 3
_SIGN = {ADD: " + ", SUB: " - ", MUL: " * ", DIV: " / "}
_WHOLE = {SUM: "a sum of", PRODUCT: "a product of", MAXIMUM: "the maximum of"}
_NAME = {EXP2: "exp2", MAX: "max", LESS: "positive", SAME: "zero", SELECT: "select", NEG: "-"}


@dataclass(frozen=True)
class Origin:
    """A value: the instruction that makes it (-1: none, it is an input) and its formula."""

    at: int
    formula: str


@dataclass(frozen=True)
class First:
    """The first difference on both sides."""

    reference: Origin
    subject: Origin


def first_difference(close: Contrast, point: Any, seed: int) -> First | None:
    """The first difference of one element, or None where none can be named.

    `point`: an input on which the element differs. Of values that differ alike, one that differs
    there is named.
    """
    for attempt in range(2 * LEVELS):
        domain = FieldDomain(seed + attempt, TRIALS, 2 + attempt % LEVELS)
        try:
            views = (_Matching(close, point, domain, *how).first() for how in VIEWS)
            return next((found for found in views if found is not None), None)
        except (Collision, LevelsExhausted, OverflowError):
            continue
    return None


class _Matching:
    """The places of a contrast by their residues.

    `signed`: x is no partner of -x. `whole`: a part of a sum of the reference's is no partner.
    """

    def __init__(
        self,
        close: Contrast,
        point: Any,
        domain: FieldDomain,
        signed: bool,
        whole: bool,
    ) -> None:
        self.close, self.domain = close, domain
        cost = close.slice.size + STEP * len(close.slice.steps)
        self.swaps = max(WORK // len(VIEWS) // cost, 8)
        self.signed, self.whole = signed, whole
        self.s = s = close.slice
        self.seen = close.at(np.arange(s.size), point[:, None])[:, 0]
        self.symbols = domain.input("inputs", max(s.symbols, 1))[: s.symbols].reshape((-1, 1))
        self.parts_of = [s.reach(root) for root in s.roots.tolist()]
        self.wholes = Wholes(s)
        # values without a partner, by side
        self.open: list[NDArray[np.bool_]] = [np.zeros(s.size, bool)] * 2
        self._take([], s.replay(domain, self.symbols, 1))

    def _take(self, fixed: list[Held], store: Store[FieldValue]) -> None:
        """`fixed`: places of the subject that hold values of the reference."""
        self.fixed, self.store = fixed, store
        self.key = self._keys(store)
        self.minus = _packed(self.domain.neg(store.read(np.arange(self.s.size))))

    def _keys(self, store: Store[FieldValue]) -> Keys:
        return _packed(store.read(np.arange(self.s.size)))

    def first(self) -> First | None:
        """The first of the pairs that together account for the difference."""
        a, b = self.s.roots.tolist()
        if max(a, b) < self.s.symbols:
            return First(self._origin(a), self._origin(b))
        named: First | None = None
        for _ in range(ROUNDS):
            swap = self._swap()
            if swap is None:
                return None
            pairs, found = swap
            named = named or found
            self._put(pairs)
            if self.key[b] == self.key[a]:
                return named
        return None

    def _swap(self) -> tuple[list[tuple[int, int]], First] | None:
        """Pairs (subject's, reference's; ~ for its negative) of innermost values, one of which
        stands for the other: those that make the outputs equal, else those that leave the fewest
        values alone.
        """
        s = self.s
        a, b = s.roots.tolist()
        mine, theirs = self._innermost(1), self._innermost(0)
        if not mine:  # what is stored is a value of the reference, but another one
            return [(b, a)], self._pair((b, a), (b, a))
        if self.fixed and len(mine) > 1:  # whole outputs explain nothing while others differ
            mine = [u for u in mine if u != b]
        whole = list(zip(mine, theirs, strict=False))
        options = []
        if whole and len(mine) == len(theirs):
            seen = (pair for pair in whole if self.seen[pair[0]] != self.seen[pair[1]])
            options = [(whole, next(seen, whole[0]))]
        for u, v in itertools.islice(itertools.product(mine, theirs), PAIRS):
            made = [(t, v) for t in self._above(u, 1, self._kind(v)) if u == b or t != b]
            made += [(u, w) for w in self._above(v, 0, self._kind(u))]
            # what is above v stands for v, the first that the subject lacks
            options += [([(t, w)], (t, v)) for t, w in dict.fromkeys([(u, v), *made])]
            options.append(([(u, ~v)], (u, v)))
        for u in mine[:FEW]:
            options += [([(t, w)], (t, w)) for w in self._inside(u) for t in self._above(u, 1)]
        best, least = None, self._alone(self.key)
        for pairs, named in options[:SWAPS]:
            self.swaps -= 1
            if self.swaps < 0:
                return None
            try:
                key = self._keys(self._with(pairs)[1])
            except (Collision, LevelsExhausted):
                continue
            if key[b] == self.key[a]:
                return pairs, self._pair(named, pairs[0])
            alone = self._alone(key)
            alike = all(w >= 0 and self._kind(t) == self._kind(w) for t, w in pairs)
            if alone < least and alike:
                best, least = (pairs, named), alone
        return None if best is None else (best[0], self._pair(best[1], best[0][0]))

    def _kind(self, place: int) -> int:
        """The operation of a place; alike for sums."""
        return ADD if self._sum(place) else int(self.s.op[place])

    def _inside(self, place: int) -> list[int]:
        """What a value of the subject is made of, in the reference: it may be one step too many."""
        parts = self.wholes.parts(place)[0]
        parts = parts[(self.s.op[parts] != CONST) | (parts < self.s.symbols)]
        there = np.flatnonzero(self.parts_of[0])
        found = there[np.isin(self.key[there], self.key[parts])]
        return found[np.unique(self.key[found], return_index=True)[1]].tolist()[:FEW]

    def _above(self, place: int, side: int, kind: int | None = None) -> list[int]:
        """The first few values (of a kind) without a partner that hang on a place."""
        s = self.s
        hangs = np.zeros(s.size + 1, bool)  # the last is for arguments that are none
        hangs[place] = True
        for step in s.steps:
            args = np.where(np.arange(3)[:, None] < ARITY[s.op[step]], s.args[:, step], -1)
            hangs[step] |= hangs[args].any(axis=0)
        found = np.flatnonzero(hangs[:-1] & self.open[side])
        found = np.sort(found[np.unique(self.key[found], return_index=True)[1]])
        return [p for p in found.tolist() if kind is None or self._kind(p) == kind][:ABOVE]

    def _alone(self, key: Keys) -> int:
        """How many of the subject's values have no partner."""
        return int((~np.isin(key[self.parts_of[1]], self.key[self.parts_of[0]])).sum())

    def _with(self, pairs: list[tuple[int, int]]) -> tuple[list[Held], Store[FieldValue]]:
        """What is held, and all values, once the reference's stand in the place of the subject's.

        So do they wherever the subject has the same value again.
        """
        place = {int(self.key[u]): v for u, v in pairs}
        mine = np.array(list(place), np.uint64)
        same = np.flatnonzero(np.isin(self.key, mine) & self.parts_of[1] & ~self.parts_of[0])
        put = np.array([place[k] for k in self.key[same].tolist()], np.int64)
        value = self.store.read(np.where(put < 0, ~put, put)[:, None])
        value = self.domain.where((put < 0)[:, None], self.domain.neg(value), value)
        fixed = [*self.fixed, (same, value)]
        return fixed, self.s.replay(self.domain, self.symbols, 1, fixed)

    def _put(self, pairs: list[tuple[int, int]]) -> None:
        self._take(*self._with(pairs))

    # units: sums, products and maxima as wholes, and everything else

    def _innermost(self, side: int) -> list[int]:
        """Places of one side without a partner all of whose parts have one, in order."""
        s, here, there = self.s, self.parts_of[side], self.parts_of[1 - side]
        if side == 0 or self.whole:
            there = there & ~self.wholes.inside(there, int(s.roots[1 - side]))
        known = self.key[there]
        if not self.signed:
            known = np.concatenate([known, self.minus[there]])
        open_ = here & ~np.isin(self.key, known)
        open_[s.op == CONST] = False  # and inputs: what is made of them differs, if anything
        inner = open_ & ~self.wholes.inside(here, int(s.roots[side]))
        self.open[side] = inner
        # one place of each value
        places = np.flatnonzero(inner)
        places = np.sort(places[np.unique(self.key[places], return_index=True)[1]])
        return [p for p in places.tolist() if not open_[self.wholes.parts(p)[0]].any()]

    # in words

    def _pair(self, named: tuple[int, int], swapped: tuple[int, int]) -> First:
        """The values, or of two sums or maxima the parts that only one of them has."""
        u, v = swapped
        group = self.wholes.group
        # ~v: with its sign changed, as a whole
        if v >= 0 and group[u] == group[v] and group[u] in (SUM, MAXIMUM):
            more, less = self._odd(u, v), self._odd(v, u)
            return First(
                less or Origin(int(self.close.made[v]), self._formula(v)),
                more or Origin(int(self.close.made[u]), self._formula(u)),
            )
        u, v = named
        return First(self._origin(v), self._origin(u))

    def _odd(self, u: int, v: int) -> Origin | None:
        """What a sum `u` has and `v` lacks, or has less often; of a maximum too."""
        counts: dict[int, int] = {}
        parts, signs, _ = self.wholes.parts(v)
        for k in self._signed(parts, signs).tolist():
            counts[k] = counts.get(k, 0) + 1
        parts, signs, _ = self.wholes.parts(u)
        keys = self._signed(parts, signs).tolist()
        for k in keys:
            counts[k] = counts.get(k, 0) - 1
        terms = zip(parts.tolist(), signs.tolist(), keys, strict=True)
        odd = frozenset((part, sign) for part, sign, k in terms if k and counts[k] < 0)
        found = self.wholes.alike(u, odd)
        if not found:
            return None
        seen = (part for part in found if self.seen[part[0]])
        part, sign, join = next(seen, found[0])
        text = self._formula(part)
        text = f"... {'+' if sign > 0 else '-'} {text}" if self._sum(u) else f"max(..., {text})"
        return Origin(int(self.close.made[join]), text)

    def _signed(self, parts: Places, signs: Places) -> Keys:
        return np.where(signs > 0, self.key[parts], self.minus[parts])

    def _sum(self, place: int) -> bool:
        return bool(self.wholes.group[place] == SUM)

    def _origin(self, place: int) -> Origin:
        at = int(self.close.made[place]) if place >= self.s.symbols else -1
        return Origin(at, self._formula(place))

    def _formula(self, place: int, depth: int = 2) -> str:
        """`A[0,1] * B[3,1]`; what lies deeper is `...`."""
        s = self.s
        if place < s.symbols:
            return self.close.symbol(place)
        op = int(s.op[place])
        if op == CONST:
            value = s.domain.numbers[int(s.args[0, place])]
            if isinstance(value, Known) or value.denominator == 1:
                return str(value)
            return f"{float(value):.6g}"
        if op == EITHER:
            return self._formula(int(s.args[0, place]), depth)
        if depth == 0:
            return "..."
        kind = int(self.wholes.group[place])
        if kind:
            n = self.wholes.parts(place)[0].size
            if n > FEW:
                return f"{_WHOLE[kind]} {n} values"
        args = s.args[: int(ARITY[op]), place].tolist()
        if op == ATOM:
            return f"{s.domain.names[int(s.args[1, place])]}({self._formula(args[0], depth - 1)})"
        texts = [self._formula(a, depth - 1) for a in args]
        if op in (ADD, SUB, MUL, DIV):
            return _SIGN[op].join(f"({t})" if " " in t else t for t in texts)
        return f"{_NAME[op]}({', '.join(texts)})"


def _packed(value: FieldValue) -> Keys:
    """Level 0 of both trials in one word."""
    top = value.r[0].astype(np.uint64)
    return np.asarray(top[0] << np.uint64(32) | top[1]).reshape(-1)
