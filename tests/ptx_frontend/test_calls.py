"""notes: call sequences with .param blocks, .func definitions, external functions."""

import pytest

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.printer import print_instr
from kcheck.ptx_frontend.tree import Args, Imm, Loc, Sym, Target
from tests.ptx_frontend.snippets import DATA, HEAD, entry, kernel

SCALE = """
.func (.param .b32 func_retval0) scale(.param .b32 scale_param_0, .param .b32 scale_param_1)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<2>;
    ld.param.f32 %f1, [scale_param_0];
    ld.param.u32 %r1, [scale_param_1];
    setp.eq.s32 %p1, %r1, 0;
    st.param.f32 [func_retval0+0], %f1;
    @%p1 ret;
    add.f32 %f2, %f1, %f1;
    st.param.f32 [func_retval0+0], %f2;
    ret;
}
"""
SEQUENCE = """
    { // callseq 0, 0
    .reg .b32 temp_param_reg;
    .param .b32 param0;
    st.param.f32 [param0+0], %f1;
    .param .b32 param1;
    st.param.b32 [param1+0], %r1;
    .param .b32 retval0;
    call.uni (retval0),
    scale,
    (
    param0,
    param1
    );
    ld.param.f32 %f2, [retval0+0];
    }
"""


def code(body: str, head: str) -> list[str]:
    return [print_instr(i) for i in kernel(entry(body, head=head)).code]


def test_a_call_is_inlined_with_fresh_registers() -> None:
    lowered = kernel(entry(SEQUENCE + SEQUENCE + "ret;", head=SCALE))
    shown = [print_instr(i) for i in lowered.code]
    assert shown[:11] == [
        "st.param.f32 [param0], %f1;",
        "st.param.b32 [param1], %r1;",
        "ld.param.f32 %f1@2, [param0];",
        "ld.param.u32 %r1@2, [param1];",
        "setp.eq.s32 %p1@2, %r1@2, 0;",
        "st.param.f32 [retval0], %f1@2;",
        "@%p1@2 bra <10>;",
        "add.f32 %f2@2, %f1@2, %f1@2;",
        "st.param.f32 [retval0], %f2@2;",
        "bra <10>;",
        "ld.param.f32 %f2, [retval0];",
    ]
    assert shown[13] == "ld.param.f32 %f1@3, [param0@2];"
    assert [(v.name, v.space, v.nbytes) for v in lowered.variables.values()][:3] == [
        ("param0", "local", 4),
        ("param1", "local", 4),
        ("retval0", "local", 4),
    ]


def test_a_guarded_call_is_skipped_whole() -> None:
    shown = code(
        ".reg .f32 %x; @!%p1 call (%x), scale, (%f1, 7); mov.f32 %f3, %x;",
        SCALE,
    )
    assert shown[0] == "@%p1 bra <12>;"
    assert shown[1:3] == [
        "st.param.b32 [scale_param_0], %f1;",
        "st.param.b32 [scale_param_1], 7;",
    ]
    assert shown[11:] == ["ld.param.b32 %x, [func_retval0];", "mov.f32 %f3, %x;", "ret;"]


def test_register_parameters_are_moved() -> None:
    head = (
        ".func (.reg .u32 %res) next (.reg .u32 %ptr, .reg .u32 %step)"
        " { add.u32 %res, %ptr, %step; }"
    )
    assert code("call (%r2), next, (%r1, 4);", head) == [
        "mov.u32 %ptr, %r1;",
        "mov.u32 %step, 4;",
        "add.u32 %res, %ptr, %step;",
        "mov.u32 %r2, %res;",
        "ret;",
    ]
    assert code(".param .b32 p; call (p), next, (p, %r1);", head) == [
        "ld.param.u32 %ptr, [p];",
        "mov.u32 %step, %r1;",
        "add.u32 %res, %ptr, %step;",
        "st.param.u32 [p], %res;",
        "ret;",
    ]


def test_static_variables_are_shared_by_calls_and_locals_are_not() -> None:
    head = ".func f() { .shared .b32 s; .local .b32 l; mov.b32 s, l; }".replace(
        "mov.b32 s, l", ".reg .b32 %q; mov.b32 %q, s; mov.b32 %q, l"
    )
    lowered = kernel(entry("call f; call f;", head=head))
    assert [i.operands[1] for i in lowered.code[:4]] == [Sym("s"), Sym("l"), Sym("s"), Sym("l@2")]
    assert list(lowered.variables) == ["s", "l", "l@2"]


def test_external_calls_stay() -> None:
    head = (
        ".extern .func (.param .b32 func_retval0) vprintf"
        "(.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);\n"
        ".extern .func __assertfail(.param .b64 a) .noreturn;\n"
    )
    lowered = kernel(
        entry(
            "{ .param .b64 param0; .param .b64 param1; .param .b32 retval0;"
            " call.uni (retval0), vprintf, (param0, param1); }"
            "{ .param .b64 param0; call.uni __assertfail, (param0); }"
            "{ .reg .b32 r; proto: .callprototype (.param .b32 _) _ (.param .b64 _);"
            " .param .b64 param0; .param .b32 retval0; call (retval0), %rd1, (param0), proto; }",
            head=head,
        )
    )
    printf, fail, indirect, _ = lowered.code
    assert printf.operands == (
        Args((Sym("retval0"),)),
        Sym("vprintf"),
        Args((Sym("param0"), Sym("param1"))),
    )
    assert fail.operands == (Sym("__assertfail"), Args((Sym("param0@2"),)))
    assert indirect.operands[3] == Sym("proto")


def test_an_alias_calls_what_it_stands_for() -> None:
    text = entry("call g;", head=".func f() { trap; }\n.func g();\n") + ".alias g, f;\n"
    assert [i.name for i in kernel(text).code] == ["trap"]


def test_lines_of_a_callee_end_with_it() -> None:
    text = entry("\n.loc 1 10 0\ncall f; mov.b32 %r1, 1;", head=".func f() { .loc 1 3 0\n trap; }")
    assert [i.loc for i in kernel(text + '.file 1 "a.cu"').code[:2]] == [
        Loc("a.cu", 3),
        Loc("a.cu", 10),
    ]


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (SCALE, "call scale, (%f1, %r1);", "1 results, not 0"),
        (SCALE, "call (%f2), scale, (%f1);", "2 arguments, not 1"),
        (SCALE, ".param .b64 w; call (%f2), scale, (w, %r1);", "`w` can't be passed"),
        (SCALE, "call (%f2), scale, ([%r1], %r1);", "can't be passed as `scale_param_0`"),
        ("", "call nothing, (%r1);", "`nothing` is not declared"),
        ("", "call;", "names no function"),
    ],
)
def test_refused(head: str, body: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        lower(parse(entry(body, head=head)))


def test_calls_that_multiply_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcheck.ptx_frontend.lower.MAX_CODE", 10_000)
    chain = "".join(
        f".func f{i}() {{ {f'call f{i - 1};' * 10 if i else 'trap;'} }}\n" for i in range(9)
    )
    with pytest.raises(PtxError, match="instructions after inlining"):
        lower(parse(entry("call f8;", head=chain)))


def test_what_nvcc_emits() -> None:
    """Loops, structs by value, printf and a switch (nvcc 13.0, -arch=sm_80)."""
    text = (DATA / "nvcc_calls.ptx").read_text()
    lowered = kernel(text, "_Z1kPfi1P")
    stay = [i.operands[1] for i in lowered.code if i.opcode[0] == "call"]
    assert stay == [Sym("vprintf")]
    assert sum(i.name == "fma.rn.f32" for i in lowered.code) == 8
    assert lowered.variables["ptrs"].init == (Sym("tab", 0, True), Sym("tab", 8, True))
    targets = [o.index for i in lowered.code for o in i.operands if isinstance(o, Target)]
    assert targets
    assert max(targets) < len(lowered.code)
    assert text.startswith("//")
    assert HEAD not in text


def test_immediate_target_of_a_call() -> None:
    lowered = kernel(entry("call 64;"))
    assert lowered.code[0].operands == (Imm(64),)
