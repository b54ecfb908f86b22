"""Real numbers over any domain: exact constants, infinities, NaN and undefined lanes on top.

Where a lane holds a constant that is known exactly, arithmetic stays exact and comparisons are
concrete; the domain sees finite numbers only (DESIGN.md 4 and 6, "infinities").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.cases import KNOWN, SETTLE, TRUTHS, Cases, Outcome
from kcheck.canon.constants import (
    CASED,
    FINITE,
    NAN_DIV,
    NINF,
    ONE,
    SYMBOLIC,
    UNDEF,
    UNKNOWN,
    ZERO,
)
from kcheck.canon.distinct import distinct
from kcheck.canon.domain import Bool, Domain, V
from kcheck.canon.folding import TAKE_A, TAKE_B, Folding
from kcheck.canon.known import times
from kcheck.canon.lanes import SYM, Ids, Lanes, Real

# the ids that functions have at an argument that is identically zero
_AT_ZERO = {"lg2": NINF, "sqrt": ZERO}


def _pairs(a: Ids, b: Ids) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
    """The distinct pairs of ids, lane by lane, and for each lane which it is."""
    width = int(b.max(initial=SYMBOLIC)) - SYMBOLIC + 1
    used, index = distinct((a.astype(np.int64) - SYMBOLIC) * width + (b - SYMBOLIC))
    codes = used.tolist()
    return [(code // width + SYMBOLIC, code % width + SYMBOLIC) for code in codes], index


class Reals(Lanes[V]):
    """The operations on `Real`s over one domain and one table of constants."""

    def __init__(self, domain: Domain[V]) -> None:
        super().__init__(domain)
        self.folding = Folding(self.constants)
        self.cases: Cases[V] = Cases(domain)
        self._memo: dict[tuple[str, int, int], int] = {}
        # the instruction being executed, and where each special was first made of other things
        self.at = -1
        self.origins: dict[int, int] = {}

    # operations

    def unary(self, name: str, a: Real[V], op: Callable[[V], V]) -> Real[V]:
        """A function of one argument; `op` is the domain's."""
        a = self.settled(a)
        if a.kind == SYM:
            assert a.v is not None
            return Real(op(a.v), None, SYM)
        assert a.c is not None
        if self.cased(a):
            fold = functools.partial(self._fold1, name)
            return self._by_case(
                (a,), lambda x: self.cases.unary(name, x, fold), cast(Callable[..., V], op)
            )
        used, index = distinct(a.c)
        folded = np.array(
            [i if i == SYMBOLIC else self._fold1(name, i) for i in used.tolist()], np.int32
        )
        result = folded[index]
        if (folded >= 0).all():
            return self.from_ids(result)
        return self._keep(op(self.value(a)), result)

    def _keep(self, v: V, c: Ids) -> Real[V]:
        """A result whose constant lanes are not trusted in `v`."""
        return self.mixed(v, c) if (c >= 0).any() else Real(v, None, SYM)

    def _fold1(self, name: str, a: int) -> int:
        key = (name, a, 0)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.folding.unary[name](a)
        return found

    def binary(self, name: str, a: Real[V], b: Real[V], op: Callable[[V, V], V]) -> Real[V]:
        """A function of two arguments; `op` is the domain's."""
        if a.kind == SYM and b.kind == SYM:
            return Real(op(a.v, b.v), None, SYM)  # type: ignore[arg-type]
        if self.cased(a) or self.cased(b):
            return self._binary_by_case(name, a, b, op)
        return self._binary(name, a, b, op)

    def _binary_by_case(
        self, name: str, a: Real[V], b: Real[V], op: Callable[[V, V], V]
    ) -> Real[V]:
        fold = functools.partial(self._fold2, name)
        pairs = np.stack(np.broadcast_arrays(self.ids(a), self.ids(b))).reshape(2, -1)
        used = np.unique(pairs, axis=1).T.tolist()
        if any(self.cases.binary(name, x, y, fold).base == SETTLE for x, y in used):
            return self.binary(name, self.settled(a), self.settled(b), op)
        return self._by_case((a, b), lambda x, y: self.cases.binary(name, x, y, fold), op)

    def settled(self, a: Real[V]) -> Real[V]:
        """The same with all numbers in the domain's value: conditions say specials only."""
        if a.c is None or not self.cased(a):
            return a
        if not any(map(self.cases.numbers, np.unique(a.c).tolist())):
            return a
        made = self._by_case((a,), self.cases.settled, lambda v: v)
        made.fmt, made.u = a.fmt, a.u
        return made

    def cased(self, a: Real[V]) -> bool:
        """Is some lane infinite or no number on a condition?"""
        return a.c is not None and bool(self.cases.lists) and int(a.c.max(initial=0)) >= CASED

    def _by_case(
        self, args: tuple[Real[V], ...], outcome: Callable[..., Outcome], op: Callable[..., V]
    ) -> Real[V]:
        """An operation on lanes some of which are infinite or no number on a condition."""
        return self.mixed(*self._outcomes(args, (), outcome, op))

    def _outcomes(
        self,
        args: tuple[Real[V], ...],
        more: tuple[NDArray[Any], ...],
        outcome: Callable[..., Outcome],
        op: Callable[..., V],
    ) -> tuple[V, Ids]:
        """Values and ids; `outcome` gets `more` numbers per lane, then the arguments' ids."""
        values = [self.value(a) for a in args]
        ids = [self.ids(a) for a in args]
        arrays: list[Any] = [*more, *ids, *values]
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        lanes = np.broadcast_to(np.arange(1), shape)
        values = [v if v.shape == shape else cast(V, v[lanes]) for v in values]
        columns = [np.broadcast_to(x, shape).reshape(-1) for x in (*more, *ids)]
        keys, index = np.unique(np.stack(columns), axis=1, return_inverse=True)
        found = [outcome(*key) for key in keys.T.tolist()]
        index = index.reshape(shape)
        made = np.array([o.id for o in found], np.int32)
        for special in {o.id for o in found if 0 <= o.id < FINITE}:
            self.origins.setdefault(special, self.at)
        v = self.cases.value(found, index, tuple(values), op, self.image)
        return v, made[index]

    def _binary(self, name: str, a: Real[V], b: Real[V], op: Callable[[V, V], V]) -> Real[V]:
        ca, cb = self.ids(a), self.ids(b)
        if ca.size == 1 and a.kind != SYM and cb.size == 1 and b.kind != SYM:
            result = np.array([self._fold2(name, int(ca[0]), int(cb[0]))], np.int32)
        elif a.kind == SYM and cb.size == 1:
            result = np.array([self._fold2(name, SYMBOLIC, int(cb[0]))], np.int32)
        elif b.kind == SYM and ca.size == 1:
            result = np.array([self._fold2(name, int(ca[0]), SYMBOLIC)], np.int32)
        else:
            result = self._fold_pairs(name, ca, cb)
        least = int(result.min(initial=0))
        if least >= 0:
            return self.from_ids(result)
        if result.size == 1 and least == TAKE_A:
            return self._like(a)
        if result.size == 1 and least == TAKE_B:
            return self._like(b)
        if result.size == 1:
            return Real(op(self.value(a), self.value(b)), None, SYM)
        return self._assemble(result, a, b, op)

    @staticmethod
    def _like(a: Real[V]) -> Real[V]:
        return Real(a.v, a.c, a.kind)

    def _assemble(self, result: Ids, a: Real[V], b: Real[V], op: Callable[[V, V], V]) -> Real[V]:
        va, vb = self.value(a), self.value(b)
        v: V | None = op(va, vb) if (result == SYMBOLIC).any() else None
        for take, source in ((TAKE_A, va), (TAKE_B, vb)):
            here = result == take
            if here.any():
                v = source if v is None else self.domain.where(here, source, v)
        assert v is not None
        return self._keep(v, np.where(result < 0, SYMBOLIC, result).astype(np.int32))

    def _fold2(self, name: str, a: int, b: int) -> int:
        key = (name, a, b)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.folding.binary[name](a, b)
            if 0 <= found < FINITE and found not in (a, b):
                self.origins.setdefault(found, self.at)
        return found

    def _fold_pairs(self, name: str, ca: Ids, cb: Ids) -> Ids:
        pairs, index = _pairs(ca, cb)
        return np.array([self._fold2(name, *pair) for pair in pairs], np.int32)[index]

    def neg(self, a: Real[V]) -> Real[V]:
        return self.unary("neg", a, self.domain.neg)

    def abs(self, a: Real[V]) -> Real[V]:
        d = self.domain
        return self.unary("abs", a, lambda x: d.maximum(x, d.neg(x)))

    def add(self, a: Real[V], b: Real[V]) -> Real[V]:
        return self.binary("add", a, b, self.domain.add)

    def sub(self, a: Real[V], b: Real[V]) -> Real[V]:
        return self.binary("sub", a, b, self.domain.sub)

    def mul(self, a: Real[V], b: Real[V]) -> Real[V]:
        return self.binary("mul", a, b, self.domain.mul)

    def fma(self, a: Real[V], b: Real[V], c: Real[V]) -> Real[V]:
        if a.kind == SYM and b.kind == SYM and c.kind == SYM:
            return Real(self.domain.fma(a.v, b.v, c.v), None, SYM)  # type: ignore[arg-type]
        return self.add(self.mul(a, b), c)

    def maximum(self, a: Real[V], b: Real[V], nan: bool = False) -> Real[V]:
        return self.binary("max.nan" if nan else "max", a, b, self.domain.maximum)

    def minimum(self, a: Real[V], b: Real[V], nan: bool = False) -> Real[V]:
        if self.cased(a) or self.cased(b):  # +inf on a condition: by what maxima do with -inf
            return self.neg(self.maximum(self.neg(a), self.neg(b), nan))
        return self.binary("min.nan" if nan else "min", a, b, self.domain.minimum)

    def exp2(self, a: Real[V]) -> Real[V]:
        return self.unary("exp2", a, self.domain.exp2)

    def function(self, name: str, a: Real[V]) -> Real[V]:
        """An atom of one argument: lg2, sqrt, tanh, erf, sin, cos, rint, round, ..."""
        result = self.unary(name, a, lambda x: self.domain.atom(name, [x]))
        if name not in _AT_ZERO or result.v is None:
            return result
        # at the edge of its domain an atom would hide that the result is infinite, or a divisor 0
        zero = self.value(self.uniform(ZERO))
        known = self.domain.decide(self.domain.compare("eq", self.value(a), zero))
        ids = self.ids(result)
        here = np.broadcast_to(known == 1, np.broadcast_shapes(known.shape, ids.shape))
        here = here & (ids == SYMBOLIC)
        if not here.any():
            return result
        return self.mixed(result.v, np.where(here, _AT_ZERO[name], ids).astype(np.int32))

    def div(self, a: Real[V], b: Real[V]) -> Real[V]:
        """The quotient; lanes that divide by an identical zero are NaN (`NAN_DIV`)."""
        inverse = self._inverse(b)
        if inverse is not None:
            return self.mul(a, inverse)
        zeros: list[Bool] = []

        def quotient(x: V, y: V) -> V:
            q, zero = self.domain.div(x, y)
            zeros.append(zero)
            return q

        result = self.binary("div", a, b, quotient)
        if zeros and zeros[0].any():
            ids = self.ids(result)
            zero = np.broadcast_to(zeros[0], np.broadcast_shapes(zeros[0].shape, ids.shape))
            bad = np.where(ids >= CASED, UNKNOWN, np.where(ids == SYMBOLIC, NAN_DIV, ids))
            result = self.mixed(self.value(result), np.where(zero, bad, ids).astype(np.int32))
            self.origins.setdefault(NAN_DIV, self.at)
        return result

    def _inverse(self, a: Real[V]) -> Real[V] | None:
        """1 over an irrational constant: a domain need not know that sqrt 2 / 2 is 1 / sqrt 2."""
        known = None if a.c is None or a.c.size > 1 else self.constants.known.get(int(a.c[0]))
        inverse = None if known is None else times(Fraction(1), known, -1)
        return None if inverse is None else self.constant(inverse)

    def rcp(self, a: Real[V]) -> Real[V]:
        return self.div(self.uniform(ONE), a)

    def clamp(self, a: Real[V], low: Fraction | int, high: Fraction | int) -> Real[V]:
        """`.sat`-like: NaN becomes `low` (PTX ISA 9.7.3, `.sat` flushes NaN to +0)."""
        return self.minimum(self.maximum(a, self.constant(low)), self.constant(high))

    def relu(self, a: Real[V]) -> Real[V]:
        return self.maximum(a, self.uniform(ZERO), nan=True)

    def compare(
        self, op: str, unordered: bool, a: Real[V], b: Real[V]
    ) -> tuple[NDArray[np.int8], V | None]:
        """Per lane 1, 0, 2 (undefined), 3 (unknown) or -1 (symbolic), and the domain's indicator.

        `op`: lt, le, gt, ge, eq, ne; `unordered`: what NaN gives.
        """
        if a.kind == SYM and b.kind == SYM:
            known: NDArray[np.int8] = np.full(1, -1, np.int8)
        elif self.cased(a) or self.cased(b):
            return self._compared(op, unordered, a, b)
        else:
            ca, cb = self.ids(a), self.ids(b)
            pairs, index = _pairs(ca, cb)
            folded = [self.folding.compare(op, unordered, *pair) for pair in pairs]
            known = np.array(folded, np.int8)[index]
            if (known >= 0).all():
                return known, None
        p = self.domain.compare(op, self.value(a), self.value(b))
        decided = self.domain.decide(p)
        return np.where(known < 0, decided, known).astype(np.int8), p

    def _compared(
        self, op: str, unordered: bool, a: Real[V], b: Real[V]
    ) -> tuple[NDArray[np.int8], V | None]:
        """`compare` where a lane is infinite or no number on a condition."""
        a, b = self.settled(a), self.settled(b)

        def fold(x: int, y: int) -> int:
            return TRUTHS[self.folding.compare(op, unordered, x, y)]

        name = f"{op}{' or unordered' * unordered}"
        p, ids = self._outcomes(
            (a, b),
            (),
            lambda x, y: self.cases.binary(name, x, y, fold),
            lambda x, y: self.domain.compare(op, x, y),
        )
        used, index = np.unique(ids, return_inverse=True)
        known = np.array([KNOWN[i] for i in used.tolist()], np.int8)[index].reshape(ids.shape)
        return np.where(known < 0, self.domain.decide(p), known).astype(np.int8), p

    def select(self, p: V, a: Real[V], b: Real[V]) -> Real[V]:
        """`a` where the indicator `p` is 1, else `b`; undefined where either arm is."""
        if self.same_constant(a, b):
            return self._like(a)
        a, b = self.settled(a), self.settled(b)
        ca, cb = self.ids(a), self.ids(b)
        special = self.is_special(ca) | self.is_special(cb)
        if not special.any():
            return Real(self.domain.select(p, self.value(a), self.value(b)), None, SYM)
        undefined = (ca == UNDEF) | (cb == UNDEF)
        chosen = (ca != cb) & ~undefined & (self.infinite(ca) | self.infinite(cb))
        if chosen.any():
            made = self._select_cases(p, chosen, a, b)
            if made is not None:
                return made
        v = self.domain.select(p, self.value(a), self.value(b))
        arms = np.where(ca == cb, ca, UNKNOWN)
        c = np.where(special, np.where(undefined, UNDEF, arms), SYMBOLIC)
        return self.mixed(v, c.astype(np.int32))

    def _select_cases(self, p: V, chosen: Bool, a: Real[V], b: Real[V]) -> Real[V] | None:
        """`select` where, in the lanes `chosen`, an arm is infinite or no number, always or on a
        condition; None if the domain can't tell indicators apart.
        """
        shape = np.broadcast_shapes(p.shape, chosen.shape)
        lanes = np.flatnonzero(np.broadcast_to(chosen, shape))
        flat = cast(V, p[np.broadcast_to(np.arange(1), shape)]) if p.shape != shape else p
        conditions = self.cases.conditions(cast(V, flat.reshape((-1,))[lanes]))
        if conditions is None:
            return None
        more = np.zeros((2, *shape), np.int64)
        more.reshape(2, -1)[:, lanes] = conditions

        def outcome(yes: int, no: int, x: int, y: int) -> Outcome:
            if x == y and 0 <= x < FINITE:
                return Outcome(x, ZERO)
            return self.cases.select(yes, no, x, y)

        def op(x: V, y: V) -> V:
            return self.domain.select(p, x, y)

        return self.mixed(*self._outcomes((a, b), (more[0], more[1]), outcome, op))
