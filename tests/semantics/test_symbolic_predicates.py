"""Predicates on tensor values: selects, guarded instructions, logic, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kcheck.canon.enclosure import Enclosure, EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.launch import Param
from tests.semantics import harness
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol

N = 64
RNG = np.random.default_rng(21)


class Undecided(EnclosureDomain):
    """Enclosures that leave every comparison open, as identity testing does."""

    def decide(self, p: Enclosure) -> NDArray[np.int8]:
        return np.full(p.shape, -1, np.int8)


INPUTS = {"X": RNG.normal(size=N), "Y": RNG.normal(size=N), "H": RNG.normal(size=2 * N)}
PARAMS: list[Param] = [
    symbol("X", "f32", N),
    symbol("Y", "f32", N),
    symbol("H", "f16", 2 * N),
    known("I", "u32", RNG.integers(0, 4, N)),
    out("P", "f32", 3, N),
    out("Q", "f16", 2 * N),
]
START = """
    ld.global.f32 %f1, [%X]; ld.global.f32 %f2, [%Y]; ld.global.u32 %r1, [%I];
    mad.lo.u64 %d1, %wide, 4, %pH; ld.global.b32 %r2, [%d1]; mad.lo.u64 %d2, %wide, 4, %pQ;
    setp.lt.f32 %p1|%p2, %f1, %f2; setp.gt.f32 %p3, %f1, 0f00000000; setp.lt.u32 %p4, %r1, 2;
    setp.eq.u32 %p8, %r1, 0;
"""
STORE = "st.global.f32 [%P], %f3;"
CASES = {
    "selp": f"selp.f32 %f3, %f1, %f2, %p1; {STORE}",
    "selp_negated": f"selp.f32 %f3, %f1, 0f3F800000, %p2; {STORE}",
    "selp_bits": "selp.b32 %r3, %r2, 0x3c003c00, %p1; st.global.b32 [%d2], %r3;",
    "selp_half": "mov.b32 {%h1, %h2}, %r2; selp.b16 %h3, %h1, %h2, %p1; st.global.b16 [%d2], %h3;",
    "and": f"and.pred %p5, %p1, %p3; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "or": f"or.pred %p5, %p1, %p3; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "xor": f"xor.pred %p5, %p1, %p3; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "not": f"not.pred %p5, %p1; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "and_concrete": f"and.pred %p5, %p1, %p4; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "or_concrete": f"or.pred %p5, %p4, %p3; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "xor_concrete": f"xor.pred %p5, %p1, %p4; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "setp_and": f"setp.ge.and.f32 %p5|%p6, %f1, %f2, !%p3; selp.f32 %f3, %f1, %f2, %p6; {STORE}",
    "setp_or": f"setp.le.or.f32 %p5|%p6, %f1, %f2, %p4; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "int_setp_xor": f"setp.eq.xor.u32 %p5|%p6, %r1, 3, %p1; selp.f32 %f3, %f1, %f2, %p6; {STORE}",
    "mov_pred": f"mov.pred %p5, %p1; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "guarded_mov": f"mov.f32 %f3, %f2; @%p1 mov.f32 %f3, %f1; {STORE}",
    "guarded_not": f"mov.f32 %f3, %f2; @!%p1 add.f32 %f3, %f3, %f1; {STORE}",
    "guarded_pair": "mov.b32 %r3, %r2; @%p1 add.f16x2 %r3, %r3, %r2; st.global.b32 [%d2], %r3;",
    "guarded_setp": f"mov.pred %p5, %p4; @%p1 setp.gt.f32 %p5, %f2, 0f3F000000; "
    f"selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "guarded_store": f"mov.f32 %f3, 0f40000000; {STORE} @%p1 st.global.f32 [%P], %f1;",
    "guarded_vector": "st.global.v2.b16 [%d2], {0, 0}; mov.b32 {%h1, %h2}, %r2; "
    "@%p1 st.global.v2.b16 [%d2], {%h2, %h1};",
    "guarded_shared": f"""{{ .shared .f32 s[64]; .reg .b64 %s; mov.u64 %s, s;
        mad.lo.u64 %s, %wide, 4, %s; st.shared.f32 [%s], %f2; @!%p1 st.shared.f32 [%s], %f1;
        ld.shared.f32 %f3, [%s]; {STORE} }}""",
    "divergent": f"mov.f32 %f3, %f2; @%p4 bra L; @%p1 mov.f32 %f3, %f1; bra M; "
    f"L: selp.f32 %f3, 0f3F800000, %f1, %p3; M: {STORE}",
    "divergent_predicate": f"@%p4 bra L; setp.gt.f32 %p5, %f1, %f2; bra M; "
    f"L: setp.eq.u32 %p5, %r1, 1; M: selp.f32 %f3, %f1, %f2, %p5; {STORE}",
    "set": f"set.lt.f32.f32 %f3, %f1, %f2; {STORE}",
    "set_and": f"set.lt.and.f32.f32 %f3, %f1, %f2, %p3; {STORE}",
    "slct": f"slct.f32.f32 %f3, %f1, %f2, %f1; {STORE}",
    "slct_int": f"slct.f32.s32 %f3, %f1, %f2, %r1; {STORE}",
    "same_integers": f"selp.u32 %r3, %r1, %r1, %p1; cvt.rn.f32.u32 %f3, %r3; {STORE}",
    "half2": "mov.b32 %r4, 0x38003400; setp.lt.f16x2 %p5|%p6, %r2, %r4; mov.b32 {%h1, %h2}, %r2; "
    "selp.b16 %h1, %h2, %h1, %p5; selp.b16 %h2, 0x3c00, %h2, %p6; mov.b32 %r3, {%h1, %h2}; "
    "st.global.b32 [%d2], %r3;",
    "infinity": f"mov.f32 %f3, 0fFF800000; selp.f32 %f3, %f3, %f1, %p8; setp.lt.f32 %p5, %f3, %f2; "
    f"selp.f32 %f3, %f2, %f1, %p5; {STORE}",
    "bits_in_some_lanes": "mov.f32 %f3, %f1; @%p4 cvt.rn.f32.u32 %f3, %r1; "
    f"setp.gt.f32 %p5, %f3, %f2; selp.f32 %f3, %f3, %f2, %p5; {STORE}",
    "tie": f"setp.le.f32 %p5, %f1, %f1; selp.f32 %f3, %f1, %f2, %p5; {STORE}",
}


def outcomes(text: str, domain: Any) -> harness.Outcome:
    kernel = kernel_of(entry(f"{START} {text} ret;", PARAMS))
    return harness.fast(kernel, launch_of(PARAMS, 1, N), domain)[0]


@pytest.mark.parametrize("name", CASES)
def test_both_arms_under_an_open_predicate(name: str) -> None:
    kernel = kernel_of(entry(f"{START} {CASES[name]} ret;", PARAMS))
    expected = harness.slow(kernel, launch_of(PARAMS, 1, N), INPUTS)
    outcome = outcomes(CASES[name], Undecided(INPUTS))
    lines = harness.disagreements(outcome, expected)
    assert not lines, "\n".join(lines[:9])
    assert not outcome.findings
    assert not harness.disagreements(outcomes(CASES[name], EnclosureDomain(INPUTS)), expected)


@pytest.mark.parametrize("name", CASES)
def test_identity_testing_takes_them_too(name: str) -> None:
    outcome = outcomes(CASES[name], FieldDomain(3, 2, 1))
    assert outcome.stopped is None
    assert not outcome.findings


REFUSED = {
    "@%p1 bar.sync 0;": "branch",
    "@%p1 ld.volatile.global.f32 %f3, [%X];": "predicated",
    "@%p1 atom.global.add.f32 %f3, [%P], %f1; st.global.f32 [%P], %f3;": "predicated",
    "@%p1 red.global.max.s32 [%P], %r1;": "predicated",
    "@%p1 shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;": "predicated",
    "vote.sync.any.pred %p5, %p1, -1;": "vote",
    "vote.sync.ballot.b32 %r3, %p1, -1;": "vote",
    "selp.u32 %r3, 4, 0, %p1; cvt.u64.u32 %d3, %r3; add.u64 %d3, %d3, %pX; "
    "ld.global.f32 %f3, [%d3];": "symbolic-int",
    "mov.b32 {%h1, %h2}, %r2; set.lt.u16.f16 %h3, %h1, %h2;": "symbolic-int",
    "mov.b32 %r3, %f1; shl.b32 %r3, %r3, 1;": "reinterpret",
    "mov.b32 %r3, %f1; cvt.u64.u32 %d3, %r3; ld.global.u32 %r4, [%d3];": "reinterpret",
    "add.f32 %f3, %f1, 0f4B400000;": "magic-rounding",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str) -> None:
    outcome = outcomes(text, Undecided(INPUTS))
    assert outcome.stopped is not None
    assert outcome.stopped[0] == REFUSED[text]
