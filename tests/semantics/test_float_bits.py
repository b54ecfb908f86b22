"""Integer instructions on floats: signs, halves of words, formats that are moved (DESIGN.md 4)."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.launch import Param
from tests.semantics import harness, sheets
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol

N = 48
RNG = np.random.default_rng(31)
INPUTS = {
    "X": RNG.normal(size=N),
    "D": RNG.normal(size=N),
    "H": RNG.normal(size=2 * N),
    "B": RNG.normal(size=2 * N),
}
PARAMS: list[Param] = [
    symbol("X", "f32", N),
    symbol("D", "f64", N),
    symbol("H", "f16", 2 * N),
    symbol("B", "bf16", 2 * N),
    known("I", "u32", sheets.floats(RNG, "f32", N)),
    known("J", "u32", sheets.bits_of(RNG, "f16x2", N, "none")),
    out("P", "f32", N),
    out("Q", "f64", N),
    out("R", "f16", 2 * N),
    out("S", "bf16", 2 * N),
]
START = """
    ld.global.f32 %f1, [%X]; ld.global.f64 %g1, [%D]; mov.b32 %r1, %f1; mov.b64 %d1, %g1;
    mad.lo.u64 %d9, %wide, 4, %pH; ld.global.b32 %r2, [%d9]; mov.b32 {%h1, %h2}, %r2;
    mad.lo.u64 %d9, %wide, 4, %pB; ld.global.b32 %r3, [%d9]; mov.b32 {%h3, %h4}, %r3;
    mad.lo.u64 %d10, %wide, 4, %pR; mad.lo.u64 %d11, %wide, 4, %pS;
    and.b32 %r9, %gid, 3; setp.eq.u32 %p0, %r9, 1;
    ld.global.u32 %r10, [%I]; ld.global.u32 %r11, [%J];
"""
F32 = "mov.b32 %f3, %r4; st.global.f32 [%P], %f3;"
F64 = "st.global.b64 [%Q], %d2;"
F16 = "st.global.b32 [%d10], %r4;"
BF16 = "st.global.b32 [%d11], %r4;"
CASES = {
    "negate": f"xor.b32 %r4, %r1, 0x80000000; {F32}",
    "magnitude": f"and.b32 %r4, %r1, 0x7fffffff; {F32}",
    "minus_magnitude": f"or.b32 %r4, -2147483648, %r1; {F32}",
    "negate_f64": f"xor.b64 %d2, %d1, 0x8000000000000000; {F64}",
    "magnitude_f64": f"and.b64 %d2, %d1, 0x7fffffffffffffff; {F64}",
    "negate_half": f"xor.b16 %h5, %h1, 0x8000; mov.b32 %r4, {{%h5, %h2}}; {F16}",
    "magnitude_bf16": f"and.b16 %h5, %h4, 0x7fff; mov.b32 %r4, {{%h3, %h5}}; {BF16}",
    "negate_pair": f"xor.b32 %r4, %r2, 0x80008000; {F16}",
    "negate_upper": f"xor.b32 %r4, %r2, 0x80000000; {F16}",
    "magnitude_pair": f"and.b32 %r4, %r2, 0x7fff7fff; {F16}",
    "magnitude_lower": f"and.b32 %r4, %r2, 0xffff7fff; {F16}",
    "lower_half": f"and.b32 %r4, %r2, 0xffff; {F16}",
    "upper_half": f"and.b32 %r4, %r2, 0xffff0000; {F16}",
    "join_by_or": "and.b32 %r4, %r2, 0xffff; and.b32 %r5, %r11, 0xffff0000; "
    f"or.b32 %r4, %r4, %r5; {F16}",
    "swap_by_shifts": f"shl.b32 %r4, %r2, 16; shr.u32 %r5, %r2, 16; or.b32 %r4, %r5, %r4; {F16}",
    "swap_by_prmt": f"prmt.b32 %r4, %r2, 0, 0x1032; {F16}",
    "lower_of_two": f"prmt.b32 %r4, %r2, %r11, 0x5410; {F16}",
    "upper_of_two": f"prmt.b32 %r4, %r11, %r2, 0x7632; {F16}",
    "same_twice": f"prmt.b32 %r4, %r2, %r2, 0x3232; {F16}",
    "bf16_to_f32_by_shift": f"shl.b32 %r4, %r3, 16; {F32}",
    "bf16_to_f32_by_mask": f"and.b32 %r4, %r3, 0xffff0000; {F32}",
    "bf16_to_f32_by_pack": f"mov.b16 %h5, 0; mov.b32 %r4, {{%h5, %h4}}; {F32}",
    "bf16_to_f32_by_cvt": f"cvt.u32.u16 %r4, %h3; shl.b32 %r4, %r4, 16; {F32}",
    "bf16_to_f32_then_add": "shl.b32 %r4, %r3, 16; mov.b32 %f3, %r4; add.f32 %f3, %f3, %f1; "
    "st.global.f32 [%P], %f3;",
    "bf16_to_f32_in_some_lanes": f"mov.b32 %r4, %r1; @%p0 shl.b32 %r4, %r3, 16; {F32}",
    "half_by_cvt": f"cvt.u32.u16 %r4, %h1; {F16}",
    "half_of_word_by_cvt": f"cvt.u16.u32 %h5, %r2; mov.b32 %r4, {{%h5, %h5}}; {F16}",
    "known_bits_to_float": f"mov.b32 %r4, %r10; xor.b32 %r4, %r4, 0x80000000; {F32}",
    "known_pair": f"xor.b32 %r5, %r11, 0x00008000; add.f16x2 %r4, %r2, %r5; {F16}",
    "literal_pair": f"mov.b32 %r5, 0x3c004000; fma.rn.f16x2 %r4, %r2, %r5, %r5; {F16}",
    "literal_half": f"mov.b16 %h5, 0xbc00; mul.f16 %h5, %h5, %h1; mov.b32 %r4, {{%h5, %h5}}; {F16}",
    "negate_in_some_lanes": f"mov.b32 %r4, %r1; @%p0 xor.b32 %r4, %r4, 0x80000000; {F32}",
    "known_in_some_lanes": "mov.b32 %r4, %r1; @%p0 mov.b32 %r4, %r10; "
    f"xor.b32 %r4, %r4, 0x80000000; {F32}",
    "pair_known_in_some_lanes": "mov.b32 %r4, %r2; @%p0 mov.b32 %r4, %r11; "
    f"prmt.b32 %r4, %r4, 0, 0x1032; {F16}",
    "pack_known_in_some_lanes": "@%p0 cvt.u16.u32 %h1, %r11; mov.b32 %r4, {%h1, %h2}; " + F16,
    "unpack_in_some_lanes": "@%p0 mov.b32 {%h1, %h2}, %r11; mov.b32 %r4, {%h2, %h1}; " + F16,
    "narrow_and_pack": "cvt.rn.f16x2.f32 %r4, %f1, 0f3F800000; " + F16,
    "float_as_int_compare": "add.u32 %r9, %r9, 1; cvt.rn.f32.u32 %f3, %r9; "
    "mov.b32 %r4, %f3; setp.gt.s32 %p1, %r4, 0x40000000; "
    "selp.f32 %f3, %f1, %f3, %p1; st.global.f32 [%P], %f3;",
    "exponent_of_known": "shr.u32 %r4, %r10, 23; and.b32 %r4, %r4, 255; cvt.rn.f32.u32 %f3, %r4; "
    "st.global.f32 [%P], %f3;",
    "power_by_shift": f"add.u32 %r4, %r9, 127; shl.b32 %r4, %r4, 23; {F32}",
    "lop3_on_known": f"lop3.b32 %r4, %r10, 0x7fffffff, 0x3f800000, 0xea; {F32}",
    "f64_halves": "mov.b64 {%r4, %r5}, %d1; mov.b64 %d2, {%r4, %r5}; " + F64,
    "f64_shuffle": "mov.b64 {%r4, %r5}, %d1; shfl.sync.bfly.b32 %r4, %r4, 1, 31, %r12; "
    "shfl.sync.bfly.b32 %r5, %r5, 1, 31, %r12; mov.b64 %d2, {%r4, %r5}; " + F64,
}
MASK = "setp.lt.u32 %p7, %gid, 32; selp.u32 %r12, 0xffffffff, 0xffff, %p7;"


@pytest.mark.parametrize("name", CASES)
def test_same_numbers(name: str) -> None:
    kernel = kernel_of(entry(f"{START} {MASK} {CASES[name]} ret;", PARAMS))
    launch = launch_of(PARAMS, 1, N)
    expected = harness.slow(kernel, launch, INPUTS)
    outcome, _ = harness.fast(kernel, launch, EnclosureDomain(INPUTS))
    lines = harness.disagreements(outcome, expected)
    assert not lines, "\n".join(lines[:9])
    assert outcome.stopped is None
    residues, _ = harness.fast(kernel, launch, FieldDomain(5, 2, 1))
    assert residues.stopped is None


REFUSED = (
    "xor.b32 %r4, %r1, 0x80000001;",
    "and.b32 %r4, %r1, 0xffff0000;",
    "add.u32 %r4, %r1, 1;",
    "shl.b32 %r4, %r1, 1;",
    "shl.b32 %r4, %r2, 8;",
    "prmt.b32 %r4, %r2, %r2, 0x4321;",
    "and.b32 %r4, %r2, 0x00ff00ff;",
    "xor.b32 %r4, %r1, %r1;",
    "popc.b32 %r4, %r1;",
    "mov.b32 {%h5, %h6}, %r1;",
    "cvt.u64.u32 %d2, %r1;",
    "add.f16x2 %r4, %r3, %r3;",
    "add.f32 %f3, %r2, %f1;",
    "mul.bf16 %h5, %h1, %h3;",
    "or.b32 %r4, %r2, %r3;",
    "bfe.u32 %r4, %r1, 23, 8;",
    "lop3.b32 %r4, %r1, 0x7fffffff, 0x3f800000, 0xea;",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_needs_the_bits_of_an_input_is_refused(text: str) -> None:
    kernel = kernel_of(entry(f"{START} {text} ret;", PARAMS))
    outcome, _ = harness.fast(kernel, launch_of(PARAMS, 1, N), EnclosureDomain(INPUTS))
    assert outcome.stopped is not None
    assert outcome.stopped == ("reinterpret", text.rstrip(";"))
