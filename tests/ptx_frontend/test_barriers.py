"""notes: barrier ids and counts in registers, the spellings of barriers."""

import pytest

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.tree import Imm, Operand, Reg
from tests.ptx_frontend.snippets import instruction, lowered

R1, R2 = Reg("%r1"), Reg("%r2")
P1, P2 = Reg("%p1"), Reg("%p2")


@pytest.mark.parametrize(
    ("text", "operands", "form"),
    [
        ("bar.sync 0;", (Imm(0),), "bar.sync"),
        ("bar.sync \t%r1, %r2;", (R1, R2), "bar.sync"),
        ("bar.cta.sync 1, 64;", (Imm(1), Imm(64)), "bar.sync"),
        ("barrier.sync 0;", (Imm(0),), "bar.sync"),
        ("barrier.cta.sync.aligned 2, %r2;", (Imm(2), R2), "bar.sync"),
        ("bar.arrive 1, 128;", (Imm(1), Imm(128)), "bar.arrive"),
        ("barrier.cta.arrive %r1, %r2;", (R1, R2), "bar.arrive"),
        ("bar.warp.sync -1;", (Imm(-1),), "bar.warp"),
        ("barrier.cluster.arrive.aligned;", (), None),
        ("bar.red.popc.u32 %r1, 0, %p1;", (R1, Imm(0), Reg("%p1")), "bar.red"),
        ("barrier.cta.red.and.pred %p2, 1, 64, %p1;", (P2, Imm(1), Imm(64), P1), "bar.red"),
    ],
)
def test_spelling(text: str, operands: tuple[Operand, ...], form: str | None) -> None:
    instr = instruction(text)
    assert instr.operands == operands
    found = match(instr.opcode)
    assert (found.form.name if found else None) == form


@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "@%p1 bar.arrive 1, 64;",
        "barrier.cta.sync 0;",
        "bar.warp.sync -1;",
        "barrier.cluster.wait.aligned;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
    ],
)
def test_what_may_block_ends_its_block(barrier: str) -> None:
    blocks = lowered(f"mov.b32 %r1, 1; {barrier} mov.b32 %r1, 2; ret;").blocks
    assert [(b.start, b.end, b.successors) for b in blocks] == [(0, 2, (1,)), (2, 4, ())]
