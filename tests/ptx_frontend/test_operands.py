"""notes: vectors, the sink, negated predicates, immediate offsets, hex floats."""

import pytest

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.tree import (
    Flt,
    Guard,
    Imm,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Sym,
    Vec,
)
from tests.ptx_frontend.snippets import entry, instruction, kernel

R1, R2, P1, P2 = Reg("%r1"), Reg("%r2"), Reg("%p1"), Reg("%p2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", R1),
        ("%tid.x", Reg("%tid.x")),
        ("WARP_SZ", Reg("WARP_SZ")),
        ("_", Sink()),
        ("!%p1", Not(P1)),
        ("%p1|%p2", Pair(P1, P2)),
        ("%r1|_", Pair(R1, Sink())),
        ("_|%p2", Pair(Sink(), P2)),
        ("{%r1, %r2}", Vec((R1, R2))),
        ("{ %r1,_,%r2 , 7 }", Vec((R1, Sink(), R2, Imm(7)))),
        ("[%r1]", Mem(R1)),
        ("[%r1+-1026]", Mem(R1, -1026)),
        ("[ %r1 + 16 ]", Mem(R1, 16)),
        ("[%r1-4]", Mem(R1, -4)),
        ("[%r1+0x10]", Mem(R1, 16)),
        ("[%r1 - 4 + 8]", Mem(R1, 4)),
        ("[%r1 + 4*(2+1)]", Mem(R1, 12)),
        ("[buf]", Mem(Sym("buf"))),
        ("[buf+16]", Mem(Sym("buf"), 16)),
        ("[4096]", Mem(Imm(4096))),
        ("[buf, {%r1, %r2}]", Mem(Sym("buf"), 0, (Vec((R1, R2)),))),
        ("buf", Sym("buf")),
        ("buf+16", Sym("buf", 16)),
        ("buf - 8", Sym("buf", -8)),
        ("12", Imm(12)),
        ("-12", Imm(-12)),
        ("0x1F", Imm(31)),
        ("0XffU", Imm(255)),
        ("017", Imm(15)),
        ("0", Imm(0)),
        ("0b101", Imm(5)),
        ("4294967295U", Imm(4294967295)),
        ("-9223372036854775808", Imm(-(2**63))),
        ("0xFFFFFFFFFFFFFFFF", Imm(2**64 - 1)),
        ("0f3FB8AA3B", Flt(0x3FB8AA3B, 32)),
        ("0fFF800000", Flt(0xFF800000, 32)),
        ("0F00000000", Flt(0, 32)),
        ("-0f3F800000", Flt(0xBF800000, 32)),
        ("0d3FF0000000000000", Flt(0x3FF0000000000000, 64)),
        ("1.0", Flt(0x3FF0000000000000, 64)),
        ("-2.", Flt(0xC000000000000000, 64)),
        ("1e3", Flt(0x408F400000000000, 64)),
        ("1.5E-1", Flt(0x3FC3333333333333, 64)),
    ],
)
def test_operand(text: str, expected: Operand) -> None:
    assert instruction(f"any.op {text};").operands == (expected,)


def test_guards() -> None:
    assert instruction("@%p1 mov.b32 %r1, 0;").guard == Guard(P1)
    assert instruction("@!%p1 mov.b32 %r1, 0;").guard == Guard(P1, True)
    assert instruction("@ ! %p1 mov.b32 %r1, 0;").guard == Guard(P1, True)


def test_a_span_covers_guard_and_operands() -> None:
    assert instruction("@!%p1\n mov.b32   %r1, 0 ;").span.text == "@!%p1 mov.b32 %r1, 0"


def test_wgmma_has_wide_vectors_predicates_and_immediates() -> None:
    wide = ",  ".join(f"%f{i}" for i in range(64))
    instr = instruction(
        f"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{wide}}}, %rd1, %rd2,"
        " %p1,   1, 1, 0, -1;"
    )
    vector, *rest = instr.operands
    assert isinstance(vector, Vec)
    assert vector.items == tuple(Reg(f"%f{i}") for i in range(64))
    assert rest == [Reg("%rd1"), Reg("%rd2"), P1, Imm(1), Imm(1), Imm(0), Imm(-1)]


def test_a_bare_word_is_what_its_declaration_says() -> None:
    lowered = kernel(
        entry(
            ".reg .b32 rx<4>; .reg .b32 y; mov.b32 rx3, y; mov.b32 y, WARP_SZ; mov.b32 y, rx4;",
            head=".global .b32 rx4;",
        )
    )
    first, second, third, _ = lowered.code
    assert first.operands == (Reg("rx3"), Reg("y"))
    assert second.operands == (Reg("y"), Reg("WARP_SZ"))
    assert third.operands == (Reg("y"), Sym("rx4"))  # rx<4> ends at rx3
    assert "WARP_SZ" not in lowered.registers


def test_percent_may_begin_the_name_of_a_variable() -> None:
    lowered = kernel(entry(".local .b32 %v; st.local.b32 [%v+0], %r1;"))
    assert lowered.code[0].operands[0] == Mem(Sym("%v"))
    assert list(lowered.variables) == ["%v"]


@pytest.mark.parametrize(
    "text",
    [
        "[%r1+%r2]",
        "[%r1",
        "{%r1, %r2",
        "{%r1 %r2}",
        "%r1|3",
        "089",
        "99999999999999999999",
        "0f3F8",
        "1.5.2",
        "1 << 64",
        "1/0",
        "x.y",
        "%r1,",
        ", %r1",
        "(%r1)",
        "!5 5",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(PtxError):
        parse(entry(f"any.op {text};"))
