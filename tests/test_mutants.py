"""A fixed sample of benchmarks/mutants.py: each is refuted for its reason, or equal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.mutants import PAIRS
from benchmarks.mutation import KINDS, mutations
from kcheck.check import equivalent
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse

DATA = Path(__file__).parent / "data"

# pair, line of the subject, what stands there, what is put there, reason (None: still proved)
MUTANTS = (
    ("sum", 51, "add.f32", "sub.f32", "value.mismatch"),
    ("sum", 34, "%r1, 10", "%r1, 11", "bounds.global"),
    ("sum", 39, "%r13, 4", "%r2, 4", "bounds.misaligned"),
    ("sum", 96, "[%r16]", "[%r16+4]", "bounds.shared"),
    ("sum", 124, "@%p11 bra", "bra", "value.unwritten"),
    ("add-tail", 35, "%r4, 24", "%r12, 24", "value.unwritten"),
    ("add-tail", 76, "@%p5", "@!%p5", "bounds.global"),
    ("add-tail", 58, "%f23, %f31", "%f22, %f31", "value.mismatch"),
    ("rmsnorm", 83, "%r27;", "%r12;", "undefined.convergence"),
    ("softmax", 28, "param_0", "param_1", "undefined.output"),
    ("tree-reduce", 57, "11;", "10;", "value.mismatch"),
    # the address of a shared load wraps at 32 bits: the wrong element, not out of bounds
    ("gemm-ladder", 353, "add.s32", "sub.s32", "value.mismatch"),
    # any lower or upper bound of the scores may be subtracted in a softmax
    ("softmax", 91, "max.f32", "min.f32", None),
    ("add-tail", 78, ".nc", "", None),
)


def _change(text: str, number: int, old: str, new: str) -> str:
    lines = text.split("\n")
    assert lines[number - 1].count(old) == 1
    lines[number - 1] = lines[number - 1].replace(old, new)
    return "\n".join(lines)


@pytest.mark.parametrize(("pair", "line", "old", "new", "reason"), MUTANTS)
def test_mutant(pair: str, line: int, old: str, new: str, reason: str | None) -> None:
    reference, subject, _ = PAIRS[pair]
    verdict = equivalent(
        DATA / f"{reference}.ptx",
        _change((DATA / f"{subject}.ptx").read_text(), line, old, new),
        launch=DATA / f"{reference}.launch.yaml",
        subject_launch=DATA / f"{subject}.launch.yaml",
        safety=False,
        seed=1,
    )
    assert (verdict.verdict, verdict.reason) == ("refuted" if reason else "proved", reason)
    if reason and reason != "value.mismatch":  # a mismatch is seen where the value is stored
        assert verdict.findings[0].side == "subject"


def test_mutations_are_reproducible_distinct_and_parse() -> None:
    text = (DATA / f"{PAIRS['sum'][1]}.ptx").read_text()
    first, again = (mutations(text, random.Random("x"), 40) for _ in range(2))
    assert first == again
    assert len({m.key for m in first}) == 40
    assert {m.kind for m in first} == set(KINDS)
    for m in first:
        assert m.before != m.after
        assert len(lower(parse(m.text)).code) == len(lower(parse(text)).code)


def test_a_register_gives_way_only_to_one_of_its_type_that_is_assigned_before() -> None:
    text = """.version 8.0
.target sm_80
.address_size 64
.entry k (.param .u64 a)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.s32 %f1, %r1;
    add.s32 %r2, %r1, 1;
    add.s32 %r3, %r2, 1;
    add.f32 %f2, %f1, %f1;
    ret;
}
"""
    found = {m.key for m in mutations(text, random.Random(0), 1000) if m.kind == "register"}
    assert found == {
        "8: mov.u32 %r1, %tid.x; -> mov.u32 %r1, %tid.y;",
        "11: add.s32 %r3, %r2, 1; -> add.s32 %r3, %r1, 1;",
    }
