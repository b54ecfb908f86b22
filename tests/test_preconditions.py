"""Preconditions: what they decide, which inputs they allow, and that the ledger has each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.families import draws
from kcheck.check import equivalent, safe
from kcheck.launch import Launch, LaunchError, Promise, Scalar, Tensor
from kcheck.launch_check import check_launch
from kcheck.preconditions import admissible, agreed, kept, ranges
from kcheck.running import run
from kcheck.verdict import UsageError, Verdict
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol
from tests.snippets import on_floats

X, Y, Z = symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32)
POSITIVE = Promise(0.0, math.inf, nonzero=True)
COPY = on_floats("mov.f32 %f3, %f1;")
RELU = on_floats("max.f32 %f3, %f1, 0f00000000;")
ABS = on_floats("abs.f32 %f3, %f1;")
CHOICE = on_floats("setp.gt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;")
BRANCH = on_floats(
    "setp.gt.f32 %p1, %f1, 0f3F000000; mov.f32 %f3, %f1; @%p1 bra L; bar.sync 0; mov.f32 %f3, %f2;"
    "L:"
)


def check(
    reference: str,
    subject: str,
    promise: Promise = Promise(),  # noqa: B008
    theirs: Promise | None = None,
    **more: Any,
) -> Verdict:
    """Bodies with a promise on x (the subject's may be another)."""
    sides = [
        launch_of((replace(X, promise=p), Y, Z))
        for p in (promise, promise if theirs is None else theirs)
    ]
    texts = (entry(body, (X, Y, Z)) for body in (reference, subject))
    return equivalent(*texts, launch=sides[0], subject_launch=sides[1], seed=1, **more)


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason


PROVED = ("proved", None)
DIFFER = ("refuted", "value.mismatch")


@pytest.mark.parametrize("engine", ["auto", "term", "field"])
@pytest.mark.parametrize("body", [RELU, ABS, CHOICE])
def test_a_range_decides(body: str, engine: str) -> None:
    assert told(check(body, COPY)) == DIFFER
    verdict = check(body, COPY, POSITIVE, engine=engine)
    assert told(verdict) == PROVED
    assert "`x` > 0 (a number of f32)" in verdict.ledger
    assert told(check(body, COPY, Promise(-1.0, 1.0))) == DIFFER


SQUARE = "mul.f32 %f4, %f1, %f1;"
# bodies that are equal for x > 0 only, or proved to be for these only
LAWS = {
    "log2 of a square": (
        f"{SQUARE} lg2.approx.f32 %f3, %f4;",
        "lg2.approx.f32 %f3, %f1; add.f32 %f3, %f3, %f3;",
        "undecided",
    ),
    "log2 of a quotient": (
        "div.rn.f32 %f4, %f2, %f1; lg2.approx.f32 %f3, %f4;",
        "lg2.approx.f32 %f3, %f2; lg2.approx.f32 %f4, %f1; sub.f32 %f3, %f3, %f4;",
        "undecided",
    ),
    "the root of a square": (f"{SQUARE} sqrt.rn.f32 %f3, %f4;", "mov.f32 %f3, %f1;", "refuted"),
    "the root of a product": (
        "mul.f32 %f4, %f1, %f2; sqrt.rn.f32 %f3, %f4;",
        "sqrt.rn.f32 %f3, %f1; sqrt.rn.f32 %f4, %f2; mul.f32 %f3, %f3, %f4;",
        "undecided",
    ),
    "a maximum": (
        f"{SQUARE} mul.f32 %f5, %f1, %f2; max.f32 %f3, %f4, %f5;",
        "max.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, %f1;",
        "refuted",
    ),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("promise", [POSITIVE, Promise(0.25, 8.0), Promise(low=0.5)])
def test_what_is_positive_is_a_factor(law: str, promise: Promise) -> None:
    first, second, otherwise = LAWS[law]
    bodies = on_floats(first), on_floats(second)
    verdict = check(*bodies, promise)
    assert (*told(verdict), verdict.method) == (*PROVED, "exact")
    assert any("`x`" in line and "(a number of f32)" in line for line in verdict.ledger)
    assert check(*bodies).verdict == otherwise


def test_zero_is_not_positive() -> None:
    assert told(check(RELU, COPY, Promise(low=0.0))) == PROVED
    assert told(check(CHOICE, COPY, Promise(low=0.0))) == DIFFER
    assert told(check(CHOICE, COPY, Promise(0.0, 1.0, nonzero=True))) == PROVED
    below = on_floats("setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p1;")
    assert told(check(below, COPY, Promise(-1.0, 0.0, nonzero=True))) == PROVED
    assert told(check(below, COPY, Promise(-1.0, 0.0))) == DIFFER


def test_nonzero_decides_a_guard() -> None:
    guarded = on_floats(
        "mul.f32 %f4, %f1, 0fC0000000; setp.neu.f32 %p1, %f4, 0f00000000; rcp.approx.f32 %f5, %f1;"
        "selp.f32 %f3, %f5, 0f00000000, %p1;"
    )
    plain = on_floats("rcp.approx.f32 %f3, %f1;")
    assert told(check(guarded, plain, Promise(nonzero=True))) == PROVED
    assert told(check(guarded, plain, Promise(-1.0, 1.0)))[0] == "undecided"


def test_a_range_decides_a_branch() -> None:
    assert told(check(BRANCH, COPY, Promise(0.75, 2.0))) == PROVED
    verdict = check(BRANCH, COPY, Promise(0.25, 2.0))
    assert told(verdict) == ("undecided", "unsupported.predicated")
    assert any("range: in the launch file" in step for step in verdict.next_steps)


def test_a_witness_lies_in_the_range() -> None:
    square = on_floats("mul.f32 %f3, %f1, %f1;")
    for promise in (Promise(0.25, 1.0), Promise(-7.0, -3.0), Promise(low=1000.0), POSITIVE):
        verdict = check(square, COPY, promise)
        assert told(verdict) == DIFFER
        assert verdict.witness is not None
        assert promise.holds(verdict.witness.inputs["x"]).all()
        assert admissible(verdict.witness.inputs, launch_of((replace(X, promise=promise),)))


def test_an_input_outside_is_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the search should come up with one."""
    for module in ("search", "contrast"):
        monkeypatch.setattr(f"kcheck.{module}.kept", lambda inputs, *launches: inputs)
    narrow = Promise(1e4, 1e4 + 1)
    assert told(check(on_floats("add.f32 %f3, %f1, 0f3F800000;"), COPY, narrow)) == (
        "undecided",
        "opaque",
    )


def test_whose_promise_it_is() -> None:
    verdict = check(RELU, COPY, Promise(), POSITIVE)
    assert told(verdict) == PROVED
    assert "`x` > 0 (a number of f32) (subject's launch)" in verdict.ledger
    verdict = check(RELU, COPY, Promise(0.0, 8.0), Promise(high=4.0, nonzero=True))
    assert told(verdict) == PROVED
    assert "0 <= `x` <= 8 (a number of f32) (reference's launch)" in verdict.ledger
    assert "`x` <= 4 (a number of f32) (subject's launch)" in verdict.ledger
    assert "`x` is not 0 (a number of f32) (subject's launch)" in verdict.ledger
    with pytest.raises(UsageError, match="`x`: the two launches promise what no number keeps"):
        check(RELU, COPY, Promise(1.0, 2.0), Promise(3.0, 4.0))


DIVISIONS = {
    "div": "div.approx.f32 %f3, %f2, %f1;",
    "rcp": "rcp.approx.f32 %f4, %f1; mul.f32 %f3, %f4, %f2;",
    "rsqrt": "rsqrt.approx.f32 %f3, %f1;",
}


@pytest.mark.parametrize("how", DIVISIONS)
def test_divisors_that_cannot_be_zero(how: str) -> None:
    body = on_floats(DIVISIONS[how])
    assert "divisors nonzero" in check(body, body).ledger
    ledger = check(body, body, POSITIVE).ledger
    assert "divisors nonzero (follows from the preconditions)" in ledger
    if how == "rsqrt":
        assert "arguments of square roots not negative (follows from the preconditions)" in ledger
    assert "divisors nonzero" in check(body, body, Promise(-1.0, 1.0)).ledger
    if how != "rsqrt":
        apart = check(body, body, Promise(nonzero=True)).ledger
        assert "divisors nonzero (follows from the preconditions)" in apart
    logs = on_floats("lg2.approx.f32 %f3, %f1;")
    assert "arguments of lg2 positive" in check(logs, logs, Promise(low=0.0)).ledger
    follows = "arguments of lg2 positive (follows from the preconditions)"
    assert follows in check(logs, logs, POSITIVE).ledger


def test_symbolic_scalars_and_safety() -> None:
    params = (X, Scalar("s", "f32", None, Promise(1.0, 2.0)), Z)
    body = (
        "ld.param.f32 %f2, [s]; ld.global.f32 %f1, [%x]; setp.ge.f32 %p1, %f2, 0f3F800000;"
        "@!%p1 bra L; st.global.f32 [%z], %f1; L:"
    )
    text, launch = entry(body, params), launch_of(params)
    verdict = safe(text, launch=launch, seed=1)
    assert told(verdict) == PROVED
    assert "1 <= `s` <= 2 (a number of f32)" in verdict.ledger
    free = launch_of((X, Scalar("s", "f32", None), Z))
    # stored on one way only
    undefined = ("undecided", "unconfirmed.undefined.output")
    assert told(safe(text, launch=free, seed=1)) == undefined
    shown = entry("ld.param.f32 %f2, [s]; st.global.f32 [%z], %f2;", params)
    outputs = run(shown, launch=launch, seed=3).outputs["z"]
    assert ((outputs >= 1) & (outputs <= 2)).all()


# inputs


@st.composite
def promises(draw: st.DrawFn) -> tuple[Promise, str]:
    dtype = draw(st.sampled_from(["f32", "f16", "bf16", "f64", "s32", "u8"]))
    whole = dtype[0] in "su"
    numbers = st.integers(-200, 200) if whole else st.floats(-300, 300)
    low, high = sorted([float(draw(numbers)), float(draw(numbers))])
    low, high = draw(st.sampled_from([(low, high), (low, math.inf), (-math.inf, high)]))
    divisor = draw(st.sampled_from([1, 1, 3, 16])) if whole else 1
    promise = Promise(low, high, draw(st.booleans()), divisor)
    return (Promise() if promise.empty else promise), dtype


@given(promises(), st.integers(0, 999))
def test_all_inputs_that_are_tried_keep_their_promise(given_: Any, seed: int) -> None:
    promise, dtype = given_
    launch = launch_of((Tensor("x", dtype, (9,), "in", promise=promise), Y))
    for _, inputs in draws({"x": 9, "y": 9}, seed):
        moved = kept(inputs, launch)
        assert admissible(moved, launch)
        assert moved["y"] is inputs["y"]
        fine = promise.holds(inputs["x"])
        if dtype[0] in "su":
            assert (moved["x"] == np.rint(moved["x"])).all()
        else:
            assert (moved["x"][fine] == inputs["x"][fine]).all()


def test_moved_inputs_are_short() -> None:
    """8 bits wherever the range has such numbers: exact in bf16."""
    launch = launch_of((replace(X, promise=Promise(-3.3, 17.1, nonzero=True)),))
    for _, inputs in draws({"x": 32}, 5):
        moved = kept(inputs, launch)["x"]
        fraction, _ = np.frexp(moved)
        assert (fraction * 256 == np.rint(fraction * 256)).all()
        assert moved.all()


def test_ranges_end_at_the_least_number_of_the_format() -> None:
    for dtype, least in (("f32", 2.0**-149), ("f16", 2.0**-24), ("bf16", 2.0**-133)):
        launch = launch_of((Tensor("x", dtype, (1,), "in", promise=POSITIVE),))
        assert ranges(launch) == {"x": (least, math.inf)}
    assert ranges(launch_of((X, Y, Z))) == {}
    below = launch_of((replace(X, promise=Promise(-2.0, 0.0, nonzero=True)),))
    assert ranges(below) == {"x": (-2.0, -(2.0**-149))}


def test_agreed_launches() -> None:
    one, two = (launch_of((replace(X, promise=p), Y)) for p in (POSITIVE, Promise(high=3.0)))
    both = agreed(one, two)
    assert {p.promise for side in both for p in side.params if p.name == "x"} == {  # type: ignore[union-attr]
        Promise(0.0, 3.0, nonzero=True)
    }


@pytest.mark.parametrize(
    ("promise", "empty"),
    [
        (Promise(), False),
        (Promise(2, 1), True),
        (Promise(0, 0), False),
        (Promise(0, 0, True), True),
        (Promise(1, 15, divisible=16), True),
        (Promise(1, 16, divisible=16), False),
        (Promise(-3, 3, True, 16), True),
        (Promise(low=5, divisible=16), False),
    ],
)
def test_what_no_number_keeps(promise: Promise, empty: bool) -> None:
    assert promise.empty is empty


# shared buffers

ALIAS = (("x", "z"),)
DOUBLE = "ld.global.f32 %f1, [%x]; add.f32 %f3, %f1, %f1; st.global.f32 [%z], %f3;"
TWICE = DOUBLE + "add.f32 %f3, %f3, %f1; st.global.f32 [%z], %f3;"
RELOADED = DOUBLE + "ld.global.f32 %f3, [%x]; add.f32 %f3, %f3, %f1; st.global.f32 [%z], %f3;"
NEIGHBOUR = (
    "add.u32 %r1, %gid, 1; and.b32 %r1, %r1, 31; cvt.u64.u32 %d2, %r1;"
    "mad.lo.u64 %d1, %d2, 4, %px; ld.global.f32 %f1, [%d1];\nst.global.f32 [%z], %f1;"
)
SOME = (
    "setp.lt.u32 %p1, %gid, 7; @!%p1 bra L; ld.global.f32 %f1, [%x]; add.f32 %f3, %f1, %f1;"
    "st.global.f32 [%z], %f3; L:"
)


def aliased(reference: str, subject: str, ours: Any = (), theirs: Any = ALIAS) -> Verdict:
    texts = (entry(body, (X, Z)) for body in (reference, subject))
    sides = [launch_of((X, Z), alias=alias) for alias in (ours, theirs)]
    return equivalent(*texts, launch=sides[0], subject_launch=sides[1], seed=1)


def test_one_buffer_under_two_names() -> None:
    verdict = aliased(TWICE, RELOADED)
    assert told(aliased(TWICE, RELOADED, theirs=())) == DIFFER
    # 2x + x is 3x, but the second load of an in-place kernel sees 2x
    assert told(verdict) == PROVED
    assert "`x` and `z` are one buffer (subject's launch)" in verdict.ledger
    assert "other buffers do not alias, bases aligned to 256 bytes" in verdict.ledger
    assert "`x` and `z` are one buffer" in aliased(DOUBLE, DOUBLE, ALIAS).ledger


@pytest.mark.parametrize(("load", "reason"), [("ld.global.f32", "race.read-write"),
                                              ("ld.global.nc.f32", "race.nc")])  # fmt: skip
def test_races_through_a_shared_buffer(load: str, reason: str) -> None:
    body = NEIGHBOUR.replace("ld.global.f32", load)
    assert told(aliased(body, body, theirs=())) == PROVED
    verdict = aliased(body, body)
    assert told(verdict) == ("refuted", reason)
    finding = next(f for f in verdict.findings if f.reason == reason)
    assert finding.side == "subject"
    assert {p.text.split()[0] for p in finding.locations} == {load, "st.global.f32"}


def test_elements_that_an_in_place_kernel_leaves() -> None:
    verdict = aliased(SOME, SOME)
    assert (told(verdict), verdict.outputs) == (PROVED, (7, 7))
    assert "25 elements of `z` are written by neither side" in verdict.ledger
    more = aliased(SOME, DOUBLE)
    assert told(more) == ("refuted", "value.unwritten")
    assert "z[7] is never written by the reference" in more.findings[0].message
    assert told(aliased(DOUBLE, SOME)) == DIFFER  # z[7] is still x[7]


def test_an_alias_that_fits_no_buffers() -> None:
    kernel = kernel_of(entry(DOUBLE, (X, Z)))
    for alias, params in (
        ((("x", "w"),), (X, Z)),
        ((("x", "z"),), (X, replace(Z, shape=(31,)))),
    ):
        launch: Launch = launch_of(params, alias=alias)
        with pytest.raises(LaunchError, match=r"alias: found x, [wz]; expected buffers of one"):
            check_launch(launch, kernel)


def test_values_keep_what_is_promised_elsewhere() -> None:
    """Known contents are exact constants: no range is needed."""
    params = (known("x", "f32", np.full(32, 2.0, np.float32)), Z)
    body = "ld.global.f32 %f1, [%x]; max.f32 %f3, %f1, 0f00000000; st.global.f32 [%z], %f3;"
    plain = body.replace("max.f32 %f3, %f1, 0f00000000", "mov.f32 %f3, %f1")
    texts = [entry(text, params) for text in (body, plain)]
    assert told(equivalent(*texts, launch=launch_of(params), seed=1)) == PROVED


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_inputs_of_integers_are_integers_of_their_type(dtype: str) -> None:
    """Also where nothing is promised: all evaluators must read the same number."""
    launch = launch_of((symbol("i", dtype, 6), out("z", "f32", 6)))
    given = {"i": np.array([-1.5, 0.3, 2.0, 1e30, -1e30, 300.0])}
    numbers = kept(given, launch)["i"]
    kind = np.dtype(f"{'i' if dtype[0] == 's' else 'u'}{int(dtype[1:]) // 8}")
    assert (numbers.astype(kind).astype(np.float64) == numbers).all()
    assert numbers[2] == 2
    if dtype == "u32":
        assert numbers[0] == 2**32 - 2
