"""The enclosure engine: given inputs, every real lies within float64 ends (for witnesses).

Disjoint enclosures of two values prove the values different on these inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon import interval
from kcheck.canon.domain import Bool, Index
from kcheck.canon.interval import Ends, Floats
from kcheck.canon.known import Known, Number, approximation
from kcheck.canon.literals import simple

# functions that `atom` knows; any other encloses the whole line
FUNCTIONS: dict[str, Callable[[Ends], Ends]] = {
    "lg2": interval.log2,
    "sqrt": interval.sqrt,
    "tanh": interval.tanh,
    "erf": interval.erf,
    "atan": interval.atan,
    "round": interval.monotone(interval.half_away),
    "sin": interval.wave(np.sin),
    "cos": interval.wave(np.cos),
    "rint": interval.monotone(np.rint),
    "trunc": interval.monotone(np.trunc),
    "floor": interval.monotone(np.floor),
    "ceil": interval.monotone(np.ceil),
}


# relative width of two roundings of f32 to either side
ROUNDED = 2.0**-22


class Enclosure:
    """Reals within [low, high], lane by lane; both arrays have the lanes' shape."""

    __slots__ = ("high", "low")

    def __init__(self, low: Floats, high: Floats) -> None:
        self.low, self.high = low, high

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return self.low.shape

    @property
    def ends(self) -> Ends:
        """Both ends."""
        return self.low, self.high

    def __getitem__(self, index: Any) -> Enclosure:
        """Lanes picked by a NumPy index."""
        return Enclosure(self.low[index], self.high[index])

    def reshape(self, shape: tuple[int, ...]) -> Enclosure:
        """The same lanes in another shape."""
        return Enclosure(self.low.reshape(shape), self.high.reshape(shape))


class EnclosureStore:
    """A memory of `n` enclosures, all 0."""

    def __init__(self, n: int) -> None:
        self._ends = np.zeros((2, n))

    def read(self, index: Index) -> Enclosure:
        """The cells at `index`."""
        return Enclosure(self._ends[0, index], self._ends[1, index])

    def write(self, index: Index, value: Enclosure) -> None:
        """Put `value` into the cells."""
        self._ends[0, index], self._ends[1, index] = value.ends

    def add(self, index: Index, value: Enclosure) -> None:
        """Add to the cells, repeated ones in turn."""
        flat = index.ravel()
        low, high = (np.broadcast_to(end, index.shape).ravel() for end in value.ends)
        order = flat.argsort(kind="stable")
        cells = flat[order]
        rank = np.arange(flat.size) - cells.searchsorted(cells)
        for turn in range(int(rank.max(initial=-1)) + 1):
            pick = order[rank == turn]
            cell = self._ends[:, flat[pick]]
            with _quiet():
                self._ends[:, flat[pick]] = interval.add(
                    (cell[0], cell[1]), (low[pick], high[pick])
                )


def _quiet() -> np.errstate:
    return np.errstate(all="ignore")


class EnclosureDomain:
    """The operations at the inputs given by name (flat arrays of float64).

    `widen`: a constant that is no simple number (DESIGN.md 6, constants) stands for all within 2
    ulp of f32 of it: what a compiler may have made of it by rounding.
    """

    def __init__(self, inputs: Mapping[str, NDArray[Any]], widen: bool = False) -> None:
        self.widen = widen
        self._inputs = {k: np.asarray(v, np.float64).ravel() for k, v in inputs.items()}

    def constants(self, values: Sequence[Number], index: Index) -> Enclosure:
        """Lane i encloses `values[index[i]]`."""
        table = np.array([self._point(v) for v in values])
        return Enclosure(table[:, 0][index], table[:, 1][index])

    def _point(self, number: Number) -> tuple[float, float]:
        value = approximation(number)
        low, high = interval.point(value)
        if isinstance(number, Known):  # an approximation that is no float64 lies between two
            low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
        if not self.widen or simple(value):
            return low, high
        slack = abs(high) * ROUNDED
        return low - slack, high + slack

    def input(self, name: str, n: int) -> Enclosure:
        """The first `n` numbers given under `name`; KeyError or ValueError if there are none."""
        given = self._inputs[name]
        if given.size < n:
            raise ValueError(f"input {name} has {given.size} elements, not {n}")
        return Enclosure(given[:n], given[:n])

    def store(self, n: int) -> EnclosureStore:
        """A new memory."""
        return EnclosureStore(n)

    def where(self, mask: Bool, a: Enclosure, b: Enclosure) -> Enclosure:
        """`a` where the concrete mask holds, else `b`."""
        return Enclosure(np.where(mask, a.low, b.low), np.where(mask, a.high, b.high))

    def stack(self, values: Sequence[Enclosure]) -> Enclosure:
        """Values of one shape along a new first axis."""
        return Enclosure(np.stack([v.low for v in values]), np.stack([v.high for v in values]))

    def neg(self, a: Enclosure) -> Enclosure:
        return Enclosure(-a.high, -a.low)

    def add(self, a: Enclosure, b: Enclosure) -> Enclosure:
        with _quiet():
            return Enclosure(*interval.add(a.ends, b.ends))

    def sub(self, a: Enclosure, b: Enclosure) -> Enclosure:
        return self.add(a, self.neg(b))

    def mul(self, a: Enclosure, b: Enclosure) -> Enclosure:
        with _quiet():
            return Enclosure(*interval.mul(a.ends, b.ends))

    def fma(self, a: Enclosure, b: Enclosure, c: Enclosure) -> Enclosure:
        return self.add(self.mul(a, b), c)

    def matmul(self, a: Enclosure, b: Enclosure) -> Enclosure:
        """Batched product of (..., M, K) and (..., K, N)."""
        with _quiet():
            return Enclosure(*interval.matmul(a.ends, b.ends))

    def div(self, a: Enclosure, b: Enclosure) -> tuple[Enclosure, Bool]:
        """The quotient, and where the divisor is exactly 0; the whole line where it may be 0."""
        with _quiet():
            quotient = Enclosure(*interval.div(a.ends, b.ends))
        zero = (b.low == 0) & (b.high == 0)
        return quotient, np.broadcast_to(zero, quotient.shape)

    def exp2(self, a: Enclosure) -> Enclosure:
        with _quiet():
            return Enclosure(*interval.exp2(a.ends))

    def maximum(self, a: Enclosure, b: Enclosure) -> Enclosure:
        return Enclosure(np.maximum(a.low, b.low), np.maximum(a.high, b.high))

    def minimum(self, a: Enclosure, b: Enclosure) -> Enclosure:
        return Enclosure(np.minimum(a.low, b.low), np.minimum(a.high, b.high))

    def compare(self, op: str, a: Enclosure, b: Enclosure) -> Enclosure:
        """[1, 1], [0, 0] or, where the enclosures don't tell, [0, 1]."""
        certain, possible = _COMPARE[op](a, b)
        return Enclosure(certain.astype(np.float64), possible.astype(np.float64))

    def select(self, p: Enclosure, a: Enclosure, b: Enclosure) -> Enclosure:
        """`a` or `b`, or the hull of both where the indicator is open."""
        yes, no = p.low == 1, p.high == 0
        low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
        return Enclosure(
            np.where(yes, a.low, np.where(no, b.low, low)),
            np.where(yes, a.high, np.where(no, b.high, high)),
        )

    def atom(self, name: str, args: Sequence[Enclosure]) -> Enclosure:
        """A function of `FUNCTIONS`, else the whole line."""
        if name in FUNCTIONS and len(args) == 1:
            with _quiet():
                return Enclosure(*FUNCTIONS[name](args[0].ends))
        shape = np.broadcast_shapes(*(a.shape for a in args))
        return Enclosure(np.full(shape, -np.inf), np.full(shape, np.inf))

    def narrow(self, a: Enclosure, low: float, high: float) -> Enclosure:
        """The same numbers, known to lie within [low, high] as well."""
        return Enclosure(np.maximum(a.low, low), np.minimum(a.high, high))

    def decide(self, p: Enclosure) -> NDArray[np.int8]:
        """1, 0, or -1 where both are possible."""
        out = np.full(p.shape, -1, np.int8)
        out[p.low == 1] = 1
        out[p.high == 0] = 0
        return out

    def equal(self, a: Enclosure, b: Enclosure) -> Bool:
        """Where the enclosures overlap."""
        return ~self.distinct(a, b)

    def identities(self, a: Enclosure) -> Index | None:
        """None: numbers within bounds have no names."""
        return None

    def distinct(self, a: Enclosure, b: Enclosure) -> Bool:
        """Where the enclosures are disjoint: the reals differ."""
        apart: Bool = (a.high < b.low) | (b.high < a.low)
        return apart


def _less(a: Enclosure, b: Enclosure) -> tuple[Bool, Bool]:
    """Where a < b is certain, where it is possible."""
    return a.high < b.low, a.low < b.high


def _same(a: Enclosure, b: Enclosure) -> tuple[Bool, Bool]:
    certain = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return certain, (a.low <= b.high) & (b.low <= a.high)


def _not(answer: tuple[Bool, Bool]) -> tuple[Bool, Bool]:
    return ~answer[1], ~answer[0]


_COMPARE: dict[str, Callable[[Enclosure, Enclosure], tuple[Bool, Bool]]] = {
    "lt": _less,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _not(_less(a, b)),
    "le": lambda a, b: _not(_less(b, a)),
    "eq": _same,
    "ne": lambda a, b: _not(_same(a, b)),
}
