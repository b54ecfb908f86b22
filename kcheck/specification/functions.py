"""NumPy's functions of arrays whose elements are unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.specification.symbolic import Symbolic, dtype_of, product, total
from kcheck.verdict import UsageError


def _where(of: Any, condition: Any, one: Any, other: Any) -> Symbolic:
    dtype = dtype_of(lambda a, b: np.where(True, a, b), [one, other])
    found: Symbolic = of(0.0)._apply("where", dtype, condition, one, other)
    return found


def _clip(of: Any, array: Any, low: Any, high: Any) -> Symbolic:
    bounded = array if low is None else np.maximum(array, low)
    return of(bounded if high is None else np.minimum(bounded, high))


def _triangle(of: Any, array: Any, k: int, lower: bool) -> Symbolic:
    ones = np.ones(array.shape[-2:])
    mask = np.tril(ones, k) if lower else np.triu(ones, k)
    return _where(of, np.broadcast_to(mask, array.shape), array, np.zeros(1, array.dtype))


def _numbered(array: Any) -> Any:
    """The number of each element, in row-major order."""
    return np.arange(array.size).reshape(array.shape)


def _pad(
    of: Any, array: Any, width: Any, mode: str = "constant", constant_values: float = 0
) -> Any:
    """NumPy itself says which element goes where, and where there is none."""
    if mode != "constant":
        raise UsageError(f"specification: np.pad of mode {mode} is not known")
    at = np.pad(_numbered(array), width, constant_values=-1)
    found = array.reshape(-1)[np.maximum(at, 0)]
    return _where(of, at >= 0, found, np.asarray([constant_values]).astype(array.dtype))


def _einsum(of: Any, subscripts: str, *operands: Any) -> Symbolic:
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or "." in subscripts or len(terms) != len(operands):
        raise UsageError(f"specification: np.einsum({subscripts!r}) needs `->` and no ellipsis")
    labels = output + "".join(sorted(set(inputs) - set(output + ",")))
    every: Any = None
    for term, operand in zip(terms, map(of, operands), strict=True):
        if len(set(term)) != len(term):
            raise UsageError(f"specification: np.einsum({subscripts!r}) repeats a label")
        kept = [label for label in labels if label in term]
        array = operand.stored().transpose(*(term.index(label) for label in kept))
        array = array[tuple(slice(None) if label in term else None for label in labels)]
        every = array if every is None else product(every, array)
    summed = tuple(range(len(output), len(labels)))
    return total(every, summed)


def _placed(function: Any) -> Callable[..., Any]:
    """A function that only moves elements: NumPy itself says which one goes where."""

    def moved(of: Any, array: Any, *arguments: Any, **options: Any) -> Any:
        if any(isinstance(a, Symbolic) for a in (*arguments, *options.values())):
            raise UsageError(f"specification: np.{function.__name__} to an unknown place")
        array = of(array)
        return array.reshape(-1)[function(_numbered(array), *arguments, **options)]

    return moved


def _joined(function: Any) -> Callable[..., Any]:
    """np.concatenate and its like: of several arrays."""

    def joined(of: Any, arrays: Any, *axis: int, **options: Any) -> Any:
        if options.keys() - {"axis"}:
            raise UsageError(f"specification: np.{function.__name__} with {', '.join(options)}")
        every = [of(array) for array in arrays]
        found: Any = None
        for i, array in enumerate(every):
            numbered = [np.full(other.shape, -1) for other in every]
            numbered[i] = _numbered(array)
            at = function(numbered, *axis, **options)
            here = array.reshape(-1)[np.maximum(at, 0)]
            found = here if found is None else _where(of, at >= 0, here, found)
        return found

    return joined


def _cumsum(of: Any, array: Any, axis: Any = None) -> Symbolic:
    array = of(array).reshape(-1) if axis is None else of(array).stored().swapaxes(axis, -1)
    n = array.shape[-1]
    before = np.tri(n, dtype=bool)
    each = _where(of, before, array[..., None, :], np.zeros(1, array.dtype)).sum(-1)
    return each if axis is None else each.swapaxes(axis, -1)


def _round(of: Any, array: Any, decimals: int = 0) -> Any:
    if decimals:
        raise UsageError("specification: np.round to decimals is not known")
    return np.rint(of(array)) if of(array).dtype.kind == "f" else of(array)


def _method(name: str) -> Callable[..., Any]:
    return lambda of, array, *arguments, **options: getattr(of(array), name)(*arguments, **options)


# what `Recorder.functions` asks for
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _method("sum"),
    np.max: _method("max"),
    np.min: _method("min"),
    np.amax: _method("max"),
    np.amin: _method("min"),
    np.mean: _method("mean"),
    np.var: _method("var"),
    np.reshape: _method("reshape"),
    np.swapaxes: _method("swapaxes"),
    np.broadcast_to: _method("broadcast_to"),
    np.transpose: lambda of, a, axes=None: of(a).transpose(*(axes or ())),
    np.expand_dims: lambda of, a, axis: of(a)._move(lambda x: np.expand_dims(x, axis)),
    np.squeeze: lambda of, a, axis=None: of(a)._move(lambda x: np.squeeze(x, axis)),
    np.where: _where,
    np.clip: _clip,
    np.dot: lambda of, a, b: of(a) @ of(b),
    np.einsum: _einsum,
    np.pad: _pad,
    np.tril: lambda of, a, k=0: _triangle(of, a, k, True),
    np.triu: lambda of, a, k=0: _triangle(of, a, k, False),
    np.cumsum: _cumsum,
    np.round: _round,
    **{
        f: _placed(f)
        for f in (np.tile, np.repeat, np.roll, np.flip, np.moveaxis, np.rot90, np.take, np.ravel)
    },
    **{f: _joined(f) for f in (np.concatenate, np.stack, np.hstack, np.vstack)},
}
