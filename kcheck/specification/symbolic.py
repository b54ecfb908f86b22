"""Arrays whose elements are unknown: NumPy code that is run with them says what it computes.

An element is an expression over elements of buffers. Indexing, reshaping and broadcasting move
positions about, by NumPy itself; sums, maxima and products of matrices are stages: they fill a
buffer that later expressions read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import numpy as np

from kcheck.specification.nodes import (
    Apply,
    Buffer,
    Known,
    Leaf,
    Node,
    Stage,
    Take,
    moved,
)
from kcheck.verdict import UsageError

Shape = tuple[int, ...]
Type: TypeAlias = "np.dtype[Any]"


@dataclass
class Recorder:
    """The stages of one function, in order. `functions`: NumPy's functions that are known, each
    with what it does here, given `of`, which makes arrays of expressions.
    """

    functions: Mapping[Any, Callable[..., Any]]
    stages: list[Stage] = field(default_factory=list[Stage])

    def made(
        self, reduction: str, node: Node, shape: Shape, dtype: Type, length: int = 1
    ) -> Symbolic:
        """A new buffer of a shape, filled by a stage."""
        root = np.arange(math.prod(shape), dtype=np.int64)
        # no parameter of a kernel has such a name; two functions that share it share its size
        buffer = Buffer(f"stage {len(self.stages)} of {root.size}", root)
        at = root.reshape(shape)
        self.stages.append(Stage(buffer, at, reduction, node, length))
        return Symbolic(self, Leaf(buffer, at), shape, dtype)


# NumPy's function -> operation
_UFUNCS: dict[Any, str] = {
    getattr(np, name): operation
    for name, operation in (
        *((n, n) for n in ("add", "multiply", "negative", "maximum", "minimum", "sqrt", "exp")),
        *((n, n) for n in ("exp2", "log", "log2", "tanh", "absolute", "subtract", "square")),
        *((n, n) for n in ("less", "less_equal", "greater", "greater_equal", "equal")),
        *((n, n) for n in ("not_equal", "logical_and", "logical_or", "logical_not")),
        *((n, n) for n in ("floor", "ceil", "rint", "trunc", "sin", "cos")),
        *((n, n) for n in ("floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor")),
        *((n, n) for n in ("left_shift", "right_shift", "invert")),
        ("true_divide", "divide"),
        ("fmax", "maximum"),
        ("fmin", "minimum"),
    )
}
# of flags these are something else
_OF_FLAGS = {
    "add": "logical_or",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "not_equal",
    "invert": "logical_not",
}
# what may leave the type of its integers
_WRAPS = frozenset({"add", "subtract", "multiply", "negative", "absolute", "square"})
_WRAPS |= {"invert", "left_shift", "floor_divide"}


def dtype_of(function: Callable[..., Any], inputs: Sequence[Any]) -> Type:
    """The type of NumPy's result. TypeError or OverflowError where NumPy has none."""
    arrays = (Symbolic, np.ndarray, np.generic)
    ones = [np.ones(1, x.dtype) if isinstance(x, arrays) else x for x in inputs]
    with np.errstate(all="ignore"):
        return np.asarray(function(*ones)).dtype


class Symbolic(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of expressions; `node`'s leaves have its shape.

    `dtype`: as NumPy has it. Flags are 0 and 1, integers of up to 32 bits wrap; longer ones and
    floats have neither ends nor rounding.

    UsageError for a function of NumPy that is not known here.
    """

    def __init__(self, recorder: Recorder, node: Node, shape: Shape, dtype: Type) -> None:
        self.recorder, self.node, self.shape, self.dtype = recorder, node, shape, dtype

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Symbolic:  # noqa: N802 NumPy's name
        """With its axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def _unknown(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError("specification: the function asks for the value of an unknown element")

    __bool__ = __int__ = __float__ = __index__ = __array__ = _unknown

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise UsageError(f"specification: np.{ufunc.__name__}.{method} is not known")
        if ufunc is np.matmul:
            return _matmul(self._of(inputs[0]), self._of(inputs[1]))
        if ufunc is np.power:
            return _power(self._of(inputs[0]), inputs[1])
        if ufunc is np.remainder:
            return inputs[0] - np.floor_divide(*inputs) * inputs[1]
        if ufunc is np.reciprocal and self.dtype.kind == "f":
            return 1.0 / self
        if ufunc not in _UFUNCS:
            raise UsageError(f"specification: np.{ufunc.__name__} is not known")
        return self._apply(_UFUNCS[ufunc], dtype_of(ufunc, inputs), *inputs)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        known = self.recorder.functions.get(function)
        if known is None:
            raise UsageError(f"specification: np.{function.__name__} is not known")
        array = next((a for a in _flat(arguments) if isinstance(a, Symbolic)), self)
        return known(array._of, *arguments, **options)

    def _of(self, value: Any) -> Symbolic:
        """A number or array as an array of expressions."""
        if isinstance(value, Symbolic):
            return value
        values = np.asarray(value)
        if values.dtype.kind not in "biuf":
            raise UsageError(f"specification: {value!r} is no array of numbers")
        node = Known(values.astype(np.float64))
        return Symbolic(self.recorder, node, values.shape, values.dtype)

    def _apply(self, operation: str, dtype: Type, *inputs: Any) -> Symbolic:
        arrays = [self._of(value) for value in inputs]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        nodes = tuple(array.broadcast_to(shape).node for array in arrays)
        if dtype.kind == "b":
            operation = _OF_FLAGS.get(operation, operation)
        made = Symbolic(self.recorder, Apply(operation, nodes), shape, dtype)
        return made.wrapped() if operation in _WRAPS else made

    def wrapped(self) -> Symbolic:
        """The same modulo the width of its integers."""
        if self.dtype.kind not in "iu" or self.dtype.itemsize == 8:
            return self
        name = f"{'s' if self.dtype.kind == 'i' else 'u'}{8 * self.dtype.itemsize}"
        return Symbolic(self.recorder, Apply(f"as {name}", (self.node,)), self.shape, self.dtype)

    def _move(self, move: Callable[[Any], Any]) -> Symbolic:
        shape = move(np.broadcast_to(np.int8(0), self.shape)).shape
        return Symbolic(self.recorder, moved(self.node, move), shape, self.dtype)

    def stored(self) -> Symbolic:
        """The same array as a buffer, if it is an expression."""
        if isinstance(self.node, Apply):
            return self.recorder.made("", self.node, self.shape, self.dtype)
        return self

    # moves

    def __getitem__(self, key: Any) -> Symbolic:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Symbolic) for k in keys):
            return _taken(self, keys)
        return self._move(lambda array: array[key])

    def broadcast_to(self, shape: Shape) -> Symbolic:
        """Along new axes, and axes of length 1."""
        return self._move(lambda array: np.broadcast_to(array, shape))

    def reshape(self, *shape: Any) -> Symbolic:
        """In another shape, in row-major order."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return self.stored()._move(lambda array: array.reshape(wanted))

    def transpose(self, *axes: Any) -> Symbolic:
        """With its axes in another order."""
        return self._move(lambda array: array.transpose(*axes))

    def swapaxes(self, one: int, other: int) -> Symbolic:
        """With two axes exchanged."""
        return self._move(lambda array: array.swapaxes(one, other))

    def astype(self, dtype: Any) -> Symbolic:
        """The same: formats mean nothing over the reals; but integers are whole, and wrap."""
        wanted = np.dtype(dtype)
        if wanted.kind not in "biuf":
            raise UsageError(f"specification: astype({wanted}) is not known")
        if wanted.kind == "b":
            return self._apply("not_equal", wanted, self, 0)
        node = self.node
        if wanted.kind in "iu" and self.dtype.kind == "f":
            node = Apply("trunc", (node,))
        return Symbolic(self.recorder, node, self.shape, wanted).wrapped()

    # reductions, with the arguments that NumPy's have in their order

    def sum(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
    ) -> Symbolic:
        """Over axes, or all."""
        made = dtype_of(np.sum, [self]) if dtype is None else np.dtype(dtype)
        return _reduced("sum", _into(self, dtype, out), axis, keepdims, made).wrapped()

    def max(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Symbolic:
        """Over axes, or all."""
        return _reduced("max", _into(self, None, out), axis, keepdims, self.dtype)

    def min(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Symbolic:
        """Over axes, or all."""
        return _reduced("min", _into(self, None, out), axis, keepdims, self.dtype)

    def mean(
        self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
    ) -> Symbolic:
        """Over axes, or all."""
        if dtype is not None and np.dtype(dtype).kind != "f":
            raise UsageError(f"specification: mean and var of type {np.dtype(dtype)} are not known")
        total = self.sum(axis, dtype, out, keepdims)
        return total / (self.size // total.size)

    def var(
        self, axis: Any = None, dtype: Any = None, out: None = None, *, keepdims: bool = False
    ) -> Symbolic:
        """The mean square of the distance from the mean."""
        distance = self - self.mean(axis, dtype, out, keepdims=True)
        return (distance**2).mean(axis, keepdims=keepdims)


def _into(array: Symbolic, dtype: Any, out: Any) -> Symbolic:
    """The array to reduce. UsageError for an `out`."""
    if out is not None:
        raise UsageError("specification: out= is not known")
    return array if dtype is None else array.astype(dtype)


def _flat(arguments: Sequence[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, tuple | list):
            yield from _flat(argument)
        else:
            yield argument


def _reduced(reduction: str, array: Symbolic, axis: Any, keepdims: bool, dtype: Type) -> Symbolic:
    shape = np.broadcast_to(np.int8(0), array.shape).sum(axis, keepdims=keepdims).shape
    every = range(array.ndim) if axis is None else np.atleast_1d(axis)
    axes = sorted({int(a) % array.ndim for a in every})
    kept = [a for a in range(array.ndim) if a not in axes]
    length = math.prod(array.shape[a] for a in axes)
    if not length:
        if reduction != "sum":
            raise UsageError(f"specification: the {reduction} of no elements")
        return array._of(np.zeros(shape, dtype))
    if not axes:
        return Symbolic(array.recorder, array.node, array.shape, dtype)
    node = moved(array.transpose(*kept, *axes).node, lambda x: _last(x, len(kept)))
    dense = tuple(array.shape[a] for a in kept)
    made = array.recorder.made(reduction, node, dense, dtype, length)
    return made._move(lambda x: x.reshape(shape))


def _last(array: Any, kept: int) -> Any:
    """The axes from `kept` on as one."""
    return array.reshape(*array.shape[:kept], -1)


def product(one: Symbolic, other: Symbolic) -> Symbolic:
    """Elements times elements, as they come together in a sum: it is the sum that wraps."""
    shape = np.broadcast_shapes(one.shape, other.shape)
    nodes = one.broadcast_to(shape).node, other.broadcast_to(shape).node
    dtype = dtype_of(np.multiply, [one, other])
    return Symbolic(one.recorder, Apply("multiply", nodes), shape, dtype)


def total(products: Symbolic, axes: Any) -> Symbolic:
    """The sum of products in their type."""
    if products.dtype.kind == "b":
        return products.max(axes)
    return _reduced("sum", products, axes, False, products.dtype).wrapped()


def _matmul(one: Symbolic, other: Symbolic) -> Symbolic:
    one, other = one.stored(), other.stored()
    left = one[None, :] if one.ndim == 1 else one
    right = other[:, None] if other.ndim == 1 else other
    made = total(product(left[..., :, None, :], right.swapaxes(-1, -2)[..., None, :, :]), -1)
    if other.ndim == 1:
        made = made[..., 0]
    if one.ndim > 1:
        return made
    return made[..., 0, :] if other.ndim > 1 else made[..., 0]


def _power(base: Symbolic, exponent: Any) -> Symbolic:
    if not isinstance(exponent, int | float):
        raise UsageError("specification: powers have numbers as exponents")
    dtype = dtype_of(np.power, [base, exponent])
    if exponent < 0:
        return 1.0 / _power(base, -exponent)
    if exponent == 0.5:
        return base._apply("sqrt", dtype, base)
    if exponent != int(exponent) or exponent > 64:
        raise UsageError(f"specification: a power of {exponent} is not known")
    found = base._of(np.ones(1, dtype))
    for i in range(int(exponent)):
        found = found * base if i else base.astype(dtype)
    return found.broadcast_to(base.shape)


def _along(shape: Shape, axis: int) -> Any:
    """The place of each element on an axis."""
    line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(line, shape)


def _taken(array: Symbolic, keys: tuple[Any, ...]) -> Symbolic:
    """Indexed by one array of unknown integers, among others that are known."""
    unknown = [k for k in keys if isinstance(k, Symbolic)]
    if len(unknown) > 1:
        raise UsageError("specification: indexed by two arrays that are unknown")
    leaf = array.node
    made = any(isinstance(leaf, Leaf) and leaf.buffer is s.target for s in array.recorder.stages)
    if not isinstance(leaf, Leaf) or made:
        raise UsageError("specification: an unknown index into what is no input")
    index = unknown[0]
    if index.dtype.kind not in "iu":
        raise UsageError(f"specification: an unknown index of type {index.dtype}")

    def picked(of: Any, numbers: Any) -> Any:
        return of[tuple(numbers if isinstance(k, Symbolic) else k for k in keys)]

    zeros = np.zeros(index.shape, np.int64)
    at = picked(leaf.at, zeros)
    # the axis is the one along which the place changes with the index
    for axis, extent in enumerate(array.shape):
        place = _along(array.shape, axis)
        if extent > 1 and (picked(place, zeros + 1) != picked(place, zeros)).all():
            break
    else:
        raise UsageError("specification: an unknown index into an axis of length 1")
    stride = int((picked(leaf.at, zeros + 1) - at).flat[0])
    if (np.diff(leaf.at, axis=axis) != stride).any():
        raise UsageError("specification: an unknown index into what is not evenly spaced")
    wide = tuple(index.size if a == axis else n for a, n in enumerate(array.shape))
    which = picked(_along(wide, axis), np.arange(index.size).reshape(index.shape))
    node = index.reshape(-1)[which].node
    return Symbolic(
        array.recorder, Take(leaf.buffer, at, stride, extent, node), at.shape, array.dtype
    )
