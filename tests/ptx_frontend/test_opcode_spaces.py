"""notes: a space inside an opcode."""

from kcheck.ptx_frontend.tree import Mem, Reg, Vec
from tests.ptx_frontend.snippets import instruction, instructions

COPY = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"


def test_suffix_after_a_space_belongs_to_the_opcode() -> None:
    instr = instruction(f"{COPY} .L2::cache_hint [%rd1, {{%r1, %r2}}], [%r3], %rd2;")
    assert instr.opcode == (*COPY.split("."), "L2::cache_hint")
    assert instr.operands[0] == Mem(Reg("%rd1"), 0, (Vec((Reg("%r1"), Reg("%r2"))),))
    assert instr.operands[1:] == (Mem(Reg("%r3")), Reg("%rd2"))


def test_space_and_line_break_before_the_type() -> None:
    spaced, broken, plain = instructions(
        "mov .u32 %r1, %r2; mov\n\t.u32 %r1, %r2; mov.u32 %r1, %r2;"
    )
    assert spaced == broken == plain


def test_double_colons_stay_inside_a_modifier() -> None:
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    assert instruction(f"{name} [%r1], [%rd1], %r2, [%r3];").opcode == (
        "cp",
        "async",
        "bulk",
        "shared::cluster",
        "global",
        "mbarrier::complete_tx::bytes",
    )


def test_an_unknown_opcode_and_suffix_parse() -> None:
    instr = instruction("frobnicate.v9::x.b32 %r1, [%r2], {%r3, _}, 0f3F800000;")
    assert instr.opcode == ("frobnicate", "v9::x", "b32")
    assert instr.name == "frobnicate.v9::x.b32"
