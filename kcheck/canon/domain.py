"""What stands for a real number: the protocol that every value engine follows.

A domain handles finite reals only; exact constants, infinities and NaN live one layer above
(`canon.lanes`). A value is a vector of reals, one per lane; its `shape` is the lanes' shape, and
it is immutable. Shapes broadcast as in NumPy: a value of shape (1,) stands for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.known import Number

Bool = NDArray[np.bool_]
Index = NDArray[np.int64]
Bits = NDArray[Any]


class LevelsExhausted(Exception):
    """An exp2 was needed below the deepest level: run again with one more."""


class Collision(Exception):
    """Two values that differ have one key, or a divisor vanished by chance: draw a new seed."""


class NoRule(Exception):
    """An arithmetic does not know what an instruction gives; the message says why."""


class Value(Protocol):
    """A vector of reals."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        ...

    def __getitem__(self, index: Any) -> Value:
        """Lanes picked by a NumPy index over the lanes' axes."""
        ...

    def reshape(self, shape: tuple[int, ...]) -> Value:
        """The same lanes in another shape."""
        ...


V = TypeVar("V", bound=Value)


class Store(Protocol[V]):
    """A memory of `n` reals, all 0 at first."""

    def read(self, index: Index) -> V:
        """The cells at `index` (any shape)."""
        ...

    def write(self, index: Index, value: V) -> None:
        """Put `value` (broadcast to the shape of `index`) into the cells."""
        ...

    def add(self, index: Index, value: V) -> None:
        """Add to the cells; a cell that occurs k times gets all k summands."""
        ...


class Domain(Protocol[V]):
    """The operations of a value engine."""

    def constants(self, values: Sequence[Number], index: Index) -> V:
        """Lane i holds `values[index[i]]`, rationals and known irrational constants.

        Equal products of known constants (`canon.known`) must be equal values, unequal ones need
        not differ.
        """
        ...

    def input(self, name: str, n: int) -> V:
        """The symbols `name[0], ..., name[n-1]`; the same ones at each call."""
        ...

    def store(self, n: int) -> Store[V]:
        """A new memory."""
        ...

    def where(self, mask: Bool, a: V, b: V) -> V:
        """`a` where the concrete mask holds, else `b`."""
        ...

    def stack(self, values: Sequence[V]) -> V:
        """Values of one shape along a new first axis."""
        ...

    def neg(self, a: V) -> V: ...

    def add(self, a: V, b: V) -> V: ...

    def sub(self, a: V, b: V) -> V: ...

    def mul(self, a: V, b: V) -> V: ...

    def fma(self, a: V, b: V, c: V) -> V: ...

    def matmul(self, a: V, b: V) -> V:
        """Batched product of (..., M, K) and (..., K, N)."""
        ...

    def div(self, a: V, b: V) -> tuple[V, Bool]:
        """The quotient, and the lanes where the divisor is identically zero."""
        ...

    def exp2(self, a: V) -> V: ...

    def maximum(self, a: V, b: V) -> V: ...

    def minimum(self, a: V, b: V) -> V: ...

    def compare(self, op: str, a: V, b: V) -> V:
        """The indicator (1 or 0) of `a op b`; op is one of lt, le, gt, ge, eq, ne."""
        ...

    def select(self, p: V, a: V, b: V) -> V:
        """`a` where the indicator `p` is 1, `b` where it is 0."""
        ...

    def atom(self, name: str, args: Sequence[V]) -> V:
        """A function with no algebra: equal where name and arguments are."""
        ...

    def decide(self, p: V) -> NDArray[np.int8]:
        """Per lane of an indicator: 1, 0, or -1 where this domain can't tell."""
        ...

    def equal(self, a: V, b: V) -> Bool:
        """Per lane: the same as far as this domain can tell."""
        ...

    def identities(self, a: V) -> Index | None:
        """Two words per lane (2, *lanes) that are equal only if the values are.

        Equal values should have equal words. None if this domain has no such names.
        """
        ...


class Arithmetic(Protocol):
    """True formats and rounding, in place of reals: a float is its bits, an unsigned integer.

    An executor that is given one keeps floats as concrete integers and asks for the function of
    each float instruction once, while decoding. `slots`: the modifiers, as PTX writes them.
    Functions broadcast as in NumPy. NoRule where there is none for the instruction.
    """

    def input(self, name: str, n: int, dtype: str) -> Bits:
        """The first `n` elements of an input."""
        ...

    def patterns(self, values: Any, dtype: str) -> Bits:
        """Numbers as elements of a type."""
        ...

    def operation(self, op: str, fmt: str, slots: Mapping[str, str]) -> Callable[..., Bits]:
        """An arithmetic instruction on one format."""
        ...

    def comparison(self, cmp: str, fmt: str, ftz: bool) -> Callable[[Bits, Bits], Bool]:
        """A comparison of setp."""
        ...

    def classified(self, test: str, fmt: str, bits: Bits) -> Bool:
        """A test of testp."""
        ...

    def convert(
        self, source: str, target: str, slots: Mapping[str, str], register: int = 0
    ) -> Callable[[Bits], Bits]:
        """cvt; `register`: bytes of the register that an integer result goes to."""
        ...

    def matmul(self, fmt: str, out: str) -> Callable[[Bits, Bits, Bits], Bits]:
        """mma: (..., M, K) by (..., K, N) of `fmt`, plus (..., M, N) of `out`."""
        ...
