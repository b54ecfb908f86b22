"""Bounds, undefined values, refusals: both machines find the same, at the same instruction."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from tests.semantics.harness import body_same, entry, fast, kernel_of, known, launch_of, out, symbol

N = 32
LANES = np.arange(N, dtype=np.uint32)
PARAMS = [known("A", "u32", LANES * 3), out("O", "u32", N)]
ZEROED = [PARAMS[0], out("O", "u32", N, init="zero")]
SHARED = ".shared .align 16 .b8 s[128]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 4, %s;"
LOCAL = ".local .align 16 .b8 l[16]; .reg .b64 %l; mov.u64 %l, l;"
# what goes wrong -> the reason, and the instruction
BOUNDS = {
    "ld.global.u32 %r1, [%A+4]": "bounds.global",
    "ld.global.u32 %r1, [%A+-4]": "bounds.global",
    "ld.global.v2.u32 {%r1, %r2}, [%A]": "bounds.misaligned bounds.global",
    "ld.global.u32 %r1, [%A+128]": "bounds.global",
    "ld.global.u32 %r1, [%A+1000000]": "bounds.global",
    "ld.global.u16 %h1, [%A+1]": "bounds.misaligned",
    "ld.global.u32 %r1, [%A+2]": "bounds.misaligned bounds.global",
    "ld.u32 %r1, [%A+4]": "bounds.global",
    "st.global.u32 [%A], %gid": "bounds.readonly",
    "st.global.u32 [%O+4], %gid": "bounds.global",
    "st.global.v4.u32 [%pO+120], {%gid, %gid, %gid, %gid}": "bounds.global",
    "red.global.add.u32 [%O+8], 1": "bounds.global",
    "red.global.add.u32 [%A], 1": "bounds.readonly",
    "atom.global.add.u32 %r1, [%O+2], 1": "bounds.misaligned bounds.global",
    "ld.shared.u32 %r1, [%s+4]": "bounds.shared",
    "ld.shared.u32 %r1, [s+128]": "bounds.shared",
    "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s+116]": "bounds.shared",
    "ld.shared.u64 %d1, [s+4]": "bounds.misaligned",
    "st.shared.u32 [%s+-4], %gid": "bounds.shared",
    "ld.local.u32 %r1, [%l+16]": "bounds.local",
    "st.local.u64 [%l+-8], 0": "bounds.local",
    "ld.const.u32 %r1, [c+16]": "bounds.const",
    "ld.global.u32 %r1, [g+16]": "bounds.global",
    "ld.global.u32 %r1, [%s]": "bounds.global",
    "ld.shared.u32 %r1, [%A]": "bounds.shared",
    "ld.global.u32 %r1, [64]": "bounds.global",
    "ld.u32 %r1, [64]": "bounds.global",
    "cp.async.ca.shared.global [%s], [%A+4], 4": "bounds.global",
    "cp.async.ca.shared.global [s], [%pA+4], 8": "bounds.misaligned",
    "cp.async.cg.shared.global [s+8], [%pA], 16": "bounds.misaligned",
    "cp.async.cg.shared.global [s], [%pA+8], 16, 4": "bounds.misaligned",
    "cp.async.cg.shared.global [s+128], [%pA], 16": "bounds.shared",
    "cp.async.cg.shared.global [s], [%pA], 16, 20": "undefined.size",
}
HEAD = ".const .align 4 .u32 c[4] = {1, 2, 3, 4}; .global .align 4 .u32 g[4] = {0};"


@pytest.mark.parametrize("instruction", BOUNDS)
def test_bounds(instruction: str) -> None:
    body = f"{SHARED} {LOCAL} st.shared.u32 [%s], 5; {instruction}; ret;"
    outcome = body_same(body, ZEROED, head=HEAD)
    assert outcome.findings == {(reason, instruction) for reason in BOUNDS[instruction].split()}


def test_what_is_in_bounds_is_no_finding() -> None:
    body = f"""{SHARED} {LOCAL} st.shared.u32 [%s], 5; st.shared.u64 [s+120], 1;
    setp.lt.u32 %p1, %gid, 31; @%p1 ld.global.u32 %r1, [%A+4]; @%p1 st.global.u32 [%O+4], %r1;
    setp.ge.u32 %p1, %gid, 1; @%p1 ld.global.u32 %r1, [%A+-4];
    st.local.v4.u32 [%l], {{1, 2, 3, 4}}; ld.const.u32 %r2, [c+12]; ld.global.u32 %r3, [g+12];
    cp.async.cg.shared.global [s], [%pA+1000000], 16, 0; ret;"""
    assert not body_same(body, PARAMS, head=HEAD).findings


def test_an_address_keeps_its_buffer() -> None:
    """From A by integer arithmetic, however it is made, into O: out of A's bounds."""
    for address in (
        "add.u64 %d2, %A, 1099511627776;",
        "mad.wide.u32 %d2, %gid, 4, %pA; add.u64 %d2, %d2, 1099511627776;",
        "mul.wide.u32 %d1, %gid, 4; add.s64 %d2, %d1, %pA; sub.s64 %d2, %d2, 8;",
        "shl.b64 %d1, %wide, 3; add.s64 %d2, %pA, %d1;",
        "min.u64 %d2, %A, %A; add.u64 %d2, %d2, 64;",
        "mov.u64 %d2, %A; @!%p2 add.u64 %d2, %d2, 128;",
        "selp.u64 %d2, %A, %O, %p2; add.u64 %d2, %d2, 64;",
        "and.b64 %d2, %A, -16; add.u64 %d2, %d2, 128;",
    ):
        body = f"setp.lt.u32 %p2, %gid, 7; {address} ld.global.u32 %r1, [%d2]; ret;"
        outcome = body_same(body, PARAMS)
        assert outcome.reasons == {"bounds.global"}, address


@pytest.mark.parametrize(
    "use",
    [
        "sub.u64 %d1, %pO, %pA; cvt.u32.u64 %r1, %d1;",
        "mov.b64 {%r1, %r6}, %A;",
        "shr.u64 %d1, %A, 12; cvt.u32.u64 %r1, %d1;",
        "cvt.u32.u64 %r5, %A; cvt.rn.f32.u32 %f1, %r5; mov.b32 %r1, %f1;",
        "setp.lt.u64 %p1, %pA, %pO; selp.u32 %r1, 1, 0, %p1;",
        "and.b64 %d1, %A, 4096; cvt.u32.u64 %r1, %d1;",
        "mov.u64 %d1, 2199023255552; ld.global.u32 %r1, [%d1];",
        "st.shared.u64 [%s], %A; ld.shared.u32 %r1, [%s];",
    ],
)
def test_the_bits_of_an_address_are_refused(use: str) -> None:
    """The base of a buffer is the driver's to choose: nothing may hang on it."""
    body = f"{use} st.global.u32 [%O], %r1; ret;"
    kernel = kernel_of(entry(f"{SHARED} {LOCAL} {body}", PARAMS))
    outcome = fast(kernel, launch_of(PARAMS), EnclosureDomain({}))[0]
    assert outcome.stopped is not None
    assert outcome.stopped[0] in ("pointer-bits", "address")


@pytest.mark.parametrize(
    "use",
    [
        "and.b64 %d1, %A, 3; setp.eq.u64 %p1, %d1, 0; selp.u32 %r1, 7, 8, %p1;",
        "sub.u64 %d1, %A, %pA; cvt.u32.u64 %r1, %d1;",
        "setp.ne.u64 %p1, %A, 0; selp.u32 %r1, 7, 8, %p1;",
        "setp.le.u64 %p1, %pA, %A; selp.u32 %r1, 7, 8, %p1;",
        "st.local.u64 [l], %A; ld.local.u64 %d1, [l]; ld.global.u32 %r1, [%d1];",
    ],
)
def test_what_does_not_hang_on_a_base_is_executed(use: str) -> None:
    body_same(f"{SHARED} {LOCAL} {use} st.global.u32 [%O], %r1; ret;", PARAMS)


UNDEFINED = {
    "st.global.u32 [%O], %r9;": set(),
    "add.u32 %r1, %r9, 1; mul.lo.u32 %r1, %r1, 0; st.global.u32 [%O], %r1;": set(),
    "xor.b32 %r1, %r9, %r9; st.global.u32 [%O], %r1;": set(),
    "ld.shared.u32 %r1, [%s]; st.global.u32 [%O], %r1;": set(),
    "ld.local.u32 %r1, [l]; st.global.u32 [%O], %r1;": set(),
    "selp.u32 %r1, %r9, 7, %p2; st.global.u32 [%O], %r1;": set(),
    "@%p2 mov.u32 %r9, 3; st.global.u32 [%O], %r9;": set(),
    "max.u32 %r1, %r9, 4; st.global.u32 [%O], %r1;": set(),
    "ld.global.u32 %r1, [%O]; st.global.u32 [%O], %r1;": set(),
    "div.u32 %r1, %gid, 0; st.global.u32 [%O], %r1;": set(),
    "@%p2 st.global.u32 [%O], %r9;": set(),
    "st.global.u32 [%d9], 1;": {"undefined.address"},
    "ld.shared.u32 %r1, [%s]; cvt.u64.u32 %d1, %r1; ld.global.u32 %r2, [%d1];": {
        "undefined.address"
    },
    "@%p9 bra L; L: st.global.u32 [%O], 1;": {"undefined.branch"},
    "@%p9 st.global.u32 [%O], 1;": {"undefined.predicate"},
    "setp.lt.u32 %p1, %r9, 5; @!%p1 st.global.u32 [%O], 1;": {"undefined.predicate"},
    "@%p2 mov.u32 %r9, 5; setp.lt.u32 %p1, %r9, 5; @%p1 bra L; L:": {"undefined.branch"},
    "T: .branchtargets L; brx.idx %r9, T; L:": {"undefined.branch"},
    "T: .branchtargets L; @%p9 brx.idx 0, T; L:": {"undefined.branch"},
    "bar.sync %r9;": {"undefined.barrier"},
    "bar.sync 1, %r9;": {"undefined.barrier"},
    "shfl.sync.idx.b32 %r1, %gid, 0, 31, %r9;": {"undefined.mask"},
    "shfl.sync.idx.b32 %r1, %gid, %r9, 31, -1; st.global.u32 [%O], %r1;": set(),
    "vote.sync.ballot.b32 %r1, %p9, -1; st.global.u32 [%O], %r1;": set(),
    "cp.async.ca.shared.global [%s], [%A], 4, %r9;": {"undefined.size"},
    "red.global.add.u32 [%O], %r9;": set(),
    "red.global.add.u32 [%O], 1;": set(),
}


@pytest.mark.parametrize("text", UNDEFINED)
def test_undefined(text: str) -> None:
    body = f"{SHARED} {LOCAL} setp.lt.u32 %p2, %gid, 9; {text} ret;"
    outcome = body_same(body, PARAMS, outputs=not UNDEFINED[text])
    assert outcome.reasons == UNDEFINED[text]
    if not outcome.reasons:
        assert "undef" in outcome.outputs["O"]


def test_undefined_floats() -> None:
    for text in (
        "max.f32 %f2, %f1, %f9;",
        "mul.f32 %f2, %f9, 0f00000000;",
        "sub.f32 %f2, %f9, %f9;",
        "fma.rn.f32 %f2, %f1, %f1, %f9;",
        "@%p2 mov.f32 %f2, %f1;",
        "selp.f32 %f2, %f1, %f9, %p2;",
        "neg.f32 %f2, %f9;",
        "cvt.rn.f32.f16 %f2, %h9;",
    ):
        body = f"ld.global.f32 %f1, [%B]; setp.lt.u32 %p2, %gid, 9; {text} st.global.f32 [%P], %f2;"
        params = [symbol("B", "f32", N), out("P", "f32", N)]
        outcome = body_same(f"{body} ret;", params, {"B": np.linspace(-2, 2, N)})
        assert outcome.outputs["P"].count("undef") in (N, N - 9), text


# refusals ----------------------------------------------------------------------------------------

REFUSED = {
    "wgmma.fence.sync.aligned;": "wgmma.fence.sync.aligned",
    "add.sat.u32 %r1, %r1, 1;": "add.sat.u32",
    "add.rn.sat.f64 %g1, %g1, %g1;": "add.rn.sat.f64",
    "mul.wide.u64 %d1, %d1, %d1;": "mul.wide.u64",
    "ex2.approx.relu.f32 %f1, %f1;": "ex2.approx.relu.f32",
    "shfl.idx.b32 %r1, %r1, 0, 31;": "shfl.idx.b32",
    "ld.global.L3::foo.u32 %r1, [%A];": "ld.global.L3::foo.u32",
    "atom.global.max.f32 %f1, [%O], %f1;": "atom.global.max.f32",
    "cvt.rn.bf16x2.ue8m0x2 %r1, %h1;": "cvt.rn.bf16x2.ue8m0x2",
    "trap;": "trap",
    "mov.u32 %r1, %total_smem_size;": "special",
    "bar.sync;": "bar.sync",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_instruction(text: str) -> None:
    kernel = kernel_of(entry(f"mov.u32 %r1, 1; {text} ret;", PARAMS))
    outcome, _ = fast(kernel, launch_of(PARAMS), EnclosureDomain({}))
    assert outcome.stopped == (REFUSED[text], text.rstrip(";"))


def test_what_is_not_reached_is_not_refused() -> None:
    text = (
        "setp.gt.u32 %p1, %gid, 99; @%p1 wgmma.fence.sync.aligned; @%p1 bra L; bra M; L: trap; M:"
    )
    body_same(f"{text} st.global.u32 [%O], 1; ret;", PARAMS)
