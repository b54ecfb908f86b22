"""Cells, bounds, undefined values, state spaces."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kcheck.launch import Tensor
from kcheck.semantics.slow import UNDEF, UNWRITTEN, Double, SlowFinding, Unsupported
from kcheck.semantics.slow.layout import SHARED_BASE
from kcheck.semantics.slow.state import IN_ALL, PER_PLACE
from tests.semantics.slow.harness import evaluate, module, plain, run

F = Fraction
A = Tensor("A", "f32", (8,), "in")
O = Tensor("O", "f32", (8,), "out")  # noqa: E741
INPUT = {"A": [F(1, 3 + i) for i in range(8)]}
REGISTERS = ".reg .f32 f, g; .reg .b32 r, s; .reg .b64 x; .reg .pred p; .reg .b16 h;\n"


def go(
    body: str, head: str = "", threads: int = 1, tensors: tuple[Tensor, ...] = (A, O), **more: Any
) -> Any:
    text = module([t.name for t in tensors], REGISTERS + body + "\nret;", head)
    return run(text, tensors, INPUT, threads, **more)


def reasons(findings: list[SlowFinding]) -> list[str]:
    return [f.reason for f in findings]


def test_vectors_and_unwritten_elements() -> None:
    body = (
        ".reg .f32 b, c, d; ld.global.v4.f32 {b, c, _, d}, [A+16]; st.global.v2.f32 [O+8], {d, b};"
    )
    result = go(body)
    got = [plain(x) for x in result.outputs["O"]]
    assert got == [UNWRITTEN, UNWRITTEN, F(1, 10), F(1, 7), *[UNWRITTEN] * 4]
    assert result.findings == []


@pytest.mark.parametrize(
    ("body", "reason", "address"),
    [
        ("ld.global.f32 f, [A+32];", "bounds.global", "A[+32]"),
        ("ld.global.f32 f, [A+-4];", "bounds.global", "A[-4]"),
        ("st.global.f32 [O+4096], 0f00000000;", "bounds.global", "O[+4096]"),
        (
            "sub.s64 x, O, A; add.s64 x, A, 1099511627776; ld.global.f32 f, [x];",
            "bounds.global",
            "A[+1099511627776]",
        ),
        ("ld.global.v2.f32 {f, g}, [A+4];", "bounds.misaligned", "A[+4]"),
        ("ld.global.v2.f32 {f, g}, [A+28];", "bounds.global", "A[+28]"),
        ("st.global.f32 [A], 0f00000000;", "bounds.readonly", "A[+0]"),
        (
            ".shared .b32 t[4]; .shared .b32 u[4]; st.shared.b32 [t+16], 1;",
            "bounds.shared",
            "t[+16]",
        ),
        (
            ".shared .b32 t[4]; .shared .b32 u[4]; mov.u32 r, u; st.shared.b32 [r+-4], 1;",
            "bounds.shared",
            "u[-4]",
        ),
        (
            ".local .b32 t[4]; mov.u64 x, t; cvta.local.u64 x, x; st.b32 [x+16], 1;",
            "bounds.local",
            "t[+16]",
        ),
        ("ld.global.f32 f, [x];", "undefined.address", ""),
        ("mov.u32 r, 64; st.shared.b32 [r], 1;", "bounds.shared", "shared[-960]"),
        ("atom.global.add.f32 f, [O+32], 0f00000000;", "bounds.global", "O[+32]"),
    ],
)
def test_bad_accesses(body: str, reason: str, address: str) -> None:
    """Also: the access is dropped and the run goes on."""
    result = go(body + "st.global.f32 [O], 0f3F800000;")
    (finding,) = result.findings
    assert (finding.reason, finding.address) == (reason, address)
    assert finding.instr is not None
    assert finding.instr.opcode[0] in body
    assert (finding.thread, finding.cta) == ((0, 0, 0), (0, 0, 0))
    assert plain(result.outputs["O"][0]) == 1


def test_what_a_bad_load_gives_is_undefined() -> None:
    result = go("ld.global.f32 f, [A+32]; st.global.f32 [O], f;")
    assert result.outputs["O"][0] is UNDEF
    assert reasons(result.findings) == ["bounds.global", "undefined.output"]


def test_findings_are_capped() -> None:
    """At one instruction, and in all; every one is counted."""
    for count, kept in ((1, PER_PLACE), (20, IN_ALL)):
        result = go("ld.global.f32 f, [A+32];" * count, threads=32)
        assert result.seen == 32 * count
        assert len(result.findings) == kept


def test_undefined_output_names_its_store() -> None:
    result = go("mov.u32 r, %tid.x; setp.eq.u32 p, r, 1; @p st.global.f32 [O+4], f;", threads=2)
    (finding,) = result.findings
    assert (finding.reason, finding.address, finding.thread) == (
        "undefined.output",
        "O[1]",
        (1, 0, 0),
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("@p bra L; L:", "undefined.branch"),
        ("@p st.global.f32 [O], 0f00000000;", "undefined.predicate"),
        ("bar.sync r;", "undefined.barrier"),
        ("shfl.sync.idx.b32 r, 1, 0, 31, s;", "undefined.mask"),
    ],
)
def test_undefined_control(body: str, reason: str) -> None:
    assert reasons(go(body).findings) == [reason]


def test_nan_outputs() -> None:
    result = go(
        "div.rn.f32 f, 0f3F800000, 0f80000000; st.global.f32 [O], f;"
        "mov.f32 g, 0f7FC00000; st.global.f32 [O+4], g;"
    )
    assert reasons(result.findings) == ["value.division-by-zero", "value.nan"]


def test_narrow_loads_extend() -> None:
    code = """
        .reg .b64 w; .local .b32 t; st.local.b32 [t], a;
        ld.local.u8 b, [t+1]; ld.local.s8 c, [t+1]; ld.local.s16 d, [t+2]; ld.local.u16 e, [t+2];
        ld.local.s8 w, [t+3]; mov.b64 {g, h}, w;
    """
    out = evaluate(code, {"a": ("u32", [0x89ABCDEF])}, dict.fromkeys("bcdegh", "u32"))
    assert out == {
        "b": [0xCD],
        "c": [0xFFFFFFCD],
        "d": [0xFFFF89AB],
        "e": [0x89AB],
        "g": [0xFFFFFF89],
        "h": [0xFFFFFFFF],
    }


def test_cells_are_cut_and_joined() -> None:
    code = """
        .local .align 8 .b8 t[8]; st.local.v2.b32 [t], {a, b}; st.local.b8 [t+3], 0x11;
        st.local.u16 [t+4], 0x2233; ld.local.b64 d, [t];
    """
    out = evaluate(code, {"a": ("u32", [0xAAAAAAAA]), "b": ("u32", [0xBBBBBBBB])}, {"d": "u64"})
    assert out["d"] == [0xBBBB2233_11AAAAAA]


def test_halves_read_as_a_pair_and_back() -> None:
    code = """
        .local .align 4 .b8 t[4]; st.local.b16 [t], x; st.local.b16 [t+2], y;
        .reg .b32 w; ld.local.b32 w, [t]; add.f16x2 w, w, w; st.local.b32 [t], w;
        .reg .b16 h; ld.local.b16 h, [t+2]; cvt.f32.f16 d, h;
    """
    out = evaluate(code, {"x": ("f16", [F(1, 3)]), "y": ("f16", [F(1, 7)])}, {"d": "f32"})
    assert out["d"] == [F(2, 7)]


def test_half_a_real_stays_unusable_after_an_overwrite() -> None:
    code = ".local .b32 t; st.local.b32 [t], a; st.local.b16 [t], 0; ld.local.f32 d, [t];"
    with pytest.raises(Unsupported, match="reinterpret"):
        evaluate(code, {"a": ("f32", [F(1, 3)])}, {"d": "f32"})


def test_generic_addresses_and_isspacep() -> None:
    body = """
        .shared .b32 t[4]; .reg .b64 y; .reg .pred q;
        mov.u64 x, t; cvta.shared.u64 y, x; st.u32 [y+4], 7; ld.shared.u32 r, [t+4];
        cvt.rn.f32.u32 f, r; st.f32 [O], f;
        isspacep.shared p, y; isspacep.global q, O; and.pred p, p, q; isspacep.global q, y;
        not.pred q, q; and.pred p, p, q; @p st.global.f32 [O+4], 0f3F800000;
        cvta.to.shared.u64 x, y; cvt.u32.u64 r, x; ld.shared.u32 r, [r+4];
        cvt.rn.f32.u32 f, r; st.global.f32 [O+8], f;
    """
    result = go(body)
    assert [plain(x) for x in result.outputs["O"][:3]] == [7, 1, 7]
    assert result.findings == []


def test_constants_and_globals() -> None:
    head = ".const .f32 c[3] = {0f3F800000, 2.5}; .global .align 4 .u32 v = 4;"
    body = """
        ld.const.f32 f, [c+4]; st.global.f32 [O], f; ld.const.f32 f, [c+8]; st.global.f32 [O+4], f;
        mov.u64 x, v; ld.global.u32 r, [x]; add.u32 r, r, 1; st.global.u32 [v], r;
        ld.global.u32 r, [v]; cvt.rn.f32.u32 f, r; st.global.f32 [O+8], f;
    """
    assert [plain(x) for x in go(body, head).outputs["O"][:3]] == [F(5, 2), 0, 5]


def test_dynamic_shared_memory_lies_behind_static() -> None:
    head = ".extern .shared .align 16 .b8 dyn[];"
    body = """
        .shared .align 4 .b8 t[20]; st.shared.b32 [t], 1; mov.u32 r, dyn;
        cvt.rn.f32.u32 f, r; st.global.f32 [O], f;
        mov.u32 r, %dynamic_smem_size; cvt.rn.f32.u32 f, r; st.global.f32 [O+4], f;
        st.shared.b32 [dyn+60], 1; st.shared.b32 [dyn+64], 1;
    """
    result = go(body, head, dynamic_shared=64)
    assert [plain(x) for x in result.outputs["O"][:2]] == [SHARED_BASE + 32, 64]
    assert [(f.reason, f.address) for f in result.findings] == [("bounds.shared", "dyn[+64]")]


def test_cp_async_fills_with_zeros() -> None:
    body = """
        .shared .align 16 .b8 t[32]; .reg .f32 b, c, d; mov.u32 r, t;
        cp.async.cg.shared.global [r], [A], 16; cp.async.ca.shared.global [r+16], [A], 16, 8;
        cp.async.ca.shared.global [r+4], [A+400], 4, 0;
        cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.v4.f32 {f, g, b, c}, [t]; st.global.v4.f32 [O], {f, g, b, c};
        ld.shared.v4.f32 {f, g, b, c}, [t+16]; st.global.v4.f32 [O+16], {f, g, b, c};
    """
    result = go(body)
    a = INPUT["A"]
    assert [plain(x) for x in result.outputs["O"]] == [a[0], 0, a[2], a[3], a[0], a[1], 0, 0]
    assert result.findings == []


def test_cp_async_bounds() -> None:
    body = """.shared .align 16 .b8 t[16]; mov.u32 r, t;
        cp.async.cg.shared.global [r], [A+32], 16; cp.async.cg.shared.global [r+16], [A], 16;"""
    assert reasons(go(body).findings) == ["bounds.global", "bounds.shared"]


def test_atomics_add_and_hide_the_old_value() -> None:
    zero = Tensor("O", "f32", (8,), "out", init="zero")
    body = "atom.global.add.f32 f, [O], 0f3F000000; red.global.add.f32 [O+4], 0f3F800000;"
    result = go(body, threads=40, tensors=(A, zero))
    assert [plain(x) for x in result.outputs["O"][:3]] == [20, 40, 0]
    with pytest.raises(Unsupported, match="unstable"):
        go(body + "add.f32 f, f, f;", tensors=(A, zero))
    with pytest.raises(Unsupported, match="unstable"):
        go("mov.u32 r, %clock; st.global.u32 [O], r;")


def test_packed_and_integer_atomics() -> None:
    words = Tensor("O", "u32", (2,), "out", init="zero")
    body = "red.global.add.u32 [O], 0x90000000; red.global.add.noftz.f16x2 [O+4], 0x3c004000;"
    result = go(body, threads=2, tensors=(A, words))
    assert result.outputs["O"] == [0x20000000, 0x40004400]


def test_unknown_instructions_are_refused_with_their_place() -> None:
    with pytest.raises(Unsupported, match=r"unsupported\.frobnicate") as caught:
        go("frobnicate.b32 r, r;")
    assert caught.value.instr is not None
    assert caught.value.thread == (0, 0, 0)
    with pytest.raises(Unsupported, match=r"unsupported\.add\.rn\.relu\.f32"):
        go("add.rn.relu.f32 f, f, f;")


def test_only_what_runs_is_refused() -> None:
    result = go("setp.ne.u32 p, 0, 0; @p frobnicate.b32 r, r; st.global.f32 [O], 0f00000000;")
    assert plain(result.outputs["O"][0]) == 0


def test_grids_and_special_registers() -> None:
    out = Tensor("O", "u32", (24,), "out")
    body = """
        .reg .b32 t; mov.u32 r, %ctaid.x; mad.lo.u32 r, %ctaid.y, 3, r;
        mad.lo.u32 t, r, %ntid.x, %tid.x; mad.wide.u32 x, t, 4, O;
        mad.lo.u32 s, r, 100, %laneid; mad.lo.u32 s, %nctaid.x, 10000, s; st.global.u32 [x], s;
    """
    for seed in (None, 1, 2):
        result = go(body, threads=4, tensors=(A, out), grid=(3, 2, 1), seed=seed, numbers=Double)
        assert result.outputs["O"] == [30000 + 100 * c + t for c in range(6) for t in range(4)]
