"""Inputs that show a difference: found near the constants of a kernel, and made small."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kcheck.check import equivalent
from kcheck.contrast import Contrast, contrast
from kcheck.launch import Promise
from kcheck.limits import LimitReached
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.shrink import Shrinker, shrunk
from kcheck.verdict import Verdict
from kcheck.witness import Subject, Writers, confirm
from tests.corpus import CASES, verdict_of
from tests.semantics.harness import entry, launch_of, out, symbol
from tests.snippets import compared

PARAMS = (symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32))
LAUNCH = launch_of(PARAMS)
LOADS = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y];\n"
STORE = "\nst.global.f32 [%z], %f3;"


def refuted(reference: str, subject: str, params: Any = PARAMS, seed: int = 1) -> Verdict:
    texts = [entry(LOADS + body + STORE, params) for body in (reference, subject)]
    return equivalent(*texts, launch=launch_of(params), safety=False, seed=seed)


# reference, subject: they differ only where no family of inputs comes
RARE = {
    # x in (5.3, 5.34)
    "window": (
        "mov.f32 %f3, 0f00000000;",
        "setp.gt.f32 %p1, %f1, 0f40A9999A; setp.lt.f32 %p2, %f1, 0f40AAE148;"
        "and.pred %p3, %p1, %p2; selp.f32 %f3, 0f3F800000, 0f00000000, %p3;",
    ),
    # x + y = 301.25
    "tie": (
        "mov.f32 %f3, %f2;",
        "add.f32 %f4, %f1, %f2; setp.eq.f32 %p1, %f4, 0f4396A000; selp.f32 %f3, %f1, %f2, %p1;",
    ),
    # a bump of max around x - y = 77.75
    "maximum": (
        "mov.f32 %f3, 0f00000000;",
        "sub.f32 %f4, %f1, %f2; sub.f32 %f4, %f4, 0f429B8000; abs.f32 %f4, %f4;"
        "mov.f32 %f5, 0f3D800000; sub.f32 %f5, %f5, %f4; max.f32 %f3, %f5, 0f00000000;",
    ),
}

# by numbers beside the literals; the others by steps
FOUND = {"window": "near literals", "tie": "near literals"}


@pytest.mark.parametrize("kernel", RARE)
def test_guided(kernel: str) -> None:
    verdict = refuted(*RARE[kernel])
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    witness = verdict.witness
    assert witness is not None
    assert (witness.family, witness.buffer) == (FOUND.get(kernel, "guided"), "z")
    (low, high), (floor, top) = witness.reference, witness.subject
    assert high < floor or top < low
    x, y = (float(witness.inputs[name][witness.index[0]]) for name in "xy")
    assert {(name, index) for name, index, _ in witness.entries} <= {
        ("x", witness.index),
        ("y", witness.index),
    }
    where = {
        "window": 5.3 < x < 5.34,
        "tie": x + y == 301.25 and x != y,
        "maximum": abs(x - y - 77.75) < 1 / 16,
    }
    assert where[kernel]
    finding = verdict.findings[0]
    assert (finding.reason, finding.side) == ("value.mismatch", "subject")
    assert all("st.global.f32" in place.text for place in finding.locations)


LARGE = [-1e10, -1e30, -3.4e38, 1e38]


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("body", ["mov.f32 %f4, %f1;", "fma.rn.f32 %f4, %f1, 0f3F000000, %f2;"])
def test_beyond_a_large_constant(body: str, value: float, seed: int) -> None:
    """A step that shows how a small condition moves is lost beside 1e30."""
    literal = f"0f{int(np.float32(value).view(np.uint32)):08X}"
    bound = f"{'max' if value < 0 else 'min'}.f32 %f3, %f4, {literal};"
    verdict = refuted(f"{body} mov.f32 %f3, %f4;", f"{body} {bound}", seed=seed)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    witness = verdict.witness
    assert witness is not None
    assert witness.subject[0] == float(np.float32(value))
    assert abs(witness.reference[0]) > abs(value)


@pytest.mark.parametrize(
    ("fmt", "bits", "wanted"),
    [("bf16", 0xF149, "refuted"), ("f16", 0xFBFE, "refuted"), ("f16", 0xFBFF, "undecided")],
)
def test_beyond_a_large_constant_of_16_bits(fmt: str, bits: int, wanted: str) -> None:
    """No finite number lies below the least one of f16."""
    params = (symbol("x", fmt, 32), out("z", fmt, 32))
    load, store = "ld.global.b16 %h1, [%x];", "st.global.b16 [%z], %h3;"
    subject = f"{load} mov.b16 %h2, {bits}; max.{fmt} %h3, %h1, %h2; {store}"
    verdict = compared(f"{load} mov.b16 %h3, %h1; {store}", subject, params)
    assert verdict.verdict == wanted
    if verdict.witness is not None:
        assert verdict.witness.reference[1] < verdict.witness.subject[0]


CHOSEN = "selp.f32 %f3, %f1, %f2, %p1;"
SCALED = "cvt.rni.f32.f32 %f3, %f4;", "add.f32 %f5, %f4, 0f3F000000; cvt.rmi.f32.f32 %f3, %f5;"
# reference, subject: they differ beside their literals, or on ties of a rounding
BESIDE = {
    "0.123": (
        f"setp.gt.f32 %p1, %f1, 0f3DFBE76D; {CHOSEN}",
        f"setp.gt.f32 %p1, %f1, 0f3DFC1BDA; {CHOSEN}",
    ),
    "exponential": (
        f"ex2.approx.f32 %f4, %f1; setp.gt.f32 %p1, %f4, 0f40400000; {CHOSEN}",
        f"ex2.approx.f32 %f4, %f1; setp.gt.f32 %p1, %f4, 0f40404000; {CHOSEN}",
    ),
    "logarithm of 1 + 2^x from 20 on": (
        "ex2.approx.f32 %f4, %f1; add.f32 %f4, %f4, 0f3F800000; lg2.approx.f32 %f4, %f4;"
        "setp.gt.f32 %p1, %f1, 0f41A00000; selp.f32 %f3, %f1, %f4, %p1;",
        "ex2.approx.f32 %f4, %f1; add.f32 %f4, %f4, 0f3F800000; lg2.approx.f32 %f3, %f4;",
    ),
    "halves": tuple(f"mov.f32 %f4, %f1; {end}" for end in SCALED),
    "halves through 127": tuple(f"mul.f32 %f4, %f1, 0f42FE0000; {end}" for end in SCALED),
    "halves through 12": tuple(f"mul.f32 %f4, %f1, 0f41400000; {end}" for end in SCALED),
    "halves through y": tuple(f"mul.f32 %f4, %f1, %f2; {end}" for end in SCALED),
    # elsewhere 0 / 0, which the slow evaluator makes no integer of
    "halves of quotients": tuple(f"div.full.f32 %f4, %f1, %f2; {end}" for end in SCALED),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("case", BESIDE)
def test_beside_literals(case: str, seed: int) -> None:
    reference, subject = BESIDE[case]
    verdict = refuted(reference, subject, seed=seed)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


@pytest.mark.parametrize("seed", range(12))
def test_ends_of_ranges(seed: int) -> None:
    """Only numbers between 1 and 1.0001 show it."""
    promised = Promise(-4.0, 1.0001)
    params = (replace(PARAMS[0], promise=promised), *PARAMS[1:])
    pair = ("max.f32 %f3, %f1, 0f00000000;", "mov.f32 %f3, %f1; cvt.sat.f32.f32 %f3, %f1;")
    verdict = refuted(*pair, params=params, seed=seed)
    assert verdict.verdict == "refuted"
    assert verdict.witness is not None
    assert 1 < verdict.witness.inputs["x"][verdict.witness.index[0]] <= 1.0001
    params = (replace(PARAMS[0], promise=Promise(-4.0, 1.0)), *PARAMS[1:])
    assert refuted(*pair, params=params, seed=seed).verdict == "proved"


def test_guided_inputs_fit_their_format() -> None:
    """bf16 has 8 bits: 5.3 is none of its numbers."""
    params = (symbol("x", "bf16", 32), symbol("y", "f32", 32), out("z", "f32", 32))
    load = "ld.global.b16 %h1, [%x]; cvt.f32.bf16 %f1, %h1;"
    reference, subject = (f"{load}{body}" for body in RARE["window"])
    wide = subject.replace("0f40AAE148", "0f40AE147B")  # 5.44
    verdict = refuted(reference, wide, params)
    assert verdict.witness is not None
    (entry_,) = (e for e in verdict.witness.entries if e[0] == "x")
    assert entry_[2] == 5.3125 or 5.3 < entry_[2] < 5.44
    assert entry_[2] * 32 == int(entry_[2] * 32)


def test_equal_kernels_have_no_witness() -> None:
    """max(x, y) against a select: nothing to find, and nothing is claimed."""
    both = (
        "max.f32 %f3, %f1, %f2;",
        "setp.gt.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f2, %p1;",
    )
    verdict = refuted(*both)
    assert verdict.witness is None
    assert verdict.verdict != "refuted"


# what the families find is made small

SMALL = {
    "09-tree-reduce-non-pow2": ("out", 1),
    "14-splitk-bias-per-split": ("y", 1),
    "16-swizzle-wrong-on-read": ("out", 1),
    "19-ldmatrix-trans-omitted": ("C", 2),
    "24-index-overflow-u32": ("out", 1),
    "36-vector-atomic-invariant-target": ("out", 1),
    "39-k-tail-stale-smem": ("C", 2),
}


@pytest.mark.parametrize("case", SMALL)
def test_few_ones_are_left(case: str) -> None:
    verdict = verdict_of(CASES / case, "ref", "bug")
    witness = verdict.witness
    buffer, entries = SMALL[case]
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert witness is not None
    assert witness.buffer == buffer
    assert [value for *_, value in witness.entries] == [1.0] * entries
    assert sum(np.count_nonzero(x) for x in witness.inputs.values()) == entries
    assert witness.reference[1] < witness.subject[0] or witness.subject[1] < witness.reference[0]


def test_very_negative_scores_stay() -> None:
    """Case 13: every score must lie below the mask, so none becomes 0; all become one number."""
    verdict = verdict_of(CASES / "13-masked-softmax-finite-mask", "ref", "bug")
    assert verdict.witness is not None
    assert {value for *_, value in verdict.witness.entries} == {-16384.0}
    assert len(verdict.witness.entries) == 20


def close_up(reference: str, subject: str) -> tuple[Contrast, Writers]:
    kernels = [lower(parse(entry(LOADS + body + STORE, PARAMS))) for body in (reference, subject)]
    first, second = (Subject(kernel, LAUNCH) for kernel in kernels)
    writers = Writers(first, second, None)
    zeros = {"x": np.zeros(32), "y": np.zeros(32)}
    found = contrast(writers, ("z", 3), zeros)
    assert found is not None
    return found, writers


def test_contrast_is_of_one_element() -> None:
    close, writers = close_up("add.f32 %f3, %f1, %f2;", "sub.f32 %f3, %f1, %f2;")
    assert close.slice.names == [("x", 3), ("y", 3)]
    assert [close.symbol(i) for i in range(2)] == ["x[3]", "y[3]"]
    assert {writers.sides[0].kernel.code[at].opcode[0] for at in close.made[close.slice.roots]} <= {
        "add",
        "sub",
    }
    gaps = close.gaps(np.array([[1.0, 1.0], [0.0, 2.0]]), widen=False)
    assert gaps[0] == 0
    assert gaps[1] > 0.5
    inputs = close.inputs(np.array([1.0, 2.0]))
    assert (inputs["x"][3], inputs["y"][3], inputs["x"].sum()) == (1, 2, 1)
    assert close.point(inputs).tolist() == [1, 2]
    assert confirm(writers, inputs, ("z", 3)) == ((3, 3), (-1, -1))


def test_shrunk_points_still_differ() -> None:
    """y must not vanish; x may."""
    close, _ = close_up("add.f32 %f3, %f1, %f2;", "sub.f32 %f3, %f1, %f2;")
    quiet: Any = lambda stage, done: None  # noqa: E731
    small = shrunk(close, np.array([2.375, -7.0]), True, 10.0, quiet)
    assert small is not None
    assert small.tolist() == [0, 1]
    assert shrunk(close, np.array([2.375, 0.0]), True, 10.0, quiet) is None
    # no time: the point as it is
    same = shrunk(close, np.array([2.375, -7.0]), True, -1.0, quiet)
    assert same is not None
    assert same.tolist() == [2.375, -7]


FIELDS = (symbol("w", "u32", 32), symbol("x", "f32", 32), out("z", "f32", 32))


@pytest.mark.parametrize("seed", range(3))
def test_integers_are_made_small(seed: int) -> None:
    """Bits 4 to 7 as a number, against bits 8 to 11: one bit of one word is enough."""
    field = (
        "ld.global.u32 %r1, [%w]; ld.global.f32 %f1, [%x];"
        "shr.u32 %r2, %r1, {}; and.b32 %r2, %r2, 15; cvt.rn.f32.u32 %f2, %r2;"
        "mul.f32 %f3, %f1, %f2; st.global.f32 [%z], %f3;"
    )
    texts = [entry(field.format(shift), FIELDS) for shift in (4, 8)]
    verdict = equivalent(*texts, launch=launch_of(FIELDS), safety=False, seed=seed)
    assert verdict.verdict == "refuted"
    witness = verdict.witness
    assert witness is not None
    words, numbers = (dict(e[1:] for e in witness.entries if e[0] == name) for name in "wx")
    assert numbers == {witness.index: 1}
    assert set(words) == {witness.index}
    assert words[witness.index] in {float(1 << k) for k in range(4, 12)}
    # the values are those of the smaller input
    assert {witness.reference, witness.subject} <= {(float(v), float(v)) for v in (0, 1, 2, 4, 8)}
    assert witness.reference != witness.subject


def test_a_limit_while_integers_are_made_small_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is confirmed stands as it was."""

    def reached(*_: Any) -> None:
        raise LimitReached("time", "no time is left")

    monkeypatch.setattr("kcheck.search.with_fewer_integers", reached)
    body = "ld.global.u32 %r1, [%w]; add.s32 %r1, %r1, {}; cvt.rn.f32.u32 %f3, %r1;"
    params = (symbol("w", "u32", 32), out("z", "f32", 32))
    one, two = (body.format(n) + "st.global.f32 [%z], %f3;" for n in (1, 2))
    verdict = compared(one, two, params)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


@pytest.mark.parametrize(("dtype", "value"), [("s8", -128.0), ("u8", 128.0)])
def test_an_integer_output_is_a_number_of_its_type(dtype: str, value: float) -> None:
    """128 in a byte is -128 where there is a sign."""
    params = (symbol("x", "f32", 32), out("z", dtype, 32))
    body = "ld.global.f32 %f1, [%x]; cvt.rni.s32.f32 %r1, %f1; {} st.global.u8 [%z], %r1;"
    verdict = compared(body.format(""), body.format("add.s32 %r1, %r1, 128;"), params)
    assert verdict.verdict == "refuted"
    assert verdict.witness is not None
    (low, _), (floor, _) = verdict.witness.reference, verdict.witness.subject
    assert (low, floor) == (0.0, value)
    assert f" is 0 in the reference and {value:.0f} in the subject" in verdict.findings[0].message


def test_a_promise_does_not_hold_shrinking_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 is outside; what is put in its place is not cleared again and again."""
    tries, take = [], Shrinker.take

    def counted(self: Shrinker, variants: Any) -> bool:
        tries.append(variants)
        return take(self, variants)

    monkeypatch.setattr(Shrinker, "take", counted)
    params = (replace(PARAMS[0], promise=Promise(0.25, 1.0)), *PARAMS[1:])
    verdict = refuted("mov.f32 %f3, %f1;", "mul.f32 %f3, %f1, %f1;", params)
    assert verdict.verdict == "refuted"
    assert 0 < len(tries) < 10


def test_rounding_of_points() -> None:
    close, _ = close_up("add.f32 %f3, %f1, %f2;", "sub.f32 %f3, %f1, %f2;")
    third = close.rounded(np.array([[1 / 3], [1e300]]))
    assert third[0, 0] == np.float32(1 / 3)
    assert third[1, 0] == 0  # beyond f32
    assert not math.isnan(third.sum())
