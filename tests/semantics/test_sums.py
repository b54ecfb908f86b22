"""Atomic additions where a tensor value decides whether: they add that or nothing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.slow import Exact, SlowMachine
from kcheck.verdict import Verdict
from tests.semantics.slow.harness import plain
from tests.semantics.test_idioms import entry as idiom

TOTAL = 128
HEAD = """.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_A, .param .u64 p_O)
{
.reg .b64 A, O, x; .reg .b32 i, c, r, l, m, n; .reg .f32 v, w; .reg .pred p, q;
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O]; mov.u32 i, %tid.x; mov.u32 c, %ctaid.x;
mad.lo.u32 c, c, 64, i; mad.wide.u32 x, c, 4, A; ld.global.f32 v, [x];
setp.gt.f32 p, v, 0f3F000000;
"""
FORMS = {
    "branch": "@!p bra E; red.global.add.f32 [O], v; E:",
    "other arm": "@p bra L; bra E; L: red.global.add.f32 [O], v; E:",
    "guard": "@p red.global.add.f32 [O], v;",
    "negated guard": "not.pred q, p; @!q atom.global.add.f32 w, [O], v;",
    "chosen": "selp.f32 w, v, 0f00000000, p; red.global.add.f32 [O], w;",
}
ELECTED = """@!p bra E; activemask.b32 m; brev.b32 n, m; bfind.shiftamt.u32 n, n; and.b32 l, i, 31;
setp.ne.u32 q, l, n; @q bra E; popc.b32 r, m; atom.global.add.u32 r, [O], r; E:"""
COUNTS = {
    "branch": "@!p bra E; red.global.add.u32 [O], 1; E:",
    "guard": "@p red.global.add.u32 [O], 1;",
    "elected": ELECTED,
}


def text(body: str) -> str:
    return f"{HEAD}{body}\nret;\n}}\n"


def launch(dtype: str, init: str = "zero", n: int = 1) -> Launch:
    cell = Tensor("O", dtype, (n,), "out", init=init)
    return Launch("k", (2, 1, 1), (64, 1, 1), (Tensor("A", "f32", (TOTAL,), "in"), cell))


def judged(one: str, other: str, dtype: str) -> Verdict:
    return equivalent(text(one), text(other), launch=launch(dtype), seed=1)


@pytest.mark.parametrize("name", FORMS)
def test_sums_of_floats(name: str) -> None:
    verdict = judged(FORMS["chosen"], FORMS[name], "f32")
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    wrong = f"add.f32 v, v, 0f3F800000; {FORMS[name]}"
    verdict = judged(FORMS["chosen"], wrong, "f32")
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    verdict = judged(COUNTS["branch"], COUNTS[name], "u32")
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    verdict = judged(COUNTS["branch"].replace("], 1", "], 2"), COUNTS[name], "u32")
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


def test_what_nvcc_makes_of_an_aggregate() -> None:
    under = replace(launch("u32"), kernel="aggregate", grid=(2, 1, 1))
    ours = text(COUNTS["branch"]).replace("0f3F000000", "0f00000000")
    verdict = equivalent(ours, idiom("aggregate"), launch=launch("u32"), subject_launch=under)
    assert (verdict.verdict, verdict.reason) == ("proved", None)


@pytest.mark.parametrize("body", [*FORMS.values(), *COUNTS.values()])
@pytest.mark.parametrize("seed", [None, 1])
def test_the_slow_evaluator_agrees(body: str, seed: int | None) -> None:
    counts = body in COUNTS.values()
    under = launch("u32" if counts else "f32")
    values = [Fraction(int(v), 4) for v in np.random.default_rng(2).integers(-9, 9, TOTAL)]
    inputs: dict[str, list[Any]] = {"A": values}
    kernel = lower(parse(text(body)))
    result = SlowMachine(kernel, under, inputs, Exact, seed=seed, races=True).run()
    assert (result.races, result.findings) == ([], [])
    chosen = [v for v in values if v > Fraction(1, 2)]
    assert [plain(x) for x in result.outputs["O"]] == [len(chosen) if counts else sum(chosen)]


@pytest.mark.parametrize(
    ("body", "dtype", "reason"),
    [
        # the old value is used; two predicates; an addition that is not relaxed
        (
            "@!p bra E; atom.global.add.u32 r, [O], 1; st.global.u32 [O+4], r; E:",
            "u32",
            "predicated",
        ),
        (
            "@!p bra E; setp.gt.f32 q, v, 0f40000000; @q red.global.add.f32 [O], v; E:",
            "f32",
            "predicated",
        ),
        ("@p atom.acquire.gpu.global.add.u32 r, [O], 1;", "u32", "predicated"),
        ("@p red.global.max.u32 [O], 1;", "u32", "predicated"),
        # sums that may leave their type, and of what is not known
        ("@p red.global.add.u32 [O], -1;", "u32", "symbolic-int"),
        ("@p red.global.add.u32 [O], 33554432;", "u32", "symbolic-int"),
        ("@p red.global.add.u32 [O], 1; red.global.add.u32 [O], 1;", "u32", "symbolic-int"),
        # lanes of a warp at several places; a count that is scaled
        (ELECTED.replace("[O]", "[x]").replace("@!p", "mad.wide.u32 x, i, 4, O; @!p"), "u32", ""),
        (ELECTED.replace("popc.b32 r, m;", "popc.b32 r, m; add.u32 r, r, r;"), "u32", ""),
    ],
)
def test_refused(body: str, dtype: str, reason: str) -> None:
    verdict = safe(text(body), launch=launch(dtype, n=64), seed=1)
    assert verdict.verdict == "undecided"
    assert (verdict.reason or "").startswith(f"unsupported.{reason}")


@pytest.mark.parametrize("other", ["ld.global.f32 w, [O];", "st.global.f32 [O], v;"])
@pytest.mark.parametrize("name", ["guard", "branch"])
def test_races(name: str, other: str) -> None:
    body = f"{FORMS[name]} setp.eq.u32 q, c, 3; @q {other}"
    verdict = safe(text(body), launch=launch("f32"), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    places = [at.text for at in verdict.findings[0].locations]
    assert any("red.global" in place for place in places)


def test_out_of_bounds_where_the_predicate_holds() -> None:
    body = "@p red.global.add.f32 [O+4], v;"
    verdict = safe(text(body), launch=launch("f32"), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "bounds.global")


def test_an_undefined_cell() -> None:
    verdict = safe(text(FORMS["guard"]), launch=launch("f32", "undef"), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "undefined.output")
