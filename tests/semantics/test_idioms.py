"""Kernels whose CTAs wait for one another, through `equivalent`; and how they go wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Tensor
from kcheck.running import run
from kcheck.verdict import Verdict
from tests.semantics.slow.test_idioms import CTAS, PARAMS, PTX, THREADS, TOTAL, left

NAMES = ("split_k", "ticket", "ticket_all", "semaphore", "semaphore_acquire", "cas_add")
SUMS = ".visible .entry plain(.param .u64 p_A, .param .u64 p_O)"


@cache
def entry(name: str) -> str:
    """The text of one kernel."""
    text = PTX.read_text()
    head = text[text.index(".version") : text.index("//", text.index(".address_size"))]
    (body,) = re.findall(rf"^\.visible \.entry {name}\(.*?^}}", text, re.DOTALL | re.MULTILINE)
    return f"{head}\n{body}\n"


def launch(name: str) -> Launch:
    params = (Tensor("A", "f32", (TOTAL,), "in"), *PARAMS[name])
    return Launch(name, (CTAS, 1, 1), (THREADS, 1, 1), params)


def tensors(under: Launch) -> list[Tensor]:
    return [p for p in under.params if isinstance(p, Tensor)]


def with_output(under: Launch, init: str) -> Launch:
    """The launch with an output O that holds something from the start."""
    params = [replace(p, init=init) if p.name == "O" else p for p in tensors(under)]
    return replace(under, params=tuple(params))


def changed(name: str, *edits: tuple[str, str]) -> str:
    """A kernel's text with parts replaced, each of which occurs once."""
    text = entry(name)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def judged(text: str, name: str, under: Launch | None = None) -> tuple[Verdict, list[str]]:
    """The verdict on a kernel, and the lines of its first finding."""
    verdict = equivalent(entry(name), text, launch=under or launch(name), seed=1)
    lines = text.splitlines()
    finding = next((f for f in verdict.findings if f.reason == verdict.reason), None)
    return verdict, [lines[p.line - 1].strip() for p in finding.locations] if finding else []


def reference(name: str) -> tuple[str, Launch]:
    """What a kernel computes, by one CTA that adds up in order, or by atomics."""
    tensor = next(t for t in tensors(with_output(launch(name), "zero")) if t.name == "O")
    row = {"cas_add": 4}.get(name, 1 if name == "ticket" else THREADS)
    twice = "add.f32 v, v, v;" if name == "ticket_all" else ""
    text = f""".version 9.0
.target sm_80
.address_size 64
.visible .entry plain(.param .u64 p_A, .param .u64 p_O)
{{
.reg .b64 A, O; .reg .b32 i, c; .reg .f32 v;
ld.param.u64 A, [p_A]; ld.param.u64 O, [p_O];
mov.u32 i, %tid.x; mov.u32 c, %ctaid.x; mad.lo.u32 c, c, {THREADS}, i;
mad.wide.u32 A, c, 4, A; rem.u32 i, i, {row}; mad.wide.u32 O, i, 4, O;
ld.global.f32 v, [A]; {twice} red.global.add.f32 [O], v;
ret;
}}
"""
    params = (Tensor("A", "f32", (TOTAL,), "in"), tensor)
    return text, Launch("plain", (CTAS, 1, 1), (THREADS, 1, 1), params)


@pytest.mark.parametrize("name", [*NAMES, "grid_barrier"])
def test_right_idioms(name: str) -> None:
    verdict, _ = judged(entry(name), name)
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())


@pytest.mark.parametrize("name", [*NAMES, "grid_barrier"])
def test_in_true_formats(name: str) -> None:
    numbers = np.random.default_rng(1).standard_normal(TOTAL).astype(np.float32)
    made = [
        run(entry(name), launch=launch(name), inputs={"A": numbers}, engine=engine)
        for engine in ("ieee", "enclosure")
    ]
    assert [result.findings for result in made] == [(), ()]
    outputs = [result.outputs["O"] for result in made]
    assert outputs[0].dtype == np.float32
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_against_a_sum_by_atomics(name: str) -> None:
    text, plain = reference(name)
    mine = with_output(launch(name), "zero")
    params = [replace(p, compare=p.name == "O") for p in tensors(mine)]
    mine = replace(mine, params=tuple(params))
    verdict = equivalent(text, entry(name), launch=plain, subject_launch=mine, seed=1)
    assert (verdict.verdict, verdict.findings) == ("proved", ())
    wrong = re.sub(r"add\.f32 (\t?%f\d+, %f\d+, %f\d+)", r"sub.f32 \1", entry(name), count=1)
    if wrong != entry(name):
        verdict = equivalent(text, wrong, launch=plain, subject_launch=mine, seed=1)
        assert verdict.verdict == ("undecided" if name == "cas_add" else "refuted")


FENCE = "membar.gl;\n"
DRAW = "atom.global.inc.u32 \t%r10, [%rd11], %r9;"
STORE = "st.global.f32 \t[%rd14], %f42;"
RACES = [
    ("ticket_unfenced", (), ["st.global.f32 [%rd10], %f1;", "ld.global.f32 %f2, [%rd13];"]),
    ("ticket_early", (), ["st.global.f32 [%rd10], %f1;", "ld.global.f32 %f2, [%rd13];"]),
    (
        "ticket",
        ((FENCE, "\n"),),
        ["st.global.f32 [%rd10], %f22;", "ld.global.f32 %f43, [%rd13];"],
    ),
    (
        "ticket",
        ((FENCE, "\n"), (DRAW, DRAW + "\nmembar.gl;")),
        ["st.global.f32 [%rd10], %f22;", "ld.global.f32 %f43, [%rd13];"],
    ),
    (
        "ticket",
        ((FENCE, "membar.cta;\n"),),
        ["st.global.f32 [%rd10], %f22;", "ld.global.f32 %f43, [%rd13];"],
    ),
    (
        "semaphore",
        (("mov.u32 \t%r2, %ctaid.x;", "mov.u32 %r2, %ctaid.x;setp.eq.u32 %p5, %r2, 2;"
          "@%p5 bra $L__BB3_4;"),),
        ["st.global.f32 [%rd2], %f5;", "ld.global.f32 %f4, [%rd2];"],
    ),
    (
        "semaphore_acquire",
        (("st.release.gpu", "st.relaxed.gpu"),),
        ["st.global.f32 [%rd3], %f5;", "ld.global.f32 %f4, [%rd3];"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edits", "lines"), RACES)
def test_a_missing_edge_is_a_race(
    name: str, edits: tuple[tuple[str, str], ...], lines: list[str]
) -> None:
    verdict, places = judged(changed(name, *edits), name)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    assert sorted(" ".join(place.split()) for place in places) == sorted(lines)


def test_a_semaphore_that_is_released_before_the_stores() -> None:
    text = entry("semaphore")
    start, end = text.index("\tsetp.ne.s32 \t%p4"), text.index("$L__BB3_8:")
    release = text[start:end].replace("BB3_8", "BB3_9")
    text = text[:start] + text[end:]
    text = text.replace("$L__BB3_6:", release + "$L__BB3_9:\n$L__BB3_6:").replace(
        "@%p3 bra \t$L__BB3_6;", "@%p3 bra \t$L__BB3_5;"
    )
    text = text.replace("\tadd.f32 \t%f5, %f5, %f4;", "\tadd.f32 \t%f5, %f5, %f4;\n$L__BB3_5:")
    verdict, _ = judged(text, "semaphore")
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")


@pytest.mark.parametrize("drop", [0, 1])
def test_a_grid_barrier_needs_its_fences(drop: int) -> None:
    text = entry("grid_barrier")
    parts = text.split(FENCE)
    text = FENCE.join(parts[: drop + 1]) + "\n" + FENCE.join(parts[drop + 1 :])
    verdict, places = judged(text, "grid_barrier")
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    assert places[0].startswith("st.global.f32")


def test_a_grid_barrier_where_one_cta_does_not_arrive() -> None:
    edit = ("add.s32 \t%r13, %r1, 1;", "add.s32 %r13, %r1, 1;setp.eq.s32 %p3, %r1, 3;@%p3 ret;")
    verdict, places = judged(changed("grid_barrier", edit), "grid_barrier")
    assert (verdict.verdict, verdict.reason) == ("refuted", "deadlock.spin")
    assert [place.split() for place in places] == [["ld.volatile.global.u32", "%r17,", "[%rd1];"]]


REFUSED = [
    # who is the last shows in what is stored, in where, in what is read back, and by updates
    ((STORE, "cvt.rn.f32.u32 %f42, %r1;\n" + STORE), STORE),
    ((STORE, "mul.wide.u32 %rd12, %r1, 4; add.s64 %rd14, %rd14, %rd12;\n" + STORE), STORE),
    (
        (STORE, STORE + "\nld.global.f32 %f1, [%rd14];\nst.global.f32 [%rd14], %f1;"),
        "ld.global.f32 %f1, [%rd14];",
    ),
    ((STORE, "red.global.add.f32 [%rd14], %f42;"), "red.global.add.f32 [%rd14], %f42;"),
    # those that are not the last store as well
    (("$L__BB1_31:", "$L__BB1_31:\ncvta.to.global.u64 %rd14, %rd4;\n" + STORE), DRAW),
    # the number itself is used
    (
        (DRAW, DRAW + "\ncvt.rn.f32.u32 %f1, %r10;\nst.global.f32 [%rd10], %f1;"),
        "cvt.rn.f32.u32 %f1, %r10;",
    ),
]


@pytest.mark.parametrize(("edit", "place"), REFUSED)
def test_what_hangs_on_who_is_the_last(edit: tuple[str, str], place: str) -> None:
    text = changed("ticket", edit)
    verdict, places = judged(text, "ticket", with_output(launch("ticket"), "zero"))
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.unstable")
    assert [p.replace("\t", " ").split() for p in places] == [place.replace("\t", " ").split()]


def test_a_counter_that_is_not_cleared() -> None:
    under = launch("ticket")
    params = tuple(left("C", "u32", 1) if p.name == "C" else p for p in tensors(under))
    verdict = safe(entry("ticket"), launch=replace(under, params=params), seed=1)
    assert verdict.verdict == "refuted"
    assert verdict.reason is not None
    assert verdict.reason.startswith("undefined.")


def test_a_ticket_that_nobody_draws() -> None:
    """Then nothing is stored to O, in any order."""
    edit = ("setp.eq.s32 \t%p8, %r10, %r9;", "setp.eq.s32 %p8, %r10, 77;")
    verdict, places = judged(changed("ticket", edit), "ticket")
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.unwritten")
    assert [" ".join(p.split()) for p in places] == [" ".join(STORE.split())]


@pytest.mark.parametrize(
    ("name", "reason", "place"),
    [
        ("lock", "unsupported.spin", "atom.global.cas.b32"),
        ("compaction", "unsupported.branch", "@%p1 bra"),
        # what a lane does hangs on a tensor value here
        ("aggregate", "unsupported.branch", "@%p1 bra"),
        ("float_max", "unsupported.branch", "@%p1 bra"),
    ],
)
def test_refused(name: str, reason: str, place: str) -> None:
    verdict, places = judged(entry(name), name)
    assert (verdict.verdict, verdict.reason) == ("undecided", reason)
    assert [" ".join(p.split()).startswith(place) for p in places] == [True]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        # what the loop believed decides something else, too
        (("$L__BB5_1:", "setp.eq.s32 %p1, %r10, 1;@%p1 ret;\n$L__BB5_1:"), "race."),
        (("%f3, %f1, %f2;", "%f3, %f2, %f2;"), "unsupported."),
        (("add.f32 \t%f3", "max.f32 \t%f3"), "unsupported.spin"),
        (("setp.ne.s32", "setp.lt.s32"), "unsupported.spin"),
        (("$L__BB5_1:", "mov.u32 %r8, 0;\n$L__BB5_1:\nadd.u32 %r8, %r8, 1;"), ""),
    ],
)
def test_other_cas_loops(edit: tuple[str, str], reason: str) -> None:
    text = changed("cas_add", edit)
    verdict, _ = judged(text, "cas_add")
    if not reason:  # a count that nothing reads
        assert verdict.verdict == "proved"
        return
    assert verdict.verdict == ("refuted" if reason.startswith("race") else "undecided")
    assert verdict.reason is not None
    assert verdict.reason.startswith(reason)


def test_one_cta_of_those_that_wait_is_not_checked() -> None:
    verdict = safe(entry("semaphore"), launch=launch("semaphore"), cta=1, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.part-of-grid")


def test_a_grid_that_is_too_large() -> None:
    under = replace(launch("semaphore"), grid=(1 << 13, 1, 1))
    verdict = safe(entry("semaphore"), launch=under, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "budget.memory")
    assert "8192 CTAs" in verdict.findings[0].message
