"""notes: inline assembly arrives as nested scopes with registers and labels of their own."""

import pytest

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.printer import print_instr
from kcheck.ptx_frontend.tree import Guard, Reg, Target
from tests.ptx_frontend.snippets import entry, lowered

WAIT = """{
    .reg .pred       P1;
    LAB_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2, %r3;
    @P1 bra DONE;
    bra     LAB_WAIT;
    DONE:
    }"""


def test_each_scope_has_its_own_registers_and_labels() -> None:
    kernel = lowered(WAIT + WAIT + "ret;")
    shown = [print_instr(i) for i in kernel.code]
    assert shown == [
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2, %r3;",
        "@P1 bra <3>;",
        "bra <0>;",
        "mbarrier.try_wait.parity.shared::cta.b64 P1@2, [%r1], %r2, %r3;",
        "@P1@2 bra <6>;",
        "bra <3>;",
        "ret;",
    ]
    assert kernel.registers == {
        "P1": "pred",
        "%r1": "b32",
        "%r2": "b32",
        "%r3": "b32",
        "P1@2": "pred",
    }


def test_the_first_declaration_keeps_its_name_even_if_used_last() -> None:
    kernel = lowered(
        ".reg .pred p; { .reg .pred p; mov.pred p, %p1; } @p mov.b32 %r1, 1;"
        "{ .reg .b32 %r1; mov.b32 %r1, 2; }"
    )
    inner, outer, ranged, _ = kernel.code
    assert inner.operands[0] == Reg("p@2")
    assert outer.guard == Guard(Reg("p"))
    assert ranged.operands[0] == Reg("%r1@2")
    assert kernel.registers["%r1@2"] == "b32"


def test_inner_scope_hides_the_outer_only_after_its_declaration() -> None:
    kernel = lowered(".reg .b32 x; { mov.b32 x, 1; .reg .b64 x; mov.b64 x, 2; } mov.b32 x, 3;")
    assert [i.operands[0] for i in kernel.code[:3]] == [Reg("x"), Reg("x@2"), Reg("x")]
    assert kernel.registers == {"x": "b32", "x@2": "b64"}


def test_statements_on_one_line_and_elect() -> None:
    kernel = lowered(
        "{  cvt.f32.f16 %f33, %rs1;}\n{ .reg .b32 %rx; .reg .pred %px;"
        " elect.sync %rx|%px, %r7; @%px mov.s32 %r6, 1; mov.s32 %r5, %rx; }"
    )
    assert [print_instr(i) for i in kernel.code] == [
        "cvt.f32.f16 %f33, %rs1;",
        "elect.sync %rx|%px, %r7;",
        "@%px mov.s32 %r6, 1;",
        "mov.s32 %r5, %rx;",
        "ret;",
    ]


def test_a_branch_may_leave_a_scope_but_not_enter_one() -> None:
    kernel = lowered("{ @%p1 bra OUT; mov.b32 %r1, 1; } OUT: ret;")
    assert kernel.code[0].operands == (Target(2),)
    with pytest.raises(PtxError, match="no label `IN` here"):
        lower(parse(entry("bra IN; { IN: mov.b32 %r1, 1; }")))


def test_a_scope_does_not_leak_registers() -> None:
    with pytest.raises(PtxError, match="`%q` is not declared") as caught:
        lower(parse(entry("{ .reg .b32 %q; }\nmov.b32 %q, 1;")))
    assert caught.value.span.text == "mov.b32 %q, 1"


def test_variables_of_scopes_are_told_apart() -> None:
    kernel = lowered(
        "{ .shared .b32 s; st.shared.b32 [s], 1; } { .shared .b64 s; st.shared.b64 [s+8], 1; }"
    )
    assert [(v.name, v.type) for v in kernel.variables.values()] == [("s", "b32"), ("s@2", "b64")]
    assert print_instr(kernel.code[1]) == "st.shared.b64 [s@2+8], 1;"


@pytest.mark.parametrize(
    "body", ["A: A: ret;", ".reg .b32 x; .reg .b64 x;", ".reg .b32 y<3>; .shared .b32 y;"]
)
def test_a_name_twice_in_one_scope(body: str) -> None:
    with pytest.raises(PtxError, match="twice"):
        lower(parse(entry(body)))
