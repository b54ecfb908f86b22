"""One kernel run on concrete inputs in true formats, beside its float64 enclosures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.ieee.approximate import Choice
from kcheck.canon.ieee.engine import Ieee, values
from kcheck.canon.ieee.formats import FORMATS
from kcheck.confirm import fault_finding
from kcheck.evaluate import evaluate
from kcheck.launch import DTYPE_BYTES, FLOATS
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.verdict import Finding
from kcheck.witness import Subject

# where a target names none
OLDEST = 50


def architecture(kernel: Kernel) -> int:
    """80 for `.target sm_80`, 90 for `sm_90a`."""
    found = re.search(r"_(\d+)", kernel.module.target[0])
    return int(found[1]) if found else OLDEST


def run_formats(
    side: Subject,
    inputs: Mapping[str, Any],
    ctas: list[int] | None = None,
    progress: Callable[[float], None] | None = None,
    choice: Choice | None = None,
) -> tuple[Execution, dict[str, Any]]:
    """The execution, and the outputs by buffer name: f64, f32, f16, integers as they are.

    Formats that NumPy lacks come as float32, which holds them exactly. Elements that are undefined
    or never written are NaN (integer buffers that have some become float64).
    """
    arithmetic = Ieee(inputs, architecture(side.kernel), choice or Choice())
    run = execute(
        side.kernel,
        side.launch,
        EnclosureDomain({}),
        ctas=ctas,
        progress=progress,
        arithmetic=arithmetic,
    )
    if run.doubt is not None:
        raise run.doubt
    outputs = {}
    for name, tensor in side.launch.buffers.items():
        if tensor.role == "in" or name not in run.memories or not tensor.elements:
            continue
        unwritten, word = run.memories[name].elements(DTYPE_BYTES[tensor.dtype])
        bits = np.broadcast_to(word.a, unwritten.shape)
        out = values(np.ascontiguousarray(bits), tensor.dtype)
        missing = unwritten if word.u is None else unwritten | word.u
        if missing.any():
            out = np.where(missing, np.nan, out) if tensor.dtype in FLOATS else out.astype(float)
            out[missing] = np.nan
        outputs[name] = out.reshape(tensor.shape) if tensor.strides is None else out
    return run, outputs


def evaluate_formats(
    side: Subject,
    inputs: Mapping[str, Any],
    ctas: list[int] | None,
    progress: Callable[[float], None],
    choice: Choice,
) -> tuple[dict[str, Any], tuple[Finding, ...], dict[str, Any]]:
    """Outputs, faults, figures, the largest errors against the reals among them; see `check.run`.

    Inputs are rounded to their formats first, so that both runs have the same ones.
    """
    given = rounded_inputs(side, inputs)
    run, outputs = run_formats(side, given, ctas, lambda done: progress(done / 2), choice)
    figures: dict[str, Any] = {"instructions": run.instructions, "ctas": len(run.ctas)}
    try:
        centres, _, real = evaluate(side, given, ctas, lambda done: progress((1 + done) / 2))
        figures["widest enclosure"] = real["widest enclosure"]
        for name, out in outputs.items():
            dtype = side.launch.buffers[name].dtype
            if dtype in FORMATS:
                size, ulps = errors(out, centres[name], dtype)
                figures[f"largest error of {name}"] = size
                figures[f"largest error of {name} in ulp of {dtype}"] = ulps
    except Refused as error:
        figures["over the reals"] = f"unsupported.{error.form}: {error.message}"
    return outputs, tuple(fault_finding(side, "subject", f) for f in run.faults), figures


def rounded_inputs(side: Subject, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as the formats hold them, in float64 or integers."""
    types = {p.name: p.dtype for p in side.launch.params if hasattr(p, "dtype")}
    plain = Ieee({})
    return {name: values(plain.patterns(x, types[name]), types[name]) for name, x in inputs.items()}


def errors(out: Any, true: Any, dtype: str) -> tuple[float, float]:
    """The largest of the `distances`, and the largest in ulp."""
    apart, ulps = distances(out, true, dtype)
    return float(apart.max(initial=0.0)), float(ulps.max(initial=0.0))


def distances(out: Any, true: Any, dtype: str) -> tuple[Any, Any]:
    """How far elements are apart: as numbers, and in units in the last place of `true` in a format.

    Infinite where only one is a number; 0 where both are NaN, or the same infinity. Integers have
    units of 1.
    """
    x, y = np.asarray(out, np.float64), np.asarray(true, np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(same, 0.0, np.abs(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        if dtype not in FORMATS:
            return apart, apart
        f = FORMATS[dtype]
        size, exponent = np.frexp(np.where(np.isfinite(y), y, 0))
        exponent = np.where(size == 0, f.emin, np.maximum(exponent - 1, f.emin))
        return apart, np.ldexp(apart, f.fbits - exponent)
