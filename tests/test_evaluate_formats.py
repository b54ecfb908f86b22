"""Whole kernels in true formats, against NumPy in the same formats and order."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

import kcheck
from kcheck.canon.ieee.engine import Ieee
from kcheck.cli import main
from kcheck.evaluate_formats import architecture, errors, run_formats
from kcheck.launch import Launch, Param, Scalar, Tensor
from kcheck.loading import load_kernel, load_one
from kcheck.running import run
from kcheck.verdict import UsageError
from kcheck.witness import Subject
from tests.canon.ieee import model
from tests.canon.ieee.test_tensor_core import block
from tests.corpus import CASES, DATA, TILELANG, TRITON
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol

Capture = pytest.CaptureFixture[str]


def of_file(path: Path) -> Subject:
    kernel = load_kernel(path, None)
    return Subject(kernel, load_one(path, kernel, None))


def halves(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float16)


# sums of products


def dot(a: Any, b: Any, kind: Any) -> Any:
    """Rows of `a` times `b`, with an fma of `kind` for each product; the sums are exact in f64."""
    total = np.zeros(len(a), kind)
    for k in range(len(b)):
        product = a[:, k].astype(np.float64) * b[k].astype(np.float64)
        total = (product + total.astype(np.float64)).astype(kind)
    return total


def test_an_accumulator_of_f16_is_seen() -> None:
    folder = CASES / "33-fp16-accumulator"
    rng = np.random.default_rng(33)
    given = {"a": halves(rng, 64, 32), "b": halves(rng, 32)}
    results = {
        name: run(folder / f"{name}.ptx", inputs=given, engine="ieee") for name in ("ref", "bug")
    }
    good, bad = (results[name].outputs["o"] for name in ("ref", "bug"))
    assert good.dtype == np.float16
    assert (good == dot(given["a"], given["b"], np.float32).astype(np.float16)).all()
    assert (bad == dot(given["a"], given["b"], np.float16)).all()
    assert (good != bad).sum() > 16
    ulps = [results[n].statistics["largest error of o in ulp of f16"] for n in ("ref", "bug")]
    assert ulps[0] < 1 < ulps[1]


def test_a_dot_product_of_f32_is_fused_step_by_step() -> None:
    params = [symbol("x", "f32", 8 * 32), symbol("y", "f32", 8 * 32), out("z", "f32", 32)]
    step = (
        "ld.global.f32 %f1, [%x+{0}]; ld.global.f32 %f2, [%y+{0}]; fma.rn.f32 %f3, %f1, %f2, %f3;"
    )
    body = "mov.f32 %f3, 0f00000000;" + "".join(step.format(128 * k) for k in range(8))
    side = Subject(
        kernel_of(entry(f"{body} st.global.f32 [%z], %f3; ret;", params)), launch_of(params, 1, 32)
    )
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal((8, 32)).astype(np.float32) for _ in range(2))
    y[7] = -x[6] * y[6] / x[7]  # the last product all but cancels the sum's last one
    _, outputs = run_formats(side, {"x": x, "y": y})
    for lane in range(32):
        total: model.Number = Fraction(0)
        for k in range(8):
            product = Fraction(float(x[k, lane])) * Fraction(float(y[k, lane]))
            assert isinstance(total, Fraction)
            total = model.rounded(product + total, "f32", "rn")
        assert isinstance(total, Fraction)
        assert outputs["z"][lane] == float(total)


# tensor cores

FRAGMENTS = """
.reg .b32 %row, %t, %q<4>, %u<2>; shr.u32 %row, %gid, 2; and.b32 %t, %gid, 3;
.reg .b64 %A, %B, %C, %w; mul.lo.u32 %r1, %row, {row}; mad.lo.u32 %r1, %t, 4, %r1;
cvt.u64.u32 %w, %r1; add.u64 %A, %pa, %w; add.u64 %B, %pb, %w;
mul.lo.u32 %r1, %row, {crow}; mad.lo.u32 %r1, %t, {cpair}, %r1; cvt.u64.u32 %w, %r1;
add.u64 %C, %pc, %w;
"""
STEP = """
ld.global.b32 %q0, [%A+{0}]; ld.global.b32 %q1, [%A+{1}]; ld.global.b32 %q2, [%A+{2}];
ld.global.b32 %q3, [%A+{3}]; ld.global.b32 %u0, [%B+{0}]; ld.global.b32 %u1, [%B+{2}];
mma.sync.aligned.m16n8k16.row.col.{t}.f16.f16.{t} {d}, {{%q0,%q1,%q2,%q3}}, {{%u0,%u1}}, {d};
"""


def gemm(k: int, fmt: str) -> Subject:
    """c = a b for a (16, k), b (8, k) as columns; the accumulators and c are of `fmt`."""
    size, row = (4, 2 * k) if fmt == "f32" else (2, 2 * k)
    start = FRAGMENTS.format(row=row, crow=8 * size, cpair=2 * size)
    if fmt == "f32":
        d, zero = "{%f0,%f1,%f2,%f3}", "mov.f32 %f{0}, 0f00000000;"
        zeros = "".join(zero.format(i) for i in range(4))
        store = (
            f"st.global.v2.f32 [%C], {{%f0,%f1}}; st.global.v2.f32 [%C+{64 * size}], {{%f2,%f3}};"
        )
    else:
        d, zeros = "{%r10,%r11}", "mov.b32 %r10, 0; mov.b32 %r11, 0;"
        store = f"st.global.b32 [%C], %r10; st.global.b32 [%C+{64 * size}], %r11;"
    steps = [
        STEP.format(at, at + 8 * row, at + 16, at + 8 * row + 16, t=fmt, d=d)
        for at in range(0, row, 32)
    ]
    params = [symbol("a", "f16", 16 * k), symbol("b", "f16", 8 * k), out("c", fmt, 16, 8)]
    text = entry(f"{start} {zeros} {' '.join(steps)} {store} ret;", params)
    return Subject(kernel_of(text.replace("sm_90a", "sm_80")), launch_of(params, 1, 32))


@pytest.mark.parametrize("fmt", ["f32", "f16"])
def test_a_gemm_on_tensor_cores(fmt: str) -> None:
    k = 64
    rng = np.random.default_rng(4)
    a, b = halves(rng, 16, k), halves(rng, 8, k)
    _, outputs = run_formats(gemm(k, fmt), {"a": a, "b": b})
    for i in range(16):
        for j in range(8):
            total: Any = Fraction(0)
            for at in range(0, k, 8):
                pairs = [
                    (Fraction(float(x)), Fraction(float(y)))
                    for x, y in zip(a[i, at : at + 8], b[j, at : at + 8], strict=True)
                ]
                total = block(pairs, total, "f16", fmt, 24)
            assert outputs["c"][i, j] == float(total)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.abs(outputs["c"] - exact).max()
    assert (error < 1e-5) == (fmt == "f32")


def test_architectures_differ_in_a_gemm() -> None:
    rng = np.random.default_rng(4)
    given = {"a": halves(rng, 16, 64), "b": halves(rng, 8, 64)}
    side = gemm(64, "f32")
    newer = Subject(kernel_of("\n".join(_text(side)).replace("sm_80", "sm_90")), side.launch)
    old, new = (run_formats(s, given)[1]["c"] for s in (side, newer))
    assert (old != new).any()
    np.testing.assert_allclose(old, new, rtol=1e-4, atol=1e-4)
    assert (architecture(side.kernel), architecture(newer.kernel)) == (80, 90)


def _text(side: Subject) -> list[str]:
    return [side.kernel.code[0].span.source.text]


# softmax


def softmax(x: Any, stable: bool) -> Any:
    """Case 11 in float32: `__expf` is ex2(x log2 e), `__fdividef` one quotient.

    The stable kernel adds one by one, the other one across the warp.
    """
    scaled = (x - x.max() if stable else x) * np.float32(np.log2(np.e))

    def ex2(y: Any) -> Any:
        return np.exp2(y.astype(np.float64)).astype(np.float32)

    terms = ex2(scaled)
    total = np.zeros(32, np.float32) if stable else terms
    for e in terms if stable else ():
        total = total + e
    for distance in () if stable else (16, 8, 4, 2, 1):
        total = total + total[np.arange(32) ^ distance]
    return terms / total


def test_a_softmax_without_its_maximum_overflows() -> None:
    folder = CASES / "11-softmax-without-max"
    x = np.random.default_rng(5).standard_normal(32).astype(np.float32)
    for shift, finite in ((0.0, True), (100.0, False)):
        given = (x + np.float32(shift)).astype(np.float32)
        with np.errstate(all="ignore"):
            for path, stable in ((folder / "ref.ptx", True), (folder / "bug.ptx", False)):
                got = run(path, inputs={"in": given}, engine="ieee").outputs["out"]
                np.testing.assert_array_equal(got, softmax(given, stable), strict=True)
                assert np.isfinite(got).all() == (stable or finite)


@pytest.mark.parametrize("approx", ["high", "low", "random"])
def test_a_softmax_keeps_within_the_errors_of_its_instructions(approx: str) -> None:
    path = CASES / "11-softmax-without-max" / "ref.ptx"
    x = np.random.default_rng(5).standard_normal(32).astype(np.float32)
    got = run(path, inputs={"in": x}, engine="ieee", approx=approx, seed=3).outputs["out"]
    exact = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(got, exact / exact.sum(), rtol=40 * 2.0**-24)
    assert (got != softmax(x, True)).any()


# what nvcc makes of the math library: bit tricks and polynomials, executed as they stand

MATH: dict[str, tuple[Any, float, tuple[float, float]]] = {
    "expf": (mpmath.exp, 2, (-86, 88)),
    "logf": (mpmath.log, 1, (1e-30, 1e30)),
    "tanhf": (mpmath.tanh, 2, (-12, 12)),
    "erff": (mpmath.erf, 2, (-5, 5)),
    "expm1f": (mpmath.expm1, 1.5, (-20, 20)),
}


@pytest.mark.parametrize("name", MATH)
def test_functions_of_the_math_library(name: str) -> None:
    """Within the errors that CUDA's programming guide gives, in ulp (expm1f: 1 and a bit).

    Approximate instructions return the nearest number here: with all of the error that the ISA
    grants ex2 these functions would not keep their own promises.
    """
    true, ulps, (low, high) = MATH[name]
    x = np.concatenate([np.geomspace(max(low, 1e-3), high, 256), np.linspace(low, high, 256)])
    x = x.astype(np.float32)
    params = (Tensor("x", "f32", (512,), "in"), Tensor("z", "f32", (512,), "out"))
    launch = Launch(f"k_{name}", (4, 1, 1), (128, 1, 1), params)
    path = DATA / "mathlib" / "mathlib.ptx"
    result = run(
        path, launch=launch, kernel_name=launch.kernel, inputs={"x": x}, engine="ieee", seed=1
    )
    assert result.findings == ()
    for given, got in zip(x.tolist(), result.outputs["z"].tolist(), strict=True):
        exact = true(mpmath.mpf(given))
        unit = mpmath.mpf(2) ** (max(mpmath.floor(mpmath.log(abs(exact), 2)), -126) - 23)
        assert abs(got - exact) <= ulps * unit, given


def test_a_changed_constant_of_the_math_library_is_seen() -> None:
    text = (DATA / "mathlib" / "mathlib.ptx").read_text()
    assert text.count("0fCB40007F") == 1  # takes the magic number of expf off again
    params = (Tensor("x", "f32", (32,), "in"), Tensor("z", "f32", (32,), "out"))
    launch = Launch("k_expf", (1, 1, 1), (32, 1, 1), params)
    x = np.linspace(-5, 5, 32)
    changed = text.replace("0fCB40007F", "0fCB40007E")
    got = run(changed, launch=launch, kernel_name="k_expf", inputs={"x": x}, engine="ieee")
    np.testing.assert_allclose(got.outputs["z"], np.exp(x) / 2, rtol=1e-6)


# corpora: the reals and the formats beside each other

KERNELS = {
    TRITON / "softmax" / "row_w8.ptx": 8,
    TRITON / "matmul_f16" / "b16x16x16_w1_s2.ptx": 1,
    TRITON / "layernorm_tail" / "onepass_w4.ptx": 1,
    TILELANG / "kernels" / "gemm" / "sm_80_s2.ptx": 1,
    TILELANG / "kernels" / "sum" / "sm_80_t128.ptx": 4,
    TILELANG / "kernels" / "softmax" / "sm_80_b1.ptx": 2,
}


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_kernels_come_out_near_the_reals(path: Path) -> None:
    result = run(path, engine="ieee", seed=1, ctas=[0])
    assert result.findings == ()
    ulps = [v for key, v in result.statistics.items() if " in ulp of " in key]
    assert ulps
    assert max(ulps) <= KERNELS[path]


# the interface


def test_formats_that_numpy_lacks_come_as_f32() -> None:
    params = [symbol("x", "bf16", 32), out("z", "bf16", 32), out("n", "s32", 32)]
    body = """
    ld.global.b16 %h1, [%x]; cvt.f32.bf16 %f1, %h1; mul.f32 %f1, %f1, 0f3F8147AE;
    cvt.rn.bf16.f32 %h2, %f1; st.global.b16 [%z], %h2; cvt.rzi.s32.f32 %r1, %f1;
    setp.ge.u32 %p1, %gid, 2; @%p1 st.global.u32 [%n], %r1; ret;
    """
    side = Subject(kernel_of(entry(body, params)), launch_of(params, 1, 32))
    x = np.linspace(-4, 4, 32)
    _, outputs = run_formats(side, {"x": x})
    given = Ieee({}).patterns(x, "bf16")
    wide = (given.astype(np.uint32) << 16).view(np.float32) * np.float32(1.01)
    assert outputs["z"].dtype == np.float32
    assert (
        outputs["z"].view(np.uint32) == Ieee({}).patterns(wide, "bf16").astype(np.uint32) << 16
    ).all()
    assert np.isnan(outputs["n"][:2]).all()  # never written
    assert (outputs["n"][2:] == np.trunc(wide[2:])).all()


def test_errors_are_counted_in_units_of_the_format() -> None:
    assert errors([1.0, 2.0], [1.0, 2.0], "f16") == (0.0, 0.0)
    assert errors([1.0 + 2.0**-9], [1.0], "f16") == (2.0**-9, 2.0)
    assert errors([np.nan, np.inf], [np.nan, np.inf], "f32") == (0.0, 0.0)
    assert errors([np.nan], [1.0], "f32") == (np.inf, np.inf)
    assert errors([2.0**-149], [0.0], "f32") == (2.0**-149, 1.0)


def test_scalars_and_values_are_rounded_to_their_format() -> None:
    x = known("x", "f32", np.full(32, 0.2))
    params: list[Param] = [Scalar("s", "f32", 0.1), x, out("z", "f32", 32)]
    body = "ld.param.f32 %f1, [s]; ld.global.f32 %f2, [%x]; add.f32 %f3, %f1, %f2;"
    side = Subject(
        kernel_of(entry(f"{body} st.global.f32 [%z], %f3; ret;", params)), launch_of(params, 1, 32)
    )
    _, outputs = run_formats(side, {})
    assert (outputs["z"] == np.float32(0.1) + np.float32(0.2)).all()


def test_the_command(capsys: Capture, tmp_path: Path) -> None:
    path = str(CASES / "33-fp16-accumulator" / "bug.ptx")
    saved = tmp_path / "out.npz"
    assert main(["run", path, "--engine", "ieee", "--seed", "1", "--output", str(saved)]) == 0
    text = capsys.readouterr().out
    assert "o: float16 [64]" in text
    assert "largest error of o in ulp of f16: 22.0" in text
    with np.load(saved) as file:
        assert file["o"].dtype == np.float16
    assert main(["run", path, "--engine", "ieee", "--approx", "random", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["o"]["dtype"] == "float16"
    assert main(["run", path, "--engine", "field"]) == 2


def test_an_unknown_engine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="engine term"):
        kcheck.run(CASES / "33-fp16-accumulator" / "bug.ptx", engine="term")
    with pytest.raises(UsageError, match="approx low"):
        kcheck.run(CASES / "33-fp16-accumulator" / "bug.ptx", approx="low")


def test_what_the_reals_refuse_is_said() -> None:
    params = [symbol("x", "f32", 32), out("z", "f32", 32)]
    body = "ld.global.f32 %f1, [%x]; add.f32 %f2, %f1, 0f4B400000; st.global.f32 [%z], %f2; ret;"
    result = run(entry(body, params), launch=launch_of(params, 1, 32), engine="ieee", seed=1)
    assert result.statistics["over the reals"].startswith("unsupported.magic-rounding")
    assert (result.outputs["z"] % 1 == 0).all()
