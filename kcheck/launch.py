"""One launch of a kernel: everything about it that is static."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# dtype of a launch file -> bytes of an element
DTYPE_BYTES = {
    "f64": 8,
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "tf32": 4,
    "e4m3": 1,
    "e5m2": 1,
    **{f"{s}{w}": w // 8 for s in "su" for w in (8, 16, 32, 64)},
}
FLOATS = frozenset({"f64", "f32", "f16", "bf16", "tf32", "e4m3", "e5m2"})


class LaunchError(Exception):
    """A launch file that can't be used; the message names file, key and expectation."""


@dataclass(frozen=True)
class Promise:
    """A precondition on every element of an input: `low <= x <= high`, not 0, a multiple."""

    low: float = -math.inf
    high: float = math.inf
    nonzero: bool = False
    divisible: int = 1

    @property
    def positive(self) -> bool:
        """It says x > 0, and no more of where x lies."""
        return self.nonzero and self.low == 0 and self.high == math.inf

    def holds(self, values: Any) -> Any:
        """Flags: which numbers keep it."""
        x = np.asarray(values)
        kept = (x >= self.low) & (x <= self.high)
        if self.nonzero:
            kept = kept & (x != 0)
        return kept if self.divisible == 1 else kept & (x % self.divisible == 0)

    def meet(self, other: Promise) -> Promise:
        """Both."""
        return Promise(
            max(self.low, other.low),
            min(self.high, other.high),
            self.nonzero or other.nonzero,
            math.lcm(self.divisible, other.divisible),
        )

    @property
    def empty(self) -> bool:
        """No number keeps it."""
        if self.low > self.high or (self.nonzero and self.low == self.high == 0):
            return True
        if self.divisible == 1 or math.inf in (-self.low, self.high):
            return False
        last = math.floor(self.high) // self.divisible * self.divisible
        if last == 0 and self.nonzero:
            last -= self.divisible
        return last < self.low


ANYTHING = Promise()


@dataclass(frozen=True)
class Tensor:
    """A buffer. `shape` and `strides` are in elements, outermost first.

    `role`: `in`, `out`, `inout`. `init`: `undef` or `zero` (an out buffer that the host clears).
    `values`: known contents of an input (flat, row-major), or None. `compare`: False for an
    output that only one side has. `promise`: what the user says of its elements before the run.
    `digest`: of the values, for comparisons.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    strides: tuple[int, ...] | None = None
    init: str = "undef"
    values: NDArray[Any] | None = field(default=None, compare=False)
    compare: bool = True
    promise: Promise = ANYTHING
    digest: bytes = field(init=False, repr=False, default=b"")

    def __post_init__(self) -> None:
        # arrays have no equality of their own
        if self.values is not None:
            state = hashlib.sha256(self.values.dtype.str.encode())
            state.update(np.ascontiguousarray(self.values).tobytes())
            object.__setattr__(self, "digest", state.digest())

    @property
    def elements(self) -> int:
        """Elements from the first to the last that the shape and strides reach."""
        if 0 in self.shape:
            return 0
        if self.strides is None:
            return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element."""
        return self.elements * DTYPE_BYTES[self.dtype]

    def index(self, flat: int) -> tuple[int, ...]:
        """The index (outermost first) of an element's flat position in memory."""
        strides = self.strides or row_major(self.shape)
        index = [0] * len(self.shape)
        for axis in sorted(range(len(strides)), key=lambda i: -strides[i]):
            if strides[axis] and self.shape[axis] > 1:
                index[axis], flat = divmod(flat, strides[axis])
        return tuple(index)

    def flat(self, index: tuple[int, ...]) -> int:
        """The position in memory of an element."""
        return sum(i * s for i, s in zip(index, self.strides or row_major(self.shape), strict=True))


@dataclass(frozen=True)
class Scalar:
    """A number passed by value; `value` is None when it is symbolic."""

    name: str
    dtype: str
    value: int | float | None
    promise: Promise = ANYTHING


@dataclass(frozen=True)
class TensorMap:
    """A CUtensorMap passed by value; `fields` as in the launch file."""

    name: str
    fields: dict[str, Any]
    buffer: Tensor


Param = Tensor | Scalar | TensorMap


@dataclass(frozen=True)
class Launch:
    """Grid, block and cluster are (x, y, z); `dynamic_shared` is in bytes.

    `externs`: external `.func` -> the function that it is taken for. `path`: where it was read.
    `alias`: groups of parameters that are one buffer, of one type and shape.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: tuple[Param, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0
    externs: dict[str, str] = field(default_factory=dict[str, str])
    path: str = "<launch>"
    alias: tuple[tuple[str, ...], ...] = ()

    @property
    def threads(self) -> int:
        """Threads in a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        """CTAs in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def sharing(self, name: str) -> tuple[str, ...]:
        """The parameters whose buffer is that of a parameter: itself, and those it shares with.

        The first is the one whose contents the buffer has before the run.
        """
        for group in self.alias:
            if name in group:
                return tuple(sorted(group, key=lambda n: self.buffers[n].role == "out"))
        return (name,)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Name -> buffer, in the order of the parameters; a tensormap stands for its buffer."""
        found = (
            p.buffer if isinstance(p, TensorMap) else p
            for p in self.params
            if not isinstance(p, Scalar)
        )
        return {tensor.name: tensor for tensor in found}


def unflatten(flat: int, extent: tuple[int, int, int]) -> tuple[int, int, int]:
    """The index (x, y, z) in a grid or block of the thread or CTA with a linear index."""
    return flat % extent[0], flat // extent[0] % extent[1], flat // (extent[0] * extent[1])


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a dense row-major tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
