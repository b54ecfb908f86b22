"""A domain beside interval arithmetic: what the inputs' ranges decide is decided.

A value is that of another domain, an enclosure that holds for all inputs within their ranges, and
what else is known for all of them: that it is not 0, that it is an integer. A comparison or a
maximum that follows from the enclosures is taken so, an integer is its own rounding; all else is
the other domain's. Both sides of a question must be given the same ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import BITS, GATHER
from kcheck.canon.domain import Bool, Domain, Index
from kcheck.canon.enclosure import Enclosure, EnclosureDomain, EnclosureStore
from kcheck.canon.interval import Ends
from kcheck.canon.known import Known, Number

# functions whose values are integers
_ROUNDING = frozenset({"rint", "trunc", "floor", "ceil"})
# what may lie outside the domain of a function -> the arguments for which it may
_EDGES: dict[str, Callable[[Enclosure], Bool]] = {
    "lg2": lambda a: a.low <= 0,
    "sqrt": lambda a: a.low < 0,
}


class RangedValue:
    """Values `v` of a domain, within `e`.

    `nonzero`: lanes that are not 0 for another reason; `integral`: lanes that are integers.
    """

    __slots__ = ("e", "integral", "nonzero", "v")

    def __init__(
        self, v: Any, e: Enclosure, nonzero: Bool | None = None, integral: Bool | None = None
    ) -> None:
        self.v, self.e, self.nonzero, self.integral = v, e, nonzero, integral

    @property
    def apart(self) -> Bool:
        """Lanes that are not 0."""
        out: Bool = (self.e.low > 0) | (self.e.high < 0)
        return out if self.nonzero is None else out | self.nonzero

    @property
    def ends(self) -> Ends:
        """Least and greatest value per lane."""
        return self.e.ends

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        shape: tuple[int, ...] = self.v.shape
        return shape

    def __getitem__(self, index: Any) -> RangedValue:
        """Lanes picked by a NumPy index."""
        flags = (None if f is None else self._broadcast(f)[index] for f in self._flags)
        return RangedValue(self.v[index], self.whole()[index], *flags)

    def reshape(self, shape: tuple[int, ...]) -> RangedValue:
        """The same lanes in another shape."""
        flags = (None if f is None else self._broadcast(f).reshape(shape) for f in self._flags)
        return RangedValue(self.v.reshape(shape), self.whole().reshape(shape), *flags)

    @property
    def _flags(self) -> tuple[Bool | None, Bool | None]:
        return self.nonzero, self.integral

    def _broadcast(self, flags: Bool) -> Bool:
        return np.broadcast_to(flags, self.shape)

    def whole(self) -> Enclosure:
        """The enclosure in the value's own shape."""
        if self.e.shape == self.shape:
            return self.e
        low, high = (np.broadcast_to(end, self.shape) for end in self.e.ends)
        return Enclosure(low, high)


class RangedStore:
    """Memories side by side: values, enclosures, and what is not 0 for another reason."""

    def __init__(self, values: Any, ends: EnclosureStore, n: int) -> None:
        self._values, self._ends = values, ends
        self._nonzero: Bool = np.zeros(n, bool)
        self._integral: Bool = np.ones(n, bool)

    def read(self, index: Index) -> RangedValue:
        """The cells at `index`."""
        flags = self._nonzero[index], self._integral[index]
        return RangedValue(self._values.read(index), self._ends.read(index), *flags)

    def write(self, index: Index, value: RangedValue) -> None:
        """Put `value` into the cells."""
        self._values.write(index, value.v)
        self._ends.write(index, value.e)
        self._nonzero[index] = value.apart
        self._integral[index] = _known(value.integral)

    def add(self, index: Index, value: RangedValue) -> None:
        """Add to the cells, repeated ones in turn."""
        self._values.add(index, value.v)
        self._ends.add(index, value.e)
        self._nonzero[index] = False
        np.logical_and.at(self._integral, index, _known(value.integral))


class RangedDomain:
    """The operations. `ranges`: name of an input -> its least and greatest value; `nonzero`:
    those that are never 0; `integers`: those that are integers.

    `beyond`: the functions (`div` among them) that some argument may lie outside the domain of,
    as far as the enclosures tell.
    """

    def __init__(
        self,
        inner: Domain[Any],
        ranges: Mapping[str, tuple[float, float]],
        nonzero: Collection[str] = (),
        integers: Collection[str] = (),
    ) -> None:
        self.inner = inner
        self.ranges = ranges
        self.nonzero = nonzero
        self.integers = integers
        self.beyond: set[str] = set()
        self._ends = EnclosureDomain({})

    def constants(self, values: Sequence[Number], index: Index) -> RangedValue:
        """Lane i holds `values[index[i]]`."""
        whole = np.array(
            [not isinstance(v, Known) and Fraction(v).denominator == 1 for v in values], bool
        )
        ends = self._ends.constants(values, index)
        return RangedValue(self.inner.constants(values, index), ends, None, whole[index])

    def input(self, name: str, n: int) -> RangedValue:
        """The symbols of a tensor."""
        low, high = self.ranges.get(name, (-np.inf, np.inf))
        ends = Enclosure(np.full(n, low), np.full(n, high))
        nonzero = np.ones(n, bool) if name in self.nonzero else None
        integral = np.ones(n, bool) if name in self.integers else None
        return RangedValue(self.inner.input(name, n), ends, nonzero, integral)

    def store(self, n: int) -> RangedStore:
        """A new memory."""
        return RangedStore(self.inner.store(n), self._ends.store(n), n)

    def where(self, mask: Bool, a: RangedValue, b: RangedValue) -> RangedValue:
        """`a` where the concrete mask holds, else `b`."""
        return RangedValue(
            self.inner.where(mask, a.v, b.v),
            self._ends.where(mask, a.e, b.e),
            None if a.nonzero is None and b.nonzero is None else np.where(mask, a.apart, b.apart),
            np.where(mask, _known(a.integral), _known(b.integral)),
        )

    def stack(self, values: Sequence[RangedValue]) -> RangedValue:
        """Values of one shape along a new first axis."""
        return RangedValue(
            self.inner.stack([x.v for x in values]),
            self._ends.stack([x.whole() for x in values]),
            np.stack([np.broadcast_to(x.apart, x.shape) for x in values]),
            np.stack([np.broadcast_to(_known(x.integral), x.shape) for x in values]),
        )

    def neg(self, a: RangedValue) -> RangedValue:
        return RangedValue(self.inner.neg(a.v), self._ends.neg(a.e), a.nonzero, a.integral)

    def add(self, a: RangedValue, b: RangedValue) -> RangedValue:
        ends = self._ends.add(a.e, b.e)
        return RangedValue(self.inner.add(a.v, b.v), ends, None, _all(a, b))

    def sub(self, a: RangedValue, b: RangedValue) -> RangedValue:
        ends = self._ends.sub(a.e, b.e)
        return RangedValue(self.inner.sub(a.v, b.v), ends, None, _all(a, b))

    def mul(self, a: RangedValue, b: RangedValue) -> RangedValue:
        ends = self._ends.mul(a.e, b.e)
        return RangedValue(self.inner.mul(a.v, b.v), ends, a.apart & b.apart, _all(a, b))

    def fma(self, a: RangedValue, b: RangedValue, c: RangedValue) -> RangedValue:
        ends = self._ends.fma(a.e, b.e, c.e)
        return RangedValue(self.inner.fma(a.v, b.v, c.v), ends, None, _all(a, b, c))

    def matmul(self, a: RangedValue, b: RangedValue) -> RangedValue:
        """Batched product of (..., M, K) and (..., K, N)."""
        whole = _known(a.integral).all() and _known(b.integral).all()
        return RangedValue(
            self.inner.matmul(a.v, b.v),
            self._ends.matmul(a.whole(), b.whole()),
            None,
            np.ones(1, bool) if whole else None,
        )

    def div(self, a: RangedValue, b: RangedValue) -> tuple[RangedValue, Bool]:
        """The quotient, and where the divisor is zero for the other domain."""
        if not b.apart.all():
            self.beyond.add("div")
        quotient, zero = self.inner.div(a.v, b.v)
        return RangedValue(quotient, self._ends.div(a.e, b.e)[0], a.apart & b.apart), zero

    def exp2(self, a: RangedValue) -> RangedValue:
        return RangedValue(self.inner.exp2(a.v), self._ends.exp2(a.e))

    def maximum(self, a: RangedValue, b: RangedValue) -> RangedValue:
        """One of them where it is never the smaller one."""
        first, second = a.e.low >= b.e.high, b.e.low >= a.e.high
        v = None
        if not (first | second).all():
            v = self.inner.maximum(a.v, b.v)
        for here, x in ((first, a.v), (second, b.v)):
            if here.any():
                v = self.inner.where(here, x, a.v if v is None else v)
        return RangedValue(v, self._ends.maximum(a.e, b.e), None, _all(a, b))

    def minimum(self, a: RangedValue, b: RangedValue) -> RangedValue:
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def compare(self, op: str, a: RangedValue, b: RangedValue) -> RangedValue:
        """The indicator; its enclosure is a point where the ranges decide."""
        ends = self._ends.compare(op, a.e, b.e)
        if op in ("eq", "ne"):
            apart = (a.apart & _is_zero(b)) | (_is_zero(a) & b.apart)
            known = np.full(apart.shape, float(op == "ne"))
            ends = self._ends.where(apart, Enclosure(known, known), ends)
        return RangedValue(self.inner.compare(op, a.v, b.v), ends)

    def select(self, p: RangedValue, a: RangedValue, b: RangedValue) -> RangedValue:
        ends = self._ends.select(p.e, a.e, b.e)
        return RangedValue(self.inner.select(p.v, a.v, b.v), ends, None, _all(a, b))

    def atom(self, name: str, args: Sequence[RangedValue]) -> RangedValue:
        """A function. What has an integer for its value has that one where the enclosure tells."""
        if name in _EDGES and _EDGES[name](args[0].e).any():
            self.beyond.add(name)
        if name in _ROUNDING:
            return self._rounded(name, args[0])
        value = self.inner.atom(name, [x.v for x in args])
        table = name.removeprefix(GATHER)
        if table == name:
            ends = self._ends.atom(name, [x.e for x in args])
            integral = np.ones(1, bool) if name.startswith(BITS) else None
            return RangedValue(value, ends, None, integral)
        low, high = self.ranges.get(table, (-np.inf, np.inf))
        shape = args[0].e.shape
        ends = Enclosure(np.full(shape, low), np.full(shape, high))
        return RangedValue(value, ends, None, np.full(shape, table in self.integers))

    def _rounded(self, name: str, a: RangedValue) -> RangedValue:
        whole, ends = _known(a.integral), self._ends.atom(name, [a.e])
        if whole.all():
            return a
        v = self.inner.atom(name, [a.v])
        single = ends.low == ends.high
        if single.any():
            used, index = np.unique(np.where(single, ends.low, 0), return_inverse=True)
            numbers = [Fraction(float(n)) for n in used]
            constants = self.inner.constants(numbers, index.reshape(single.shape))
            v = self.inner.where(single, constants, v)
        if whole.any():
            v, ends = self.inner.where(whole, a.v, v), self._ends.where(whole, a.e, ends)
        return RangedValue(v, ends, None, np.ones(1, bool))

    def narrow(self, a: RangedValue, low: float, high: float) -> RangedValue:
        """The same integers, known to lie within [low, high] where that is more than is known."""
        return RangedValue(a.v, self._ends.narrow(a.e, low, high), a.nonzero, np.ones(1, bool))

    def decide(self, p: RangedValue) -> NDArray[np.int8]:
        """1 or 0 where the ranges say so, or the other domain does; else -1."""
        known = self._ends.decide(p.e)
        return np.where(known >= 0, known, self.inner.decide(p.v)).astype(np.int8)

    def equal(self, a: RangedValue, b: RangedValue) -> Bool:
        """The same for the other domain."""
        return self.inner.equal(a.v, b.v)

    def identities(self, a: RangedValue) -> Index | None:
        """The other domain's."""
        return self.inner.identities(a.v)


def _known(flags: Bool | None) -> Bool:
    return np.zeros(1, bool) if flags is None else flags


def _all(*values: RangedValue) -> Bool | None:
    """Where all of them are integers."""
    out: Bool = np.ones(1, bool)
    for x in values:
        if x.integral is None:
            return None
        out = out & x.integral
    return out


def _is_zero(a: RangedValue) -> Bool:
    zero: Bool = (a.e.low == 0) & (a.e.high == 0)
    return zero


def plain(value: Any) -> Any:
    """The other domain's value."""
    return value.v if isinstance(value, RangedValue) else value
