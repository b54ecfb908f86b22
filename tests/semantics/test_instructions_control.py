"""Branches, loops, exits, calls, barriers, batches of CTAs."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import Param
from tests.semantics import sheets
from tests.semantics.harness import (
    body_same,
    entry,
    fast,
    kernel_of,
    known,
    launch_of,
    out,
    same,
    slow,
    symbol,
)

RNG = np.random.default_rng(9)
WORDS = sheets.integers(RNG, 4, 256)
SMALL = RNG.integers(0, 9, 256)


def params(n: int) -> list[Param]:
    return [known("A", "u32", WORDS[:n]), known("B", "u32", SMALL[:n]), out("O", "u32", n)]


CONTROL = {
    "if_else": """
        ld.global.u32 %r1, [%A]; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; mov.u32 %r3, 9;
        @%p1 bra L; add.u32 %r3, %r3, %r1; bra M; L: mul.lo.u32 %r3, %r3, %r1;
        M: add.u32 %r3, %r3, 1; st.global.u32 [%O], %r3; ret;""",
    "nested": """
        ld.global.u32 %r1, [%B]; setp.lt.u32 %p1, %r1, 4; @!%p1 bra L2;
        setp.lt.u32 %p2, %r1, 2; @%p2 bra L1; mov.u32 %r3, 1; bra E; L1: mov.u32 %r3, 2; bra E;
        L2: setp.lt.u32 %p2, %r1, 6; @%p2 mov.u32 %r3, 3; @!%p2 mov.u32 %r3, 4;
        E: st.global.u32 [%O], %r3; ret;""",
    "loop": """
        ld.global.u32 %r1, [%B]; ld.global.u32 %r2, [%A]; mov.u32 %r3, 0; mov.u32 %r4, 0;
        L: setp.ge.u32 %p1, %r4, %r1; @%p1 bra E; mad.lo.u32 %r3, %r3, 3, %r2;
        xor.b32 %r3, %r3, %r4; add.u32 %r4, %r4, 1; bra L; E: st.global.u32 [%O], %r3; ret;""",
    "nested_loops": """
        ld.global.u32 %r1, [%B]; mov.u32 %r3, 0; mov.u32 %r4, 0;
        L: mov.u32 %r5, 0;
        K: mad.lo.u32 %r3, %r3, 5, %r5; add.u32 %r5, %r5, 1; setp.le.u32 %p1, %r5, %r4; @%p1 bra K;
        add.u32 %r4, %r4, 1; setp.le.u32 %p1, %r4, %r1; @%p1 bra.uni L;
        st.global.u32 [%O], %r3; ret;""",
    "break_and_continue": """
        ld.global.u32 %r1, [%B]; ld.global.u32 %r2, [%A]; mov.u32 %r3, 0; mov.u32 %r4, 0;
        L: add.u32 %r4, %r4, 1; setp.gt.u32 %p1, %r4, 9; @%p1 bra E;
        and.b32 %r5, %r4, %r2; setp.eq.u32 %p2, %r5, 0; @%p2 bra L;
        setp.eq.u32 %p3, %r4, %r1; @%p3 bra E; add.u32 %r3, %r3, %r4; bra L;
        E: st.global.u32 [%O], %r3; ret;""",
    "early_exit": """
        ld.global.u32 %r1, [%B]; setp.eq.u32 %p1, %r1, 3; @%p1 exit; st.global.u32 [%O], 1;
        setp.eq.u32 %p1, %r1, 5; @%p1 ret; st.global.u32 [%O], 2; setp.lt.u32 %p1, %r1, 2;
        @!%p1 bra E; st.global.u32 [%O], 3; exit; E: st.global.u32 [%O], 4; ret;""",
    "guarded": """
        ld.global.u32 %r1, [%B]; setp.lt.u32 %p1|%p2, %r1, 4; mov.u32 %r3, 100;
        @%p1 add.u32 %r3, %r3, %r1; @!%p1 sub.u32 %r3, %r3, %r1; @%p2 ld.global.u32 %r3, [%A];
        @%p1 setp.eq.u32 %p2, %r1, 2; @%p2 st.global.u32 [%O], %r3;
        @!%p2 st.global.u32 [%O], 7; ret;""",
    "indexed": """
        ld.global.u32 %r1, [%B]; mov.u32 %r3, 100; setp.lt.u32 %p1, %r1, 4;
        T: .branchtargets X, Y, X, E;
        L: @%p1 brx.idx %r1, T; sub.u32 %r1, %r1, 4; rem.u32 %r4, %r1, 2; brx.idx %r4, T;
        X: add.u32 %r3, %r3, %r1; bra E;
        Y: mul.lo.u32 %r3, %r3, 3; add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, 4;
        setp.gt.u32 %p2, %r3, 999; @!%p2 bra L; brx.idx.uni 3, T;
        E: st.global.u32 [%O], %r3; ret;""",
    "irreducible": """
        ld.global.u32 %r1, [%B]; mov.u32 %r3, 1; mov.u32 %r4, 0; setp.lt.u32 %p1, %r1, 4;
        @%p1 bra Y; X: mul.lo.u32 %r3, %r3, 3; Y: add.u32 %r3, %r3, %r1; add.u32 %r4, %r4, 1;
        setp.lt.u32 %p2, %r4, %r1; @%p2 bra X; st.global.u32 [%O], %r3; ret;""",
}


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize(
    ("grid", "block", "batch"), [(1, 32, 4096), (3, 48, 4096), (4, 64, 32), (5, 20, 96)]
)
def test_control_flow(name: str, grid: int, block: int, batch: int) -> None:
    tensors = params(grid * block)
    outcome = body_same(CONTROL[name], tensors, grid=grid, block=block, batch=batch)
    assert not outcome.findings
    assert len(set(outcome.outputs["O"])) > 2


def test_floats_through_control_flow() -> None:
    """Registers that hold inputs in some lanes, bits or pairs in others."""
    body = """
    ld.global.u32 %r1, [%B]; ld.global.f32 %f1, [%X]; setp.lt.u32 %p1, %r1, 3;
    mov.f32 %f2, 0fFF800000;
    @%p1 bra L; max.f32 %f2, %f2, %f1; setp.lt.u32 %p2, %r1, 5; @%p2 bra M; mov.u32 %f3, 1073741824;
    bra E; L: mov.f32 %f3, %f1; bra E; M: mul.f32 %f3, %f1, 0f40400000;
    E: max.f32 %f2, %f2, %f3; add.f32 %f4, %f2, %f3; st.global.f32 [%P], %f4;
    mov.b32 %r5, %f3; @!%p1 xor.b32 %r5, %r5, 0x80000000; mov.b32 %f5, %r5;
    st.global.f32 [%P+384], %f5;
    ret;"""
    tensors = [known("B", "u32", SMALL[:96]), symbol("X", "f32", 96), out("P", "f32", 2, 96)]
    body_same(body, tensors, {"X": RNG.normal(size=96)}, grid=2, block=48)


def test_pairs_through_control_flow() -> None:
    body = """
    ld.global.u32 %r1, [%B]; setp.lt.u32 %p1, %r1, 3; mad.lo.u64 %d1, %wide, 4, %pX;
    ld.global.b32 %r2, [%d1]; mov.b32 %r3, 0x3c004000; @%p1 bra L; mov.b32 %r3, %r2; bra M;
    L: mov.b32 {%h1, %h2}, %r2; mov.b32 %r2, {%h2, %h1};
    M: fma.rn.f16x2 %r4, %r3, %r2, %r3; @%p1 and.b32 %r4, %r4, 0x7fff7fff;
    mad.lo.u64 %d2, %wide, 4, %pP; st.global.b32 [%d2], %r4; ret;"""
    tensors = [known("B", "u32", SMALL[:64]), symbol("X", "f16", 128), out("P", "f16", 128)]
    body_same(body, tensors, {"X": RNG.normal(size=128)}, block=64)


def test_indices_beyond_the_targets_are_refused() -> None:
    body = "T: .branchtargets A, B; brx.idx %gid, T; A: B: st.global.u32 [%O], 1; ret;"
    text = entry(body, params(32))
    kernel, launch = kernel_of(text), launch_of(params(32))
    for outcome in (fast(kernel, launch, EnclosureDomain({}))[0], slow(kernel, launch, {})):
        assert outcome.stopped == ("brx", "brx.idx %gid, T")


# calls -------------------------------------------------------------------------------------------

FUNCTIONS = """
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a; st.param.b32 [result], %a; ret; }
.func (.param .align 8 .b8 both[8]) order(.param .align 8 .b8 pair[8], .param .f32 scale) {
  .reg .f32 %a, %b, %c; .reg .pred %p; ld.param.f32 %a, [pair]; ld.param.f32 %b, [pair+4];
  ld.param.f32 %c, [scale]; setp.lt.f32 %p, %a, %b; mul.f32 %a, %a, %c;
  @%p bra L; st.param.f32 [both], %a; st.param.f32 [both+4], %b; ret;
  L: st.param.f32 [both], %b; st.param.f32 [both+4], %a; ret; }
.func leave(.param .b64 where, .param .b32 n) {
  .reg .b64 %w; .reg .b32 %n; .reg .pred %p; ld.param.u64 %w, [where]; ld.param.u32 %n, [n];
  setp.gt.u32 %p, %n, 5; @%p ret; st.global.u32 [%w], %n; ret; }
"""


def test_calls() -> None:
    body = """
    ld.global.u32 %r1, [%B]; ld.global.f32 %f1, [%X]; ld.global.f32 %f2, [%X+4];
    { .param .b32 in0; .param .b32 out0; st.param.b32 [in0], %r1;
      call.uni (out0), twice, (in0); ld.param.b32 %r2, [out0]; }
    { .param .b32 in0; .param .b32 out0; st.param.b32 [in0], %r2;
      call (out0), twice, (in0); ld.param.b32 %r2, [out0]; }
    st.global.u32 [%O], %r2;
    { .param .align 8 .b8 in0[8]; .param .f32 in1; .param .align 8 .b8 out0[8];
      st.param.f32 [in0], %f1; st.param.f32 [in0+4], %f2; st.param.f32 [in1], 0f40000000;
      call.uni (out0), order, (in0, in1); ld.param.f32 %f3, [out0]; ld.param.f32 %f4, [out0+4]; }
    st.global.f32 [%P], %f3; st.global.f32 [%P+256], %f4;
    { .param .b64 in0; .param .b32 in1; st.param.b64 [in0], %O; st.param.b32 [in1], %r1;
      call.uni leave, (in0, in1); }
    ret;"""
    tensors = [*params(64)[1:], symbol("X", "f32", 65), out("P", "f32", 2, 64)]
    outcome = body_same(
        body,
        tensors,
        {"X": RNG.normal(size=65)},
        head=FUNCTIONS,
        block=64,
    )
    assert not outcome.findings


# barriers ----------------------------------------------------------------------------------------

EXCHANGE = """
    .shared .align 4 .u32 s[128]; .reg .b64 %s, %u; mov.u64 %s, s; cvt.u64.u32 %d1, %tid.x;
    mad.lo.u64 %s, %d1, 4, %s; ld.global.u32 %r1, [%A]; st.shared.u32 [%s], %r1;"""
READ = """
    sub.u32 %r2, %ntid.x, 1; sub.u32 %r2, %r2, %tid.x; mov.u64 %u, s; cvt.u64.u32 %d1, %r2;
    mad.lo.u64 %u, %d1, 4, %u; ld.shared.u32 %r3, [%u]; st.global.u32 [%O], %r3; ret;"""
MEETINGS = {
    "whole": "bar.sync 0;",
    "spelled": "barrier.cta.sync.aligned 3;",
    "unaligned": "barrier.sync 2;",
    "counted": "bar.sync 1, %ntid.x;",
    "in_registers": "mov.u32 %r7, 4; mov.u32 %r8, %ntid.x; bar.sync %r7, %r8;",
    "again": "bar.sync 0; bar.sync 0; bar.sync 1; bar.sync 0;",
    "in_a_loop": """mov.u32 %r7, 0; L: bar.sync 0; add.u32 %r7, %r7, 1;
        setp.lt.u32 %p1, %r7, 5; @%p1 bra L;""",
    "by_id": "shr.u32 %r7, %tid.x, 5; add.u32 %r7, %r7, 1; bar.sync %r7, 32; bar.sync 0;",
    "in_both_arms": """setp.lt.u32 %p1, %tid.x, 32; @%p1 bra L; bar.sync 0; bra M;
        L: bar.sync 0; M:""",
    "producer": """setp.lt.u32 %p1, %tid.x, 32; @%p1 bra L; bar.sync 1, 64; bra M;
        L: bar.arrive 1, 64; M: bar.sync 0;""",
    "guarded": """setp.lt.u32 %p1, %tid.x, 32; @%p1 bar.sync 1, 32; @!%p1 bar.sync 2, 32;
        bar.sync 0;""",
}


@pytest.mark.parametrize("name", MEETINGS)
@pytest.mark.parametrize("batch", [4096, 64])
def test_barriers(name: str, batch: int) -> None:
    body = f"{EXCHANGE} {MEETINGS[name]} {READ}"
    text = entry(body, params(192))
    launch = launch_of(params(192), 3, 64)
    for seed in (None, 1, 2):
        outcome = same(text, launch, seed=seed, batch=batch)
        assert not outcome.findings
        assert "undef" not in outcome.outputs["O"]


def test_exited_threads_are_not_waited_for() -> None:
    for leaving in ("ge.u32 %p1, %tid.x, 32", "eq.u32 %p1, %tid.x, 3", "gt.u32 %p1, %tid.x, 40"):
        body = f"setp.{leaving}; @%p1 exit; bar.sync 0; st.global.u32 [%O], 1; ret;"
        assert not body_same(body, params(96), block=96).findings
    body = "setp.ge.u32 %p1, %tid.x, 64; @%p1 bra E; bar.sync 0; bar.sync 0; E: ret;"
    assert not body_same(body, params(96), block=96).findings


def test_warp_barriers_under_divergence() -> None:
    body = f"""{EXCHANGE} and.b32 %r9, %tid.x, 31; setp.lt.u32 %p1, %r9, 16; @%p1 bra L;
    add.u32 %r1, %r1, 1; bar.warp.sync 0xffff0000; bar.warp.sync -1; bra M;
    L: bar.warp.sync 0xffff; st.shared.u32 [%s], 5; bar.warp.sync 0xffffffff;
    M: bar.sync 0; {READ}"""
    outcome = body_same(body, params(64), block=64)
    assert not outcome.findings


DEADLOCKS = {
    "bar.sync 1, 128": "bar.sync 1, 128;",
    "@!%p1 bar.sync 0": "setp.lt.u32 %p1, %tid.x, 16; @%p1 bar.sync 0; @!%p1 bar.sync 0;",
    "bar.sync 0": "setp.lt.u32 %p1, %tid.x, 3; @%p1 bra L; bar.sync 0; bra E; L: bar.sync 0; E:",
    "bar.sync 1, 64": "setp.lt.u32 %p1, %tid.x, 32; @!%p1 bra E; bar.sync 1, 64; E:",
    "bar.sync 2": "setp.lt.u32 %p1, %tid.x, 32; @!%p1 bra F; bar.sync 2; bra E; F: bar.sync 3; E:",
    "bar.warp.sync -1": """setp.lt.u32 %p1, %tid.x, 7; @!%p1 bra F; bar.warp.sync -1; bra E;
        F: bar.sync 0; E:""",
}


@pytest.mark.parametrize("instruction", DEADLOCKS)
def test_deadlocks(instruction: str) -> None:
    body = f"{DEADLOCKS[instruction]} st.global.u32 [%O], 1; ret;"
    outcome = body_same(body, params(64), block=64, places=False)
    assert any(reason.startswith("deadlock") for reason in outcome.reasons)
    assert instruction in {line for _, line in outcome.findings}


def test_code_that_ends_without_ret() -> None:
    body = "setp.lt.u32 %p1, %gid, 9; @%p1 bra L; st.global.u32 [%O], 1; bra M; L: exit;"
    body += "M: bar.sync 0;"
    assert body_same(body, params(64), block=64).outputs["O"].count(1) == 55
    assert body_same("st.global.u32 [%O], 1;", params(32)).outputs["O"] == [1] * 32
