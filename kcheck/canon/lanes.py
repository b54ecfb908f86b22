"""Vectors of reals, one per lane: values of a domain, and lanes that are constants beside them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Generic, cast

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import (
    CASED,
    FINITE,
    NAN,
    NAN_DIV,
    NINF,
    PINF,
    SYMBOLIC,
    Constants,
)
from kcheck.canon.distinct import distinct
from kcheck.canon.domain import Bool, Domain, V
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.known import Known, Number
from kcheck.canon.ranged import RangedDomain

Ids = NDArray[np.int32]

# What is known of all lanes at once: all symbolic, all finite constants, anything.
SYM, CONST, MIXED = range(3)


class Real(Generic[V]):
    """A vector of reals, one per lane, or one for all lanes (shape (1,)).

    `v`: the domain's value, or None while all lanes are constants. `c`: ids of constants
    (`SYMBOLIC` where the lane is not one; from `CASED` on it is infinite or no number on a
    condition, else `v`), or None when all lanes are symbolic. `kind`: SYM,
    CONST or MIXED. `fmt`: the float format that a register holds it in ("" if none). `u`: lanes
    that were never written (True), or None; only whoever masks lanes uses it.
    """

    __slots__ = ("c", "fmt", "kind", "u", "v")

    def __init__(self, v: V | None, c: Ids | None, kind: int, fmt: str = "") -> None:
        self.v = v
        self.c = c
        self.kind = kind
        self.fmt = fmt
        self.u: Bool | None = None


class Lanes(Generic[V]):
    """How `Real`s are made and read, over one domain and one table of constants."""

    def __init__(self, domain: Domain[V]) -> None:
        self.domain = domain
        self.constants = Constants()

    # construction

    def constant(self, value: Number | int) -> Real[V]:
        """The same number in all lanes; shape (1,)."""
        number = Fraction(value) if isinstance(value, int) else value
        return self.uniform(self.constants.intern(number))

    def uniform(self, ident: int) -> Real[V]:
        """The same constant (by id) in all lanes; shape (1,). A new object each time."""
        return self.from_ids(np.full(1, ident, np.int32))

    def from_ids(self, ids: Ids) -> Real[V]:
        """Constants by id, one per lane (no `SYMBOLIC` among them, none from `CASED` on)."""
        assert int(ids.max(initial=0)) < CASED
        if ids.size > 1 and ids.ndim == 1 and (ids == ids[0]).all():
            ids = ids[:1]
        kind = CONST if int(ids.min(initial=FINITE)) >= FINITE else MIXED
        return Real(None, ids, kind)

    def number(self, value: float) -> int:
        """The id of a float: finite ones exactly."""
        if math.isnan(value):
            return NAN
        if math.isinf(value):
            return PINF if value > 0 else NINF
        return self.constants.intern(Fraction(value))

    def integers(self, numbers: NDArray[Any]) -> Ids:
        """The ids of integers, lane by lane."""
        used, index = np.unique(numbers, return_inverse=True)
        ids = np.array([self.constants.intern(Fraction(int(n))) for n in used], np.int32)
        return ids[index].reshape(numbers.shape)

    def symbolic(self, v: V) -> Real[V]:
        """A value of the domain."""
        return Real(v, None, SYM)

    def mixed(self, v: V | None, c: Ids) -> Real[V]:
        """A value with some lanes constant: `v` counts where `c` is no constant.

        The lanes of `v` under finite constants need not be right: they are set here.
        """
        if v is None:
            return self.from_ids(c)
        known = (c >= 0) & (c < CASED)
        if not known.any():
            return Real(v, c, MIXED) if (c >= CASED).any() else Real(v, None, SYM)
        if known.all():
            return self.from_ids(c)
        return Real(self.domain.where(known, self.image(c), v), c, MIXED)

    # views

    def ends(self, a: Real[V]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Least and greatest value per lane, as far as the domain knows of ranges."""
        value: Any = self.value(a)
        if isinstance(self.domain, (RangedDomain, EnclosureDomain)):
            ends: tuple[NDArray[Any], NDArray[Any]] = value.ends
            return ends
        return np.full(1, -np.inf), np.full(1, np.inf)

    def narrow(self, a: Real[V], low: float, high: float) -> Real[V]:
        """The same integers, known to lie within [low, high]."""
        if not isinstance(self.domain, (RangedDomain, EnclosureDomain)) or a.kind == CONST:
            return a
        value: Any = self.domain.narrow(cast(Any, self.value(a)), low, high)
        return Real(value, a.c, a.kind)

    def known_integer(self, a: Real[V]) -> int | None:
        """The integer that all lanes are, if they are one constant."""
        if a.kind != CONST or a.c is None or a.c.size != 1:
            return None
        value = self.constants.values[int(a.c[0])]
        known = int(a.c[0]) in self.constants.known
        return None if known or value.denominator != 1 else value.numerator

    def integers_within(self, a: Real[V], most: int) -> Bool:
        """The lanes that are known to be integers of magnitude `most` or less."""
        if a.kind == CONST and a.c is not None:
            used, index = np.unique(a.c, return_inverse=True)
            values = [self.constants.values[i] for i in used]
            exact = [
                not isinstance(v, Known) and v.denominator == 1 and abs(v) <= most for v in values
            ]
            return np.array(exact, bool)[index].reshape(a.c.shape)
        if not isinstance(self.domain, RangedDomain):
            return np.zeros(1, bool)
        low, high = self.ends(a)
        integral = cast(Any, self.value(a)).integral
        return (low >= -most) & (high <= most) & (False if integral is None else integral)

    @property
    def ranged(self) -> bool:
        """The domain knows of ranges."""
        return isinstance(self.domain, RangedDomain)

    def large_integers(self, a: Real[V], limit: int) -> Bool:
        """The lanes that are known to be integers of magnitude `limit` or more, of one sign."""
        if a.kind == CONST or not self.ranged:
            return np.zeros(1, bool)
        low, high = self.ends(a)
        integral = cast(Any, self.value(a)).integral
        return ((low >= limit) | (high <= -limit)) & (False if integral is None else integral)

    def image(self, c: Ids) -> V:
        """The domain's value of constants; specials and symbolic lanes give 0."""
        used, index = distinct(c)
        numbers = self.constants.number
        values = [numbers(i) if FINITE <= i < CASED else Fraction(0) for i in used.tolist()]
        return self.domain.constants(values, index)

    def value(self, a: Real[V]) -> V:
        """The domain's value of all lanes (0 where a lane is no number)."""
        if a.v is None:
            assert a.c is not None
            a.v = self.image(a.c)
        return a.v

    def ids(self, a: Real[V], shape: tuple[int, ...] | None = None) -> Ids:
        """The ids of all lanes, `SYMBOLIC` included."""
        if a.c is not None:
            return a.c
        assert a.v is not None
        return np.full(shape or a.v.shape, SYMBOLIC, np.int32)

    # structure

    def where(self, mask: Bool, a: Real[V], b: Real[V]) -> Real[V]:
        """`a` where a concrete mask holds, else `b`."""
        if a.kind == SYM and b.kind == SYM:
            return Real(self.domain.where(mask, self.value(a), self.value(b)), None, SYM)
        c = np.where(mask, self.ids(a), self.ids(b))
        if int(c.min(initial=0)) >= 0 and int(c.max(initial=0)) < CASED:
            return self.from_ids(c)
        v = self.domain.where(mask, self.value(a), self.value(b))
        return Real(v, c, MIXED) if int(c.max(initial=-1)) >= 0 else Real(v, None, SYM)

    def specials(self, a: Real[V]) -> Bool:
        """The lanes that are no number, or may be none: undefined, unknown, NaN, infinite."""
        return np.zeros(1, bool) if a.c is None else self.is_special(a.c)

    def large(self, a: Real[V], limit: int) -> Bool:
        """The lanes that hold a constant of magnitude `limit` or more."""
        if a.c is None:
            return np.zeros(1, bool)
        used, index = distinct(a.c)
        values = self.constants.values
        large = [FINITE <= i < CASED and abs(values[i]) >= limit for i in used.tolist()]
        return np.array(large)[index]

    @staticmethod
    def infinite(c: Ids) -> Bool:
        """Infinite or NaN, always or on a condition."""
        return ((c >= NAN) & (c < FINITE) & (c != NAN_DIV)) | (c >= CASED)

    @staticmethod
    def is_special(c: Ids) -> Bool:
        """No number, or none on a condition."""
        return ((c >= 0) & (c < FINITE)) | (c >= CASED)

    def same_constant(self, a: Real[V], b: Real[V]) -> bool:
        """Both are one constant in all lanes."""
        if a.c is None or b.c is None or a.c.size != 1 or b.c.size != 1:
            return False
        return bool(a.c[0] == b.c[0]) and 0 <= int(a.c[0]) < CASED

    def take(self, a: Real[V], index: Any) -> Real[V]:
        """Lanes picked by a NumPy index; a uniform value stays as it is."""
        if a.c is not None and a.c.size == 1 and a.kind != SYM:
            return Real(a.v, a.c, a.kind)
        if a.kind == SYM:
            assert a.v is not None
            return Real(cast(V, a.v[index]) if a.v.shape != (1,) else a.v, None, SYM)
        assert a.c is not None
        c = a.c[index]
        return self.from_ids(c) if a.v is None else self.mixed(cast(V, a.v[index]), c)
