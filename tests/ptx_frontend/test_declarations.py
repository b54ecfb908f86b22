import pytest

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.tree import Flt, Imm, Operand, Registers, Sym, Variable
from tests.ptx_frontend.snippets import HEAD, checked, entry, function


def variable(text: str) -> Variable:
    (only,) = checked(HEAD + text).variables
    return only


def test_attributes_and_layout() -> None:
    v = variable(".visible .global .attribute(.managed) .align 16 .b8 a[3][4];")
    assert (v.space, v.type, v.name, v.shape, v.align) == ("global", "b8", "a", (3, 4), 16)
    assert v.attributes == ("visible", "attribute(.managed)")
    assert (v.count, v.nbytes) == (12, 12)
    assert variable(".common .global .f64 x;").attributes == ("common",)
    assert variable(".extern .shared .align 1024 .b8 buf[];").shape == (0,)
    assert variable(".const .b32 x[2*(3+1) - 0x2];").shape == (6,)


def test_a_vector_is_an_aligned_array() -> None:
    v = variable(".shared .v4 .f32 v[2];")
    assert (v.type, v.shape, v.align, v.nbytes) == ("f32", (2, 4), 16, 32)
    assert variable(".shared .align 4 .v2 .f32 v;").align == 4


def numbers(*values: int) -> tuple[Operand, ...]:
    return tuple(map(Imm, values))


@pytest.mark.parametrize(
    ("text", "shape", "init"),
    [
        (".b8 a[4] = {1, -2, 0x1f, 'x'};".replace(", 'x'", ""), (4,), numbers(1, -2, 31)),
        (".b32 a = 7;", (), numbers(7)),
        (".b32 a[] = {1, 2, 3};", (3,), numbers(1, 2, 3)),
        (".b32 a[][2] = {{1}, {2, 3}};", (2, 2), numbers(1, 0, 2, 3)),
        (".b32 a[2][2] = {1, 2, 3};", (2, 2), numbers(1, 2, 3)),
        (".b32 a[2] = {(1+2)*4, 1 ? 5 : 6};", (2,), numbers(12, 5)),
        (".b32 a[2] = {7 / -2, -7 % 3};", (2,), numbers(-3, -1)),
        (".b32 a[2] = {1 << 4 | 3, ~0 & 0xF0};", (2,), numbers(19, 240)),
        (".b32 a[2] = {1 + 2 * 3 - 4 == 3, !3};", (2,), numbers(1, 0)),
        (".f32 a[2] = {0f3F800000, -1.0};", (2,), (Flt(0x3F800000, 32), Flt(0xBFF << 52, 64))),
        (
            ".u64 a[3] = {b, generic(b)+8, c - 4};",
            (3,),
            (Sym("b"), Sym("b", 8, True), Sym("c", -4)),
        ),
    ],
)
def test_initializers(text: str, shape: tuple[int, ...], init: tuple[Operand, ...]) -> None:
    v = variable(f".global {text}")
    assert (v.shape, v.init) == (shape, init)


def test_lists_of_names() -> None:
    body = function(checked(entry(".reg .b32 a, b<3>, %c; .local .b64 x, y[2];"))).body
    assert body is not None
    declared = [s for s in body.body if isinstance(s, Registers | Variable)][5:]
    assert [(d.name, d.count if isinstance(d, Registers) else d.shape) for d in declared] == [
        ("a", None),
        ("b", 3),
        ("%c", None),
        ("x", ()),
        ("y", (2,)),
    ]
    assert [d.span.text for d in declared[1:3]] == ["b<3>", "%c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".global .q32 x;", "unknown type in a `.global` declaration `.q32`"),
        (".global x;", "expected a type"),
        (".global .align 3 .b32 x;", "power of two"),
        (".global .b32 x[-1];", "can't be negative"),
        (".global .b32 x[2] = {1, 2, 3};", "3 values for 2 elements"),
        (".global .b32 x[2] = {{1}, {2}};", "does not fit"),
        (".global .b32 x[2][9999999] = {{1}, {2}};", "does not fit"),
        (".global .b32 x = {1};", "without braces"),
        (".global .b32 x<4>;", "unexpected `<`"),
        (".global .b32 x", "`;` is missing"),
        (".global .b32 x = 1 / (2 - 2);", "1 / 0 is undefined"),
        (".global .b32 x = 1 << 63 << 1;", "leaves 64 bits"),
        (".global .b32 x = 0xFFFFFFFFFFFFFFFF + 1;", "leaves 64 bits"),
        (".global .b32 x = -0xFFFFFFFFFFFFFFFF;", "does not fit 64 bits"),
        (".global .b32 x = 08;", "leading 0 means octal"),
        (".global .b32 x = " + "(" * 99 + "1" + ")" * 99 + ";", "deep"),
        (".reg .b32 x;", "can't stand outside"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(HEAD + text)
