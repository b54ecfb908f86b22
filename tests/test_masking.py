"""--mask-literal: what stands for -infinity is what the ledger names, no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kcheck.check import equivalent
from kcheck.launch import Param, Scalar
from kcheck.verdict import UsageError, Verdict
from tests.corpus import CASES
from tests.semantics.harness import entry, known, launch_of, out, symbol
from tests.snippets import FLOATS, compared, on_floats

CASE = CASES / "13-masked-softmax-finite-mask"
# max(x, mask) is x where the mask is -infinity
COPY = on_floats("mov.f32 %f3, %f1;")
MASKED = {
    "an f32 literal": "max.f32 %f3, %f1, 0fC61C4000;",
    "a decimal literal": "max.f32 %f3, %f1, -10000.0;",
    "bits": "mov.b32 %r1, -971227136; mov.b32 %f4, %r1; max.f32 %f3, %f1, %f4;",
    "a guarded choice": "setp.lt.u32 %p1, %tid.x, 7; selp.f32 %f4, %f1, 0fC61C4000, %p1;"
    "max.f32 %f3, %f1, %f4;",
    "through memory": ".shared .align 4 .b8 s[128]; .reg .b32 %s; mov.b32 %s, s;"
    "mad.lo.u32 %s, %gid, 4, %s; st.shared.b32 [%s], -971227136; ld.shared.f32 %f4, [%s];"
    "max.f32 %f3, %f1, %f4;",
    "an f64": "cvt.f64.f32 %g1, %f1; max.f64 %g2, %g1, 0dC0C3880000000000;cvt.rn.f32.f64 %f3, %g2;",
}
# the same number computed, or the bits as an integer: no mask
UNMASKED = {
    "a computed number": "mov.f32 %f4, 0f461C4000; neg.f32 %f4, %f4; max.f32 %f3, %f1, %f4;",
    "a neighbour": "max.f32 %f3, %f1, 0fC61C4001;",
    "an integer": "mov.u32 %r1, 0xC61C4000; mov.b32 %f4, %r1; max.f32 %f3, %f1, %f4;",
}


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason


def masks(verdict: Verdict) -> list[str]:
    return [line for line in verdict.ledger if "--mask-literal" in line]


@pytest.mark.parametrize("how", MASKED)
def test_a_mask_counts_where_it_is_written(how: str) -> None:
    subject = on_floats(MASKED[how])
    assert told(compared(COPY, subject, FLOATS)) == ("refuted", "value.mismatch")
    verdict = compared(COPY, subject, FLOATS, mask_literals=[-1e4])
    assert told(verdict) == ("proved", None)
    (line,) = masks(verdict)
    assert line.startswith("-10000 stands for -infinity in the subject (line ")
    assert told(compared(COPY, subject, FLOATS, mask_literals=[-1e3]))[0] == "refuted"


@pytest.mark.parametrize("how", UNMASKED)
def test_what_is_no_mask(how: str) -> None:
    verdict = compared(COPY, on_floats(UNMASKED[how]), FLOATS, mask_literals=[-1e4])
    assert told(verdict) == ("refuted", "value.mismatch")
    (line,) = masks(verdict)
    assert line == "WARNING: -10000 occurs in neither kernel nor launch (--mask-literal)"


@pytest.mark.parametrize(("dtype", "bits"), [("f16", 0xF0E2), ("bf16", 0xC61C)])
def test_halves(dtype: str, bits: int) -> None:
    params = (symbol("x", dtype, 32), out("z", dtype, 32))
    load, store = "ld.global.b16 %h1, [%x];", "st.global.b16 [%z], %h3;"
    subject = f"{load} mov.b16 %h2, {bits}; max.{dtype} %h3, %h1, %h2; {store}"
    verdict = compared(f"{load} mov.b16 %h3, %h1; {store}", subject, params, mask_literals=[-1e4])
    assert told(verdict) == ("proved", None)
    pair = f"mov.b32 %r1, {bits << 16 | bits}; mov.b32 {{%h4, %h2}}, %r1;"
    subject = f"{load} {pair} max.{dtype} %h3, %h1, %h2; {store}"
    verdict = compared(f"{load} mov.b16 %h3, %h1; {store}", subject, params, mask_literals=[-1e4])
    assert told(verdict) == ("proved", None)


@pytest.mark.parametrize(
    ("kernel", "fmt", "bits", "number", "counts"),
    [
        ("max.f16 %h3, %h1, %h2;", "f16", 0xC61C, -1e4, False),  # bf16 has -1e4 so, f16 -6.11
        ("max.bf16 %h3, %h1, %h2;", "bf16", 0xC200, -3.0, False),  # f16 has -3 so, bf16 -32
        ("max.bf16 %h3, %h1, %h2; neg.f16 %h4, %h2;", "bf16", 0xC61C, -1e4, False),  # which?
        ("max.f16 %h3, %h1, %h2;", "f16", 0xF0E2, -9999.0, True),  # rounded to -10000
    ],
)
def test_bits_count_in_the_format_of_the_kernel(
    kernel: str, fmt: str, bits: int, number: float, counts: bool
) -> None:
    params = (symbol("x", fmt, 32), out("z", fmt, 32))
    load, store = "ld.global.b16 %h1, [%x];", "st.global.b16 [%z], %h3;"
    copy = f"{load} mov.b16 %h3, %h1; {store}"
    subject = f"{load} mov.b16 %h2, {bits}; {kernel} {store}"
    expected = ("proved", None) if counts else ("refuted", "value.mismatch")
    assert told(compared(copy, subject, params, mask_literals=[number])) == expected


def test_values_count_as_they_are_rounded_to_their_type() -> None:
    params = (symbol("x", "f32", 32), known("m", "f32", np.full(32, -1e4, np.float32)))
    body = "ld.global.f32 %f1, [%x]; ld.global.f32 %f4, [%m]; max.f32 %f3, %f1, %f4;"
    copy = "ld.global.f32 %f1, [%x]; mov.f32 %f3, %f1;"
    store = "st.global.f32 [%z], %f3;"
    for number, expected in ((-1e4, "proved"), (-9999.0, "refuted"), (-10001.0, "refuted")):
        every = (*params, out("z", "f32", 32))
        verdict = compared(copy + store, body + store, every, mask_literals=[number])
        assert verdict.verdict == expected


def test_initializers_values_and_scalars() -> None:
    head = ".const .align 4 .f32 table[1] = {0fC61C4000};"
    params: tuple[Param, ...] = (
        symbol("x", "f32", 32),
        known("m", "f32", np.full(32, -1e4, np.float32)),
        Scalar("s", "f32", -1e4),
        out("z", "f32", 32),
    )
    start = "ld.global.f32 %f1, [%x];"
    finish = "max.f32 %f3, %f1, %f4; st.global.f32 [%z], %f3;"
    copy = f"{start} st.global.f32 [%z], %f1;"
    for how, name in (
        ("ld.const.f32 %f4, [table];", "line"),
        ("ld.global.f32 %f4, [%m];", "`m`"),
        ("ld.param.f32 %f4, [s];", "`s`"),
    ):
        verdict = compared(copy, f"{start} {how} {finish}", params, head=head)
        assert told(verdict) == ("refuted", "value.mismatch")
        options: dict[str, Any] = {"head": head, "mask_literals": [-1e4]}
        verdict = compared(copy, f"{start} {how} {finish}", params, **options)
        assert told(verdict) == ("proved", None)
        assert name in masks(verdict)[0]


def test_a_difference_of_masked_kernels_is_still_refuted() -> None:
    subject = on_floats("max.f32 %f4, %f1, 0fF149F2CA; add.f32 %f3, %f4, %f2;")
    verdict = compared(COPY, subject, FLOATS, mask_literals=[-1e30])
    assert told(verdict) == ("refuted", "value.mismatch")
    assert verdict.witness is not None


def test_a_masked_softmax_follows_its_mask() -> None:
    """Case 13: -10000 for -infinity changes what very negative scores give."""
    pair = CASE / "ref.ptx", CASE / "bug.ptx"
    assert told(equivalent(*pair, seed=1)) == ("refuted", "value.mismatch")
    other = equivalent(*pair, seed=1, mask_literals=[-1e30])
    assert told(other) == ("refuted", "value.mismatch")
    verdict = equivalent(*pair, seed=1, mask_literals=[-1e30, -1e4])
    assert (verdict.verdict, verdict.method) == ("proved", "exact")
    assert masks(verdict)[1] == (
        "-10000 stands for -infinity in the subject (line 30) (--mask-literal)"
    )


def test_a_mask_beyond_all_scores_is_itself() -> None:
    """-1e9: a softmax with it is one function, which another is equal to by --mask-literal only."""
    text = (CASE / "bug.ptx").read_text()
    assert text.count("0fC61C4000") == 1
    far, other = (text.replace("0fC61C4000", bits) for bits in ("0fCE6E6B28", "0fCE6E6B29"))
    launch = CASE / "bug.launch.yaml"
    turned = far.replace("%f15, %f13, %f14;", "%f15, %f14, %f13;")
    assert turned != far
    verdict = equivalent(far, turned, launch=launch, seed=1)
    assert (verdict.verdict, verdict.method) == ("proved", "exact")
    assert equivalent(far, other, launch=launch, seed=1).verdict != "proved"
    pair = CASE / "ref.ptx", far
    for literals, expected in (([], False), ([-1e9, -1e30], True)):
        verdict = equivalent(
            *pair,
            launch=CASE / "ref.launch.yaml",
            subject_launch=launch,
            seed=1,
            mask_literals=literals,
        )
        assert (verdict.verdict == "proved") == expected


@pytest.mark.parametrize("bad", [0.0, 1e30, float("-inf"), float("nan")])
def test_what_can_be_no_mask(bad: float) -> None:
    body = entry(COPY, FLOATS)
    with pytest.raises(UsageError, match=r"mask literal .*: expected a finite negative number"):
        equivalent(body, body, launch=launch_of(FLOATS), mask_literals=[bad])
