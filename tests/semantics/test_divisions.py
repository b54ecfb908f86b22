"""Quotients and remainders as nvcc compiles them, against the instructions for them."""

from __future__ import annotations

from typing import Any

import pytest

from kcheck.launch import ANYTHING, Promise, Tensor
from kcheck.verdict import Verdict
from tests.semantics.harness import out
from tests.semantics.test_symbolic_words import LANES, judged, told

# x -> %r2; what nvcc 13.0 makes of x / c and x % c with -O3, and with one number off
_SIGN = "shr.u32 %r4, %r3, 31;"
_BY_7 = f"mul.hi.s32 %r3, %r1, -1840700269; add.s32 %r3, %r3, %r1; {_SIGN} shr.s32 %r5, %r3, 2;"
_BY_12 = f"mul.hi.s32 %r3, %r1, 715827883; {_SIGN} shr.s32 %r5, %r3, 1;"
_BY_10 = "mul.wide.u32 %d1, %r1, -858993459; shr.u64 %d1, %d1, 35; cvt.u32.u64 %r5, %d1;"
_UP_3 = "shr.s32 %r3, %r1, 31; shr.u32 %r4, %r3, 30; add.s32 %r5, %r1, %r4;"
_UP_1 = "shr.u32 %r3, %r1, 31; add.s32 %r5, %r1, %r3;"
WAYS = {
    "x / 2": ("s32", "div.s32 %r2, %r1, 2;", f"{_UP_1} shr.s32 %r2, %r5, 1;", (", 31", ", 30")),
    "x % 2": (
        "s32",
        "rem.s32 %r2, %r1, 2;",
        f"{_UP_1} and.b32 %r6, %r5, -2; sub.s32 %r2, %r1, %r6;",
        ("-2", "-4"),
    ),
    "x / 4": ("s32", "div.s32 %r2, %r1, 4;", f"{_UP_3} shr.s32 %r2, %r5, 2;", ("30", "31")),
    "x % 4": (
        "s32",
        "rem.s32 %r2, %r1, 4;",
        f"{_UP_3} and.b32 %r6, %r5, -4; sub.s32 %r2, %r1, %r6;",
        ("30", "29"),
    ),
    "x / 7": (
        "s32",
        "div.s32 %r2, %r1, 7;",
        f"{_BY_7} add.s32 %r2, %r5, %r4;",
        ("-1840700269", "-1840700271"),
    ),
    "x % 7": (
        "s32",
        "rem.s32 %r2, %r1, 7;",
        f"{_BY_7} add.s32 %r5, %r5, %r4; mul.lo.s32 %r5, %r5, 7; sub.s32 %r2, %r1, %r5;",
        ("%r5, 7", "%r5, 6"),
    ),
    "x % 12": (
        "s32",
        "rem.s32 %r2, %r1, 12;",
        f"{_BY_12} add.s32 %r5, %r5, %r4; mul.lo.s32 %r5, %r5, 12; sub.s32 %r2, %r1, %r5;",
        ("shr.s32 %r5, %r3, 1", "shr.s32 %r5, %r3, 2"),
    ),
    "x % 10 without sign": (
        "u32",
        "rem.u32 %r2, %r1, 10;",
        f"{_BY_10} mul.lo.s32 %r5, %r5, 10; sub.s32 %r2, %r1, %r5;",
        ("35", "34"),
    ),
}


def compared(name: str, subject: str, promise: Promise = ANYTHING) -> Verdict:
    dtype, plain, _, _ = WAYS[name]
    return against(plain, dtype, subject, promise)


def against(plain: str, dtype: str, subject: str, promise: Promise) -> Verdict:
    params: Any = (Tensor("i", dtype, (LANES,), "in", promise=promise), out("z", dtype, LANES))
    one, other = (
        f"ld.global.u32 %r1, [%i]; {b} st.global.u32 [%z], %r2;" for b in (plain, subject)
    )
    return judged(one, other, params)


@pytest.mark.parametrize("promise", [ANYTHING, Promise(0, 999)], ids=["any", "small"])
@pytest.mark.parametrize("name", WAYS)
def test_what_nvcc_makes_of_it(name: str, promise: Promise) -> None:
    assert told(compared(name, WAYS[name][2], promise)) == ("proved", "exact")


@pytest.mark.parametrize("name", WAYS)
def test_one_number_off_is_refuted(name: str) -> None:
    _, _, subject, (old, new) = WAYS[name]
    assert old in subject
    verdict = compared(name, subject.replace(old, new, 1))
    assert verdict.verdict != "proved"
    # the last bit of the factor counts for the largest numbers only, which no family holds
    assert verdict.verdict == "refuted" or name == "x / 7"


def test_the_factor_for_small_numbers_is_none_for_all() -> None:
    """52429 / 2^19 is 1/10 up to 16 bits; of signed numbers it is rounded down, not towards 0."""
    plain, subject = "div.s32 %r2, %r1, 10;", "mul.lo.u32 %r3, %r1, 52429; shr.s32 %r2, %r3, 19;"
    assert told(against(plain, "s32", subject, Promise(0, 9999))) == ("proved", "exact")
    assert against(plain, "s32", subject, Promise(-9999, 9999)).verdict != "proved"
    assert against(plain, "s32", subject, Promise(0, 99999)).verdict != "proved"
    less = subject + "shr.u32 %r3, %r1, 31; add.s32 %r2, %r2, %r3;"
    assert told(against(plain, "s32", less, Promise(-9999, 9999))) == ("proved", "exact")
