"""CAS loops as nvcc compiles them, against native atomics; and loops that are none of these."""

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
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.running import run
from kcheck.semantics.slow import Exact, SlowMachine
from kcheck.verdict import Verdict
from tests.semantics import harness
from tests.semantics.slow.harness import plain

PTX = Path(__file__).parents[1] / "data" / "idioms" / "cas.ptx"
CTAS, THREADS = 2, 64
TOTAL = CTAS * THREADS
HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"
# kernel -> formats of A and O, elements that a thread reads, and cells that they go to
KERNELS = {
    "largest": ("f32", "f32", 1, 1),
    "smallest": ("f64", "f64", 1, 1),
    "product": ("f32", "f32", 1, 1),
    "sixteen": ("f16", "f16", 1, 1),
    "wide": ("f32", "f16", 1, 1),
    "chosen": ("f16", "f16", 1, 8),
    "shifted": ("f16", "f16", 1, 8),
    "brain": ("bf16", "bf16", 2, 16),
    "narrow": ("f32", "bf16", 1, 1),
    "both": ("f16", "f16", 2, 2),
    "while_larger": ("f32", "f32", 1, 1),
    "until_done": ("f64", "f64", 1, 1),
    "looked_at_first": ("f32", "f32", 1, 1),
}
OPERATIONS = {
    "largest": "max",
    "smallest": "min",
    "both": "max",
    "while_larger": "max",
    "until_done": "min",
    "looked_at_first": "max",
}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}


@cache
def entry(name: str) -> str:
    parts = PTX.read_text().split(".visible .entry ")
    (body,) = (part for part in parts if part.startswith(f"{name}("))
    return f"{HEAD}.visible .entry {body}"


def launch(name: str) -> Launch:
    source, target, n, cells = KERNELS.get(name, ("f32", "f32", 1, 1))
    params = (Tensor("A", source, (TOTAL * n,), "in"), Tensor("O", target, (cells,), "inout"))
    return Launch(name, (CTAS, 1, 1), (THREADS, 1, 1), params)


def reference(name: str) -> tuple[str, Launch]:
    """One thread per cell that goes through the elements for it."""
    source, target, n, cells = KERNELS[name]
    load = {
        "f32": "ld.global.f32 v, [A];",
        "f64": "ld.global.f64 v, [A];",
        "f16": "ld.global.b16 h, [A]; cvt.f32.f16 v, h;",
        "bf16": "ld.global.b16 h, [A]; mov.b32 v, {z, h};",
    }[source]
    kind = "f64" if source == "f64" else "f32"
    keep = f"st.global.{target} [O], m;"
    start = f"ld.global.{target} m, [O];"
    if BYTES[target] == 2:
        widen = "cvt.f32.f16 m, h;" if target == "f16" else "mov.b32 m, {z, h};"
        start = f"ld.global.b16 h, [O]; {widen}"
        keep = f"cvt.rn.{target}.f32 h, m; st.global.b16 [O], h;"
    apply = f"{OPERATIONS.get(name, 'add')}.{kind} m, m, v;"
    if name == "product":
        apply = "and.b32 t, j, 63; setp.eq.u32 p, t, 0; @p mov.f32 w, v; fma.rn.f32 m, v, w, m;"
    text = f"""{HEAD}.visible .entry plain(.param .u64 p_A, .param .u64 p_O)
{{
.reg .b64 A, O; .reg .b32 i, j, t; .reg .{kind} v, m, w; .reg .b16 h, z; .reg .pred p;
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O]; mov.u32 i, %tid.x; mov.u16 z, 0;
mad.wide.u32 O, i, {BYTES[target]}, O; mad.wide.u32 A, i, {BYTES[source]}, A; {start}
mov.u32 j, 0;
L: {load} {apply} add.u64 A, A, {BYTES[source] * cells};
add.u32 j, j, 1; setp.lt.u32 p, j, {TOTAL * n // cells}; @p bra L;
{keep}
ret;
}}
"""
    return text, replace(launch(name), kernel="plain", grid=(1, 1, 1), block=(cells, 1, 1))


def against(text: str, name: str) -> Verdict:
    ref, under = reference(name)
    return equivalent(ref, text, launch=under, subject_launch=launch(name), seed=1)


@pytest.mark.parametrize("name", KERNELS)
def test_against_a_loop_in_order(name: str) -> None:
    verdict = against(entry(name), name)
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", [None, 1])
def test_the_slow_evaluator_agrees(name: str, seed: int | None) -> None:
    under = launch(name)
    cells, n = KERNELS[name][3], under.params[0].elements  # type: ignore[union-attr]
    values = [Fraction(int(v)) for v in np.random.default_rng(3).integers(-4, 5, n)]
    inputs: dict[str, list[Any]] = {"A": values, "O": [Fraction(0)] * cells}
    kernel = lower(parse(entry(name)))
    result = SlowMachine(kernel, under, inputs, Exact, seed=seed, races=True).run()
    assert (result.races, result.findings) == ([], [])
    table = np.array(values, dtype=object).reshape(-1, cells)
    wanted = list(table.sum(0))
    if name in OPERATIONS:
        wanted = list(table.max(0) if OPERATIONS[name] == "max" else table.min(0))
    if name == "product":
        wanted = [sum((row * row[0]).sum() for row in table.reshape(CTAS, THREADS))]
    assert [plain(unit) for unit in result.outputs["O"]] == wanted


# one change each: another half, a mask, a selector, what is kept, what is compared or believed
CHANGED = [
    ("chosen", "shr.u32 \t%r9, %r17, 16;", "shr.u32 \t%r9, %r17, 8;"),
    ("chosen", "65535;", "65280;"),
    ("chosen", "-65536;", "-1;"),
    ("chosen", "4180;", "4181;"),
    ("chosen", "setp.eq.s64 \t%p1, %rd1, 0;", "setp.ne.s64 \t%p1, %rd1, 0;"),
    ("chosen", "or.b32  \t%r15, %r14, %r12;", "or.b32  \t%r15, %r14, %r9;"),
    ("shifted", "shl.b32 \t%r16, %r15, %r1;", "shl.b32 \t%r16, %r15, 16;"),
    ("shifted", "and.b32  \t%r17, %r19, %r3;", "mov.b32 \t%r17, 0;"),
    ("shifted", "{add.f16 %rs2,%rs3,%rs1;", "{sub.f16 %rs2,%rs3,%rs1;"),
    ("wide", "add.f32 \t%f3, %f1, %f2;", "add.sat.f32 \t%f3, %f1, %f2;"),
    ("largest", "max.f32 \t%f3, %f1, %f2;", "add.f32 %f3, %f1, %f2; max.f32 %f3, %f3, %f2;"),
    ("largest", "max.f32 \t%f3, %f1, %f2;", "max.f32 %f3, %f2, %f2;"),
    ("largest", "setp.ne.s32", "setp.lt.s32"),
    (
        "largest",
        "max.f32 \t%f3, %f1, %f2;",
        "{ .reg .b32 q; .reg .pred w; setp.eq.u32 w, 0, 0; bar.red.popc.u32 q, 0, w; }"
        "max.f32 %f3, %f1, %f2;",
    ),
    ("product", "fma.rn.f32 \t%f4, %f1, %f2, %f3;", "fma.rn.f32 \t%f4, %f1, %f3, %f2;"),
    ("brain", "0x3f803f80U", "0x40003f80U"),
]


# choices: by another order, of another register, without a look, by what was seen before
CHANGED += [
    ("while_larger", "setp.leu.f32 \t%p1", "setp.geu.f32 \t%p1"),
    ("while_larger", "setp.gt.f32 \t%p2", "setp.lt.f32 \t%p2"),
    ("while_larger", "setp.gt.f32 \t%p2", "setp.ge.f32 \t%p2"),
    ("while_larger", "@%p1 bra \t$L__BB11_3;", ""),
    ("while_larger", "mov.b32 \t%f3, %r9;", "mov.b32 \t%f3, %r2;"),
    ("while_larger", "mov.b32 \t%r2, %f1;", "mov.b32 \t%r2, %f2;"),
    ("while_larger", "mov.b32 \t%r2, %f1;", "neg.f32 \t%f1, %f1; mov.b32 \t%r2, %f1;"),
    ("while_larger", "ret;", "st.global.u32 [%rd1], %r9; ret;"),
    ("until_done", "setp.ne.s64", "setp.eq.s64"),
    ("until_done", "mov.u64 \t%rd11, %rd5;", ""),
    ("until_done", "setp.ge.f64", "setp.gt.f64"),
    ("until_done", "[%rd1], %rd11, %rd3;", "[%rd1], %rd3, %rd3;"),
    ("looked_at_first", "setp.le.f32 \t%p2, %f2, %f3;", "setp.le.f32 \t%p2, %f3, %f2;"),
    ("looked_at_first", "mov.u32 \t%r9, %r4;", "mov.u32 \t%r9, %r2;"),
    ("looked_at_first", "setp.ge.f32 \t%p1, %f1, %f2;", "setp.ge.f32 \t%p1, %f2, %f1;"),
]
# what is still a sum, but of something else
WRONG = [("chosen", "setp.ne.s64 \t%p1, %rd1, 0;"), ("brain", "0x40003f80U")]


@pytest.mark.parametrize(("name", "old", "new"), CHANGED)
def test_one_change_is_seen(name: str, old: str, new: str) -> None:
    text = entry(name)
    assert text.count(old) == 1, old
    verdict = against(text.replace(old, new), name)
    if (name, new) in WRONG:
        assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
        return
    assert verdict.verdict == "undecided"
    assert (verdict.reason or "").startswith("unsupported.")


CHOICE = """{pre} {load} {seeded} mov.b32 %f2, %r9; ld.global.f32 %f1, [%A];
setp.leu.f32 %p1, %f1, %f2; @%p1 bra J; mov.b32 %r2, %f1; {inside}
L: atom.global.cas.b32 %r9, [%pO], %r9, %r2; {rounds} mov.b32 %f3, %r9;
setp.gt.f32 %p2, %f1, %f3; @%p2 bra L; J: {post} ret;"""
PARTS = {
    "pre": "",
    "load": "ld.global.u32 %r9, [%pO];",
    "seeded": "",
    "inside": "",
    "rounds": "",
    "post": "",
}
SPIN, ARM = "unsupported.spin", "unsupported.predicated"
NEXT, COUNT = "add.s64 %pO, %pO, 4;", "add.u32 %r20, %r20, 1;"
# what is added to the loop, with what is said of it
NO_CHOICE = [
    # loads and CAS of different cells
    ({"seeded": NEXT}, SPIN),
    ({"inside": NEXT}, SPIN),
    ({"rounds": NEXT}, ARM),
    # who puts something there, how often, or who looked, shows
    ({"inside": "st.global.u32 [%D], 1;"}, SPIN),
    ({"rounds": "st.global.u32 [%D], 1;"}, ARM),
    ({"pre": "mov.u32 %r20, 0;", "rounds": COUNT, "post": "st.global.u32 [%D], %r20;"}, SPIN),
    ({"rounds": "add.cc.u32 %r20, %r20, %r20;"}, SPIN),
    ({"post": "selp.u32 %r20, 1, 0, %p1; st.global.u32 [%D], %r20;"}, SPIN),
    ({"pre": "mov.u32 %r2, 0;", "post": "st.global.u32 [%D], %r2;"}, SPIN),
    # only some threads arrive, or leave
    ({"inside": "bar.sync 0;"}, ARM),
    ({"inside": "setp.gt.f32 %p7, %f1, 0f41200000; @%p7 exit;"}, SPIN),
    # a load that may be of another cell, or isn't made
    ({"load": "ld.u32 %r9, [%pO+4];"}, SPIN),
    # a fence that only some threads come to, or that what was seen decides
    ({"rounds": "membar.gl;"}, SPIN),
    ({"inside": "membar.gl;"}, ARM),
    ({"seeded": "setp.eq.u32 %p7, %r20, 0; @%p7 membar.gl;"}, SPIN),
    (
        {"pre": "mov.u32 %r9, 0; setp.eq.u32 %p7, %r9, 1;", "seeded": "@%p7 ld.u32 %r9, [%pO];"},
        SPIN,
    ),
]


@pytest.mark.parametrize(("parts", "reason"), NO_CHOICE)
def test_what_a_choice_must_not_do_besides(parts: dict[str, str], reason: str) -> None:
    verdict = chosen(parts)
    assert (verdict.verdict, verdict.reason) == ("undecided", reason)


# time passes, every thread comes to a fence once, the generic address is that of the CAS
MORE = [
    {"rounds": "nanosleep.u32 40;"},
    {"inside": "nanosleep.u32 40;", "rounds": "@!%p1 nanosleep.u32 40;"},
    {"seeded": "mov.u32 %r20, 8;", "rounds": "nanosleep.u32 %r20; shl.b32 %r20, %r20, 1;"},
    {"seeded": "membar.gl;"},
    {"load": "ld.u32 %r9, [%pO];"},
    {"load": "ld.volatile.u32 %r9, [%pO];", "seeded": "fence.acq_rel.gpu;"},
]


@pytest.mark.parametrize("parts", MORE)
def test_what_a_choice_may_do_besides(parts: dict[str, str]) -> None:
    verdict = chosen(parts)
    assert (verdict.verdict, verdict.reason) == ("proved", None)


@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_that_backs_off(name: str) -> None:
    """And whose first load is of the generic address."""
    (cas,) = re.findall(r"atom\.global\.cas[^;]*;", entry(name))
    (place,) = re.findall(r"\[.*\]", cas)
    (seed,) = re.findall(rf"ld\.global\S*\s*%\w+, {re.escape(place)};", entry(name))
    generic = seed.replace(".global", "")
    text = entry(name).replace(cas, cas + "nanosleep.u32 40;").replace(seed, generic)
    verdict = against(text, name)
    assert (verdict.verdict, verdict.reason) == ("proved", None)


def test_a_generic_load_of_another_space() -> None:
    """The address of a cell of shared memory, which the CAS takes for a global one."""
    body = """.shared .b32 s[2]; mov.u64 %d1, s; cvta.shared.u64 %pO, %d1;
    st.u32 [%pO], 0; bar.sync 0;""" + CHOICE.format(**{**PARTS, "load": "ld.u32 %r9, [%pO];"})
    params = (harness.symbol("A", "f32", 64), Tensor("O", "f32", (65,), "inout"))
    launch = harness.launch_of(params, block=64)
    verdict = safe(harness.entry(body, params), launch=launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "bounds.global")
    assert verdict.findings[0].locations[0].text.startswith("atom.global.cas.b32")


@pytest.mark.parametrize("fence", ["membar.gl;", "fence.acq_rel.gpu;"])
def test_a_loop_with_a_fence(fence: str) -> None:
    """Each thread of a loop that adds comes to it, and where one chooses only some do."""
    for name in ("product", "while_larger"):
        (cas,) = re.findall(r"atom\.global\.cas[^;]*;", entry(name))
        verdict = against(entry(name).replace(cas, fence + cas), name)
        reason = None if name == "product" else ARM
        assert (verdict.verdict, verdict.reason) == ("undecided" if reason else "proved", reason)


@pytest.mark.parametrize("post", ["", "st.global.f32 [%D], %f1;"])
def test_a_choice_may_be_among_other_things(post: str) -> None:
    verdict = chosen({"seeded": "add.u32 %r20, %r20, 1;", "post": post})
    assert (verdict.verdict, verdict.reason) == ("proved", None)


def chosen(parts: dict[str, str]) -> Verdict:
    body = CHOICE.format(**{**PARTS, **parts})
    params = (
        harness.symbol("A", "f32", 64),
        Tensor("O", "f32", (65,), "inout"),
        Tensor("D", "u32" if ".u32 [%D]" in body else "f32", (64,), "inout"),
    )
    launch = harness.launch_of(params, block=64)
    return safe(harness.entry(body, params), launch=launch, seed=1)


@pytest.mark.parametrize("name", ["decayed", "carried"])
def test_other_loops_are_refused_by_name(name: str) -> None:
    verdict = equivalent(entry(name), entry(name), launch=launch(name), seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.spin")
    assert verdict.findings[0].locations[0].text.startswith("atom.global.cas.b32")


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        ("red.global.add.noftz.f16 [O], h;", ("refuted", "race.global")),  # not as wide
        ("ld.global.b32 r, [O];", ("refuted", "race.global")),
        ("red.global.add.f32 [O], f;", ("undecided", "unsupported.reinterpret")),
    ],
)
def test_what_does_not_commute_with_a_loop_on_halves(other: str, outcome: tuple[str, str]) -> None:
    text = entry("chosen")
    body = f"""
.reg .b16 h; .reg .f32 f; .reg .b32 r; .reg .b64 O; .reg .pred p;
mov.b16 h, 0; mov.f32 f, 0f00000000;
ld.param.u64 O, [chosen_param_1]; mov.u32 r, %tid.x; setp.eq.u32 p, r, 1; @p {other}
"""
    at = text.index("ld.param.u64")
    verdict = equivalent(text, text[:at] + body + text[at:], launch=launch("chosen"), seed=1)
    assert (verdict.verdict, verdict.reason) == outcome


@pytest.mark.parametrize("name", ["largest", "while_larger", "sixteen", "brain", "both"])
def test_in_true_formats(name: str) -> None:
    """Integers that every format holds, so that no order of the atomics can be seen."""
    under, (_, _, n, cells) = launch(name), KERNELS[name]
    numbers = np.random.default_rng(5).integers(-2, 3, TOTAL * n).astype(np.float64)
    inputs = {"A": numbers, "O": np.zeros(cells)}
    table = numbers.reshape(-1, cells)
    wanted = table.max(0).clip(0) if name in OPERATIONS else table.sum(0)
    for engine in ("ieee", "enclosure"):
        made = run(entry(name), launch=under, inputs=inputs, engine=engine)
        assert made.findings == ()
        np.testing.assert_array_equal(np.asarray(made.outputs["O"], np.float64), wanted)
