"""Integers that depend on inputs, within their ranges; read-only gathers through them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.constants import FINITE, SYMBOLIC
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.ranged import RangedDomain, plain
from kcheck.check import equivalent
from kcheck.launch import Param, Promise, Scalar, Tensor
from kcheck.preconditions import ranges
from kcheck.running import run
from kcheck.semantics.execution import Refused, execute
from kcheck.semantics.values import Unsupported
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, kernel_of, launch_of, out, slow, symbol

TABLE, Z = symbol("t", "f32", 100), out("z", "f32", 32)
INDEX = Tensor("i", "s32", (32,), "in", promise=Promise(0, 99))
PARAMS: tuple[Param, ...] = (TABLE, INDEX, Z)
STORE = "st.global.f32 [%z], %f1;"
# one gather, as several compilers write it
WAYS = {
    "wide": "ld.global.s32 %r1, [%i]; mul.wide.s32 %d1, %r1, 4; add.s64 %d2, %pt, %d1;"
    f"ld.global.f32 %f1, [%d2]; {STORE}",
    "shift": "ld.global.u32 %r1, [%i]; cvt.u64.u32 %d1, %r1; shl.b64 %d1, %d1, 2;"
    f"add.u64 %d2, %d1, %pt; ld.global.nc.f32 %f1, [%d2]; {STORE}",
    "mad": "ld.global.b32 %r1, [%i]; add.s32 %r1, %r1, -3; mad.wide.s32 %d1, %r1, 4, %pt;"
    f"ld.global.f32 %f1, [%d1+12]; {STORE}",
    "guarded": "ld.global.s32 %r1, [%i]; setp.lt.u32 %p1, %r1, 100; @!%p1 bra L;"
    f"mad.wide.u32 %d1, %r1, 4, %pt; ld.global.f32 %f1, [%d1]; {STORE} L:",
    "clamped": "ld.global.s32 %r1, [%i]; max.s32 %r1, %r1, 0; min.s32 %r1, %r1, 99;"
    f"mad.wide.s32 %d1, %r1, 4, %pt; ld.global.f32 %f1, [%d1]; {STORE}",
    "shared": ".shared .align 4 .b8 s[128]; .reg .b32 %s; mov.b32 %s, s; ld.global.s32 %r1, [%i];"
    "mad.lo.u32 %s, %gid, 4, %s; st.shared.b32 [%s], %r1; ld.shared.b32 %r2, [%s];"
    f"mad.wide.s32 %d1, %r2, 4, %pt; ld.global.f32 %f1, [%d1]; {STORE}",
    "two halves": "ld.global.s32 %r1, [%i]; setp.lt.u32 %p1, %tid.x, 7; @%p1 add.s32 %r2, %r1, 1;"
    "@!%p1 add.s32 %r2, %r1, 1; mad.wide.s32 %d1, %r2, 4, %pt;"
    f"ld.global.f32 %f1, [%d1+-4]; {STORE}",
}


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason


def judged(reference: str, subject: str, params: Any = PARAMS, **more: Any) -> Verdict:
    texts = (entry(body, params) for body in (reference, subject))
    return equivalent(*texts, launch=launch_of(params), seed=1, **more)


def ranged(low: float, high: float) -> tuple[Param, ...]:
    return TABLE, replace(INDEX, promise=Promise(low, high)), Z


@pytest.mark.parametrize("way", WAYS)
def test_one_gather_in_all_its_ways(way: str) -> None:
    verdict = judged(WAYS["wide"], WAYS[way])
    assert (told(verdict), verdict.method) == (("proved", None), "exact")
    assert "0 <= `i` <= 99 (a number of s32)" in verdict.ledger


def test_another_index_is_refuted_on_indices_within_the_range() -> None:
    next_one = WAYS["wide"].replace("[%d2]", "[%d2+4]")
    params = ranged(0, 98)
    verdict = judged(WAYS["wide"], next_one, params)
    assert told(verdict) == ("refuted", "value.mismatch")
    assert verdict.witness is not None
    indices = verdict.witness.inputs["i"]
    assert ((indices >= 0) & (indices <= 98) & (indices == np.rint(indices))).all()


# what is refused, and why
REFUSED = {
    "beyond the end": ("symbolic-address", "may lie outside t", ranged(0, 100), WAYS["wide"]),
    "below the start": ("symbolic-address", "may lie outside t", ranged(-1, 9), WAYS["wide"]),
    "no range": ("symbolic-int", "without `values:` or range:", (TABLE, replace(
        INDEX, promise=Promise()), Z), WAYS["wide"]),
    "half a range": ("symbolic-int", "may leave", ranged(0, math.inf), WAYS["clamped"].replace(
        "max.s32 %r1, %r1, 0;", "add.s32 %r1, %r1, 1;")),
    "an overflow": ("symbolic-int", "may leave -2147483648 to 2147483647", ranged(0, 99),
                    WAYS["wide"].replace("mul.wide", "mul.lo.s32 %r1, %r1, 99999999; mul.wide")),
    "negative as unsigned": ("symbolic-int", "may leave 0 to 4294967295", ranged(-1, 9),
                             WAYS["shift"]),
    "half an element": ("symbolic-address", "misaligned", ranged(0, 9),
                        WAYS["wide"].replace("%r1, 4", "%r1, 2")),
    "bits": ("symbolic-int", "used as an integer", ranged(0, 9),
             WAYS["mad"].replace("-3;", "-3; xor.b32 %r1, %r1, 5;").replace("+12", "")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    form, message, params, body = REFUSED[what]
    verdict = judged(body, body, params)
    assert told(verdict) == ("undecided", f"unsupported.{form}")
    assert message in verdict.findings[0].message
    assert any("range:" in step for step in verdict.next_steps)


def test_a_table_that_is_written_is_no_table() -> None:
    written = (replace(TABLE, role="inout", compare=False), INDEX, Z)
    verdict = judged(WAYS["wide"], WAYS["wide"], written)
    assert told(verdict) == ("undecided", "unsupported.symbolic-address")
    assert "not read-only" in verdict.findings[0].message
    whole = (replace(TABLE, shape=(32,)), replace(INDEX, promise=Promise(0, 31)), Z)
    texts = [entry(WAYS["wide"], whole)] * 2
    shared = launch_of(whole, alias=(("t", "z"),))
    verdict = equivalent(*texts, launch=shared, seed=1)
    assert told(verdict) == ("undecided", "unsupported.symbolic-address")


def test_vectors_halves_and_tables_of_indices() -> None:
    table = symbol("t", "f32", 128)
    index = replace(INDEX, promise=Promise(0, 31))
    vector = (
        "ld.global.s32 %r1, [%i]; mad.wide.s32 %d1, %r1, 16, %pt;"
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1]; add.f32 %f1, %f1, %f4; st.global.f32 [%z], "
        "%f1;"
    )
    single = (
        "ld.global.s32 %r1, [%i]; shl.b32 %r1, %r1, 2; mad.wide.s32 %d1, %r1, 4, %pt;"
        "ld.global.f32 %f1, [%d1+12]; ld.global.f32 %f4, [%d1]; add.f32 %f1, %f1, %f4;"
        "st.global.f32 [%z], %f1;"
    )
    assert told(judged(vector, single, (table, index, Z))) == ("proved", None)
    halves = symbol("t", "f16", 64)
    pair = (
        "ld.global.s32 %r1, [%i]; mad.wide.s32 %d1, %r1, 4, %pt; ld.global.b32 %r2, [%d1];"
        "mov.b32 {%h1, %h2}, %r2; cvt.f32.f16 %f1, %h2; st.global.f32 [%z], %f1;"
    )
    upper = (
        "ld.global.s32 %r1, [%i]; mad.wide.s32 %d1, %r1, 4, %pt; ld.global.b16 %h2, [%d1+2];"
        "cvt.f32.f16 %f1, %h2; st.global.f32 [%z], %f1;"
    )
    assert told(judged(pair, upper, (halves, index, Z))) == ("proved", None)
    # an index of an index: its interval is the promise on the table of indices
    inner = Tensor("j", "s32", (32,), "in", promise=Promise(0, 99))
    twice = (
        "ld.global.s32 %r1, [%i]; mad.wide.s32 %d1, %r1, 4, %pj; ld.global.s32 %r2, [%d1];"
        f"mad.wide.s32 %d2, %r2, 4, %pt; ld.global.f32 %f1, [%d2]; {STORE}"
    )
    assert told(judged(twice, twice, (TABLE, inner, index, Z))) == ("proved", None)
    free = (TABLE, replace(inner, promise=Promise()), index, Z)
    assert told(judged(twice, twice, free)) == ("undecided", "unsupported.symbolic-int")


def test_a_scalar_and_its_divisor() -> None:
    """n is a multiple of 4: so is a byte offset that it makes."""
    body = (
        "ld.param.s32 %r1, [n]; cvt.s64.s32 %d1, %r1; add.s64 %d1, %pt, %d1;"
        f"ld.global.f32 %f1, [%d1]; {STORE}"
    )
    for divisor, expected in (
        (4, ("proved", None)),
        (2, ("undecided", "unsupported.symbolic-address")),
    ):
        params = (TABLE, Scalar("n", "s32", None, Promise(0, 396, divisible=divisor)), Z)
        verdict = judged(body, body, params)
        assert told(verdict) == expected
        if divisor == 4:
            assert "`n` is a multiple of 4 (a number of s32)" in verdict.ledger
            other = judged(body, body.replace("[%d1]", "[%d1+-4]"), params)
            assert told(other) == ("undecided", "unsupported.symbolic-address")


def test_integers_are_outputs_and_run_on_numbers() -> None:
    z = out("z", "s32", 32)
    one = "ld.global.s32 %r1, [%i]; mad.lo.s32 %r2, %r1, 3, 5; st.global.s32 [%z], %r2;"
    two = (
        "ld.global.s32 %r1, [%i]; shl.b32 %r2, %r1, 1; add.s32 %r2, %r2, %r1; add.s32 %r2, %r2, 5;"
        "st.global.b32 [%z], %r2;"
    )
    assert told(judged(one, two, (INDEX, z))) == ("proved", None)
    assert told(judged(one, two.replace("r2, 5", "r2, 6"), (INDEX, z))) == (
        "refuted",
        "value.mismatch",
    )
    given_ = {"i": np.arange(32), "t": np.arange(100) / 4}
    for engine in ("enclosure", "ieee"):
        got = run(
            entry(WAYS["mad"], PARAMS), launch=launch_of(PARAMS), inputs=given_, engine=engine
        )
        assert not got.findings
        np.testing.assert_array_equal(got.outputs["z"], np.arange(32) / 4)


# against the slow evaluator

OPS = st.sampled_from(
    [
        "add.s32 {d}, {a}, {b};", "sub.s32 {d}, {a}, {b};", "mul.lo.s32 {d}, {a}, {b};",
        "mul.lo.u32 {d}, {a}, {b};", "min.s32 {d}, {a}, {b};", "max.u32 {d}, {a}, {b};",
        "mad.lo.s32 {d}, {a}, {b}, {a};", "shl.b32 {d}, {a}, 3;", "max.s32 {d}, {a}, {b};",
        "mul.wide.s32 %d1, {a}, {b}; cvt.u32.u64 {d}, %d1;",
        "mul.wide.u32 %d1, {a}, {b}; cvt.s32.s64 {d}, %d1;",
        "cvt.s64.s32 %d1, {a}; add.s64 %d1, %d1, 7; cvt.u32.u64 {d}, %d1;",
        "setp.lt.s32 %p1, {a}, {b}; @%p1 mov.b32 {d}, {a}; @!%p1 mov.b32 {d}, {b};",
        "setp.ge.u32 %p1, {a}, 50; selp.b32 {d}, {b}, {a}, %p1;",
        "setp.lt.u32 %p2, %tid.x, 9; @%p2 add.s32 {d}, {a}, 1; @!%p2 mov.b32 {d}, {b};",
    ]
)  # fmt: skip
REGISTER = st.integers(1, 4)
PROGRAM = st.lists(st.tuples(OPS, REGISTER, REGISTER, REGISTER), min_size=1, max_size=5)


@given(
    PROGRAM, st.integers(-60, 60), st.integers(0, 90), st.integers(0, 999),
    st.sampled_from(["s32", "u32"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_what_is_computed_is_right(
    program: Any, low: int, width: int, seed: int, dtype: str
) -> None:
    """On numbers within the range: whatever is not refused is what the slow evaluator gives."""
    low = max(low, 0) if dtype == "u32" else low
    promise = Promise(low, low + width)
    index = Tensor("i", dtype, (32,), "in", promise=promise)
    params = (index, out("z", "s32", 32))
    body = "ld.global.b32 %r1, [%i]; mov.u32 %r2, %tid.x; mov.u32 %r3, -5; add.s32 %r4, %r1, 2;"
    body += "".join(op.format(d=f"%r{d}", a=f"%r{a}", b=f"%r{b}") for op, d, a, b in program)
    body += f"st.global.b32 [%z], %r{program[-1][1]};"
    kernel, launch = kernel_of(entry(body, params)), launch_of(params)
    numbers = np.random.default_rng(seed).integers(low, low + width + 1, 32)
    domain = RangedDomain(EnclosureDomain({"i": numbers}), ranges(launch))
    try:
        made = execute(kernel, launch, domain)
        assert not made.faults
        _, real = made.memories["z"].contents(4, "s32")
    except Refused as error:
        stopped = error.form
    except Unsupported as error:  # an unsigned input that is stored as it is
        stopped = error.form
    else:
        stopped = ""
    assert stopped in ("", "symbolic-int", "branch", "reinterpret", "predicated")
    if stopped:
        return
    expected = slow(kernel, launch, {"i": numbers}).outputs["z"]
    ids = np.broadcast_to(made.reals.ids(real, (32,)), (32,))
    value = plain(made.reals.value(real))
    low_ends, high_ends = (np.broadcast_to(end, (32,)) for end in value.ends)
    for i, want in enumerate(expected):
        assert isinstance(want, int)
        if ids[i] == SYMBOLIC:
            assert low_ends[i] == high_ends[i]
            assert int(low_ends[i]) % 2**32 == want % 2**32
        else:
            assert ids[i] >= FINITE
            assert int(made.reals.constants.values[ids[i]]) % 2**32 == want % 2**32
