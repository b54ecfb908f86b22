import pytest

from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.tree import Imm, Reg, Sym, Target, Vec
from tests.ptx_frontend.snippets import HEAD, checked, entry, kernel, lowered

TWO = HEAD + ".entry a() { ret; }\n.entry b() { ret; ret; }\n"


def test_the_kernel_is_chosen_by_name() -> None:
    assert lower(parse(TWO), "b").name == "b"
    assert len(lower(parse(TWO), "b").code) == 2


@pytest.mark.parametrize(
    ("text", "name", "names", "message"),
    [
        (TWO, None, ("a", "b"), "x.ptx has 2 kernels, name one of them: a, b"),
        (TWO, "c", ("a", "b"), "x.ptx has no kernel `c`; it has: a, b"),
        (HEAD + ".func f() { ret; } .entry e();", None, (), "x.ptx has no kernel (no"),
    ],
)
def test_no_choice(text: str, name: str | None, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(KernelChoiceError) as caught:
        lower(parse(text, "x.ptx"), name)
    assert caught.value.names == names
    assert str(caught.value).startswith(message)


def test_registers_are_those_that_occur() -> None:
    kernel = lowered(
        ".reg .f64 %fd<999999999>; @%p1 ld.f64 %fd999999998, [%rd1]; mov.b32 _, %tid.x;"
    )
    assert kernel.registers == {"%p1": "pred", "%fd999999998": "f64", "%rd1": "b64"}


def test_ranges_that_look_alike() -> None:
    kernel = lowered(".reg .b16 %a<3>; .reg .b64 %a1<13>; mov.b16 %a2, 1; mov.b64 %a112, 1;")
    assert kernel.registers == {"%a2": "b16", "%a112": "b64"}


@pytest.mark.parametrize("name", ["%q", "%r99", "%r01", "%r", "%tid.q", "%laneid2"])
def test_an_undeclared_register(name: str) -> None:
    text = entry(f"mov.b32 %r1, 0;\nadd.s32 %r1, {name}, 1;")
    with pytest.raises(PtxError, match=f"`{name}` is not declared") as caught:
        lower(parse(text))
    assert caught.value.span.text == f"add.s32 %r1, {name}, 1"


def test_an_undeclared_guard_and_symbol() -> None:
    with pytest.raises(PtxError, match="`%q` is not declared"):
        lower(parse(entry("@%q ret;")))
    with pytest.raises(PtxError, match="`buf` is not declared"):
        lower(parse(entry("ld.shared.b32 %r1, [buf];")))


def test_branches() -> None:
    kernel = lowered("LOOP: add.s32 %r1, %r1, 1; @%p1 bra LOOP; @!%p2 bra.uni END; trap; END:")
    assert [i.operands for i in kernel.code[1:3]] == [(Target(0),), (Target(4),)]
    assert kernel.code[4].name == "ret"
    for bad in ("bra NOWHERE;", "bra %r1;", "bra 3;", "bra;"):
        with pytest.raises(PtxError, match=r"label"):
            lower(parse(entry(bad)))


def test_indexed_branch() -> None:
    kernel = lowered("brx.idx %r1, table; A: ret; B: trap; table: .branchtargets A, B, A;\n exit;")
    assert kernel.code[0].operands == (Reg("%r1"), Vec((Target(1), Target(2), Target(1))))
    assert kernel.blocks[0].successors == (1, 2)
    with pytest.raises(PtxError, match="no list"):
        lower(parse(entry("A: brx.idx %r1, A;")))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("", ["ret"]),
        ("trap;", ["trap"]),
        ("@%p1 exit;", ["exit", "ret"]),
        ("mov.b32 %r1, 1;", ["mov.b32", "ret"]),
        ("A: bra A;", ["bra"]),
        ("@%p1 bra B; ret; B:", ["bra", "ret", "ret"]),
        ("ret; B:", ["ret"]),
    ],
)
def test_the_end_of_the_body_returns(body: str, names: list[str]) -> None:
    assert [i.name for i in lowered(body).code] == names


def test_variables_are_those_named_in_declaration_order() -> None:
    head = (
        ".extern .shared .align 16 .b8 dynamic[];\n.global .b32 unused;\n"
        ".global .u64 table[2] = {leaf, generic(inner)+8};\n"
        ".global .b64 inner = k2;\n.global .b8 leaf;\n.const .f32 c = 1.0;\n"
        ".func k2() { ret; }"
    )
    body = (
        ".shared .b32 second; .shared .b32 first; .local .b8 l[8]; .shared .b32 never;"
        "mov.b32 %r1, first; mov.b32 %r1, second; mov.b32 %r1, dynamic; ld.b64 %rd1, [table];"
        "mov.b64 %rd1, l; mov.b64 %rd1, k2;"
    )
    variables = kernel(entry(body, head=head)).variables
    assert list(variables) == ["dynamic", "table", "inner", "leaf", "second", "first", "l"]
    assert variables["dynamic"].attributes == ("extern",)
    assert variables["table"].init == (Sym("leaf"), Sym("inner", 8, True))
    assert variables["inner"].init == (Sym("k2"),)


def test_a_local_variable_hides_one_of_the_module() -> None:
    text = entry(
        ".shared .b32 x; mov.b32 %r1, x; call f;",
        head=".global .b32 x = 1;\n.func f() { .reg .b32 r; ld.global.b32 r, [x]; }",
    )
    variables = kernel(text).variables
    assert {name: v.space for name, v in variables.items()} == {"x": "global", "x@2": "shared"}
    assert variables["x"].init == (Imm(1),)


def test_the_tree_stays_as_it_was() -> None:
    text = entry("{ .reg .b32 x; mov.b32 x, 1; }")
    module = checked(text)
    lower(module)
    assert module == parse(text)
