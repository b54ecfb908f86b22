"""Declarations of registers and variables (PTX ISA 9.0, 5.2 to 5.4)."""

from __future__ import annotations

from typing import NamedTuple

from kcheck.ptx_frontend.constants import extent, is_short_decimal, number
from kcheck.ptx_frontend.cursor import Cursor
from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lexer import DOT, WORD
from kcheck.ptx_frontend.names import Names
from kcheck.ptx_frontend.operands import symbol
from kcheck.ptx_frontend.tree import Imm, Operand, Registers, Sym, Variable, type_bytes

SPACES = frozenset({".reg", ".shared", ".local", ".global", ".const", ".param", ".tex"})
VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
# a nested initializer is padded to full rows up to this many elements
MAX_PADDED = 1 << 20


class _Head(NamedTuple):
    """What stands before the names: `.shared .align 16 .v4 .f32`."""

    space: str
    type: str
    vector: int | None
    align: int | None
    attributes: tuple[str, ...]


def declaration(
    cursor: Cursor, names: Names, linkage: tuple[str, ...]
) -> list[Registers | Variable]:
    """`.space .type name, name...;` with the cursor at the space."""
    first = cursor.at
    head = _head(cursor, linkage)
    declared: list[Registers | Variable] = []
    while True:
        declared.append(_declarator(cursor, names, head, first))
        if not cursor.accept(","):
            break
        first = cursor.at
    if not cursor.accept(";"):
        raise cursor.unfinished("this declaration")
    return declared


def parameters(cursor: Cursor, names: Names) -> tuple[Variable, ...]:
    """`(.param .u64 a, .reg .f32 b)` with the cursor at the parenthesis."""
    cursor.expect("(", "before the parameters")
    declared: list[Variable] = []
    while not cursor.accept(")"):
        if declared:
            cursor.expect(",", "or `)` after a parameter")
        first = cursor.at
        if cursor.text not in (".param", ".reg"):
            raise cursor.expected("`.param`", "in a list of parameters")
        head = _head(cursor, ())
        # a prototype names its parameters `_`
        name = cursor.take() if cursor.text == "_" else cursor.name("of a parameter")
        names.declare(name, None, head.space == "reg")
        declared.append(_variable(cursor, head, name, first))
    return tuple(declared)


def _head(cursor: Cursor, linkage: tuple[str, ...]) -> _Head:
    space = cursor.take()[1:]
    attributes = list(linkage)
    type_name, vector, align = "", None, None
    while cursor.kind == DOT:
        word = cursor.text
        if word == ".align":
            align = _align(cursor)
        elif word == ".ptr":
            attributes.extend(_pointer(cursor))
        elif word == ".attribute":
            attributes.append(_attribute(cursor))
        elif word in VECTORS and space != "reg":
            vector = VECTORS[cursor.take()]
        elif not type_name and _is_type(word):
            type_name = cursor.take()[1:]
        else:
            raise cursor.unknown(f"type in a `.{space}` declaration", _TYPES)
    if not type_name:
        raise cursor.expected("a type", f"in a `.{space}` declaration")
    return _Head(space, type_name, vector, align, tuple(attributes))


_TYPES = ("b8", "b16", "b32", "b64", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "pred")


def _is_type(word: str) -> bool:
    try:
        return type_bytes(word[1:]) > 0
    except KeyError:
        return False


def _align(cursor: Cursor) -> int:
    cursor.at += 1
    first = cursor.at
    align = extent(cursor, "an alignment")
    if align.bit_count() != 1:
        raise PtxError(cursor.since(first), f"an alignment is a power of two, not {align}")
    return align


def _pointer(cursor: Cursor) -> list[str]:
    """`.ptr .global .align 16`: what a parameter points to."""
    attributes = [cursor.take()[1:]]
    if cursor.text in (".global", ".shared", ".local", ".const", ".generic"):
        attributes.append(cursor.take()[1:])
    if cursor.text == ".align":
        attributes.append(f"align {_align(cursor)}")
    return attributes


def _attribute(cursor: Cursor) -> str:
    """`.attribute(.managed)`."""
    words = [cursor.take()[1:]]
    cursor.expect("(", "after `.attribute`")
    while not cursor.accept(")"):
        words.append(cursor.take())
        if cursor.text == ";":
            raise cursor.expected("`)`", "after an attribute")
    return f"{words[0]}({''.join(words[1:])})"


def _declarator(cursor: Cursor, names: Names, head: _Head, first: int) -> Registers | Variable:
    name = cursor.name("in a declaration")
    if head.space != "reg":
        names.declare(name, None, False)
        return _variable(cursor, head, name, first)
    count = None
    if cursor.accept("<"):
        # not an expression: `<5>;` would compare
        digits = cursor.take()
        if not is_short_decimal(digits):
            cursor.at -= 1
            raise cursor.expected("a number of registers", "after `<`")
        count = int(digits)
        cursor.expect(">", "after the number of registers")
    names.declare(name, count, True)
    return Registers(head.type, name, count, cursor.since(first))


def _variable(cursor: Cursor, head: _Head, name: str, first: int) -> Variable:
    shape: list[int] = []
    while cursor.accept("["):
        shape.append(0 if cursor.text == "]" else extent(cursor, "an array"))
        cursor.expect("]", "after an array's extent")
    align = head.align
    if head.vector is not None:  # laid out and aligned like an array of its elements
        shape.append(head.vector)
        align = align or head.vector * type_bytes(head.type)
    init = _initializer(cursor, shape) if cursor.accept("=") else None
    if init is not None and shape and shape[0] == 0:
        rest = Variable("", head.type, "", tuple(shape[1:]), None, None, (), cursor.here()).count
        shape[0] = -(-len(init) // rest) if rest else 0
    span = cursor.since(first)
    return Variable(head.space, head.type, name, tuple(shape), align, init, head.attributes, span)


def _initializer(cursor: Cursor, shape: list[int]) -> tuple[Operand, ...]:
    if cursor.text == "{":
        if not shape:
            raise cursor.error("a scalar takes one value, without braces")
        return tuple(_row(cursor, shape))
    return (_value(cursor),)


def _row(cursor: Cursor, shape: list[int]) -> list[Operand]:
    """The elements in braces; rows inside are padded with zeros to their extents."""
    first = cursor.at
    cursor.at += 1
    row: list[Operand] = []
    inner = 1
    for n in shape[1:]:
        inner *= n
    while not cursor.accept("}"):
        if row:
            cursor.expect(",", "or `}` in an initializer")
        if cursor.text != "{":
            row.append(_value(cursor))
            continue
        if len(shape) < 2 or len(row) + inner > MAX_PADDED:
            raise cursor.error("this initializer does not fit the array's shape")
        nested = _row(cursor, shape[1:])
        row += nested + [Imm(0)] * (inner - len(nested))
    if shape[0] and len(row) > shape[0] * inner:
        message = f"{len(row)} values for {shape[0] * inner} elements"
        raise PtxError(cursor.since(first), message)
    return row


def _value(cursor: Cursor) -> Operand:
    """A number, `symbol+8` or `generic(symbol)+8`."""
    if cursor.kind != WORD:
        return number(cursor)
    name = cursor.take()
    if name != "generic" or not cursor.accept("("):
        return symbol(cursor, name)
    inner = cursor.name("in `generic(...)`")
    cursor.expect(")", "after a symbol")
    return Sym(inner, symbol(cursor, inner).offset, True)
