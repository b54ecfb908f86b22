"""Real semantics are not sloppy: what is no identity over the reals is never taken for one.

Bodies compute %f3 from %f1 = x[i] and %f2 = y[i] (tests.snippets).
"""

from __future__ import annotations

import pytest

from kcheck.verdict import Verdict
from tests.snippets import BFLOATS, HALVES, compared, floats, on_halves

X = "mov.f32 %f3, %f1;"
Y = "mov.f32 %f3, %f2;"
ZERO = "mov.f32 %f3, 0f00000000;"
ONE = "mov.f32 %f3, 0f3F800000;"
NO_DIVISOR = "sub.f32 %f4, %f2, %f2; div.rn.f32 %f5, %f1, %f4; "
MAX = "max.f32 %f3, %f1, %f2;"
LESS = "setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f2, %p1;"
MINUS_INF = "mov.f32 %f4, 0fFF800000; "


def exp2(nested: int, source: str = "%f1") -> str:
    """2^2^...^source."""
    return f"ex2.approx.f32 %f3, {source}; " + "ex2.approx.f32 %f3, %f3; " * (nested - 1)


EQUAL = {
    "exp nested deeper than the field goes": (
        f"add.f32 %f4, %f1, 0f3F800000; {exp2(5, '%f4')}",
        f"ex2.approx.f32 %f4, %f1; add.f32 %f4, %f4, %f4; {exp2(4, '%f4')}",
    ),
    "x*2^25 = (x*2^24)*2": (
        "mul.f32 %f3, %f1, 0f4C000000;",
        "mul.f32 %f3, %f1, 0f4B800000; mul.f32 %f3, %f3, 0f40000000;",
    ),
    "exp2(x+1) = 2 exp2(x)": (
        "add.f32 %f4, %f1, 0f3F800000; ex2.approx.f32 %f3, %f4;",
        "ex2.approx.f32 %f4, %f1; mul.f32 %f3, %f4, 0f40000000;",
    ),
    "exp2(x) exp2(-x) = 1": (
        "ex2.approx.f32 %f4, %f1; neg.f32 %f5, %f1; ex2.approx.f32 %f5, %f5;mul.f32 %f3, %f4, %f5;",
        ONE,
    ),
    "max(x,y,x) = max(y,x)": (MAX + "max.f32 %f3, %f3, %f1;", "max.f32 %f3, %f2, %f1;"),
    "min(x,y) = -max(-x,-y)": (
        "min.f32 %f3, %f1, %f2;",
        "neg.f32 %f4, %f1; neg.f32 %f5, %f2; max.f32 %f3, %f4, %f5; neg.f32 %f3, %f3;",
    ),
    "x-x = 0": ("sub.f32 %f3, %f1, %f1;", ZERO),
    "0 x = 0": ("mul.f32 %f3, %f1, 0f00000000;", ZERO),
    "-0 x = 0": ("mul.f32 %f3, %f1, 0f80000000;", ZERO),
    "x (1/y) = x/y": ("rcp.rn.f32 %f4, %f2; mul.f32 %f3, %f1, %f4;", "div.rn.f32 %f3, %f1, %f2;"),
    "x y / y = x": ("mul.f32 %f3, %f1, %f2; div.full.f32 %f3, %f3, %f2;", X),
    "y rsqrt(x) = y/sqrt(x)": (
        "rsqrt.approx.f32 %f4, %f1; mul.f32 %f3, %f4, %f2;",
        "sqrt.rn.f32 %f4, %f1; div.rn.f32 %f3, %f2, %f4;",
    ),
    "sqrt(x-x) = 0": ("sub.f32 %f4, %f1, %f1; sqrt.rn.f32 %f3, %f4;", ZERO),
    "sat(x+0) = min(max(x,0),1)": (
        "add.sat.f32 %f3, %f1, 0f00000000;",
        "max.f32 %f3, %f1, 0f00000000; min.f32 %f3, %f3, 0f3F800000;",
    ),
    "f32 -> f16 -> f32": ("cvt.rn.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;", X),
    "f32 -> bf16 -> f32": ("cvt.rn.bf16.f32 %h1, %f1; cvt.f32.bf16 %f3, %h1;", X),
    "f32 -> tf32": ("cvt.rna.tf32.f32 %r1, %f1; mov.b32 %f3, %r1;", X),
    "bf16 shifted up is f32": (
        "cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r1, %h1; shl.b32 %r1, %r1, 16; mov.b32 %f3, %r1;",
        X,
    ),
    "relu of a conversion = max": (
        "cvt.rn.relu.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;",
        "cvt.rn.f16.f32 %h1, %f1; max.f16 %h2, %h1, 0x0000; cvt.f32.f16 %f3, %h2;",
    ),
    "floor = floor": ("cvt.rmi.f32.f32 %f3, %f1;", "cvt.rmi.f32.f32 %f3, %f1;"),
    "rounding modes": ("add.rz.f32 %f3, %f1, %f2;", "add.rn.ftz.f32 %f3, %f2, %f1;"),
    "max(x, nan) = x": ("max.f32 %f3, %f1, 0f7FC00000;", X),
    "max(-inf, x) = x": ("max.f32 %f3, 0fFF800000, %f1;", X),
    "min(inf, x) = x": ("min.f32 %f3, 0f7F800000, %f1;", X),
    "exp2(-inf) = 0": (MINUS_INF + "ex2.approx.f32 %f3, %f4; add.f32 %f3, %f3, %f1;", X),
    "exp2(-inf - x) = 0": (
        MINUS_INF + "sub.f32 %f5, %f4, %f1; ex2.approx.f32 %f3, %f5; add.f32 %f3, %f3, %f1;",
        X,
    ),
    "a select with arms and predicate turned": (
        LESS,
        "setp.ge.f32 %p1, %f1, %f2; selp.f32 %f3, %f2, %f1, %p1;",
    ),
    "a select = a predicated move": (
        LESS,
        "setp.lt.f32 %p1, %f1, %f2; @!%p1 mov.f32 %f1, %f2;" + X,
    ),
    "x > y = y < x": (
        "setp.gt.f32 %p1, %f2, %f1; selp.f32 %f3, %f1, %f2, %p1;",
        LESS,
    ),
    "set = select of 1 and 0": (
        "setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, 0f3F800000, 0f00000000, %p1;",
        "set.lt.f32.f32 %f3, %f1, %f2;",
    ),
    "x is no nan": ("setp.neu.f32 %p1, %f1, %f1; selp.f32 %f3, %f2, %f1, %p1;", X),
    "|x| by its bits": (
        "mov.b32 %r1, %f1; and.b32 %r1, %r1, 0x7fffffff; mov.b32 %f3, %r1;",
        "abs.f32 %f3, %f1;",
    ),
    "-x by its bits": (
        "mov.b32 %r1, %f1; xor.b32 %r1, %r1, 0x80000000; mov.b32 %f3, %r1;",
        "neg.f32 %f3, %f1;",
    ),
    "the sign bit of a literal -0": (
        "mov.f32 %f4, 0f80000000; mov.b32 %r1, %f4; shr.u32 %r2, %r1, 31;"
        "cvt.rn.f32.u32 %f5, %r2; add.f32 %f3, %f1, %f5;",
        "add.f32 %f3, %f1, 0f3F800000;",
    ),
    "a division by zero that nothing reads": (NO_DIVISOR + X, X),
    "a division by zero that a guard drops": (
        NO_DIVISOR + "setp.eq.f32 %p1, %f4, 0f00000000; selp.f32 %f3, %f1, %f5, %p1;",
        X,
    ),
}


@pytest.mark.parametrize("identity", EQUAL)
def test_identity_of_the_reals_is_proved(identity: str) -> None:
    verdict = floats(*EQUAL[identity])
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    assert verdict.outputs == (32, 32)
    assert verdict.method == "exact"


DIFFERENT = {
    "floor(x), x": ("cvt.rmi.f32.f32 %f3, %f1;", X),
    "trunc(x), x": (X, "cvt.rzi.f32.f32 %f3, %f1;"),
    "floor, ceil": ("cvt.rmi.f32.f32 %f3, %f1;", "cvt.rpi.f32.f32 %f3, %f1;"),
    "round, trunc": ("cvt.rni.f32.f32 %f3, %f1;", "cvt.rzi.f32.f32 %f3, %f1;"),
    "sat(x+0), x": ("add.sat.f32 %f3, %f1, 0f00000000;", X),
    "add.sat, add": ("add.sat.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1, %f2;"),
    "mul.sat, mul": ("mul.sat.f32 %f3, %f1, %f2;", "mul.f32 %f3, %f1, %f2;"),
    "fma.sat, fma": ("fma.rn.sat.f32 %f3, %f1, %f2, %f2;", "fma.rn.f32 %f3, %f1, %f2, %f2;"),
    "cvt.sat, x": ("cvt.sat.f32.f32 %f3, %f1;", X),
    "cvt.relu, cvt": (
        "cvt.rn.relu.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;",
        "cvt.rn.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;",
    ),
    "exp(exp(x)), exp(exp(y))": (exp2(2), exp2(2, "%f2")),
    "exp(x), exp(y)": (exp2(1), exp2(1, "%f2")),
    # 2^31 = 69 modulo a prime that fixed moduli would have
    "x*2^31, x*69": ("mul.f32 %f3, %f1, 0f4F000000;", "mul.f32 %f3, %f1, 0f428A0000;"),
    "max(x,y), x": (MAX, X),
    "max, min": (MAX, "min.f32 %f3, %f1, %f2;"),
    "|x|, x": ("abs.f32 %f3, %f1;", X),
    "x/y, y/x": ("div.rn.f32 %f3, %f1, %f2;", "div.rn.f32 %f3, %f2, %f1;"),
    "sqrt(x), sqrt(y)": ("sqrt.rn.f32 %f3, %f1;", "sqrt.rn.f32 %f3, %f2;"),
    "sqrt(x x), x": ("mul.f32 %f4, %f1, %f1; sqrt.rn.f32 %f3, %f4;", X),
    "tanh(x), x": ("tanh.approx.f32 %f3, %f1;", X),
    "sin, cos": ("sin.approx.f32 %f3, %f1;", "cos.approx.f32 %f3, %f1;"),
    "lg2(x), lg2(y)": ("lg2.approx.f32 %f3, %f1;", "lg2.approx.f32 %f3, %f2;"),
    "arms turned": (LESS, "setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, %f2, %f1, %p1;"),
    "x < 0, x <= 0": (
        "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;",
        "setp.le.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;",
    ),
    "x < 0, x < 1": (
        "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;",
        "setp.lt.f32 %p1, %f1, 0f3F800000; selp.f32 %f3, %f1, %f2, %p1;",
    ),
    "and, or of predicates": (
        "setp.gt.f32 %p1, %f1, %f2; setp.gt.f32 %p2, %f2, 0f00000000; and.pred %p1, %p1, %p2;"
        "selp.f32 %f3, %f1, %f2, %p1;",
        "setp.gt.f32 %p1, %f1, %f2; setp.gt.f32 %p2, %f2, 0f00000000; or.pred %p1, %p1, %p2;"
        "selp.f32 %f3, %f1, %f2, %p1;",
    ),
    "a number against -inf": (MINUS_INF + "mov.f32 %f3, %f4;", X),
    "another lane": ("shfl.sync.bfly.b32 %f3, %f1, 16, 31, -1;", X),
    "up, down": (
        "shfl.sync.up.b32 %f3, %f1, 1, 0, -1;",
        "shfl.sync.down.b32 %f3, %f1, 1, 31, -1;",
    ),
}


@pytest.mark.parametrize("pair", DIFFERENT)
def test_different_functions_are_refuted(pair: str) -> None:
    verdict = floats(*DIFFERENT[pair])
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert_apart(verdict)


def assert_apart(verdict: Verdict) -> None:
    witness = verdict.witness
    assert witness is not None
    assert witness.buffer == "z"
    (low, high), (floor, top) = witness.reference, witness.subject
    assert high < floor or top < low
    assert {name: len(values) for name, values in witness.inputs.items()} == {"x": 32, "y": 32}


DEFECTS = {
    "x/(x-x), 0": ("sub.f32 %f4, %f1, %f1; div.rn.f32 %f3, %f1, %f4;", ZERO, "division-by-zero"),
    "1/(x-x), 0": ("sub.f32 %f4, %f1, %f1; rcp.rn.f32 %f3, %f4;", ZERO, "division-by-zero"),
    "0 (x/0), 0": (NO_DIVISOR + "mul.f32 %f3, %f5, 0f00000000;", ZERO, "division-by-zero"),
    "0 rsqrt(x-x), 0": (
        "sub.f32 %f4, %f1, %f1; rsqrt.approx.f32 %f4, %f4; mul.f32 %f3, %f4, 0f00000000;",
        ZERO,
        "division-by-zero",
    ),
    "1/(max(x,y)-max(y,x)), 0": (
        "max.f32 %f4, %f1, %f2; max.f32 %f5, %f2, %f1; sub.f32 %f4, %f4, %f5; rcp.rn.f32 %f3, %f4;",
        ZERO,
        "division-by-zero",
    ),
    "0 lg2(x-x), 0": (
        "sub.f32 %f4, %f1, %f1; lg2.approx.f32 %f4, %f4; mul.f32 %f3, %f4, 0f00000000;",
        ZERO,
        "nan",
    ),
    "inf-inf": (MINUS_INF + "sub.f32 %f5, %f4, %f4; add.f32 %f3, %f5, %f1;", X, "nan"),
    "max.NaN(x, nan)": ("max.NaN.f32 %f3, %f1, 0f7FC00000;", X, "nan"),
}


@pytest.mark.parametrize("pair", DEFECTS)
@pytest.mark.parametrize("guilty", ["reference", "subject"])
def test_what_is_no_number_is_refuted(pair: str, guilty: str) -> None:
    bad, good, reason = DEFECTS[pair]
    verdict = floats(*((bad, good) if guilty == "reference" else (good, bad)))
    assert (verdict.verdict, verdict.reason) == ("refuted", f"value.{reason}")
    finding = verdict.findings[0]
    assert (finding.side, finding.count) == (guilty, 32)


UNDEFINED = {
    "max(x, undef)": ("max.f32 %f3, %f1, %f9;", X),
    "0 undef": ("mul.f32 %f3, %f9, 0f00000000;", ZERO),
    "undef - undef": ("sub.f32 %f3, %f9, %f9;", ZERO),
    "xor r, r": ("xor.b32 %r1, %r2, %r2; mov.b32 %f3, %r1;", ZERO),
    "an arm of a select": ("setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f9, %p1;", X),
    "0 in a sum": ("fma.rn.f32 %f3, %f9, 0f00000000, %f1;", X),
}


@pytest.mark.parametrize("pair", UNDEFINED)
def test_undefined_absorbs(pair: str) -> None:
    bad, good = UNDEFINED[pair]
    for subject in (good, bad):
        verdict = floats(bad, subject)
        assert (verdict.verdict, verdict.reason) == ("refuted", "undefined.output")
    assert floats(X, "add.f32 %f4, %f9, %f9;" + X).verdict == "proved"  # nothing reads it


MAGIC = {
    "x + M - M": "add.f32 %f3, %f1, 0f4B400000; sub.f32 %f3, %f3, 0f4B400000;",
    "x + M + -M": "add.f32 %f3, %f1, 0f4B400000; add.f32 %f3, %f3, 0fCB400000;",
    "1 x + M": "fma.rn.f32 %f3, %f1, 0f3F800000, 0f4B400000; sub.f32 %f3, %f3, 0f4B400000;",
    "M computed": "mov.f32 %f4, 0f45800000; mul.f32 %f4, %f4, %f4; add.f32 %f3, %f1, %f4;"
    "sub.f32 %f3, %f3, %f4;",
    "M behind a zero": "sub.f32 %f4, %f2, %f2; add.f32 %f4, %f4, 0f4B400000;"
    "add.f32 %f3, %f1, %f4; sub.f32 %f3, %f3, %f4;",
    "in f64": "cvt.f64.f32 %g1, %f1; add.f64 %g1, %g1, 0d4338000000000000;"
    "sub.f64 %g1, %g1, 0d4338000000000000; cvt.rn.f32.f64 %f3, %g1;",
}


@pytest.mark.parametrize("body", MAGIC.values(), ids=MAGIC)
def test_magic_rounding_is_refused(body: str) -> None:
    verdict = floats(body, X)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.magic-rounding")
    assert "reference" in {f.side for f in verdict.findings}
    # large constants that are not added to data are no rounding
    assert floats("mul.f32 %f3, %f1, 0f4B400000;", "mul.f32 %f3, 0f4B400000, %f1;").exit_code == 0


# a large constant less data, as an exponent: what a softmax makes of a mask
MASK = "mov.f32 %f4, 0fCE6E6B28;"  # -1e9
EXPONENTS = {
    "a difference": (f"{MASK} sub.f32 %f5, %f4, %f1; ex2.approx.f32 %f3, %f5;", ""),
    "a product of it": (
        f"{MASK} sub.f32 %f5, %f4, %f1; mul.f32 %f5, %f5, %f2; ex2.approx.f32 %f3, %f5;",
        f"{MASK} neg.f32 %f5, %f1; mul.f32 %f5, %f5, %f2; fma.rn.f32 %f5, %f4, %f2, %f5;"
        "ex2.approx.f32 %f3, %f5;",
    ),
    "in a fused multiplication": (
        f"{MASK} mul.f32 %f5, %f1, 0fC0000000; fma.rn.f32 %f5, %f4, 0f40000000, %f5;"
        "ex2.approx.f32 %f3, %f5;",
        f"{MASK} sub.f32 %f5, %f4, %f1; mul.f32 %f5, %f5, 0f40000000; ex2.approx.f32 %f3, %f5;",
    ),
    "of some lanes": (
        f"{MASK} setp.lt.u32 %p1, %tid.x, 7; selp.f32 %f4, %f4, %f2, %p1;"
        "sub.f32 %f5, %f4, %f1; ex2.approx.f32 %f3, %f5;",
        "",
    ),
}
NO_EXPONENTS = {
    "used by nothing": "add.f32 %f3, %f1, 0f4B400000; mov.f32 %f3, %f2;",
    "rounded before": "add.f32 %f4, %f1, 0f4B400000; sub.f32 %f4, %f4, 0f4B400000;"
    "ex2.approx.f32 %f3, %f4;",
    "rounded by itself": "sub.f32 %f5, %f2, %f2; add.f32 %f5, %f5, 0f4B400000;"
    "add.f32 %f4, %f1, %f5; sub.f32 %f4, %f4, %f5; ex2.approx.f32 %f3, %f4;",
    "rounded in a fused multiplication": "add.f32 %f4, %f1, 0f4B400000;"
    "fma.rn.f32 %f4, %f4, 0f3F800000, 0fCB400000; ex2.approx.f32 %f3, %f4;",
    "used elsewhere too": "add.f32 %f4, %f1, 0f4B400000; ex2.approx.f32 %f5, %f4;"
    "sub.f32 %f4, %f4, 0f4B400000; add.f32 %f3, %f4, %f5;",
    "its bits": "add.f32 %f4, %f1, 0f4B400000; mov.b32 %r1, %f4; shl.b32 %r1, %r1, 1;"
    "mov.b32 %f5, %r1; ex2.approx.f32 %f3, %f5;",
    "compared": "add.f32 %f4, %f1, 0f4B400000; setp.gt.f32 %p1, %f4, 0f4B400000;"
    "selp.f32 %f3, %f1, %f2, %p1;",
}


@pytest.mark.parametrize("what", EXPONENTS)
def test_a_large_mask_is_itself_in_an_exponent(what: str) -> None:
    reference, subject = EXPONENTS[what]
    verdict = floats(reference, subject or reference)
    assert (verdict.verdict, verdict.reason) == ("proved", None)
    assert any("added without rounding in the reference (line " in x for x in verdict.ledger)
    other = reference.replace("%f1", "%f2", 1)
    assert floats(reference, other).verdict == "refuted"


@pytest.mark.parametrize("what", NO_EXPONENTS)
def test_magic_rounding_is_refused_in_exponents_as_well(what: str) -> None:
    verdict = floats(NO_EXPONENTS[what], X)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.magic-rounding")


def test_a_comparison_with_an_infinity_is_refused_before_an_exponential_too() -> None:
    compared_with = "mul.f32 %f4, %f1, 0f7F800000; setp.gt.f32 %p1, %f4, 0f00000000;"
    subject = f"{compared_with} selp.f32 %f5, %f1, %f2, %p1; ex2.approx.f32 %f3, %f5;"
    verdict = floats("ex2.approx.f32 %f3, %f2;", subject)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.infinity")


def test_magic_rounding_of_halves_is_refused() -> None:
    """1.5 * 2^10 for f16, 1.5 * 2^7 for bf16."""
    for params, magic, form in ((HALVES, "0x6600", "f16"), (BFLOATS, "0x4340", "bf16")):
        body = f"mov.b16 %h4, {magic}; add.{form} %h3, %h1, %h4; sub.{form} %h3, %h3, %h4;"
        verdict = compared(on_halves(body), on_halves("mov.b16 %h3, %h1;"), params)
        assert verdict.reason == "unsupported.magic-rounding"


# what needs more than identity testing, and what that alone says of it
EXACT = {
    "exp(exp x)": (exp2(2), exp2(2), "tested-equal"),
    "exp(exp(exp x))": (exp2(3), exp2(3), "tested-equal"),
    "relu by a select": (
        "max.f32 %f3, %f1, 0f00000000;",
        "setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, 0f00000000, %p1;",
        "opaque",
    ),
    "sqrt(x) sqrt(x), x": ("sqrt.rn.f32 %f4, %f1; mul.f32 %f3, %f4, %f4;", X, "opaque"),
    "x where x = y": ("setp.eq.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f2, %p1;", Y, "opaque"),
    # equal but for y = 0, which is outside both functions' domain
    "relu y/y": (
        "setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, 0f00000000, %p1;"
        "mul.f32 %f3, %f3, %f2; div.rn.f32 %f3, %f3, %f2;",
        "max.f32 %f3, %f1, 0f00000000;",
        "opaque",
    ),
    "relu max(y/y, -1)": (
        "setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, 0f00000000, %p1;"
        "div.rn.f32 %f4, %f2, %f2; max.f32 %f4, %f4, 0fBF800000; mul.f32 %f3, %f3, %f4;",
        "max.f32 %f3, %f1, 0f00000000; max.f32 %f4, 0f3F800000, 0fBF800000; mul.f32 %f3, %f3, %f4;",
        "opaque",
    ),
}

# never proved, never refuted
OPEN = {
    "x inf": ("mul.f32 %f3, %f1, 0f7F800000;", X, "unsupported.infinity"),
    "x inf, twice": (
        "mul.f32 %f3, %f1, 0f7F800000;",
        "mul.f32 %f3, %f1, 0f7F800000;",
        "unsupported.infinity",
    ),
    "x/0 < 0": (
        NO_DIVISOR + "setp.lt.f32 %p1, %f5, 0f00000000; selp.f32 %f3, %f2, %f1, %p1;",
        X,
        "unsupported.infinity",
    ),
    "x/0 is nan": (
        NO_DIVISOR + "setp.nan.f32 %p1, %f5, %f5; selp.f32 %f3, %f1, %f2, %p1;",
        X,
        "unsupported.infinity",
    ),
    "x/0 is infinite": (
        NO_DIVISOR + "testp.infinite.f32 %p1, %f5; selp.f32 %f3, %f2, %f1, %p1;",
        X,
        "unsupported.infinity",
    ),
    "int(x/0)": (
        NO_DIVISOR + "cvt.rzi.s32.f32 %r1, %f5; cvt.rn.f32.s32 %f4, %r1; add.f32 %f3, %f1, %f4;",
        X,
        "unsupported.infinity",
    ),
    # 0.7 * 10 is below 7 over the reals and 7 in f32
    "int(0.7 * 10)": (
        "mul.f32 %f4, 0f3F333333, 0f41200000; cvt.rzi.s32.f32 %r1, %f4; cvt.rn.f32.s32 %f4, %r1;"
        "add.f32 %f3, %f1, %f4;",
        "add.f32 %f3, %f1, 0f40C00000;",
        "unsupported.inexact-int",
    ),
    "the sign of a computed zero": (
        "mul.f32 %f4, 0fBF800000, 0f00000000; mov.b32 %r1, %f4; shr.u32 %r2, %r1, 31;"
        "cvt.rn.f32.u32 %f5, %r2; add.f32 %f3, %f1, %f5;",
        X,
        "unsupported.reinterpret",
    ),
    "the sign bit of x": (
        "mov.b32 %r1, %f1; setp.lt.s32 %p1, %r1, 0; selp.f32 %f3, %f1, %f2, %p1;",
        "setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;",
        "unsupported.reinterpret",
    ),
    "x with its last bit turned": (
        "mov.b32 %r1, %f1; xor.b32 %r1, %r1, 1; mov.b32 %f3, %r1;",
        X,
        "unsupported.reinterpret",
    ),
    "x cut to bf16 by its bits": (
        "mov.b32 %r1, %f1; and.b32 %r1, %r1, 0xffff0000; mov.b32 %f3, %r1;",
        X,
        "unsupported.reinterpret",
    ),
    "f16 read as bf16": (
        "cvt.rn.f16.f32 %h1, %f1; cvt.f32.bf16 %f3, %h1;",
        X,
        "unsupported.reinterpret",
    ),
    "f16 above zeros": (
        "cvt.rn.f16.f32 %h1, %f1; mov.u16 %h2, 0; mov.b32 %r1, {%h2, %h1}; mov.b32 %f3, %r1;",
        X,
        "unsupported.reinterpret",
    ),
}


@pytest.mark.parametrize("pair", EXACT)
def test_what_the_field_leaves_open_has_an_exact_proof(pair: str) -> None:
    reference, subject, reason = EXACT[pair]
    tested = floats(reference, subject, engine="field")
    assert (tested.verdict, tested.reason) == ("undecided", reason)
    proved = floats(reference, subject)
    assert (proved.verdict, proved.method, proved.outputs) == ("proved", "exact", (32, 32))


@pytest.mark.parametrize("pair", OPEN)
def test_what_is_not_understood_stays_open(pair: str) -> None:
    reference, subject, reason = OPEN[pair]
    verdict = floats(reference, subject)
    assert (verdict.verdict, verdict.reason) == ("undecided", reason)
    assert verdict.exit_code == 3
    (finding,) = verdict.findings
    assert finding.message


def test_suffixes_of_halves() -> None:
    """A dropped .relu or .sat is seen, and each is the max or clamp that it stands for."""
    plain = on_halves("fma.rn.f16 %h3, %h1, %h2, %h2;")
    relu = on_halves("fma.rn.relu.f16 %h3, %h1, %h2, %h2;")
    by_max = on_halves("fma.rn.f16 %h3, %h1, %h2, %h2; max.f16 %h3, %h3, 0x0000;")
    sat = on_halves("fma.rn.sat.f16 %h3, %h1, %h2, %h2;")
    assert compared(relu, by_max, HALVES).verdict == "proved"
    for subject in (plain, sat):
        assert_apart(compared(relu, subject, HALVES))


def test_dropped_satfinite_is_seen() -> None:
    clamped = "cvt.rn.satfinite.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;"
    plain = "cvt.rn.f16.f32 %h1, %f1; cvt.f32.f16 %f3, %h1;"
    verdict = floats(clamped, plain)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert_apart(verdict)
    assert verdict.witness is not None
    assert verdict.witness.family == "beyond f16"
    assert floats(clamped, clamped).verdict == "proved"
