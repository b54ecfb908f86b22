"""Two kernels in true formats: `--engine ieee` measures, and proves nothing."""

from __future__ import annotations

import json

import pytest

from kcheck.cli import main
from tests.corpus import CASES, verdict_of
from tests.semantics.harness import out, symbol
from tests.snippets import FLOATS, compared, floats

Capture = pytest.CaptureFixture[str]


def test_the_same_roundings_in_another_place() -> None:
    verdict = verdict_of(CASES / "16-swizzle-wrong-on-read", "ref", "fix", engine="ieee")
    assert (verdict.verdict, verdict.reason) == ("undecided", "tested-equal")
    assert verdict.outputs[0] == verdict.outputs[1] > 0
    assert verdict.findings[0].message.startswith("`out` is the same on ")
    assert "races were not looked for" in verdict.ledger


def test_what_is_equal_over_the_reals_may_round_differently() -> None:
    """(x + y) - y in f32: the answer names how far the two are apart."""
    sums = "add.f32 %f4, %f1, %f2; sub.f32 %f3, %f4, %f2;"
    verdict = floats(sums, "mov.f32 %f3, %f1;", engine="ieee")
    assert (verdict.verdict, verdict.reason) == ("undecided", "formats-differ")
    assert "ulp of f32" in verdict.findings[0].message
    assert floats(sums, "mov.f32 %f3, %f1;").verdict == "proved"


def test_an_overflow_is_infinitely_far() -> None:
    """An f16 accumulator, which is equal over the reals."""
    verdict = verdict_of(CASES / "33-fp16-accumulator", "ref", "bug", engine="ieee")
    assert verdict.reason == "formats-differ"
    assert "inf ulp of f16" in verdict.findings[0].message


def test_one_ulp_is_one_ulp() -> None:
    """x, and the f32 next to it."""
    body = "ld.global.u32 %r4, [%x]; add.u32 %r4, %r4, {}; st.global.u32 [%z], %r4;"
    params = (symbol("x", "f32", 32), out("z", "f32", 32))
    verdict = compared(body.format(0), body.format(1), params, engine="ieee")
    assert ", 1 ulp of f32, " in verdict.findings[0].message
    assert verdict.outputs == (0, 32)


def test_integers_count_in_ones() -> None:
    params = (symbol("x", "s32", 32), out("z", "s32", 32))
    body = "ld.global.u32 %r4, [%x]; add.s32 %r4, %r4, {}; st.global.u32 [%z], %r4;"
    verdict = compared(body.format(0), body.format(5), params, engine="ieee")
    assert ", 5 apart" in verdict.findings[0].message


def test_what_has_no_rule_in_true_formats_is_refused() -> None:
    subject = "ld.global.f32 %f1, [%x]; rsqrt.approx.ftz.f64 %g1, %g1; st.global.f32 [%z], %f1;"
    verdict = compared("st.global.f32 [%z], 0f00000000;", subject, FLOATS, engine="ieee")
    assert (verdict.verdict, (verdict.reason or "")[:12]) == ("undecided", "unsupported.")
    assert verdict.findings[0].side == "subject"


def test_what_else_is_wrong_is_listed() -> None:
    subject = "ld.global.f32 %f1, [%x+128]; st.global.f32 [%z], %f1;"
    verdict = compared("ld.global.f32 %f1, [%x]; st.global.f32 [%z], %f1;", subject, FLOATS,
                       engine="ieee")  # fmt: skip
    found = verdict.findings[0]
    assert (verdict.verdict, found.reason, found.side) == ("undecided", "bounds.global", "subject")
    assert found.confirmed == "no"
    assert found.locations[0].text.startswith("ld.global.f32 %f1, [%x+128]")


def test_on_the_command_line(capsys: Capture) -> None:
    folder = CASES / "33-fp16-accumulator"
    files = [str(folder / "ref.ptx"), str(folder / "bug.ptx")]
    assert main(["equiv", *files, "--engine", "ieee", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["reason"] == "formats-differ"
    assert answer["next_steps"] == ["--engine auto: do they differ over the reals?"]
