"""A function of arrays as the reference of a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, Tensor, row_major
from kcheck.specification.functions import FUNCTIONS
from kcheck.specification.nodes import Buffer, Leaf, Positions, Stage
from kcheck.specification.program import kernel
from kcheck.specification.symbolic import Recorder, Symbolic
from kcheck.verdict import UsageError

# parameters that take what is left
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def specified(function: Callable[..., Any], tensors: Sequence[Tensor]) -> tuple[str, Launch]:
    """The PTX and launch of a kernel that computes a function.

    `tensors`: the parameters of the kernel that is to be compared, in their order. The function's
    arguments are its inputs (roles in and inout), by their names where they have these, else in
    order. It gives the outputs (roles out and inout) in order, or a mapping from their names.
    UsageError (one line) where they do not fit, or the function uses what is not known here.
    """
    inputs = [t for t in tensors if t.role in ("in", "inout")]
    outputs = [t for t in tensors if t.role in ("out", "inout")]
    recorder = Recorder(FUNCTIONS)
    buffers = {t.name: Buffer(t.name, np.arange(t.elements, dtype=np.int64)) for t in tensors}
    arrays = {t.name: _array(recorder, t, buffers[t.name]) for t in inputs}
    given = _arguments(function, arrays)
    try:
        results = _results(function(*given), outputs)
        last = [_copied(recorder, tensor, results[tensor.name]) for tensor in outputs]
    except UsageError:
        raise
    except Exception as error:  # whatever the user's function raises
        raise UsageError(f"specification: {type(error).__name__}: {error}") from error
    for tensor, value in zip(outputs, last, strict=True):
        target = buffers[tensor.name]
        at = _positions(tensor, target)
        recorder.stages.append(Stage(target, at, "", value.node))
    read = {t.name: replace(t, dtype="f32") if t.dtype in FLOATS else t for t in tensors}
    return kernel(recorder.stages, read)


def _array(recorder: Recorder, tensor: Tensor, buffer: Buffer) -> Any:
    """An input: an array of unknowns, or of NumPy where it is one of integers that are known."""
    if tensor.dtype in FLOATS:
        dtype = np.dtype(np.float32)
    else:
        dtype = np.dtype(f"{'i' if tensor.dtype[0] == 's' else 'u'}{DTYPE_BYTES[tensor.dtype]}")
        if tensor.values is not None and tensor.role == "in" and tensor.strides is None:
            return np.asarray(tensor.values, dtype).reshape(tensor.shape)
    return Symbolic(recorder, Leaf(buffer, _positions(tensor, buffer)), tensor.shape, dtype)


def _positions(tensor: Tensor, buffer: Buffer) -> Positions:
    strides = tensor.strides or row_major(tensor.shape)
    steps = [stride * buffer.root.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(buffer.root, tensor.shape, steps, writeable=False)


def _arguments(function: Callable[..., Any], arrays: Mapping[str, Any]) -> list[Any]:
    """The arguments in the function's order."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty and p.kind not in _REST]
    if set(names) <= set(arrays):
        return [arrays[name] for name in names]
    if len(names) != len(arrays):
        known = ", ".join(arrays)
        raise UsageError(
            f"specification: the function takes {', '.join(names)}; the kernel's inputs are {known}"
        )
    return list(arrays.values())


def _results(value: Any, outputs: Sequence[Tensor]) -> dict[str, Any]:
    names = [tensor.name for tensor in outputs]
    if isinstance(value, Mapping):
        found = dict(value)
    else:
        values = list(value) if isinstance(value, tuple | list) else [value]
        found = dict(zip(names, values, strict=False)) if len(values) == len(names) else {}
    if set(found) != set(names):
        raise UsageError(f"specification: expected one array for each of {', '.join(names)}")
    return found


def _copied(recorder: Recorder, tensor: Tensor, value: Any) -> Symbolic:
    """The value of an output in its shape; apart from it, where it is an input as well."""
    somewhere = Leaf(Buffer("", np.zeros(1, np.int64)), np.zeros((), np.int64))
    array = Symbolic(recorder, somewhere, (), np.dtype(np.float32))._of(value)
    if array.shape != tensor.shape:
        raise UsageError(
            f"specification: `{tensor.name}` has shape {list(tensor.shape)}, and the function "
            f"gives {list(array.shape)}"
        )
    if tensor.role != "inout":
        return array
    return recorder.made("", array.node, array.shape, array.dtype)
