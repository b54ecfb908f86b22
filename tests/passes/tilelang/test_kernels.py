"""Every kind of kernel is proved, exactly, to be its program without optimizations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcheck.passes.validation import Validate
from tests.passes.tilelang import kernels
from tests.passes.tilelang.support import COMPILE, outcome_of

PROGRAMS: dict[str, Callable[[], Any]] = {
    "gemm, no stages, B transposed": lambda: kernels.gemm(64, 64, 64, stages=0, trans_b=True),
    "gemm, three stages, A transposed": lambda: kernels.gemm(64, 64, 128, stages=3, trans_a=True),
    "gemm, swizzled, wide blocks": lambda: kernels.gemm(
        128, 128, 64, block=(32, 64, 32), stages=1, panel=2
    ),
    "gemm, bias and relu": lambda: kernels.gemm(64, 64, 64, bias_relu=True),
    "split-K with atomics": kernels.split_k,
    "elementwise with a tail": kernels.add,
    "sigmoid, hexp": kernels.sigmoid,
    "sigmoid, expf": lambda: kernels.sigmoid(dtype="float32"),
    "row sum": kernels.row_sum,
    "softmax": kernels.softmax,
    "rmsnorm": lambda: kernels.rms_norm(4),
    "layernorm": lambda: kernels.layer_norm(4),
    "conv2d, im2col": kernels.conv2d,
    "attention, causal": lambda: kernels.flash(causal=True),
    "int8 gemm": kernels.int8_gemm,
    "gemm with 4-bit weights": kernels.dequantized_gemm,
}
# the full range of shapes, and what takes long
MORE: dict[str, Callable[[], Any]] = {
    **{f"gemm, {n} stages": partial(kernels.gemm, stages=n) for n in range(4)},
    "gemm, A and B transposed": lambda: kernels.gemm(trans_a=True, trans_b=True),
    "gemm, 128 x 64": lambda: kernels.gemm(block=(128, 64, 32)),
    "gemm, 32 x 128": lambda: kernels.gemm(block=(32, 128, 64)),
    "gemm, 256 threads": lambda: kernels.gemm(block=(128, 128, 32), threads=256),
    "gemm, bias and relu": lambda: kernels.gemm(bias_relu=True),
    "softmax, four rows": lambda: kernels.softmax(rows=4),
    "rmsnorm": kernels.rms_norm,
    "layernorm": kernels.layer_norm,
    "attention": kernels.flash,
    "attention, two stages": lambda: kernels.flash(stages=2),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_proved(program: Callable[[], Any], tmp_path: Path) -> None:
    outcome = outcome_of(program(), tmp_path)
    verdict = outcome.verdict
    assert (verdict.verdict, verdict.method) == ("proved", "exact"), outcome.report()
    equal, compared = verdict.outputs
    assert equal == compared > 0
    assert outcome.steps[0].changed > 0  # there was something to prove
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("program", MORE.values(), ids=MORE)
def test_each_rung_is_proved(program: Callable[[], Any], tmp_path: Path) -> None:
    outcome = outcome_of(program(), tmp_path, {"every_rung": True})
    found = {(s.verdict.verdict, s.verdict.method) for s in outcome.steps}
    assert found == {("proved", "exact")}, outcome.report()
    assert len(outcome.steps) > 1  # without stages only vectorization changes anything


def test_attention_compiles_when_it_is_validated(enabled: Any, tmp_path: Path) -> None:
    """Through the public function: a kernel comes back, and there was no warning."""
    options = Validate(report=tmp_path, on_undecided="error")
    assert enabled.compile(kernels.flash(64), **COMPILE, validate=options) is not None
