"""Float maxima by integer atomics on the bits, through `equivalent`; and how they go wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Promise, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.running import run
from kcheck.semantics.slow import Exact, SlowMachine
from kcheck.verdict import Verdict
from tests.semantics.slow.harness import plain

PTX = Path(__file__).parents[1] / "data" / "idioms" / "extremes.ptx"
NAMES = ("ternary", "less", "sign", "smallest", "doubles", "block", "leader")
CTAS, THREADS = 2, 64
TOTAL = CTAS * THREADS
HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"
# the predicated form that Triton makes of tl.atomic_max; `{}` stands for what is between the two
GUARDED = """.visible .entry guarded(.param .u64 p_A, .param .u64 p_O)
{{
.reg .b64 A, O; .reg .b32 i, c, v, r; .reg .pred p, q, m;
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O];
mov.u32 i, %tid.x; mov.u32 c, %ctaid.x; mad.lo.u32 c, c, 64, i; mad.wide.u32 A, c, 4, A;
ld.global.b32 v, [A]; setp.lt.u32 m, i, 60;
{}
ret;
}}
"""
SIGNS = """setp.gt.s32 p, v, -1; and.pred p, p, m;
@p atom.global.gpu.acq_rel.max.s32 r, [O], v;
setp.lt.s32 q, v, 0; and.pred q, q, m;
@q atom.global.gpu.acq_rel.min.u32 r, [O], v;""".replace("acq_rel", "relaxed")


@cache
def entry(name: str) -> str:
    text = PTX.read_text()
    (body,) = re.findall(rf"^\.visible \.entry {name}\(.*?^}}", text, re.DOTALL | re.MULTILINE)
    return HEAD + str(body)


def tensor(name: str, dtype: str = "f32", n: int = 1) -> Tensor:
    return Tensor("A", dtype, (TOTAL,), "in") if name == "A" else Tensor("O", dtype, (n,), "inout")


def launch(name: str, n: int = 1) -> Launch:
    dtype = "f64" if name == "doubles" else "f32"
    params = (tensor("A", dtype), tensor("O", dtype, n))
    return Launch(name, (CTAS, 1, 1), (THREADS, 1, 1), params)


def reference(name: str, n: int = 1) -> tuple[str, Launch]:
    """One thread that goes through all elements."""
    t, op = ("f64", 8) if name == "doubles" else ("f32", 4)
    choose = "min" if name == "smallest" else "max"
    skip = "and.b32 i, c, 63; setp.ge.u32 q, i, 60; @q bra S;" if name == "guarded" else ""
    text = f"""{HEAD}.visible .entry plain(.param .u64 p_A, .param .u64 p_O)
{{
.reg .b64 A, O; .reg .b32 c, i; .reg .{t} v, m; .reg .pred p, q;
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O]; ld.global.{t} m, [O]; mov.u32 c, 0;
L: {skip} ld.global.{t} v, [A]; {choose}.{t} m, m, v;
S: add.u64 A, A, {op}; add.u32 c, c, 1; setp.lt.u32 p, c, {TOTAL}; @p bra L;
st.global.{t} [O], m; ret;
}}
"""
    return text, replace(launch(name, n), kernel="plain", grid=(1, 1, 1), block=(1, 1, 1))


def against(text: str, name: str, n: int = 1) -> Verdict:
    ref, under = reference(name, n)
    return equivalent(ref, text, launch=under, subject_launch=launch(name, n), seed=1)


def edited(name: str, *edits: tuple[str, str]) -> str:
    text = HEAD + GUARDED.format(SIGNS) if name == "guarded" else entry(name)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", [*NAMES, "guarded"])
def test_the_maximum_of_all(name: str) -> None:
    verdict = against(edited(name), name)
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    (said,) = [line for line in verdict.ledger if "by their bits" in line]
    assert "subject" in said


@pytest.mark.parametrize("name", [*NAMES, "guarded"])
@pytest.mark.parametrize("seed", [None, 1])
def test_the_slow_evaluator_agrees(name: str, seed: int | None) -> None:
    numbers = np.random.default_rng(3).integers(-40, 40, TOTAL)
    numbers = -abs(numbers) - 1 if name == "guarded" else numbers
    values = [Fraction(int(v), 8) for v in numbers]
    under = launch(name)
    inputs: dict[str, list[Any]] = {"A": values, "O": [Fraction(-100 if name != "smallest" else 9)]}
    machine = SlowMachine(lower(parse(edited(name))), under, inputs, Exact, seed=seed, races=True)
    result = machine.run()
    assert (result.races, result.findings) == ([], [])
    chosen = [v for i, v in enumerate(values) if name != "guarded" or i % THREADS < 60]
    wanted = min(chosen) if name == "smallest" else max(chosen)
    assert [plain(unit) for unit in result.outputs["O"]] == [wanted]


def test_in_true_formats() -> None:
    numbers = np.random.default_rng(1).standard_normal(TOTAL).astype(np.float32)
    inputs = {"A": numbers, "O": np.array([-9], np.float32)}
    for engine in ("ieee", "enclosure"):
        made = run(entry("block"), launch=launch("block"), inputs=inputs, engine=engine)
        assert made.findings == ()
        np.testing.assert_allclose(made.outputs["O"], [numbers.max()])


MAX, MIN = "max.s32 \t%r5, [%rd5], %r1;", "min.u32 \t%r6, [%rd5], %r1;"
# one change each, and the instruction that is named then
UNMATCHED = [
    ("less", ("global.max.s32", "global.max.u32"), "atom.global.m"),
    ("less", ("global.min.u32", "global.min.s32"), "atom.global.m"),
    ("less", ("global.min.u32", "global.max.s32"), "atom.global.m"),
    ("less", ("setp.lt.f32", "setp.ge.f32"), "atom.global.m"),
    ("less", ("setp.lt.f32", "setp.le.f32"), "atom.global.m"),
    ("less", ("0f00000000", "0f3F800000"), "atom.global.m"),
    ("less", ("0f00000000", "0f80000001"), "atom.global.m"),
    ("less", ("min.u32 \t%r7, [%rd1]", "min.u32 %r7, [%rd1+4]"), "atom.global.m"),
    ("less", ("min.u32 \t%r7, [%rd1], %r1", "min.u32 %r7, [%rd1], %r2"), "atom.global.m"),
    ("less", ("max.s32 \t%r6", "max.acquire.gpu.s32 \t%r6"), "atom.global.m"),
    ("sign", (", -1;", ", 0;"), "setp.gt.s32"),
    ("sign", ("setp.gt.s32", "setp.lt.s32"), "setp.lt.s32"),
    ("sign", ("setp.gt.s32", "setp.gt.u32"), "setp.gt.u32"),
    ("guarded", ("setp.gt.s32 p, v, -1", "setp.lt.s32 p, v, 0"), "atom"),
    ("guarded", ("setp.lt.s32 q", "setp.ge.s32 q"), "atom"),
    ("guarded", ("max.s32 r, [O], v", "max.s32 r, [O], i"), "setp"),
    ("guarded", ("min.u32", "max.u32"), "setp"),
    ("guarded", ("and.pred q, q, m;", "ld.global.b32 v, [A]; and.pred q, q, m;"), "setp"),
    ("guarded", ("and.pred q, q, m;", ""), "atom"),
]


@pytest.mark.parametrize(("name", "edit", "place"), UNMATCHED)
def test_one_change_unmatches(name: str, edit: tuple[str, str], place: str) -> None:
    verdict = against(edited(name, edit), name, 2)
    assert verdict.verdict == "undecided"
    assert verdict.reason in ("unsupported.predicated", "unsupported.reinterpret")
    (location,) = verdict.findings[0].locations
    assert location.text.rpartition("@p ")[2].rpartition("@q ")[2].startswith(place)


OTHER = SIGNS.replace("max", "?").replace("min", "max").replace("?", "min")
RACES = [
    # read by another thread, other operations on the cell, too narrow a scope
    (SIGNS + "setp.eq.u32 p, i, 1; @p ld.global.b32 r, [O];", "race.read-write"),
    (SIGNS + "@m red.global.add.f32 [O], f;", "race.unordered"),
    (SIGNS + "not.pred p, m; @p st.global.b32 [O], v;", "race.write-write"),
    (SIGNS.replace("gpu", "cta"), "race.global"),
    (SIGNS + OTHER, "race.unordered"),
]


@pytest.mark.parametrize(("body", "reason"), RACES)
def test_what_does_not_commute_with_a_maximum(body: str, reason: str) -> None:
    text = HEAD + GUARDED.format(".reg .f32 f; mov.b32 f, v;\n" + body)
    verdict = safe(text, launch=launch("guarded"), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", reason)


@pytest.mark.parametrize("name", ["guarded", "less"])
@pytest.mark.parametrize(("ctas", "reason"), [(1, "race.unordered"), (2, "race.global")])
def test_one_half_races(name: str, ctas: int, reason: str) -> None:
    """A signed maximum of any sign commutes with one half of a pair, and not with the other."""
    lone = "red.global.max.s32 [{}], {};"
    if name == "guarded":
        pair = SIGNS.replace(".gpu.relaxed", "")
        text = HEAD + GUARDED.format(pair + "\n@m " + lone.format("O", "v"))
    else:
        text = edited(name, ("$L__BB1_3:", "$L__BB1_3:\n" + lone.format("%rd1", "%r1")))
    verdict = safe(text, launch=replace(launch(name), grid=(ctas, 1, 1)), seed=1)
    assert verdict.verdict == "refuted"
    (finding,) = [f for f in verdict.findings if f.reason == reason]
    assert finding.confirmed == "schedules"
    lone, half = sorted((p.text for p in finding.locations), key=lambda text: "min" in text)
    assert "red.global.max.s32" in lone
    assert "atom.global.min.u32" in half
    assert all(f.confirmed == "schedules" for f in verdict.findings)


def test_two_of_one_kind_commute() -> None:
    text = HEAD + GUARDED.format(SIGNS + SIGNS.replace("[O]", "[O+4]") + SIGNS)
    assert safe(text, launch=launch("guarded", 2), seed=1).verdict == "proved"


def test_interleaved_pairs() -> None:
    """All atomics for one sign first, as for several elements of a thread."""
    lines = SIGNS.splitlines()
    tests = [line for line in lines if "atom" not in line]
    both = [line for line in lines if "atom" in line]
    more = [line.replace("[O]", "[O+4]") for line in both]
    text = HEAD + GUARDED.format("\n".join([*tests, both[0], more[0], both[1], more[1]]))
    ref, under = reference("guarded", 2)
    ref = ref.replace("st.global.f32 [O], m;", "st.global.f32 [O], m; max.f32 m, m, n;"
                      "st.global.f32 [O+4], m;")  # fmt: skip
    ref = ref.replace("ld.global.f32 m, [O];", "ld.global.f32 m, [O]; ld.global.f32 n, [O+4];")
    ref = ref.replace(".reg .f32 v, m;", ".reg .f32 v, m, n;")
    verdict = equivalent(ref, text, launch=under, subject_launch=launch("guarded", 2), seed=1)
    assert verdict.verdict == "refuted"  # O[1] is no maximum over O[0]
    text = text.replace("[O+4], v", "[O], v")
    assert against(text, "guarded").verdict == "proved"


def test_signed_and_unsigned_maxima_do_not_commute() -> None:
    """Of 0, 3 and -1 that is -1 or 3, by which comes last."""
    body = """setp.eq.u32 p, c, 0; @p red.global.max.s32 [O], 3;
    setp.eq.u32 q, c, 64; @q red.global.max.u32 [O], -1;"""
    under = launch("guarded")
    cell = Tensor("O", "u32", (1,), "out", init="zero")
    verdict = safe(
        HEAD + GUARDED.format(body), launch=replace(under, params=(under.params[0], cell))
    )
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")


def test_integers_are_integers() -> None:
    """The bits of integers > 0 are never those of a float < 0: all are signed maxima."""
    given = replace(tensor("A"), dtype="s32", values=np.arange(TOTAL) + 3)
    cell = replace(tensor("O"), dtype="s32", values=np.array([5]))
    text = f"""{HEAD}.visible .entry plain(.param .u64 p_A, .param .u64 p_O)
{{ .reg .b64 O; ld.param.u64 O, [p_O]; st.global.u32 [O], {TOTAL + 2}; ret; }}
"""
    under = replace(launch("less"), params=(given, cell))
    plain_launch = replace(under, kernel="plain", grid=(1, 1, 1), block=(1, 1, 1))
    verdict = equivalent(text, entry("less"), launch=plain_launch, subject_launch=under, seed=1)
    assert (verdict.verdict, verdict.reason) == ("proved", None)


@pytest.mark.parametrize(
    ("op", "low", "verdict"),
    [
        ("max.s32", 0, "proved"),
        ("max.u32", 0, "proved"),
        ("min.s32", 0, "refuted"),
        ("max.s32", -1, "proved"),  # O is at least 0
        ("max.u32", -1, "refuted"),
        ("min.s32", -1, "undecided"),
    ],
)
def test_operands_of_one_sign(op: str, low: float, verdict: str) -> None:
    text = HEAD + GUARDED.format(f"@m red.global.{op} [O], v;")
    ref, under = reference("guarded")
    promised = replace(tensor("A"), promise=Promise(low, 9))
    start = replace(tensor("O"), promise=Promise(0, 9))
    made = equivalent(
        ref,
        text,
        launch=replace(under, params=(promised, start)),
        subject_launch=replace(launch("guarded"), params=(promised, start)),
        seed=1,
    )
    assert made.verdict == verdict


@pytest.mark.parametrize("op", ["max.s32", "max.u32", "min.s32", "min.u32"])
@pytest.mark.parametrize("start", [-3, 3])
def test_bits_of_any_sign(op: str, start: int) -> None:
    """Alone: what the integers of the bits give, in both evaluators."""
    text = HEAD + GUARDED.format(f"red.global.{op} [O], v;")
    under = replace(launch("guarded"), grid=(1, 1, 1))
    numbers = np.random.default_rng(abs(start)).integers(-9, 9, THREADS).astype(np.float32)
    numbers[numbers == 0] = 1
    bits = np.append(numbers, np.float32(start)).view(f"{'i' if 's' in op[4:] else 'u'}4")
    wanted = (bits.max() if "max" in op else bits.min()).view(np.float32)
    inputs: dict[str, list[Any]] = {
        "A": [Fraction(int(v)) for v in numbers] + [Fraction(1)] * THREADS,
        "O": [Fraction(start)],
    }
    result = SlowMachine(lower(parse(text)), under, inputs, Exact).run()
    assert [plain(unit) for unit in result.outputs["O"]] == [int(wanted)]
    if "max" in op:
        made = run(text, launch=under, engine="enclosure", inputs={
            "A": np.append(numbers, np.ones(THREADS, np.float32)),
            "O": np.array([start], np.float32),
        })  # fmt: skip
        assert made.outputs["O"].tolist() == [wanted]


def test_the_largest_magnitude() -> None:
    """Whether one lane or many find it first."""
    body = "abs.f32 f, f; mov.b32 v, f; @m red.global.{} [O], v;"
    signed, unsigned = (
        HEAD + GUARDED.format(".reg .f32 f; mov.b32 f, v;" + body.format(op))
        for op in ("max.s32", "max.u32")
    )
    under = launch("guarded")
    assert safe(signed, launch=under, seed=1).verdict == "proved"
    assert equivalent(signed, signed, launch=under, seed=1).verdict == "proved"
    verdict = equivalent(signed, unsigned, launch=under, seed=1)  # O may be less than 0
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


def test_in_the_arm_of_another_branch() -> None:
    text = edited("less", ("setp.lt.f32", "setp.gt.f32 %p1, %f1, 0f40000000; @%p1 bra $L__BB1_3;"
                           "\nsetp.lt.f32"))  # fmt: skip
    verdict = safe(text, launch=launch("less"), seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.predicated")


def test_an_undefined_cell() -> None:
    params = (tensor("A"), replace(tensor("O"), role="out"))
    verdict = safe(edited("less"), launch=replace(launch("less"), params=params), seed=1)
    assert verdict.verdict == "refuted"
    assert (verdict.reason or "").startswith("undefined.")


SHARED = """.visible .entry shared(.param .u64 p_A, .param .u64 p_O)
{
.reg .b64 A, O; .reg .b32 i, v, s; .reg .f32 f;
.shared .align 4 .b8 cells[256];
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O];
mov.u32 i, %tid.x; mad.wide.u32 A, i, 4, A; mad.wide.u32 O, i, 4, O;
mov.u32 s, cells; mad.lo.u32 s, i, 4, s;
ld.global.b32 v, [A]; START
atom.shared.OP v, [s], v;
ld.shared.f32 f, [s]; st.global.f32 [O], f;
ret;
}
"""


@pytest.mark.parametrize(
    "start", ["st.shared.b32 [s], 0x80000000;", "st.shared.f32 [s], 0f80000000;"]
)
@pytest.mark.parametrize("op", ["max.s32", "max.u32"])
def test_the_bits_of_minus_zero_are_no_zero(start: str, op: str) -> None:
    """The least signed integer, which a maximum may well start from, is not 0."""
    text = HEAD + SHARED.replace("START", start).replace("OP", op)
    values = Tensor("A", "f32", (THREADS,), "in"), Tensor("O", "f32", (THREADS,), "out")
    verdict = safe(text, launch=Launch("shared", (1, 1, 1), (THREADS, 1, 1), values), seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.reinterpret")
    assert "-0.0" in verdict.findings[0].message
    # the slow evaluator knows what the bits are
    numbers = [Fraction(n) for n in (-2, 3)]
    places = Tensor("A", "f32", (2,), "in"), Tensor("O", "f32", (2,), "out")
    machine = SlowMachine(
        lower(parse(text)), Launch("shared", (1, 1, 1), (2, 1, 1), places), {"A": numbers}, Exact
    )
    expected = {"max.s32": [-2, 3], "max.u32": [-2, 0]}[op]
    assert [plain(x) for x in machine.run().outputs["O"]] == expected


def test_a_minimum_of_bits_commutes_with_its_like_only() -> None:
    """From 5, min.u32 of 2 and then max.u32 of -3 is -3; the other way round it is 2."""
    body = "st.shared.f32 [s], 0f42C80000;"
    text = HEAD + SHARED.replace("START", body).replace("mad.lo.u32 s, i, 4, s;", "").replace(
        "atom.shared.OP v, [s], v;",
        "bar.sync 0; cvt.rn.f32.u32 f, i; add.f32 f, f, 0f3F800000; mov.b32 v, f;"
        "red.shared.min.u32 [s], v; xor.b32 v, v, 0x80000000; red.shared.max.u32 [s], v;"
        "bar.sync 0;",
    )
    values = Tensor("A", "f32", (THREADS,), "in"), Tensor("O", "f32", (THREADS,), "out")
    verdict = safe(text, launch=Launch("shared", (1, 1, 1), (THREADS, 1, 1), values), seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.unordered")


def test_maxima_of_bits_commute_whatever_is_known_of_their_signs() -> None:
    """One of a number >= 0 and one of any sign, on one cell."""
    text = HEAD + SHARED.replace("START", "st.shared.f32 [s], 0f42C80000; bar.sync 0;").replace(
        "mad.lo.u32 s, i, 4, s;", ""
    ).replace(
        "atom.shared.OP v, [s], v;",
        "red.shared.max.s32 [s], v; and.b32 v, v, 0x7FFFFFFF; red.shared.max.s32 [s], v;"
        "bar.sync 0;",
    )
    values = Tensor("A", "f32", (THREADS,), "in"), Tensor("O", "f32", (THREADS,), "out")
    verdict = safe(text, launch=Launch("shared", (1, 1, 1), (THREADS, 1, 1), values), seed=1)
    assert (verdict.verdict, verdict.reason) == ("proved", None)
