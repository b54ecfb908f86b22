"""Every pair of TileLang kernels that is declared equal is proved; others are told apart."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kcheck.check import safe
from kcheck.launch_file import load_launch
from kcheck.verdict import Verdict
from tests.corpus import DECLARED, TILELANG, verdict_of

Floats = Any

# by name; the last rung of each ladder also stands against the first
PAIRS = [
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s1"),
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s2"),
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s3"),
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s2_panel4"),
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s2_linear"),
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s2_smemstore"),
    ("kernels/sum/sm_80_t32", "kernels/sum/sm_80_t128"),
    ("kernels/rmsnorm/sm_80_b1", "kernels/rmsnorm/sm_80_b4_smem"),
    ("kernels/gemm_bias_relu/sm_80_s0", "kernels/gemm_bias_relu/sm_80_s2"),
    ("kernels/flash/sm_80_s0", "kernels/flash/sm_80_s1"),
    ("kernels/softmax/sm_80_b1", "kernels/softmax/sm_80_b1_fast"),
    ("kernels/softmax/sm_80_b1", "kernels/softmax/sm_80_b4"),
    ("kernels/softmax/sm_80_b1_fast", "kernels/softmax/sm_80_b4"),
    ("ladders/add_tail_sm_80/00_none", "ladders/add_tail_sm_80/01_vectorize"),
    ("ladders/add_tail_sm_80/01_vectorize", "ladders/add_tail_sm_80/06_loop_unswitch"),
    ("ladders/add_tail_sm_80/00_none", "ladders/add_tail_sm_80/06_loop_unswitch"),
    ("ladders/flash_s1_sm_80/00_none", "ladders/flash_s1_sm_80/01_vectorize"),
    ("ladders/flash_s1_sm_80/01_vectorize", "ladders/flash_s1_sm_80/03_software_pipeline"),
    ("ladders/flash_s1_sm_80/03_software_pipeline", "ladders/flash_s1_sm_80/04_async_copy"),
    ("ladders/flash_s1_sm_80/04_async_copy", "ladders/flash_s1_sm_80/05_storage_rewrite"),
    ("ladders/flash_s1_sm_80/05_storage_rewrite", "ladders/flash_s1_sm_80/07_smem_reuse"),
    ("ladders/flash_s1_sm_80/00_none", "ladders/flash_s1_sm_80/07_smem_reuse"),
    ("ladders/gemm_bias_relu_s2_sm_80/00_none", "ladders/gemm_bias_relu_s2_sm_80/01_vectorize"),
    (
        "ladders/gemm_bias_relu_s2_sm_80/01_vectorize",
        "ladders/gemm_bias_relu_s2_sm_80/03_software_pipeline",
    ),
    (
        "ladders/gemm_bias_relu_s2_sm_80/03_software_pipeline",
        "ladders/gemm_bias_relu_s2_sm_80/04_async_copy",
    ),
    (
        "ladders/gemm_bias_relu_s2_sm_80/04_async_copy",
        "ladders/gemm_bias_relu_s2_sm_80/07_smem_reuse",
    ),
    ("ladders/gemm_bias_relu_s2_sm_80/00_none", "ladders/gemm_bias_relu_s2_sm_80/07_smem_reuse"),
    ("ladders/gemm_s2_sm_80/00_none", "ladders/gemm_s2_sm_80/01_vectorize"),
    ("ladders/gemm_s2_sm_80/01_vectorize", "ladders/gemm_s2_sm_80/03_software_pipeline"),
    ("ladders/gemm_s2_sm_80/03_software_pipeline", "ladders/gemm_s2_sm_80/04_async_copy"),
    ("ladders/gemm_s2_sm_80/04_async_copy", "ladders/gemm_s2_sm_80/07_smem_reuse"),
    ("ladders/gemm_s2_sm_80/00_none", "ladders/gemm_s2_sm_80/07_smem_reuse"),
    ("ladders/sum_t128_sm_80/00_none", "ladders/sum_t128_sm_80/01_vectorize"),
]
RACY = "kernels/gemm/sm_80_s2_nosync_RACY"
OUTSIDE = "kernels/add/sm_80_float32_tail_nosafe"
SAFE = sorted(
    path
    for path in TILELANG.rglob("*.ptx")
    if path.stem not in (Path(RACY).name, Path(OUTSIDE).name)
)
# elements of the output, by folder
ELEMENTS = {
    "gemm": 128 * 128,
    "gemm_s2_sm_80": 128 * 128,
    "gemm_bias_relu": 128 * 128,
    "gemm_bias_relu_s2_sm_80": 128 * 128,
    "sum": 64,
    "sum_t128_sm_80": 64,
    "rmsnorm": 64 * 128,
    "flash": 128 * 64,
    "flash_s1_sm_80": 128 * 64,
    "softmax": 64 * 128,
    "add_tail_sm_80": 100 * 100,
}


@pytest.mark.parametrize(("reference", "subject"), PAIRS)
def test_equal_pair_is_proved(reference: str, subject: str) -> None:
    verdict = verdict_of(TILELANG, reference, subject)
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    assert (verdict.method, verdict.error_bound_log2) == ("exact", None)
    elements = ELEMENTS[reference.split("/")[1]]
    assert verdict.outputs == (elements, elements)


# one of each family: what the field engine has to say without an exact proof
TESTED = [PAIRS[i] for i in (3, 6, 7, 8, 9, 10, 15, 21)]


@pytest.mark.parametrize(("reference", "subject"), TESTED)
def test_identity_testing_has_a_bound(reference: str, subject: str) -> None:
    verdict = verdict_of(TILELANG, reference, subject, safety=False, engine="field")
    assert (verdict.verdict, verdict.method) == ("proved", "identity-testing")
    assert verdict.error_bound_log2 is not None
    assert verdict.error_bound_log2 < -80


def test_the_list_is_whole() -> None:
    """Every rung stands against the rung before it, and every kernel with a sibling is listed."""
    for folder in sorted((TILELANG / "ladders").iterdir()):
        found = yaml.safe_load((folder / "ladder.yaml").read_text())["rungs"]
        rungs = [f"ladders/{folder.name}/{name.removesuffix('.ptx')}" for name in found]
        assert set(pairwise(rungs)) | {(rungs[0], rungs[-1])} <= set(PAIRS)
    listed = {name for pair in PAIRS for name in pair}
    files = {str(p.relative_to(TILELANG).with_suffix("")) for p in TILELANG.rglob("*.ptx")}
    assert sorted(files - listed) == [
        "kernels/add/sm_80_float16",  # alone in its dtype or shape
        "kernels/add/sm_80_float32",
        "kernels/add/sm_80_float32_tail",
        "kernels/add/sm_80_float32_tail_nosafe",
        "kernels/conv2d/sm_80_s0",
        "kernels/flash/sm_80_causal_s1",
        "kernels/gemm/sm_80_s2_f32",
        "kernels/gemm/sm_80_s2_nosync_RACY",
        "kernels/gemm/sm_80_s2_transB",
        "kernels/layernorm/sm_80_b1",
    ]
    assert len(PAIRS) == len(set(PAIRS)) == DECLARED


@pytest.mark.parametrize("path", SAFE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kernel_is_safe(path: Path) -> None:
    verdict = safe(path, seed=1)
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    assert verdict.method == "happens-before"


def test_pipeline_without_its_barriers() -> None:
    """In lockstep it computes the right values; the copies meet the ldmatrix of other warps."""
    names = ("kernels/gemm/sm_80_s0", RACY)
    verdict = verdict_of(TILELANG, *names)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.read-write")
    alone = safe(TILELANG / f"{RACY}.ptx", seed=1)
    assert (alone.verdict, alone.reason) == ("refuted", "race.read-write")
    for found in (verdict, alone):
        for finding in found.findings:
            texts = sorted(place.text.split(".")[0] for place in finding.locations)
            assert texts == ["cp", "ldmatrix"]
    waived = verdict_of(TILELANG, *names, safety=False)
    assert waived.verdict == "proved"
    assert "race freedom NOT CHECKED (--no-safety)" in waived.ledger


def test_tail_without_its_bounds_checks() -> None:
    verdict = safe(TILELANG / f"{OUTSIDE}.ptx", seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "bounds.global")
    assert {f.locations[0].text.split()[0] for f in verdict.findings} == {
        "ld.global.nc.v4.f32",
        "st.global.v4.f32",
    }


# functions of one signature -----------------------------------------------------------------------


def gemm(inputs: dict[str, Floats]) -> Floats:
    return inputs["A"] @ inputs["B"]


def gemm_transposed(inputs: dict[str, Floats]) -> Floats:
    return inputs["A"] @ inputs["B"].T


def attention(inputs: dict[str, Floats], causal: bool = False) -> Floats:
    """softmax(Q K^T / sqrt(64)) V, per head of a (batch, sequence, head, dim) tensor."""
    q, k, v = (inputs[name][0, :, 0] for name in "QKV")
    scores = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True) @ v)[None, :, None]


def causal(inputs: dict[str, Floats]) -> Floats:
    return attention(inputs, causal=True)


MEANING = {
    "kernels/gemm/sm_80_s0": gemm,
    "kernels/gemm/sm_80_s2_transB": gemm_transposed,
    "kernels/flash/sm_80_s0": attention,
    "kernels/flash/sm_80_causal_s1": causal,
}
DIFFERENT = [
    ("kernels/gemm/sm_80_s0", "kernels/gemm/sm_80_s2_transB"),
    ("kernels/gemm/sm_80_s2_transB", "kernels/gemm/sm_80_s0"),
    ("kernels/flash/sm_80_s0", "kernels/flash/sm_80_causal_s1"),
    ("kernels/flash/sm_80_causal_s1", "kernels/flash/sm_80_s0"),
]


@pytest.mark.parametrize(("reference", "subject"), DIFFERENT)
def test_other_function_is_refuted(reference: str, subject: str) -> None:
    verdict = verdict_of(TILELANG, reference, subject)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert_true_witness(verdict, reference, subject)


def assert_true_witness(verdict: Verdict, reference: str, subject: str) -> None:
    """NumPy finds the same two values in float64."""
    witness = verdict.witness
    assert witness is not None
    buffers = load_launch(TILELANG / f"{reference}.launch.yaml").buffers
    inputs = {n: np.asarray(x).reshape(buffers[n].shape) for n, x in witness.inputs.items()}
    values = [float(MEANING[name](inputs)[witness.index]) for name in (reference, subject)]
    for value, (low, high) in zip(values, (witness.reference, witness.subject), strict=True):
        assert high - low <= 1e-6 * max(1, abs(value))
        # the scale of attention is a rounded literal
        assert low - 1e-5 <= value <= high + 1e-5
    assert abs(values[0] - values[1]) > 1e-3
