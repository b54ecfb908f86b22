"""Memory, integers, control and launches of hand-written kernels, from text to verdict."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.check import equivalent
from kcheck.launch import Scalar, Tensor
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, known, launch_of, out, symbol
from tests.snippets import FLOATS, HALVES, compared, on_floats, on_halves

GATHER = (symbol("x", "f32", 64), out("z", "f32", 32))
COPY = "ld.global.f32 %f3, [%x]; st.global.f32 [%z], %f3;"
# z[thread] = x[%r1]
LOAD = (
    "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %px, %d1; ld.global.f32 %f3, [%d1];"
    "st.global.f32 [%z], %f3;"
)
WIDE = (
    "cvt.u64.u32 %d2, %gid; mul.lo.u64 %d2, %d2, {0}; shr.u64 %d2, %d2, 27; cvt.u32.u64 %r1, %d2;"
)
NARROW = "mul.lo.u32 %r1, %gid, {0}; shr.u32 %r1, %r1, 27;"


def assert_proved(verdict: Verdict, elements: int = 32) -> None:
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    assert verdict.outputs == (elements, elements)


def assert_refuted(verdict: Verdict, reason: str, side: str, text: str, count: int) -> None:
    """Refuted for a reason, first found at an instruction of one side, `count` times."""
    assert (verdict.verdict, verdict.reason) == ("refuted", reason)
    finding = verdict.findings[0]
    assert (finding.reason, finding.side, finding.count) == (reason, side, count)
    # an undefined value is followed to the load that got it
    place = finding.locations[0 if reason.startswith("undefined.") else -1]
    assert text in place.text
    assert place.thread is not None


# integers


def test_index_that_overflows_32_bits() -> None:
    fits, wraps = 2**27 + 1, 2**28 + 1  # times 31 threads
    assert_proved(compared(NARROW.format(fits) + LOAD, WIDE.format(fits) + LOAD, GATHER))
    verdict = compared(NARROW.format(wraps) + LOAD, WIDE.format(wraps) + LOAD, GATHER)
    assert_refuted(verdict, "value.mismatch", "subject", "st.global.f32", 16)
    assert verdict.witness is not None
    assert verdict.witness.index[0] >= 16  # the first thread whose product leaves 32 bits


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("mul.hi.u32 %r1, %gid, 0x80000000;", "shr.u32 %r1, %gid, 1;", True),
        # signed, the factor is -2^31 and the result rounds down
        ("mul.hi.s32 %r1, %gid, 0x80000000; neg.s32 %r1, %r1;", "shr.u32 %r1, %gid, 1;", False),
        ("rem.u32 %r1, %gid, 8;", "and.b32 %r1, %gid, 7;", True),
        # below zero a shift rounds down and a division towards zero
        ("shr.s32 %r8, %r9, 1; add.s32 %r1, %r8, 4;", "div.s32 %r8, %r9, 2; add.s32 %r1, %r8, 4;",
         False),
        ("max.s32 %r1, %r9, 0;", "max.u32 %r1, %r9, 0; and.b32 %r1, %r1, 63;", False),
        ("setp.lt.s32 %p1, %r9, 0; selp.u32 %r1, 1, 2, %p1;",
         "setp.lt.u32 %p1, %r9, 0; selp.u32 %r1, 1, 2, %p1;", False),
        ("bfe.u32 %r1, %gid, 1, 2;", "shr.u32 %r1, %gid, 1; and.b32 %r1, %r1, 3;", True),
        ("mad.lo.u32 %r1, %gid, 2, 1;", "shl.b32 %r1, %gid, 1; or.b32 %r1, %r1, 1;", True),
        ("lop3.b32 %r1, %gid, 12, 3, 0x96;", "xor.b32 %r1, %gid, 15;", True),
        ("lop3.b32 %r1, %gid, 12, 3, 0xfe;", "xor.b32 %r1, %gid, 15;", False),
        ("prmt.b32 %r1, %gid, 0, 0x4440;", "mov.u32 %r1, %gid;", True),
        ("shl.b32 %r1, %gid, 32;", "mov.u32 %r1, 0;", True),  # a shift clamps
        ("shl.b32 %r1, %gid, 32;", "mov.u32 %r1, %gid;", False),
    ],
)  # fmt: skip
def test_integers_of_an_index(one: str, other: str, equal: bool) -> None:
    start = "sub.s32 %r9, %gid, 8;"
    verdict = compared(start + one + LOAD, start + other + LOAD, GATHER)
    if equal:
        assert_proved(verdict)
    else:
        assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


# memory

SHARED = ".shared .align 4 .b8 s[128];"
CELL = "ld.global.f32 %f1, [%x]; mov.u32 %r1, s; shl.b32 %r2, %gid, 2; add.u32 %r1, %r1, %r2;"
BACK = "bar.sync 0; ld.shared.f32 %f3, [%r1]; st.global.f32 [%z], %f3;"


def test_shared_memory_starts_undefined() -> None:
    whole = f"{CELL} st.shared.f32 [%r1], %f1; {BACK}"
    half = f"{CELL} setp.lt.u32 %p1, %gid, 16; @%p1 st.shared.f32 [%r1], %f1; {BACK}"
    assert_proved(compared(whole, COPY, GATHER, head=SHARED))
    verdict = compared(whole, half, GATHER, head=SHARED)
    assert_refuted(verdict, "undefined.output", "subject", "st.global.f32", 16)


def test_tail_that_is_read_and_dropped_is_out_of_bounds() -> None:
    tail = (symbol("x", "f32", 30), out("z", "f32", 32))
    keep = "setp.lt.u32 %p1, %gid, 30; mov.f32 %f3, 0f00000000;"
    guarded = keep + "@%p1 ld.global.f32 %f3, [%x]; st.global.f32 [%z], %f3;"
    masked = (
        "setp.lt.u32 %p1, %gid, 30;\nld.global.f32 %f1, [%x];\n"
        "selp.f32 %f3, %f1, 0f00000000, %p1; st.global.f32 [%z], %f3;"
    )
    assert_proved(compared(guarded, guarded, tail))
    verdict = compared(guarded, masked, tail)
    assert_refuted(verdict, "bounds.global", "subject", "ld.global.f32 %f1", 2)
    assert verdict.outputs == (32, 32)  # the values agree all the same


def test_store_into_an_input() -> None:
    verdict = compared(COPY, COPY + "st.global.f32 [%x], %f3;", GATHER)
    assert_refuted(verdict, "bounds.readonly", "subject", "st.global.f32 [%x]", 32)


def test_output_that_one_side_leaves_alone() -> None:
    most = "ld.global.f32 %f3, [%x]; setp.lt.u32 %p1, %gid, 31; @%p1 st.global.f32 [%z], %f3;"
    assert_refuted(compared(COPY, most, GATHER), "value.unwritten", "subject", "st.global", 1)
    assert_refuted(compared(most, COPY, GATHER), "value.unwritten", "reference", "st.global", 1)
    neither = compared(most, most, GATHER)
    assert_proved(neither, 31)
    assert "1 elements of `z` are written by neither side" in neither.ledger


def test_output_that_is_read_before_it_is_written() -> None:
    verdict = compared(COPY, "ld.global.f32 %f3, [%z]; st.global.f32 [%z], %f3;", GATHER)
    assert_refuted(verdict, "undefined.output", "subject", "st.global.f32", 32)
    cleared = (symbol("x", "f32", 64), out("z", "f32", 32, init="zero"))
    add = "ld.global.f32 %f2, [%z]; ld.global.f32 %f3, [%x]; add.f32 %f3, %f3, %f2; "
    assert_proved(compared(COPY, add + "st.global.f32 [%z], %f3;", cleared))


def test_halves_keep_their_places() -> None:
    swapped = on_halves("mov.b32 %r1, {%h2, %h1}; mov.b32 {%h3, %h4}, %r1;")
    straight = on_halves("mov.b32 %r1, {%h1, %h2}; mov.b32 {%h3, %h4}, %r1;")
    assert_proved(compared(straight, on_halves("mov.b16 %h3, %h1;"), HALVES))
    verdict = compared(straight, swapped, HALVES)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


def test_signed_shift_of_a_pair_is_not_taken_for_an_unsigned_one() -> None:
    """The upper half becomes copies of the sign, which the real is not known to have."""
    shift = "mov.b32 %r1, {%h1, %h2}; shr.TYPE %r1, %r1, 16; mov.b32 {%h3, %h4}, %r1;"
    shift += "add.f16 %h3, %h3, %h4;"
    unsigned, signed = (on_halves(shift.replace("TYPE", t)) for t in ("u32", "s32"))
    assert_proved(compared(unsigned, on_halves("mov.b16 %h3, %h2;"), HALVES))
    for reference in (unsigned, signed):
        assert compared(reference, signed, HALVES).reason == "unsupported.reinterpret"
    widen = "cvt.TYPE.TYPE16 %r1, %h1; mov.b32 {%h3, %h4}, %r1; add.f16 %h3, %h3, %h4;"
    zeros, signs = (on_halves(widen.replace("TYPE.TYPE", t)) for t in ("u32.u", "s32.s"))
    assert_proved(compared(zeros, on_halves("mov.b16 %h3, %h1;"), HALVES))
    assert compared(zeros, signs, HALVES).reason == "unsupported.reinterpret"


# inputs


def test_known_indices_are_respected() -> None:
    backwards = np.arange(31, -1, -1, dtype=np.int32)
    params = (known("i", "s32", backwards), *GATHER)
    gather = "ld.global.u32 %r1, [%i];" + LOAD
    assert_proved(compared(gather, "sub.u32 %r1, 31, %gid;" + LOAD, params))
    verdict = compared(gather, COPY, params)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    outside = (known("i", "s32", backwards + 33), *GATHER)
    assert_refuted(compared(COPY, gather, outside), "bounds.global", "subject", "ld.global.f32", 1)


def test_unknown_indices_are_refused() -> None:
    params = (symbol("i", "s32", 32), *GATHER)
    gather = "ld.global.u32 %r1, [%i];\n" + LOAD
    verdict = compared(gather, gather, params)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.symbolic-address")
    (finding,) = verdict.findings
    assert "ld.global" in finding.locations[0].text


def test_symbolic_scalar() -> None:
    params = (Scalar("alpha", "f32", None), *GATHER)
    scaled = (
        "ld.param.f32 %f2, [alpha]; ld.global.f32 %f1, [%x];"
        "mul.f32 %f3, {0}; st.global.f32 [%z], %f3;"
    )
    assert_proved(compared(scaled.format("%f1, %f2"), scaled.format("%f2, %f1"), params))
    verdict = compared(scaled.format("%f1, %f2"), COPY, params)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert verdict.witness is not None
    assert float(verdict.witness.inputs["alpha"][0]) != 1


# what is refused, with its place


def test_old_value_of_an_atomic_is_unstable() -> None:
    cell = Tensor("c", "f32", (1,), "out", init="zero")
    params = (symbol("x", "f32", 64), cell, out("z", "f32", 32))
    add = "ld.global.f32 %f1, [%x];\natom.global.add.f32 %f3, [%pc], %f1;\nst.global.f32 [%z], {0};"
    unstable = compared(add.format("%f3"), add.format("%f3"), params)
    assert (unstable.verdict, unstable.reason) == ("undecided", "unsupported.unstable")
    assert unstable.findings[0].locations[0].text.startswith("st.global.f32 [%z]")
    reduction = "ld.global.f32 %f1, [%x]; red.global.add.f32 [%pc], %f1; st.global.f32 [%z], %f1;"
    assert_proved(compared(add.format("%f1"), reduction, params), 33)
    dirty = (params[0], out("c", "f32", 1), params[2])
    verdict = compared(add.format("%f1"), reduction, dirty)
    assert (verdict.verdict, verdict.reason) == ("refuted", "undefined.output")


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("frobnicate.f32 %f3, %f1;", "frobnicate.f32"),
        ("add.wobble.f32 %f3, %f1, %f1;", "add.wobble.f32"),
        ("mov.b32 {%h1, %h2}, %f1;", "reinterpret"),
    ],
)
@pytest.mark.parametrize("side", ["reference", "subject"])
def test_refused_with_its_line(line: str, form: str, side: str) -> None:
    good = on_floats("mov.f32 %f3, %f1;")
    bad = on_floats(f"mov.f32 %f3, %f1; setp.gt.f32 %p1, %f1, %f2;\n{line}\nL:")
    verdict = compared(*((bad, good) if side == "reference" else (good, bad)), FLOATS)
    assert (verdict.verdict, verdict.reason) == ("undecided", f"unsupported.{form}")
    (finding,) = verdict.findings
    (place,) = finding.locations
    assert finding.side == side
    assert place.text == line.removesuffix(";")
    assert place.line == 1 + entry(bad, FLOATS).splitlines().index(line)


# grids

PAIR = (symbol("x", "f32", 64), out("z", "f32", 64))
DOUBLED = "ld.global.f32 %f1, [%x]; add.f32 %f3, %f1, %f1; st.global.f32 [%z], %f3;"
WRONG_IN_ONE = (
    "ld.global.f32 %f1, [%x]; add.f32 %f3, %f1, %f1; mov.u32 %r1, %ctaid.x;"
    "setp.eq.u32 %p1, %r1, 1; @%p1 mov.f32 %f3, %f1; st.global.f32 [%z], %f3;"
)


def test_every_cta_counts() -> None:
    assert_proved(compared(DOUBLED, DOUBLED, PAIR, grid=2), 64)
    verdict = compared(DOUBLED, WRONG_IN_ONE, PAIR, grid=2)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert verdict.outputs == (32, 64)
    assert [place.cta for place in verdict.findings[0].locations] == [(1, 0, 0), (1, 0, 0)]


def test_one_cta_is_not_the_grid() -> None:
    verdict = compared(DOUBLED, WRONG_IN_ONE, PAIR, grid=2, cta=0)
    assert (verdict.verdict, verdict.exit_code) == ("proved-for-cta", 3)
    assert verdict.outputs == (32, 32)
    assert "CTA 0 only" in verdict.ledger
    assert compared(DOUBLED, WRONG_IN_ONE, PAIR, grid=2, cta=1).reason == "value.mismatch"


def test_block_sizes_may_differ() -> None:
    """One thread per element on both sides, in 2 CTAs of 32 and in 1 of 64."""
    texts = entry(DOUBLED, PAIR), entry("add.u32 %r3, %gid, 0;" + DOUBLED, PAIR)
    launches = launch_of(PAIR, 2, 32), launch_of(PAIR, 1, 64)
    verdict = equivalent(
        *texts, launch=launches[0], subject_launch=launches[1], safety=False, seed=1
    )
    assert_proved(verdict, 64)
    assert "subject's launch grid 1x1x1 block 64" in verdict.ledger
