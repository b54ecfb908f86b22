"""Bits of integers that depend on inputs: moved, masked, put together, read as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.constants import FINITE, SYMBOLIC
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.ranged import RangedDomain, plain
from kcheck.check import equivalent
from kcheck.launch import ANYTHING, Promise, Tensor
from kcheck.preconditions import ranges, unknown_integers
from kcheck.semantics.execution import Refused, execute
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, kernel_of, launch_of, out, slow, symbol

LANES = 32


def judged(reference: str, subject: str, params: Any, **more: Any) -> Verdict:
    texts = (entry(body, params) for body in (reference, subject))
    return equivalent(*texts, launch=launch_of(params), seed=1, **more)


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason or verdict.method


# what is computed is what the slow evaluator computes with the numbers

# every row moves bits, or computes modulo 2^32
EXACT = [
    "and.b32 {d}, {a}, {n};", "or.b32 {d}, {a}, {n};", "xor.b32 {d}, {a}, {n};",
    "not.b32 {d}, {a};", "shl.b32 {d}, {a}, {k};", "shr.u32 {d}, {a}, {k};",
    "shr.s32 {d}, {a}, {k};", "lop3.b32 {d}, {a}, {n}, {m}, 0xea;",
    "lop3.b32 {d}, {n}, {a}, {a}, 0x78;", "bfe.u32 {d}, {a}, {k}, {l};",
    "bfe.s32 {d}, {a}, {k}, {l};", "bfi.b32 {d}, {a}, {b}, {k}, {l};",
    "bfi.b32 {d}, {a}, {n}, {k}, {l};", "prmt.b32 {d}, {a}, {b}, {m};",
    "shf.l.wrap.b32 {d}, {a}, {b}, {k};", "shf.r.clamp.b32 {d}, {a}, {b}, {k};",
    "add.s32 {d}, {a}, {b};", "sub.u32 {d}, {a}, {b};", "mul.lo.s32 {d}, {a}, {b};",
    "neg.s32 {d}, {a};", "abs.s32 {d}, {a};", "min.s32 {d}, {a}, {b};", "max.u32 {d}, {a}, {b};",
    "mad.lo.u32 {d}, {a}, {n}, {b};", "mul.hi.u32 {d}, {a}, {n};", "mul.hi.s32 {d}, {a}, 77;",
    "div.u32 {d}, {a}, {l};", "rem.u32 {d}, {a}, {l};", "div.s32 {d}, {a}, -7;",
    "rem.s32 {d}, {a}, 12;", "div.s32 {d}, {a}, 4;", "rem.s32 {d}, {a}, 8;",
    "shr.s32 %r9, {a}, 31; shr.u32 %r9, %r9, 30; add.s32 %r9, {a}, %r9; and.b32 %r9, %r9, -4;"
    "sub.s32 {d}, {a}, %r9;",
    "mul.hi.s32 %r9, {a}, -1840700269; add.s32 %r9, %r9, {a}; shr.u32 %r8, %r9, 31;"
    "shr.s32 %r9, %r9, 2; add.s32 {d}, %r9, %r8;",
    "mul.hi.s32 {d}, {a}, -77; add.s32 {d}, {d}, {a};", "and.b32 {d}, {a}, -16;",
    "mul.lo.s32 %r9, {a}, 7; sub.s32 %r9, %r9, {b}; add.s32 {d}, %r9, {b};",
    "dp4a.s32.u32 {d}, {a}, {b}, {a};",
    "dp2a.lo.u32.s32 {d}, {a}, {b}, {b};", "dp2a.hi.s32.s32 {d}, {a}, {b}, {b};",
    "cvt.u32.u8 {d}, {a};", "cvt.s32.s8 {d}, {a};", "cvt.u32.u16 {d}, {a};",
    "cvt.s32.s16 {d}, {a};", "cvt.sat.s8.s32 {d}, {a};", "cvt.sat.u8.s32 {d}, {a};",
    "cvt.s64.s32 %d1, {a}; shr.s64 %d1, %d1, {k}; cvt.u32.u64 {d}, %d1;",
    "mul.wide.u32 %d1, {a}, {n}; shr.u64 %d1, %d1, 20; cvt.u32.u64 {d}, %d1;",
    "cvt.u64.u32 %d1, {a}; cvt.u64.u32 %d2, {b}; shl.b64 %d2, %d2, 32; or.b64 %d1, %d1, %d2;"
    "shr.u64 %d1, %d1, {k}; cvt.u32.u64 {d}, %d1;",
    "mov.b32 {{%h1, %h2}}, {a}; mov.b32 {d}, {{%h2, %h1}};",
    "mov.b32 {{%h1, %h2}}, {a}; shl.b16 %h1, %h1, 3; cvt.u32.u16 {d}, %h1;",
    "setp.lt.s32 %p1, {a}, {b}; selp.b32 {d}, {b}, {n}, %p1;",
    "setp.gt.u32 %p1, {a}, {n}; selp.b32 {d}, {a}, {b}, %p1;",
    "setp.le.s32 %p1, {a}, {n}; selp.b32 {d}, {a}, {b}, %p1;",
    "setp.ne.s32 %p1, {a}, {b}; @%p1 add.s32 {d}, {a}, 1;",
    "setp.lt.u32 %p2, %tid.x, 9; @%p2 shr.u32 {d}, {a}, 4; @!%p2 and.b32 {d}, {a}, 255;",
    "and.b32 %r9, %tid.x, 7; shl.b32 %r9, %r9, 2; shr.u32 {d}, {a}, %r9;",
    "and.b32 {d}, {a}, %tid.x;", "add.s32 {d}, {a}, %tid.x;",
    "cvt.rn.f32.u32 %f1, {a}; mul.f32 %f1, %f1, 0f3E800000; cvt.rzi.s32.f32 {d}, %f1;",
    "st.shared.b32 [%s], {a}; ld.shared.u8 {d}, [%s+1];",
    "st.shared.b32 [%s], {a}; ld.shared.s16 {d}, [%s+2];",
    "st.shared.b32 [%s], {a}; ld.shared.b32 {d}, [%s];",
    "prmt.b32 %r9, {a}, {b}, {m}; st.shared.b32 [%s], %r9; ld.shared.s16 {d}, [%s+2];",
    "prmt.b32 %r9, {a}, {b}, {m}; st.shared.b32 [%s], %r9; ld.shared.b32 {d}, [%s];",
    "mov.b32 {{%h1, %h2}}, {a}; mov.b32 %r9, {{%h2, %h1}}; st.shared.b32 [%s], %r9;"
    "ld.shared.u16 {d}, [%s];",
]  # fmt: skip
# what is known by its name only
NAMED = ["popc.b32 {d}, {a};", "clz.b32 {d}, {a};", "xor.b32 {d}, {a}, {b};", "brev.b32 {d}, {a};"]
REGISTER = st.integers(1, 4)
ROW = st.tuples(
    st.sampled_from(EXACT), REGISTER, REGISTER, REGISTER, st.integers(0, 2**32 - 1),
    st.sampled_from([0x0F0F0F0F, 0x64006400, 0x4140, 0x7531, 0x8F, 255, 0x80000000, 15]),
    st.sampled_from([0, 1, 3, 4, 8, 12, 16, 24, 31, 32, 40]), st.sampled_from([1, 4, 7, 8, 16, 31]),
)  # fmt: skip
DTYPES = ["s32", "u32", "s8", "u8", "s16", "u16"]
SHARED = ".shared .align 4 .b8 sh[128]; .reg .b32 %s; mov.b32 %s, sh; mad.lo.u32 %s, %gid, 4, %s;"


def body_of(program: Any, dtype: str) -> str:
    body = f"{SHARED} ld.global.{dtype} %r1, [%i]; mov.u32 %r2, %tid.x; mov.u32 %r3, -5;"
    body += "xor.b32 %r4, %r1, 0x80000001;"
    for op, d, a, b, n, m, k, length in program:
        body += op.format(d=f"%r{d}", a=f"%r{a}", b=f"%r{b}", n=n, m=m, k=k, l=length)
    return body + f"st.global.b32 [%z], %r{program[-1][1]};"


def numbers_of(dtype: str, seed: int) -> Any:
    """Numbers of a type, its ends among them."""
    info = np.iinfo({"s": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    random = np.random.default_rng(seed).integers(info.min, info.max, LANES, endpoint=True)
    random[:3] = info.min, info.max, 0
    return random.astype(np.float64)


def computed(body: str, dtype: str, numbers: Any, promise: Promise | None = None) -> list[Any]:
    """Per lane the number modulo 2^32 that the symbolic executor gives, or None if it is open."""
    index = Tensor("i", dtype, (LANES,), "in", promise=promise or ANYTHING)
    params = (index, out("z", "u32", LANES))
    launch = launch_of(params)
    domain = RangedDomain(
        EnclosureDomain({"i": numbers}), ranges(launch), integers=unknown_integers(launch)
    )
    made = execute(kernel_of(entry(body, params)), launch, domain)
    assert not made.faults
    _, real = made.memories["z"].contents(4, "u32")
    ids = np.broadcast_to(made.reals.ids(real, (LANES,)), (LANES,))
    value = made.reals.value(real)
    known = [np.broadcast_to(end, (LANES,)) for end in value.ends]
    points = [np.broadcast_to(end, (LANES,)) for end in plain(value).ends]
    result: list[Any] = []
    for i in range(LANES):
        if ids[i] == SYMBOLIC:
            assert known[0][i] <= points[1][i]
            assert points[0][i] <= known[1][i]
            result.append(int(points[0][i]) % 2**32 if points[0][i] == points[1][i] else None)
        else:
            assert ids[i] >= FINITE
            result.append(int(made.reals.constants.values[ids[i]]) % 2**32)
    return result


def expected(body: str, dtype: str, numbers: Any) -> list[int]:
    params = (symbol("i", dtype, LANES), out("z", "u32", LANES))
    outputs = slow(kernel_of(entry(body, params)), launch_of(params), {"i": numbers}).outputs
    return [int(x) % 2**32 if isinstance(x, int) else -1 for x in outputs["z"]]


@pytest.mark.parametrize("row", EXACT)
@pytest.mark.parametrize("dtype", ["s32", "u32", "s8"])
def test_each_instruction_alone(row: str, dtype: str) -> None:
    numbers = numbers_of(dtype, 5)
    program = [(row, 2, 1, 4, 0x12345678, 0x7531, 4, 8)]
    if ".lo" in row and dtype[1:] == "32":
        numbers = numbers % 2**20  # float64, which these tests run on, has not all products
    body = body_of(program, dtype)
    assert computed(body, dtype, numbers) == expected(body, dtype, numbers)


@given(
    st.lists(ROW, min_size=1, max_size=5), st.integers(0, 999), st.sampled_from(DTYPES),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_programs_of_them(program: Any, seed: int, dtype: str, small: bool) -> None:
    numbers, promise = numbers_of(dtype, seed), None
    if small:
        low = -7 if dtype[0] == "s" else 0
        numbers, promise = np.clip(numbers, low, 90), Promise(low, 90)
    body = body_of(program, dtype)
    try:
        got = computed(body, dtype, numbers, promise)
    except Refused as error:
        # a part of what lanes hold in several ways
        assert error.form in ("symbolic-int", "reinterpret", "inexact-int"), error  # noqa: PT017
        return
    for mine, theirs in zip(got, expected(body, dtype, numbers), strict=True):
        assert mine in (None, theirs)


# two ways to the same bits are equal, others are not

WORDS, Z = symbol("i", "u32", LANES), out("z", "f32", LANES)
LOAD, STORE = "ld.global.b32 %r1, [%i];", "st.global.f32 [%z], %f1;"
FLOAT = f"cvt.rn.f32.s32 %f1, %r2; {STORE}"
# the third lowest nibble of a word, as a signed number
NIBBLE = {
    "bfe": f"{LOAD} bfe.s32 %r2, %r1, 8, 4; {FLOAT}",
    "shifts": f"{LOAD} shl.b32 %r2, %r1, 20; shr.s32 %r2, %r2, 28; {FLOAT}",
    "mask and xor": f"{LOAD} shr.u32 %r2, %r1, 8; and.b32 %r2, %r2, 15; xor.b32 %r2, %r2, 8;"
    f"sub.s32 %r2, %r2, 8; {FLOAT}",
    "signed shift first": f"{LOAD} shr.s32 %r2, %r1, 8; and.b32 %r2, %r2, 15; shl.b32 %r2, %r2, 28;"
    f"shr.s32 %r2, %r2, 28; {FLOAT}",
    "halves": f"{LOAD} mov.b32 {{%h1, %h2}}, %r1; shl.b16 %h1, %h1, 4; shr.s16 %h1, %h1, 12;"
    f"cvt.rn.f32.s16 %f1, %h1; {STORE}",
    "select": f"{LOAD} bfe.u32 %r2, %r1, 8, 4; bfe.u32 %r3, %r1, 11, 1; shl.b32 %r3, %r3, 4;"
    f"sub.s32 %r2, %r2, %r3; {FLOAT}",
    "by lanes": f"{LOAD} mov.u32 %r3, 8; setp.lt.u32 %p1, %tid.x, 7; @%p1 mov.u32 %r3, 9;"
    f"@%p1 shl.b32 %r1, %r1, 1; shr.u32 %r2, %r1, %r3; bfe.s32 %r2, %r2, 0, 4; {FLOAT}",
}


@pytest.mark.parametrize("way", NIBBLE)
def test_a_nibble_in_all_its_ways(way: str) -> None:
    assert told(judged(NIBBLE["bfe"], NIBBLE[way], (WORDS, Z))) == ("proved", "exact")


@pytest.mark.parametrize(
    "wrong",
    [
        NIBBLE["bfe"].replace("8, 4", "4, 4"),
        NIBBLE["bfe"].replace("bfe.s32", "bfe.u32"),
        NIBBLE["mask and xor"].replace("%r2, 15", "%r2, 7"),
        NIBBLE["halves"].replace("shr.s16", "shr.u16"),
    ],
)
def test_another_nibble_is_refuted(wrong: str) -> None:
    verdict = judged(NIBBLE["bfe"], wrong, (WORDS, Z))
    assert told(verdict) == ("refuted", "value.mismatch")
    assert verdict.witness is not None


def test_bytes_of_a_word_are_the_elements_of_a_tensor() -> None:
    """dp4a on words loaded from tensors of bytes is the sum of the products of the bytes."""
    a, b, z = symbol("a", "s8", 128), symbol("b", "u8", 128), out("z", "s32", LANES)
    place = "mad.lo.u64 %d1, %wide, 4, %pa; mad.lo.u64 %d2, %wide, 4, %pb;"
    words = (
        f"{place} ld.global.b32 %r1, [%d1]; ld.global.b32 %r2, [%d2]; mov.u32 %r3, 0;"
        "dp4a.s32.u32 %r3, %r1, %r2, %r3; st.global.s32 [%z], %r3;"
    )
    single = f"{place} mov.u32 %r3, 0;"
    for i in range(4):
        single += f"ld.global.s8 %r1, [%d1+{i}]; ld.global.u8 %r2, [%d2+{i}];"
        single += "mad.lo.s32 %r3, %r1, %r2, %r3;"
    single += "st.global.s32 [%z], %r3;"
    assert told(judged(words, single, (a, b, z))) == ("proved", "exact")
    assert told(judged(words.replace("s32.u32", "u32.u32"), single, (a, b, z))) == (
        "refuted",
        "value.mismatch",
    )


COPIES = {
    "by words": "ld.global.b32 %r1, [%d1]; st.shared.b32 [%s], %r1; bar.sync 0;",
    "asynchronously": "cp.async.ca.shared.global [%s], [%d1], 4; cp.async.wait_all; bar.sync 0;",
    "under a guard": "mov.b32 %r1, 0; setp.lt.u32 %p1, %tid.x, 40; @%p1 ld.global.b32 %r1, [%d1];"
    "st.shared.b32 [%s], %r1; bar.sync 0;",
}


@pytest.mark.parametrize("dtype", ["u8", "s8", "u16", "s16", "u32"])
@pytest.mark.parametrize("copy", COPIES)
def test_elements_keep_their_identity_on_the_way_through_shared_memory(
    copy: str, dtype: str
) -> None:
    """An element is copied within a word, then read alone: it is the element."""
    width = int(dtype[1:]) // 8
    a, z = symbol("a", dtype, 128 // width), out("z", "s32", LANES)
    place = f"{SHARED} mad.lo.u64 %d1, %wide, 4, %pa;"
    read = f"{place} {COPIES[copy]} ld.shared.{dtype} %r2, [%s+{{}}]; st.global.b32 [%z], %r2;"
    plain = f"{place} ld.global.{dtype} %r2, [%d1+{{}}]; st.global.b32 [%z], %r2;"
    last = 4 - width
    assert told(judged(plain.format(last), read.format(last), (a, z))) == ("proved", "exact")
    if width < 4:
        verdict = judged(plain.format(last), read.format(0), (a, z))
        assert told(verdict) == ("refuted", "value.mismatch")


def test_a_byte_widened_with_its_sign_is_small() -> None:
    """Differences of such bytes leave no type, whatever way they were widened."""
    j = symbol("j", "s8", LANES)
    params = (symbol("i", "s8", LANES), j, Z)
    end = f"sub.s32 %r2, %r1, %r3; {FLOAT}"
    short = f"ld.global.s8 %r1, [%i]; ld.global.s8 %r3, [%j]; {end}"
    for widened in ("cvt.u32.u16 {r}, %h1; cvt.s32.s8 {r}, {r};",
                    "cvt.u32.u16 {r}, %h1; shl.b32 {r}, {r}, 24; shr.s32 {r}, {r}, 24;",
                    "cvt.u32.u16 {r}, %h1; bfe.s32 {r}, {r}, 0, 8;"):  # fmt: skip
        long = "".join(
            f"ld.global.u8 %h1, [%{name}];" + widened.format(r=r)
            for name, r in (("i", "%r1"), ("j", "%r3"))
        )
        assert told(judged(short, long + end, params)) == ("proved", "exact")


def test_halves_made_by_an_exponent() -> None:
    """0x6400 | n is the f16 of 1024 + n: what fast kernels take 4-bit weights apart with."""
    z = out("z", "f16", 64)
    place = "mad.lo.u64 %d1, %wide, 4, %pz;"
    magic = (
        f"{LOAD} {place} and.b32 %r2, %r1, 0x000f000f; or.b32 %r2, %r2, 0x64006400;"
        "mov.b32 %r3, 0x64006400; sub.f16x2 %r2, %r2, %r3; st.global.b32 [%d1], %r2;"
    )
    plain_way = (
        f"{LOAD} {place} and.b32 %r2, %r1, 15; cvt.rn.f16.u32 %h1, %r2; shr.u32 %r3, %r1, 16;"
        "and.b32 %r3, %r3, 15; cvt.rn.f16.u32 %h2, %r3; st.global.v2.b16 [%d1], {%h1, %h2};"
    )
    assert told(judged(plain_way, magic, (WORDS, z))) == ("proved", "exact")
    lop3 = magic.replace(
        "and.b32 %r2, %r1, 0x000f000f; or.b32 %r2, %r2, 0x64006400;",
        "lop3.b32 %r2, %r1, 0x000f000f, 0x64006400, 0xea;",
    )
    assert told(judged(plain_way, lop3, (WORDS, z))) == ("proved", "exact")
    other = magic.replace("mov.b32 %r3, 0x64006400", "mov.b32 %r3, 0x64086400")
    assert told(judged(plain_way, other, (WORDS, z))) == ("refuted", "value.mismatch")


def test_a_byte_that_is_loaded_leaves_zeros_above_it() -> None:
    """0x6400 | b is the f16 of 1024 + b for a byte b; of a word it is something else."""
    z = out("z", "f16", LANES)
    ways = {
        "magic": "ld.global.{t} %h1, [%i]; or.b16 %h1, %h1, 0x6400; mov.b16 %h2, 0x6400;"
        "sub.f16 %h1, %h1, %h2; st.global.b16 [%z], %h1;",
        "plain": "ld.global.{t} %h1, [%i]; cvt.rn.f16.u16 %h1, %h1; st.global.b16 [%z], %h1;",
    }
    for dtype, proved in (("u8", True), ("u16", False)):
        params = (symbol("i", dtype, LANES), z)
        body = {name: way.format(t=dtype) for name, way in ways.items()}
        found = judged(body["plain"], body["magic"], params)
        assert (found.verdict == "proved") == proved, found.findings
        wrong = body["magic"].replace("%h2, 0x6400", "%h2, 0x6408")
        assert judged(body["plain"], wrong, params).verdict != "proved"


def test_a_word_of_64_bits_is_joined_by_a_shift() -> None:
    params = (symbol("i", "u32", LANES), symbol("j", "u32", LANES), out("z", "u64", LANES))
    load = "ld.global.u32 %r1, [%i]; ld.global.u32 %r2, [%j];"
    end = "st.global.b64 [%z], %d1;"
    moved = f"{load} mov.b64 %d1, {{%r1, %r2}}; {end}"
    shifted = (
        f"{load} cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, %r2; shl.b64 %d2, %d2, 32;"
        f"or.b64 %d1, %d1, %d2; {end}"
    )
    assert told(judged(moved, shifted, params)) == ("proved", "exact")
    # the sign of the lower half gets into the upper one
    signed = shifted.replace("cvt.u64.u32 %d1", "cvt.s64.s32 %d1")
    assert judged(moved, signed, params).verdict != "proved"


def test_division_by_a_constant_is_a_product_and_a_shift() -> None:
    small = Tensor("i", "u32", (LANES,), "in", promise=Promise(0, 65535))
    z = out("z", "u32", LANES)
    end = "st.global.u32 [%z], %r2;"
    division = f"{LOAD} div.u32 %r2, %r1, 10; {end}"
    product = f"{LOAD} mul.hi.u32 %r2, %r1, -858993459; shr.u32 %r2, %r2, 3; {end}"
    for index in (symbol("i", "u32", LANES), small):
        assert told(judged(division, product, (index, z))) == ("proved", "exact")
    # right for 16 bits only
    short = f"{LOAD} mul.lo.u32 %r2, %r1, 52429; shr.u32 %r2, %r2, 19; {end}"
    assert told(judged(division, short, (small, z))) == ("proved", "exact")
    assert judged(division, short, (symbol("i", "u32", LANES), z)).verdict == "refuted"


def test_rounding_a_rounded_number_changes_nothing() -> None:
    x, z = symbol("x", "f32", LANES), out("z", "s8", LANES)
    load = "ld.global.f32 %f1, [%x]; cvt.rni.f32.f32 %f1, %f1;"
    clamp = "max.f32 %f1, %f1, 0fC3000000; min.f32 %f1, %f1, 0f42FE0000;"
    ways = (
        f"{load} {clamp} cvt.rzi.s32.f32 %r1, %f1; st.global.s8 [%z], %r1;",
        f"{load} cvt.rni.s32.f32 %r1, %f1; max.s32 %r1, %r1, -128; min.s32 %r1, %r1, 127;"
        "st.global.s8 [%z], %r1;",
    )
    assert told(judged(*ways, (x, z))) == ("proved", "exact")
    assert judged(ways[0], ways[0].replace("42FE0000", "42FC0000"), (x, z)).verdict == "refuted"


def test_the_ends_of_64_bits() -> None:
    """-x is not x's negative where x is the least number."""
    x, z = symbol("i", "s64", LANES), out("z", "f64", LANES)
    end = "cvt.rn.f64.s64 %g1, %d1; st.global.f64 [%z], %g1;"
    one = f"ld.global.s64 %d1, [%i]; neg.s64 %d1, %d1; {end}"
    two = "ld.global.s64 %d1, [%i]; cvt.rn.f64.s64 %g1, %d1; neg.f64 %g1, %g1;"
    two += "st.global.f64 [%z], %g1;"
    assert judged(one, two, (x, z)).verdict != "proved"
    assert told(judged(one, one.replace("neg.s64 %d1, %d1", "sub.s64 %d1, 0, %d1"), (x, z))) == (
        "proved",
        "exact",
    )
    small = Tensor("i", "s64", (LANES,), "in", promise=Promise(-(2**40), 2**40))
    assert told(judged(one, two, (small, z))) == ("proved", "exact")


def test_a_shift_is_a_product() -> None:
    z = out("z", "u32", LANES)
    end = "st.global.u32 [%z], %r2;"
    five = f"{LOAD} mul.lo.u32 %r2, %r1, 5; {end}"
    assert told(judged(five, f"{LOAD} shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r1; {end}",
                       (WORDS, z))) == ("proved", "exact")  # fmt: skip


def test_bytes_beside_others_in_memory() -> None:
    """A byte of a word of an input, read beside lanes that read what is known, or nothing."""
    z = out("z", "u32", LANES)
    head = f"{SHARED} {LOAD} setp.lt.u32 %p1, %tid.x, 9; @%p1 st.shared.b32 [%s], %r1;"
    end = "ld.shared.u8 %r2, [%s+1]; st.global.u32 [%z], %r2;"
    verdict = judged(f"{head} @!%p1 st.shared.b32 [%s], 7; {end}", f"{head} {end}", (WORDS, z))
    assert told(verdict) == ("undecided", "unsupported.reinterpret")
    whole = f"{SHARED} {LOAD} st.shared.b32 [%s], %r1; {end}"
    assert told(judged(whole, f"{LOAD} bfe.u32 %r2, %r1, 8, 8; st.global.u32 [%z], %r2;",
                       (WORDS, z))) == ("proved", "exact")  # fmt: skip


def test_bits_that_are_all_known_are_a_number() -> None:
    """((y & ~3) | 1) << 30 is 2^30, whatever y is: so is what it is multiplied with."""
    x, y = symbol("x", "u8", LANES), Tensor("y", "u32", (LANES,), "in", promise=Promise(0, 1000))
    known = "ld.global.u8 %r1, [%x]; ld.global.u32 %r2, [%y]; and.b32 %r3, %r2, 0xFFFFFFFC;"
    known += "or.b32 %r3, %r3, 1; shl.b32 %r4, %r3, 30; mul.lo.u32 %r5, %r1, %r4;"
    known += "cvt.rn.f32.u32 %f1, %r5;" + STORE
    plain_way = "ld.global.u8 %r1, [%x]; shl.b32 %r5, %r1, 30; cvt.rn.f32.u32 %f1, %r5;" + STORE
    assert told(judged(plain_way, known, (x, y, Z))) == ("proved", "exact")
    wrong = known.replace("or.b32 %r3, %r3, 1", "or.b32 %r3, %r3, 3")
    assert judged(plain_way, wrong, (x, y, Z)).verdict == "refuted"


LARGE = {
    "bits": f"{LOAD} and.b32 %r2, %r1, 1; or.b32 %r2, %r2, 0x4B400000; mov.b32 %f2, %r2;",
    "a number": f"{LOAD} and.b32 %r2, %r1, 1; add.u32 %r2, %r2, 12582912; cvt.rn.f32.u32 %f2, %r2;",
    "a choice": f"{LOAD} and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;"
    "selp.f32 %f2, 0f4B400000, 0f4B400002, %p1;",
}


@pytest.mark.parametrize("way", LARGE)
def test_large_integers_round_what_they_are_added_to(way: str) -> None:
    params = (WORDS, symbol("x", "f32", LANES), Z)
    text = LARGE[way] + "ld.global.f32 %f1, [%x]; add.f32 %f1, %f1, %f2; sub.f32 %f1, %f1, %f2;"
    verdict = judged(f"ld.global.f32 %f1, [%x]; {STORE}", text + STORE, params)
    assert told(verdict) == ("undecided", "unsupported.magic-rounding")
    assert verdict.findings[0].locations[0].text.startswith("add.f32")


@pytest.mark.parametrize("row", NAMED)
def test_other_functions_are_known_by_name(row: str) -> None:
    z = out("z", "u32", LANES)
    once = f"{LOAD} add.u32 %r3, %r1, 3;" + row.format(d="%r2", a="%r3", b="%r1")
    twice = f"{LOAD} add.u32 %r3, %r1, 1; add.u32 %r3, %r3, 2;" + row.format(
        d="%r2", a="%r3", b="%r1"
    )
    end = "st.global.u32 [%z], %r2;"
    assert told(judged(once + end, twice + end, (WORDS, z))) == ("proved", "exact")
    assert judged(once + end, twice.replace("1, 3", "1, 4") + "not.b32 %r2, %r2;" + end, (WORDS, z)
                  ).verdict == "refuted"  # fmt: skip
