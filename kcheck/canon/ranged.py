"""A domain beside interval arithmetic: what the inputs' ranges decide is decided.

A value is that of another domain and an enclosure that holds for all inputs within their ranges.
A comparison or a maximum that follows from the enclosures is taken so; all else is the other
domain's. Both sides of a question must be given the same ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import GATHER
from kcheck.canon.domain import Bool, Domain, Index
from kcheck.canon.enclosure import Enclosure, EnclosureDomain, EnclosureStore

# what may lie outside the domain of a function -> the arguments for which it may
_EDGES: dict[str, Callable[[Enclosure], Bool]] = {
    "lg2": lambda a: a.low <= 0,
    "sqrt": lambda a: a.low < 0,
}


class RangedValue:
    """Values `v` of a domain, within `e`."""

    __slots__ = ("e", "v")

    def __init__(self, v: Any, e: Enclosure) -> None:
        self.v, self.e = v, e

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        shape: tuple[int, ...] = self.v.shape
        return shape

    def __getitem__(self, index: Any) -> RangedValue:
        """Lanes picked by a NumPy index."""
        return RangedValue(self.v[index], self._whole()[index])

    def reshape(self, shape: tuple[int, ...]) -> RangedValue:
        """The same lanes in another shape."""
        return RangedValue(self.v.reshape(shape), self._whole().reshape(shape))

    def _whole(self) -> Enclosure:
        """The enclosure in the value's own shape."""
        if self.e.shape == self.shape:
            return self.e
        low, high = (np.broadcast_to(end, self.shape) for end in self.e.ends)
        return Enclosure(low, high)


class RangedStore:
    """Two memories side by side."""

    def __init__(self, values: Any, ends: EnclosureStore) -> None:
        self._values, self._ends = values, ends

    def read(self, index: Index) -> RangedValue:
        """The cells at `index`."""
        return RangedValue(self._values.read(index), self._ends.read(index))

    def write(self, index: Index, value: RangedValue) -> None:
        """Put `value` into the cells."""
        self._values.write(index, value.v)
        self._ends.write(index, value.e)

    def add(self, index: Index, value: RangedValue) -> None:
        """Add to the cells, repeated ones in turn."""
        self._values.add(index, value.v)
        self._ends.add(index, value.e)


class RangedDomain:
    """The operations. `ranges`: name of an input -> its least and greatest value.

    `beyond`: the functions (`div` among them) that some argument may lie outside the domain of,
    as far as the enclosures tell.
    """

    def __init__(self, inner: Domain[Any], ranges: Mapping[str, tuple[float, float]]) -> None:
        self.inner = inner
        self.ranges = ranges
        self.beyond: set[str] = set()
        self._ends = EnclosureDomain({})

    def constants(self, values: Sequence[Fraction], index: Index) -> RangedValue:
        """Lane i holds `values[index[i]]`."""
        return RangedValue(self.inner.constants(values, index), self._ends.constants(values, index))

    def input(self, name: str, n: int) -> RangedValue:
        """The symbols of a tensor."""
        low, high = self.ranges.get(name, (-np.inf, np.inf))
        return RangedValue(self.inner.input(name, n), Enclosure(np.full(n, low), np.full(n, high)))

    def store(self, n: int) -> RangedStore:
        """A new memory."""
        return RangedStore(self.inner.store(n), self._ends.store(n))

    def where(self, mask: Bool, a: RangedValue, b: RangedValue) -> RangedValue:
        """`a` where the concrete mask holds, else `b`."""
        return RangedValue(self.inner.where(mask, a.v, b.v), self._ends.where(mask, a.e, b.e))

    def stack(self, values: Sequence[RangedValue]) -> RangedValue:
        """Values of one shape along a new first axis."""
        return RangedValue(
            self.inner.stack([x.v for x in values]), self._ends.stack([x._whole() for x in values])
        )

    def neg(self, a: RangedValue) -> RangedValue:
        return RangedValue(self.inner.neg(a.v), self._ends.neg(a.e))

    def add(self, a: RangedValue, b: RangedValue) -> RangedValue:
        return RangedValue(self.inner.add(a.v, b.v), self._ends.add(a.e, b.e))

    def sub(self, a: RangedValue, b: RangedValue) -> RangedValue:
        return RangedValue(self.inner.sub(a.v, b.v), self._ends.sub(a.e, b.e))

    def mul(self, a: RangedValue, b: RangedValue) -> RangedValue:
        return RangedValue(self.inner.mul(a.v, b.v), self._ends.mul(a.e, b.e))

    def fma(self, a: RangedValue, b: RangedValue, c: RangedValue) -> RangedValue:
        return RangedValue(self.inner.fma(a.v, b.v, c.v), self._ends.fma(a.e, b.e, c.e))

    def matmul(self, a: RangedValue, b: RangedValue) -> RangedValue:
        """Batched product of (..., M, K) and (..., K, N)."""
        return RangedValue(self.inner.matmul(a.v, b.v), self._ends.matmul(a._whole(), b._whole()))

    def div(self, a: RangedValue, b: RangedValue) -> tuple[RangedValue, Bool]:
        """The quotient, and where the divisor is zero for the other domain."""
        if ((b.e.low <= 0) & (b.e.high >= 0)).any():
            self.beyond.add("div")
        quotient, zero = self.inner.div(a.v, b.v)
        return RangedValue(quotient, self._ends.div(a.e, b.e)[0]), zero

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
        return RangedValue(v, self._ends.maximum(a.e, b.e))

    def minimum(self, a: RangedValue, b: RangedValue) -> RangedValue:
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def compare(self, op: str, a: RangedValue, b: RangedValue) -> RangedValue:
        """The indicator; its enclosure is a point where the ranges decide."""
        return RangedValue(self.inner.compare(op, a.v, b.v), self._ends.compare(op, a.e, b.e))

    def select(self, p: RangedValue, a: RangedValue, b: RangedValue) -> RangedValue:
        return RangedValue(self.inner.select(p.v, a.v, b.v), self._ends.select(p.e, a.e, b.e))

    def atom(self, name: str, args: Sequence[RangedValue]) -> RangedValue:
        """A function."""
        if name in _EDGES and _EDGES[name](args[0].e).any():
            self.beyond.add(name)
        value = self.inner.atom(name, [x.v for x in args])
        table = name.removeprefix(GATHER)
        if table == name:
            return RangedValue(value, self._ends.atom(name, [x.e for x in args]))
        low, high = self.ranges.get(table, (-np.inf, np.inf))
        shape = args[0].e.shape
        return RangedValue(value, Enclosure(np.full(shape, low), np.full(shape, high)))

    def decide(self, p: RangedValue) -> NDArray[np.int8]:
        """1 or 0 where the ranges say so, or the other domain does; else -1."""
        known = self._ends.decide(p.e)
        return np.where(known >= 0, known, self.inner.decide(p.v)).astype(np.int8)

    def equal(self, a: RangedValue, b: RangedValue) -> Bool:
        """The same for the other domain."""
        return self.inner.equal(a.v, b.v)


def plain(value: Any) -> Any:
    """The other domain's value."""
    return value.v if isinstance(value, RangedValue) else value
