"""Literals and constant expressions (PTX ISA 9.0, 4.5)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from kcheck.ptx_frontend.cursor import Cursor
from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lexer import FLOAT, INT
from kcheck.ptx_frontend.tree import Flt, Imm

SIGN64 = 1 << 63


class _Undefined(Exception):
    """A division by zero or a shift that leaves 64 bits."""


def _div(a: int, b: int) -> int:
    if b == 0:
        raise _Undefined
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shift(move: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(a: int, b: int) -> int:
        if not 0 <= b < 64:
            raise _Undefined
        return move(a, b)

    return checked


# operator -> how tightly it binds, what it does
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (0, lambda a, b: int(a != 0 or b != 0)),
    "&&": (1, lambda a, b: int(a != 0 and b != 0)),
    "|": (2, lambda a, b: a | b),
    "^": (3, lambda a, b: a ^ b),
    "&": (4, lambda a, b: a & b),
    "==": (5, lambda a, b: int(a == b)),
    "!=": (5, lambda a, b: int(a != b)),
    "<": (6, lambda a, b: int(a < b)),
    "<=": (6, lambda a, b: int(a <= b)),
    ">": (6, lambda a, b: int(a > b)),
    ">=": (6, lambda a, b: int(a >= b)),
    "<<": (7, _shift(lambda a, b: a << b)),
    ">>": (7, _shift(lambda a, b: a >> b)),
    "+": (8, lambda a, b: a + b),
    "-": (8, lambda a, b: a - b),
    "*": (9, lambda a, b: a * b),
    "/": (9, _div),
    "%": (9, lambda a, b: a - b * _div(a, b)),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "+": lambda a: a,
    "-": lambda a: -a,
    "~": lambda a: ~a,
    "!": lambda a: int(a == 0),
}
_OPERATORS = frozenset({"?", *_BINARY})
STARTS = frozenset({"(", *_UNARY})


def integer(cursor: Cursor) -> int:
    """A constant expression of integers, between -2^63 and 2^64-1; else PtxError."""
    if cursor.kind == INT and cursor.texts[cursor.at + 1] not in _OPERATORS:
        return _literal(cursor)
    first = cursor.at
    value = _conditional(cursor)
    if not -SIGN64 <= value < 2 * SIGN64:
        raise PtxError(cursor.since(first), f"{value} does not fit 64 bits")
    return value


def extent(cursor: Cursor, what: str) -> int:
    """An `integer` that counts something: 0 or more."""
    first = cursor.at
    value = integer(cursor)
    if value < 0:
        raise PtxError(cursor.since(first), f"{what} can't be negative")
    return value


def is_short_decimal(text: str) -> bool:
    """Whether a token is a plain number of at most nine digits (a line, a count of registers)."""
    return text.isdecimal() and text.isascii() and len(text) < 10


def number(cursor: Cursor) -> Imm | Flt:
    """An integer expression or a float literal with its sign."""
    sign = cursor.text if cursor.text in ("-", "+") else ""
    if cursor.kinds[cursor.at + len(sign)] != FLOAT:
        return Imm(integer(cursor))
    cursor.at += len(sign)
    value = _float(cursor.take())
    return Flt(value.bits ^ (1 << (value.width - 1)), value.width) if sign == "-" else value


def _float(text: str) -> Flt:
    if text[:2] in ("0f", "0F"):
        return Flt(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Flt(int(text[2:], 16), 64)
    return Flt(int.from_bytes(struct.pack(">d", float(text)), "big"), 64)


def _literal(cursor: Cursor) -> int:
    text = cursor.take().rstrip("U")
    base = {"0x": 16, "0X": 16, "0b": 2, "0B": 2}.get(text[:2], 8 if text[0] == "0" else 10)
    try:
        value = int(text[2:] if base in (2, 16) else text, base)
    except ValueError:  # 089, or more digits than Python converts
        value = -1
    if not 0 <= value < 2 * SIGN64:
        cursor.at -= 1
        octal = "a leading 0 means octal" if base == 8 else ""
        raise cursor.error(f"{text[:40]} is no integer of 64 bits", octal)
    return value


def _conditional(cursor: Cursor) -> int:
    cursor.nest()
    value = _binary(cursor, 0)
    if cursor.accept("?"):
        yes = _conditional(cursor)
        cursor.expect(":", "in a constant expression")
        no = _conditional(cursor)
        value = yes if value else no
    cursor.depth -= 1
    return value


def _binary(cursor: Cursor, loosest: int) -> int:
    value = _unary(cursor)
    while cursor.text in _BINARY and _BINARY[cursor.text][0] >= loosest:
        operator = cursor.at
        binding, apply = _BINARY[cursor.take()]
        right = _binary(cursor, binding + 1)
        try:
            value = apply(value, right)
        except _Undefined:
            cursor.at = operator
            raise cursor.error(f"{value} {cursor.text} {right} is undefined") from None
        if not -SIGN64 <= value < 2 * SIGN64:
            cursor.at = operator
            raise cursor.error("this leaves 64 bits")
    return value


def _unary(cursor: Cursor) -> int:
    signs: list[Callable[[int], int]] = []
    while cursor.text in _UNARY:
        signs.append(_UNARY[cursor.take()])
    if cursor.accept("("):
        value = _conditional(cursor)
        cursor.expect(")", "in a constant expression")
    elif cursor.kind == INT:
        value = _literal(cursor)
    else:
        raise cursor.expected("a number", "here")
    for sign in reversed(signs):
        value = sign(value)
    return value
