"""Operands of instructions (PTX ISA 9.0, chapter 6)."""

from __future__ import annotations

from kcheck.ptx_frontend.constants import STARTS, integer, number
from kcheck.ptx_frontend.cursor import Cursor
from kcheck.ptx_frontend.lexer import DOT, END, FLOAT, INT, WORD
from kcheck.ptx_frontend.names import Names
from kcheck.ptx_frontend.tree import (
    Args,
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

SINK = Sink()


def operand(cursor: Cursor, names: Names, call: bool = False) -> Operand:
    """The next operand; `call`: parentheses hold arguments, not an expression."""
    kind = cursor.kind
    if kind == WORD:
        return _word(cursor, names)
    if kind in (INT, FLOAT):
        return number(cursor)
    text = cursor.text
    if text == "[":
        return _memory(cursor, names)
    if text == "{":
        return Vec(_list(cursor, names, "}", "a vector"))
    if text == "(" and call:
        return Args(_list(cursor, names, ")", "a list of arguments"))
    if text == "!" and cursor.kinds[cursor.at + 1] == WORD:
        cursor.at += 1
        return Not(register(cursor, cursor.take()))
    if text in STARTS:
        return number(cursor)
    if cursor.texts[cursor.at - 1] != "," and (kind in (DOT, END) or text in ("}", "@")):
        raise cursor.unfinished("this instruction")
    raise cursor.expected("an operand", "here")


def register(cursor: Cursor, name: str) -> Reg:
    """The one node of a register's name."""
    known = cursor.registers.get(name)
    if known is None:
        known = cursor.registers[name] = Reg(name)
    return known


def _word(cursor: Cursor, names: Names) -> Operand:
    text = cursor.take()
    value: Reg | Sink
    if text == "_":
        value = SINK
    elif names.is_register(text):
        value = register(cursor, text)
    else:
        return symbol(cursor, text)
    if cursor.text != "|":
        return value
    cursor.at += 1
    second = cursor.take()
    if cursor.kinds[cursor.at - 1] != WORD:
        cursor.at -= 1
        raise cursor.expected("a register", "after `|`")
    return Pair(value, SINK if second == "_" else register(cursor, second))


def symbol(cursor: Cursor, name: str) -> Sym:
    """A symbol whose name was just taken, and its offset."""
    if "." in name or ":" in name:
        cursor.at -= 1
        raise cursor.unfinished("this instruction")
    return Sym(name, _offset(cursor))


def _offset(cursor: Cursor) -> int:
    return integer(cursor) if cursor.text in ("+", "-") else 0


def _memory(cursor: Cursor, names: Names) -> Mem:
    cursor.at += 1
    base: Operand
    if cursor.kind == WORD:
        name = cursor.take()
        if names.is_register(name):
            base, offset = register(cursor, name), _offset(cursor)
        else:
            symbolic = symbol(cursor, name)
            base, offset = Sym(symbolic.name), symbolic.offset
    else:
        base, offset = Imm(integer(cursor)), 0
    coords: list[Operand] = []
    while cursor.accept(","):
        coords.append(_item(cursor, names))
    if not cursor.accept("]"):
        raise cursor.error(
            f"expected `]`, found `{cursor.text}`"
            if cursor.text
            else "the text ends in an address",
            "an address is `[base]` or `[base+constant]`, tensor coordinates after a comma",
        )
    return Mem(base, offset, tuple(coords))


def _list(cursor: Cursor, names: Names, close: str, what: str) -> tuple[Operand, ...]:
    cursor.at += 1
    items: list[Operand] = []
    if cursor.accept(close):
        return ()
    while True:
        items.append(_item(cursor, names))
        if cursor.accept(close):
            return tuple(items)
        cursor.expect(",", f"or `{close}` in {what}")


def _item(cursor: Cursor, names: Names) -> Operand:
    cursor.nest()
    item = operand(cursor, names)
    cursor.depth -= 1
    return item
