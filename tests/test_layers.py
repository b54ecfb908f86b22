"""Layers of networks, plain and made fast: equal, exactly; with one defect each, refuted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.check import equivalent
from kcheck.launch import Launch, Param, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.verdict import Verdict
from tests.test_soundness import told

DATA = Path(__file__).parent / "data" / "layers"
MODULES = {
    name: parse((DATA / f"{name}.ptx").read_text(), f"{name}.ptx")
    for name in ("plain", "fused", "wrong")
}
ROWS, C = 4, 8
TARGET = np.array([3, 0, 7, 3])

POINTWISE = ("gelu_erf", "gelu_tanh", "silu", "sigmoid", "softplus", "mish")
# layer -> sizes of its inputs behind the first one, and whether a warp has a row where it is fused
BY_ROW = {
    "layernorm": ((C, C), False),
    "rmsnorm": ((C,), True),
    "log_softmax": ((), False),
    "cross_entropy": ((ROWS,), True),
}


def launch(name: str, module: str) -> Launch:
    """One row for a thread, or 32 elements."""
    names = [param.name for param in lower(MODULES[module], name).params]
    if name in POINTWISE:
        params: list[Param] = [
            Tensor(names[0], "f32", (32,), "in"),
            Tensor(names[1], "f32", (32,), "out"),
        ]
        return Launch(name, (1, 1, 1), (32, 1, 1), tuple(params))
    sizes, by_warps = BY_ROW[name]
    params = [Tensor(names[0], "f32", (ROWS, C), "in")]
    for other, n in zip(names[1:], sizes, strict=False):
        if name == "cross_entropy":
            params.append(Tensor(other, "s32", (n,), "in", values=TARGET))
        else:
            params.append(Tensor(other, "f32", (n,), "in"))
    shape = (ROWS,) if name == "cross_entropy" else (ROWS, C)
    params.append(Tensor(names[-1], "f32", shape, "out"))
    wide = by_warps and module != "plain"
    return Launch(name, (1, 1, 1), (ROWS * C if wide else ROWS, 1, 1), tuple(params))


def compared(name: str, subject: str) -> Verdict:
    """The plain layer and another."""
    kernels = [lower(MODULES[module], name) for module in ("plain", subject)]
    launches = [launch(name, module) for module in ("plain", subject)]
    return equivalent(*kernels, launch=launches[0], subject_launch=launches[1], seed=1)


@pytest.mark.parametrize("name", [*POINTWISE, *BY_ROW])
def test_a_fast_layer_is_proved(name: str) -> None:
    verdict = compared(name, "fused")
    assert told(verdict) == ("proved", None), verdict.findings
    assert verdict.method == "exact"


# layer -> the first values that differ, where they are found
FIRST = {
    "gelu_erf": (
        "... + erf(gelu_erf_param_0[4] * (1/2 sqrt 2))",
        "... - erf(gelu_erf_param_0[4] * (1/2 sqrt 2))",
    ),
    "rmsnorm": ("... + (a sum of 8 values) * 0.125", "... + 1 / sqrt(...)"),
    "cross_entropy": ("exp2(...) / (a sum of 8 values)", "lg2(a sum of 8 values)"),
}


@pytest.mark.parametrize("name", [*POINTWISE, *BY_ROW])
def test_a_wrong_layer_is_refuted(name: str) -> None:
    verdict = compared(name, "wrong")
    assert told(verdict) == ("refuted", "value.mismatch")
    assert verdict.witness is not None
    (finding,) = verdict.findings
    stores = [(place.file, place.text[:13]) for place in finding.locations]
    assert stores == [("plain.ptx", "st.global.f32"), ("wrong.ptx", "st.global.f32")]
    found = finding.first_difference
    assert (found and (found.reference, found.subject)) == FIRST.get(name)
