"""What instructions on bits do to words of symbolic integers: one row each.

Each gets the words of its sources and returns that of the result, or None where it is not moved
bits: a shift by a number that is no constant, a function of the bits of two integers.
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.semantics.words import Word, bitwise, joined

Slots = dict[str, str]
Function = Callable[[list[Word]], "Word | None"]


def _constant(word: Word) -> int | None:
    return None if word.pieces else word.ones


def _logic(f: Callable[..., int]) -> Callable[[Slots], Function]:
    return lambda slots: lambda words: bitwise(f, words)


def _shl(slots: Slots) -> Function:
    def shift(words: list[Word]) -> Word | None:
        by = _constant(words[1])
        return None if by is None else words[0].shifted(min(by, words[0].bits))

    return shift


def _shr(slots: Slots) -> Function:
    signed = slots["type"][0] == "s"

    def shift(words: list[Word]) -> Word | None:
        x, by = words[0], _constant(words[1])
        if by is None:
            return None
        by = min(by, x.bits - 1 if signed else x.bits)
        rest = x.field(by, x.bits - by, x.bits)
        return rest.filled(x.bits - by, x.bits) if signed else rest

    return shift


def _bfe(slots: Slots) -> Function:
    signed = slots["type"][0] == "s"

    def extract(words: list[Word]) -> Word | None:
        x, at, length = words[0], _constant(words[1]), _constant(words[2])
        if at is None or length is None:
            return None
        at, length = at & 255, length & 255
        if length == 0 or (at >= x.bits and not signed):
            return Word(x.bits, (), 0)
        at = min(at, x.bits - 1)
        length = min(length, x.bits - at)
        field = x.field(at, length, x.bits)
        return field.filled(length, x.bits) if signed else field

    return extract


def _bfi(slots: Slots) -> Function:
    def insert(words: list[Word]) -> Word | None:
        a, b, at, length = *words[:2], _constant(words[2]), _constant(words[3])
        if at is None or length is None:
            return None
        at, length = min(at & 255, b.bits), length & 255
        end = min(at + length, b.bits)
        inside = Word(b.bits, (), (1 << end) - (1 << at))
        return bitwise(lambda m, x, y: x if m else y, [inside, a.shifted(at), b])

    return insert


def _prmt(slots: Slots) -> Function:
    def permute(words: list[Word]) -> Word | None:
        selector = _constant(words[2])
        if selector is None or slots["mode"]:
            return None
        both, out = joined(words[:2]), list[Word]()
        for i in range(4):
            choice = selector >> 4 * i & 15
            byte = both.field(8 * (choice & 7), 8, 8)
            out.append(byte.field(7, 1, 1).filled(1, 8) if choice & 8 else byte)
        return joined(out)

    return permute


def _shf(slots: Slots) -> Function:
    def funnel(words: list[Word]) -> Word | None:
        by = _constant(words[2])
        if by is None:
            return None
        by = by & 31 if slots["mode"] == "wrap" else min(by, 32)
        return joined(words[:2]).field(32 - by if slots["dir"] == "l" else by, 32, 32)

    return funnel


def _lop3(slots: Slots) -> Function:
    table = int(slots["table"])
    return lambda words: bitwise(lambda a, b, c: table >> (a << 2 | b << 1 | c) & 1, words)


# form -> what it does to the bits
WORDS: dict[str, Callable[[Slots], Function]] = {
    "bit.and": _logic(lambda a, b: a & b),
    "bit.or": _logic(lambda a, b: a | b),
    "bit.xor": _logic(lambda a, b: a ^ b),
    "bit.not": _logic(lambda a: 1 - a),
    "bit.shl": _shl,
    "bit.shr": _shr,
    "bit.shf": _shf,
    "bit.prmt": _prmt,
    "bit.lop3": _lop3,
    "int.bfe": _bfe,
    "int.bfi": _bfi,
}
