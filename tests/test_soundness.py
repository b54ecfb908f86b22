"""Pairs that were once called proved, or refuted, wrongly: one promise each."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from kcheck import check
from kcheck.check import equivalent
from kcheck.launch import Launch, Scalar, Tensor
from kcheck.proof import claim
from kcheck.verdict import UsageError, Verdict
from tests.semantics.harness import entry, launch_of, out, symbol
from tests.snippets import FLOATS, compared, floats, on_floats

X = "add.f32 %f3, %f1, 0f00000000;"
SHARED = ".shared .align 4 .b8 s[128]; .reg .b32 %s; mov.b32 %s, s; mad.lo.u32 %s, %gid, 4, %s;"
ZERO_DIVISOR = "sub.f32 %f4, %f1, %f1; div.rn.f32 %f5, %f1, %f4;"


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason


UNDEFINED = {
    "the rest of an undefined word": f"{SHARED} st.shared.u32 [%s], %r9; st.shared.u16 [%s], %h1;"
    "ld.shared.u16 %h2, [%s+2]; cvt.rn.f32.u16 %f4, %h2; add.f32 %f3, %f1, %f4;",
    "the sign of an undefined number": "copysign.f32 %f3, %f9, %f1;",
}


@pytest.mark.parametrize("what", UNDEFINED)
def test_undefined_stays_undefined(what: str) -> None:
    body = f"mov.u16 %h1, 5; {UNDEFINED[what]}"
    assert told(floats(body, body)) == ("refuted", "undefined.output")


MAGIC = {
    "a product": "mov.f32 %f4, 0f45800000; mov.f32 %f5, 0f45400000; fma.rn.f32 %f3, %f4, %f5, %f1;"
    "neg.f32 %f4, %f4; fma.rn.f32 %f3, %f4, %f5, %f3;",
    "an atomic": "st.global.f32 [%z], %f1; red.global.add.f32 [%z], 0f4B400000;"
    "red.global.add.f32 [%z], 0fCB400000; ld.global.f32 %f3, [%z];",
}


@pytest.mark.parametrize("how", MAGIC)
def test_magic_rounding_is_refused_however_it_is_written(how: str) -> None:
    assert told(floats(MAGIC[how], X)) == ("undecided", "unsupported.magic-rounding")


@pytest.mark.parametrize("op", ["max.f32", "min.f32", "max.NaN.f32", "add.sat.f32"])
def test_a_division_by_zero_may_be_an_infinity(op: str) -> None:
    """min(1/0, x) is x on hardware, max(1/0, x) is not: neither is claimed."""
    verdict = floats(f"{ZERO_DIVISOR} {op} %f3, %f5, %f1;", X)
    allowed = {("undecided", "unsupported.infinity")}
    if op == "max.NaN.f32":
        allowed = {("refuted", "value.division-by-zero")}
    assert told(verdict) in allowed


def test_an_external_variable_has_no_known_contents() -> None:
    head = ".extern .global .align 4 .b8 tab[128];"
    body = on_floats("ld.global.f32 %f4, [tab]; add.f32 %f3, %f1, %f4;")
    verdict = compared(body, on_floats(X), FLOATS, head=head)
    assert told(verdict) == ("undecided", "unsupported.symbol")


@pytest.mark.parametrize(
    ("head", "body", "form"),
    [
        (".const .align 4 .f32 tab[4];", "ld.const.f32 %f4, [tab];", "symbol"),
        (".global .align 4 .f32 tab[4];", "ld.global.f32 %f4, [tab];", "symbol"),
        (
            ".global .align 4 .f32 tab[4] = {0f00000000};",
            "mov.f32 %f4, %f1; st.global.f32 [tab], %f1;",
            "global-store",
        ),
        (
            ".func f(); .func g() { call f; ret; } .func f() { call g; ret; }",
            "call f; mov.f32 %f4, %f1;",
            "call",
        ),
    ],
)
def test_what_the_host_or_nobody_can_see_is_refused(head: str, body: str, form: str) -> None:
    """Device variables are set and read by the host; recursion has no end that is known."""
    text = on_floats(f"{body} add.f32 %f3, %f1, %f4;")
    verdict = compared(text, text, FLOATS, head=head)
    assert told(verdict) == ("undecided", f"unsupported.{form}")


def test_an_initialized_variable_is_an_assumption() -> None:
    text = on_floats("ld.const.f32 %f4, [tab]; add.f32 %f3, %f1, %f4;")
    head = ".const .align 4 .f32 tab[1] = {0f3F800000};"
    verdict = compared(text, on_floats("add.f32 %f3, %f1, 0f3F800000;"), FLOATS, head=head)
    assert verdict.verdict == "proved"
    assert "the device variable `tab` holds its initializer" in verdict.ledger


def test_registers_of_two_kinds_do_not_multiply() -> None:
    """Moves between registers whose lanes hold bits in some and floats in others."""
    moves = "".join(f"mov.b32 %r2, %r1; mov.b32 %r1, %r2; // {i}\n" for i in range(40))
    body = (
        "mov.u32 %r1, 0; setp.lt.u32 %p1, %gid, 7; @%p1 mov.b32 %r1, %f1;"
        f"@%p1 bra L; bra M; L: {moves} M: mov.b32 %f3, %r1;"
    )
    assert floats(body, body).verdict == "proved"


def test_a_loop_without_instructions_ends_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcheck.semantics.machine.BUDGET", 1000)
    verdict = floats("L: bra L;" + X, X)
    assert told(verdict) == ("undecided", "budget.time")


def test_a_guarded_store_out_of_bounds_is_no_contradiction() -> None:
    body = X + "setp.gt.f32 %p1, %f1, 0f7E967699; @%p1 st.global.f32 [%z+4096], %f1;"
    assert told(floats(body, X)) == ("undecided", "unconfirmed.bounds.global")
    reached = X + "setp.gt.f32 %p1, %f1, 0f3F800000; @%p1 st.global.f32 [%z+4096], %f1;"
    assert told(floats(reached, X)) == ("refuted", "bounds.global")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_are_values(value: float) -> None:
    known = Tensor("x", "f32", (32,), "in", values=np.full(32, value, np.float32))
    params = [known, symbol("y", "f32", 32), out("z", "f32", 32)]
    verdict = compared(on_floats(X), on_floats("mov.f32 %f3, %f1;"), params)
    expected = ("refuted", "value.nan") if np.isnan(value) else ("proved", None)
    assert told(verdict) == expected


ROUNDED = {
    "literals one ulp apart": ("mul.f32 %f3, %f1, 0f3DCCCCCD;", "mul.f32 %f3, %f1, 0f3DCCCCCE;"),
    "a constant folded": (
        "mul.f32 %f3, %f1, 0f3E9BA5E6;",
        "mov.f32 %f4, 0f3DCF87DD; mul.f32 %f4, %f4, 0f40400000; mul.f32 %f3, %f1, %f4;",
    ),
}


@pytest.mark.parametrize("what", ROUNDED)
def test_a_difference_of_rounded_literals_is_left_open(what: str) -> None:
    assert told(floats(*ROUNDED[what])) == ("undecided", "constants")


def test_a_literal_that_is_simple_is_meant_as_it_is_written() -> None:
    verdict = floats("add.f32 %f3, %f1, 0f3F800000;", "add.f32 %f3, %f1, 0f3F7FF000;")
    assert told(verdict) == ("refuted", "value.mismatch")


def test_an_output_without_an_input_is_warned_of() -> None:
    verdict = floats("mov.f32 %f3, 0f00000000;", "mov.f32 %f3, 0f00000000;")
    assert verdict.verdict == "proved"
    assert "WARNING: `z` depends on no input" in verdict.ledger


def test_a_divisor_that_is_0_for_half_of_all_inputs_is_warned_of() -> None:
    """max(x, 0) / max(x, 0) is 1 only where x > 0; x / x is that nearly everywhere."""
    relu = "max.f32 %f4, %f1, 0f00000000; div.rn.f32 %f3, %f4, %f4;"
    verdict = floats(relu, "mov.f32 %f3, 0f3F800000;")
    assert verdict.verdict == "proved"
    (line,) = (line for line in verdict.ledger if line.startswith("WARNING: z[0]"))
    assert "divided by 0 where all inputs are negative" in line
    verdict = floats("div.rn.f32 %f3, %f1, %f1;", "mov.f32 %f3, 0f3F800000;")
    assert verdict.verdict == "proved"
    assert not any("divided by 0" in line for line in verdict.ledger)


@pytest.mark.parametrize("guard", [0.0, 5.0])
def test_a_guard_against_0_that_is_missing_is_refuted(guard: float) -> None:
    """What is 0 for half of all inputs is divided by: no matter of one point."""
    (bits,) = struct.unpack("<I", struct.pack("<f", guard))
    relu = "max.f32 %f4, %f1, 0f00000000; mul.f32 %f5, %f4, %f2; div.rn.f32 %f3, %f5, %f4;"
    select = f"setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f2, 0f{bits:08X}, %p1;"
    verdict = floats(select, relu)
    assert told(verdict) == ("refuted", "value.division-by-zero")
    (finding,) = verdict.findings
    assert finding.message == (
        "z[0] is divided by zero where all inputs are negative, and a number in the reference"
    )
    assert [place.text.split()[0] for place in finding.locations] == ["st.global.f32"] * 2
    assert verdict.witness is not None
    assert verdict.witness.reference == (guard, guard)
    assert math.isnan(verdict.witness.subject[0])
    assert all((x < 0).all() for x in verdict.witness.inputs.values())
    # a guarded quotient is no division where it does not count
    quotient = f"div.rn.f32 %f5, %f4, %f4; {select.replace('%f2,', '%f5,')}"
    one = f"mov.f32 %f5, 0f3F800000; {select.replace('%f2,', '%f5,')}"
    guarded = f"max.f32 %f4, %f1, 0f00000000; {quotient}"
    assert told(floats(one, guarded)) == ("proved", None)


ON_THE_WAY = {
    "rcp(rcp r)": ("mov.f32 %f3, %f4;", "rcp.rn.f32 %f5, %f4; rcp.rn.f32 %f3, %f5;"),
    "rcp(rsqrt r)": ("sqrt.rn.f32 %f3, %f4;", "rsqrt.approx.f32 %f5, %f4; rcp.rn.f32 %f3, %f5;"),
    "y/(1/r)": ("mul.f32 %f3, %f2, %f4;", "rcp.rn.f32 %f5, %f4; div.rn.f32 %f3, %f2, %f5;"),
}


@pytest.mark.parametrize("what", ON_THE_WAY)
def test_a_division_by_0_on_the_way_to_a_number_is_no_defect(what: str) -> None:
    """r = max(x, 0): 1/(1/0) is 0, as it should be; the ledger warns."""
    relu = "max.f32 %f4, %f1, 0f00000000;"
    verdict = floats(*(relu + body for body in ON_THE_WAY[what]))
    assert told(verdict) == ("proved", None)
    assert any("the subject alone divides by 0 on the way to z" in x for x in verdict.ledger)
    nothing = "rsqrt.approx.f32 %f5, %f4; mul.f32 %f3, %f4, %f5;"  # 0 times infinity
    verdict = floats(relu + "sqrt.rn.f32 %f3, %f4;", relu + nothing)
    assert told(verdict) == ("refuted", "value.division-by-zero")


def test_no_finite_input_is_beyond_the_largest_number_of_its_format() -> None:
    """A maximum that starts at -FLT_MAX; of what is computed, and of -1e38, that says nothing."""
    start = "mov.f32 %f3, {}; max.f32 %f3, %f3, %f1; max.f32 %f3, %f3, %f2;"
    infinite, largest, other = (
        start.format(f"0f{bits}") for bits in ("FF800000", "FF7FFFFF", "FE967699")
    )
    assert told(floats(infinite, largest)) == ("proved", None)
    assert floats(infinite, other).verdict != "proved"
    computed = "mul.f32 %f4, %f1, %f2; max.f32 %f3, %f4, {};"
    pair = (computed.format(f"0f{bits}") for bits in ("FF800000", "FF7FFFFF"))
    assert floats(*pair).verdict != "proved"


# names that meet on both sides

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
SCALED = (
    HEAD
    + """.visible .entry k(.param .u64 x, .param .f32 a, .param .u64 z)
{ .reg .b64 %d<4>; .reg .f32 %f<4>; ld.param.u64 %d1, [x]; ld.param.f32 %f1, [a];
  ld.param.u64 %d2, [z]; ld.global.f32 %f2, [%d1]; mul.f32 %f3, %f1, %f2;
  st.global.f32 [%d2], %f3; ret; }
"""
)
INDEXED = (
    HEAD
    + """.visible .entry k(.param .u64 x, .param .u64 a, .param .u64 z)
{ .reg .b64 %d<4>; .reg .f32 %f<4>; ld.param.u64 %d1, [x]; ld.param.u64 %d3, [a];
  ld.param.u64 %d2, [z]; ld.global.f32 %f1, [%d3]; ld.global.f32 %f2, [%d1];
  mul.f32 %f3, %f1, %f2; st.global.f32 [%d2], %f3; ret; }
"""
)
ONE = (1, 1, 1)


def launched(*params: Any) -> Launch:
    return Launch("k", ONE, ONE, params)


def one(name: str, role: str = "in") -> Tensor:
    return Tensor(name, "f32", (1,), role)


def judged(reference: str, a: Launch, subject: str, b: Launch, **more: Any) -> Verdict:
    return equivalent(reference, subject, launch=a, subject_launch=b, safety=False, seed=1, **more)


def test_a_scalar_and_a_tensor_of_one_name_are_two_inputs() -> None:
    scalar = launched(one("x"), Scalar("a", "f32", None), one("z", "out"))
    tensor = launched(one("x"), one("a"), one("z", "out"))
    assert told(judged(SCALED, scalar, INDEXED, tensor)) == ("refuted", "value.mismatch")


def test_a_mapped_scalar_does_not_meet_the_subjects_own() -> None:
    """a is the subject's b; the subject's own a is another input."""
    ours = launched(one("x"), Scalar("a", "f32", None), one("z", "out"))
    theirs = launched(one("x"), Scalar("b", "f32", None), one("z", "out"))
    assert judged(SCALED, ours, SCALED, theirs, mapping={"a": "b"}).verdict == "proved"
    other = launched(one("x"), Scalar("a", "f32", None), one("z", "out"), Scalar("b", "f32", None))
    longer = SCALED.replace(".param .u64 z)", ".param .u64 z, .param .f32 b)")
    verdict = judged(SCALED, ours, longer, other, mapping={"a": "b"})
    assert told(verdict) == ("refuted", "value.mismatch")


def test_a_buffer_cleared_on_one_side_only_is_refused() -> None:
    a = launch_of([*FLOATS[:2], out("z", "f32", 32, init="zero")])
    body = entry(on_floats(X), FLOATS)
    with pytest.raises(UsageError, match="init zero in the reference, undef in the subject"):
        judged(body, a, body, launch_of(FLOATS))


def test_the_claim_is_made_of_the_run_that_is_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """More trials draw other primes: the condition of the theorem is checked for those."""
    trials: list[int] = []

    def noted(question: Any, run: Any) -> Any:
        trials.append(run.trials)
        return claim(question, run)

    monkeypatch.setattr("kcheck.check.claim", noted)
    body = "ex2.approx.f32 %f4, %f1; ex2.approx.f32 %f5, %f2; add.f32 %f3, %f4, %f5;"
    verdict = floats(body, body, engine="field")
    assert verdict.verdict == "proved"
    assert trials[0] == check.TRIALS
    assert trials[-1] == verdict.statistics["trials"] > check.TRIALS


def test_what_is_not_zero_leaves_all_its_factors_open() -> None:
    """p [v = 0] is not 0 where p is 1 and v is not 0: p stays what it is (six indicators)."""
    params = (*(symbol(name, "f32", 32) for name in "xywv"), out("z", "f32", 32))
    load = "".join(f"ld.global.f32 %f{i + 1}, [%{name}];" for i, name in enumerate("xywv"))
    lines = [load]
    for i, bits in enumerate(("3EBD70A4", "3FB47AE1", "403147AE", "404851EC", "4092E148")):
        lines.append(f"setp.gt.f32 %p1, %f2, 0f{bits}; selp.f32 %f{10 + i}, 1.0, 0.0, %p1;")
    lines.append("setp.gt.f32 %p1, %f3, 0f40A9999A; selp.f32 %f6, 1.0, 0.0, %p1;")
    lines += [f"add.f32 %f10, %f10, %f{i};" for i in (11, 12, 13, 14)]
    lines.append("sub.f32 %f21, %f1, %f10; add.f32 %f22, %f21, 5.0; sub.f32 %f23, %f4, 5.0;")
    lines.append("fma.rn.f32 %f22, %f6, %f23, %f22; setp.eq.f32 %p1, %f22, 0.0;")
    lines.append("setp.eq.f32 %p2, %f21, 0.0; selp.f32 %f30, 0.0, 1.0, %p1;")
    lines.append("selp.f32 %f31, 1.0, 0.0, %p2; mul.f32 %f32, %f30, %f31; mul.f32 %f32, %f32, %f6;")
    lines += [
        f"setp.{cmp}.f32 %p3, %f{of}, 0f{bits}; selp.f32 %f33, 1.0, 0.0, %p3;"
        "mul.f32 %f32, %f32, %f33;"
        for cmp, of, bits in (("gt", 4, "4111C28F"), ("gt", 2, "40F8A3D7"), ("lt", 2, "40F8F5C3"))
    ]
    one = "".join(lines) + "st.global.f32 [%z], %f32;"
    for zero, number in (("1.0", "3F800000"), ("0.0", "00000000"), ("5.0", "40A00000")):
        one = one.replace(zero, f"0f{number}")
    nothing = load + "mov.f32 %f32, 0f00000000; st.global.f32 [%z], %f32;"
    texts = (entry(body, params) for body in (one, nothing))
    assert equivalent(*texts, launch=launch_of(params), seed=1).verdict != "proved"
