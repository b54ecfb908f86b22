"""Literals that are rounded constants (DESIGN.md 6): kernels that differ in their rounding only."""

from __future__ import annotations

from typing import Any

import pytest

from kcheck.verdict import Verdict
from tests.snippets import FLOATS, compared, on_floats
from tests.test_soundness import told

EXP = "ex2.approx.f32 %f3, %f3;"


def verdict(reference: str, subject: str, **more: Any) -> Verdict:
    return compared(on_floats(reference), on_floats(subject), FLOATS, **more)


# reference, subject: equal with the constants that the literals were rounded from
EQUAL = {
    "0.3 and 3 times 0.1": (
        "mul.f32 %f3, %f1, 0f3E99999A;",
        "mul.f32 %f3, %f1, 0f3DCCCCCD; mul.f32 %f3, %f3, 0f40400000;",
    ),
    "log2 e / 8 and 1/8 times log2 e": (
        f"mul.f32 %f3, %f1, 0f3E38AA3B; {EXP}",
        f"mul.f32 %f3, %f1, 0f3E000000; mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
    ),
    "log2 e / sqrt 128 and two products": (
        f"mul.f32 %f3, %f1, 0f3E0293EE; {EXP}",
        f"mul.f32 %f3, %f1, 0f3DB504F3; mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
    ),
    "log2 e as f32 and as f64": (
        "mul.f32 %f3, %f1, 0f3FB8AA3B;",
        "cvt.f64.f32 %d1, %f1; mul.f64 %d1, %d1, 0d3FF71547652B82FE; cvt.rn.f32.f64 %f3, %d1;",
    ),
    "ln 2 and division by log2 e": (
        "mul.f32 %f3, %f1, 0f3F317218;",
        "div.rn.f32 %f3, %f1, 0f3FB8AA3B;",
    ),
    "ln 2 times log2 e": (
        "mov.f32 %f3, %f1;",
        "mul.f32 %f3, %f1, 0f3F317218; mul.f32 %f3, %f3, 0f3FB8AA3B;",
    ),
    "1/sqrt 2 and sqrt 2 / 2": (
        "mul.f32 %f3, %f1, 0f3F3504F3;",
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0f3F000000;",
    ),
    "rsqrt of 128 and its literal": (
        "mov.f32 %f4, 0f43000000; rsqrt.approx.f32 %f4, %f4; mul.f32 %f3, %f1, %f4;",
        "mul.f32 %f3, %f1, 0f3DB504F3;",
    ),
    "sqrt 2 times sqrt 2": (
        "mov.f32 %f4, 0f40000000; sqrt.rn.f32 %f4, %f4; mul.f32 %f4, %f4, %f4;"
        "mul.f32 %f3, %f1, %f4;",
        "add.f32 %f3, %f1, %f1;",
    ),
    "the literal of sqrt 2, twice": (
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0f3FB504F3;",
        "add.f32 %f3, %f1, %f1;",
    ),
    "1/sqrt 2, each on one factor": (
        "mul.f32 %f3, %f1, 0f3F3504F3; mul.f32 %f4, %f2, 0f3F3504F3; mul.f32 %f3, %f3, %f4;",
        "mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f3F000000;",
    ),
    "1/sqrt 32 each on one factor": (
        "mul.f32 %f3, %f1, 0f3E3504F3; mul.f32 %f4, %f2, 0f3E3504F3; mul.f32 %f3, %f3, %f4;",
        "mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f3D000000;",
    ),
    "sqrt 2 sqrt 3 and sqrt 6": (
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f4, %f2, 0f3FDDB3D7; mul.f32 %f3, %f3, %f4;",
        "mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f401CC471;",
    ),
    "sqrt 5 sqrt 7, squared": (
        "mul.f32 %f3, %f1, 0f400F1BBD; mul.f32 %f4, %f2, 0f402953FD; mul.f32 %f3, %f3, %f4;"
        "mul.f32 %f3, %f3, %f3;",
        "mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, %f3; mul.f32 %f3, %f3, 0f420C0000;",
    ),
    "2^(1/2) and sqrt 2": (
        f"add.f32 %f3, %f1, 0f3F000000; {EXP}",
        f"mov.f32 %f3, %f1; {EXP} mul.f32 %f3, %f3, 0f3FB504F3;",
    ),
    "scores of q and k scaled by 64^-1/4 each": (
        "mul.f32 %f3, %f1, 0f3EB504F3; mul.f32 %f4, %f2, 0f3EB504F3; mul.f32 %f3, %f3, %f4;"
        f"mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
        f"mul.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f3E000000; mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
    ),
    "gelu's inner polynomial": (
        "mul.f32 %f4, %f1, %f1; mul.f32 %f4, %f4, %f1; mul.f32 %f5, %f4, 0f3D372713;"
        "add.f32 %f5, %f5, %f1; mul.f32 %f3, %f5, 0f3F4C422A; tanh.approx.f32 %f3, %f3;",
        "mul.f32 %f4, %f1, %f1; mul.f32 %f4, %f4, %f1; mul.f32 %f5, %f1, 0f3F4C422A;"
        "fma.rn.f32 %f3, %f4, 0f3D122279, %f5; tanh.approx.f32 %f3, %f3;",
    ),
    "a difference under an exponential": (
        f"sub.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
        f"mul.f32 %f4, %f2, 0f3FB8AA3B; neg.f32 %f4, %f4; fma.rn.f32 %f3, %f1, 0f3FB8AA3B, %f4;"
        f"{EXP}",
    ),
    "a constant beside log2 e under an exponential": (
        f"sub.f32 %f3, %f1, 0f40A00000; mul.f32 %f3, %f3, 0f3FB8AA3B; {EXP}",
        f"mul.f32 %f3, %f1, 0f3FB8AA3B; mov.f32 %f4, 0f3FB8AA3B; mul.f32 %f4, %f4, 0f40A00000;"
        f"sub.f32 %f3, %f3, %f4; {EXP}",
    ),
    "an online softmax's rescaling": (
        "max.f32 %f4, %f1, %f2; sub.f32 %f5, %f1, %f4; mul.f32 %f5, %f5, 0f3FB8AA3B;"
        "ex2.approx.f32 %f5, %f5; mul.f32 %f6, %f4, 0f3E38AA3B; ex2.approx.f32 %f6, %f6;"
        "mul.f32 %f3, %f5, %f6;",
        "max.f32 %f4, %f2, %f1; mul.f32 %f5, %f4, 0f3FB8AA3B; neg.f32 %f5, %f5;"
        "fma.rn.f32 %f5, %f1, 0f3FB8AA3B, %f5; ex2.approx.f32 %f5, %f5;"
        "mul.f32 %f6, %f4, 0f3E000000; mul.f32 %f6, %f6, 0f3FB8AA3B; ex2.approx.f32 %f6, %f6;"
        "mul.f32 %f3, %f6, %f5;",
    ),
}


@pytest.mark.parametrize("what", EQUAL)
def test_equal_with_their_constants(what: str) -> None:
    exact, tested = (verdict(*EQUAL[what], engine=engine) for engine in ("term", "field"))
    assert (*told(exact), exact.method) == ("proved", None, "exact")
    assert told(tested) == ("proved", None)
    assert tested.error_bound_log2 is not None
    assert tested.error_bound_log2 < -80


@pytest.mark.parametrize("what", [w for w in EQUAL if "rsqrt" not in w and "sqrt 2 t" not in w])
def test_literal_constants(what: str) -> None:
    """With exact literals the same kernels differ, by less than the rounding of literals."""
    found = verdict(*EQUAL[what], literal_constants=True)
    exact = {
        "log2 e / 8 and 1/8 times log2 e",
        "1/sqrt 2 and sqrt 2 / 2",
        "a difference under an exponential",
        "a constant beside log2 e under an exponential",
        "an online softmax's rescaling",
    }
    assert told(found) == (("proved", None) if what in exact else ("undecided", "constants"))
    assert not any(line.startswith("literal ") for line in found.ledger)
    assert any("literals are exact" in line for line in found.ledger)


def test_a_constant_is_a_positive_factor() -> None:
    """max(L x, L y) = L max(x, y), and L (x - y) > 0 where x > y."""
    scaled = "mul.f32 %f4, %f1, 0f3FB8AA3B; mul.f32 %f5, %f2, 0f3FB8AA3B;"
    once = "mul.f32 %f3, %f4, 0f3FB8AA3B;"
    found = verdict(f"{scaled} max.f32 %f3, %f4, %f5;", f"max.f32 %f4, %f1, %f2; {once}")
    assert (*told(found), found.method) == ("proved", None, "exact")
    chosen = "setp.gt.f32 %p1, %f1, %f2; selp.f32 %f4, %f1, %f2, %p1;"
    other = "setp.gt.f32 %p1, %f4, %f5; selp.f32 %f3, %f4, %f5, %p1;"
    assert told(verdict(f"{scaled} {other}", f"{chosen} {once}")) == ("proved", None)


# equal to no known constant: refuted, or left open where the literals are neighbours
APART = {
    "log2 e and its neighbour": (
        f"mul.f32 %f3, %f1, 0f3FB8AA3B; {EXP}",
        f"mul.f32 %f3, %f1, 0f3FB8AA3C; {EXP}",
        ("undecided", "constants"),
    ),
    "log2 e and ln 2": (
        "mul.f32 %f3, %f1, 0f3FB8AA3B;",
        "mul.f32 %f3, %f1, 0f3F317218;",
        ("refuted", "value.mismatch"),
    ),
    "pi and 22/7": (
        "mul.f32 %f3, %f1, 0f40490FDB;",
        "mul.f32 %f3, %f1, 0f40492492;",
        ("refuted", "value.mismatch"),
    ),
    "sqrt 2 twice, and 3": (
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0f3FB504F3;",
        "mul.f32 %f3, %f1, 0f40400000;",
        ("refuted", "value.mismatch"),
    ),
    "sqrt 2 sqrt 3 and sqrt 5": (
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0f3FDDB3D7;",
        "mul.f32 %f3, %f1, 0f400F1BBD;",
        ("refuted", "value.mismatch"),
    ),
    "sqrt 2 and its opposite, twice": (
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0f3FB504F3;",
        "mul.f32 %f3, %f1, 0f3FB504F3; mul.f32 %f3, %f3, 0fBFB504F3;",
        ("refuted", "value.mismatch"),
    ),
    "log2 e forgotten": (
        f"mul.f32 %f3, %f1, 0f3FB8AA3B; {EXP}",
        f"mov.f32 %f3, %f1; {EXP}",
        ("refuted", "value.mismatch"),
    ),
}


@pytest.mark.parametrize("what", APART)
def test_apart(what: str) -> None:
    reference, subject, expected = APART[what]
    assert told(verdict(reference, subject)) == expected


def test_the_ledger_names_each_literal() -> None:
    found = verdict(*EQUAL["log2 e / 8 and 1/8 times log2 e"])
    assert "literal 0f3E38AA3B = 1/8 log2 e (line 14 in the reference)" in found.ledger
    assert "literal 0f3FB8AA3B = log2 e (line 14 in the subject)" in found.ledger


def test_decimal_and_integer_literals_count() -> None:
    """`mov.b32` of the bits, and a decimal, are 0.1 too."""
    decimal = "mul.f32 %f3, %f1, 0.1;"
    bits = "mov.b32 %f4, 0x3DCCCCCD; mul.f32 %f3, %f1, %f4;"
    found = verdict(decimal, bits)
    assert told(found) == ("proved", None)
    assert any(line.startswith("literal 0f3DCCCCCD = 1/10") for line in found.ledger)


def test_the_bits_of_a_literal_stay() -> None:
    """A literal that was used as a float is no integer any more; one that was not is."""
    shifted = "mov.b32 %r1, 0x3DCCCCCD; add.u32 %r1, %r1, 8388608; mov.b32 %f4, %r1;"
    body = f"{shifted} mul.f32 %f3, %f1, %f4;"
    assert told(verdict(body, "mul.f32 %f3, %f1, 0f3E4CCCCD;")) == ("proved", None)


def test_a_sum_of_constants_is_no_product() -> None:
    total = "mov.f32 %f4, 0f3FB8AA3B; add.f32 %f4, %f4, 0f3F800000; mul.f32 %f3, %f1, %f4;"
    parts = "fma.rn.f32 %f3, %f1, 0f3FB8AA3B, %f1;"
    assert told(verdict(total, parts)) == ("proved", None)


def test_constants_are_compared_as_numbers() -> None:
    chosen = (
        "mov.f32 %f4, 0f3FB8AA3B; setp.gt.f32 %p1, %f4, 0f3FB504F3;"
        "selp.f32 %f4, %f1, %f2, %p1; mov.f32 %f3, %f4;"
    )
    assert told(verdict(chosen, "mov.f32 %f3, %f1;")) == ("proved", None)
