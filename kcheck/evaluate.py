"""One kernel run on concrete inputs, in float64 enclosures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.canon.constants import FINITE, NINF, PINF, SYMBOLIC
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.confirm import fault_finding
from kcheck.launch import DTYPE_BYTES, FLOATS
from kcheck.outputs import read_output
from kcheck.semantics.execution import execute
from kcheck.verdict import Finding
from kcheck.witness import Subject, with_integers


def evaluate(
    side: Subject,
    inputs: dict[str, Any],
    ctas: list[int] | None,
    progress: Callable[[float], None],
) -> tuple[dict[str, Any], tuple[Finding, ...], dict[str, Any]]:
    """Outputs by buffer name, faults, figures; see `check.run`."""
    launch = with_integers(side.launch, inputs)
    run = execute(side.kernel, launch, EnclosureDomain(inputs), ctas=ctas, progress=progress)
    if run.doubt is not None:
        raise run.doubt
    outputs = {}
    width = 0.0
    for name, tensor in side.launch.buffers.items():
        if tensor.role == "in" or name not in run.memories or not tensor.elements:
            continue
        out = read_output(run, tensor)
        low, high = (np.broadcast_to(x, out.ids.shape) for x in out.v.ends)
        values = np.where((out.ids == SYMBOLIC) | (out.ids >= FINITE), (low + high) / 2, np.nan)
        values = np.where(out.ids == PINF, np.inf, np.where(out.ids == NINF, -np.inf, values))
        values[out.unwritten] = np.nan
        width = max(width, float(np.max(high - low, initial=0.0)))
        if tensor.dtype not in FLOATS and (out.ids >= FINITE).all():
            numbers = run.reals.constants.values  # exact: float64 has not all integers
            kind = np.uint64 if tensor.dtype[0] == "u" else np.int64
            values = np.array([numbers[i].numerator for i in out.ids.tolist()], kind)
        elif tensor.dtype not in FLOATS:
            values = _whole(values, tensor.dtype)
        outputs[name] = values.reshape(tensor.shape) if tensor.strides is None else values
    figures = {
        "instructions": run.instructions,
        "ctas": len(run.ctas),
        "widest enclosure": width,
    }
    return outputs, tuple(fault_finding(side, "subject", f) for f in run.faults), figures


def _whole(values: Any, dtype: str) -> Any:
    """Centres of enclosures as numbers of an integer type: of -64 to -63 it is -64."""
    bits = 8 * DTYPE_BYTES[dtype]
    values = np.rint(values)
    if bits < 64:  # float64 has not all of the others
        low = -(2.0 ** (bits - 1)) if dtype[0] == "s" else 0.0
        values = low + np.mod(values - low, 2.0**bits)
        return values.astype(np.int64) if np.isfinite(values).all() else values
    return values
