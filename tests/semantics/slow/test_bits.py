"""Bit fields, shifts, logic, permutes against strings of bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from tests.semantics.slow.harness import evaluate

WORDS = [0, 1, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF, 0x00F0A501]
COUNTS = [0, 1, 5, 8, 16, 31, 32, 33, 63, 64, 200, 255, 2**32 - 1]


def columns(rows: Sequence[tuple[int, ...]], kinds: str = "") -> dict[str, tuple[str, list[int]]]:
    names = "abce"[: len(rows[0])]
    types = (kinds or "u32 " * len(names)).split()
    return {n: (types[i], [row[i] for row in rows]) for i, n in enumerate(names)}


def check(
    line: str,
    rows: Sequence[tuple[int, ...]],
    formula: Callable[..., int],
    kinds: str = "",
    result: str = "u32",
) -> None:
    got = evaluate(line, columns(rows, kinds), {"d": result})["d"]
    for row, value in zip(rows, got, strict=True):
        assert value == formula(*row), (line, row)


def bits_of(x: int, width: int) -> list[int]:
    return [x >> i & 1 for i in range(width)]


def word(bits: list[int]) -> int:
    return sum(bit << i for i, bit in enumerate(bits))


@pytest.mark.parametrize("width", [32, 64])
def test_counting(width: int) -> None:
    values = [0, 1, 2 ** (width - 1), 2**width - 1, 0x0F00F00F]
    rows: Sequence[tuple[int, ...]] = [(x,) for x in values]
    text = f"{{:0{width}b}}"
    kind = f"u{width}"
    check(f"popc.b{width} d, a;", rows, lambda a: text.format(a).count("1"), kind)
    check(f"clz.b{width} d, a;", rows, lambda a: (text.format(a) + "1").index("1"), kind)
    check(f"brev.b{width} d, a;", rows, lambda a: int(text.format(a)[::-1], 2), kind, kind)

    def bfind(a: int, signed: bool) -> int:
        bits = bits_of(a, width)
        lead = bits[-1] if signed else 0
        found = [i for i, bit in enumerate(bits) if bit != lead]
        return max(found, default=2**32 - 1)

    check(f"bfind.u{width} d, a;", rows, lambda a: bfind(a, False), kind)
    check(f"bfind.s{width} d, a;", rows, lambda a: bfind(a, True), kind)

    def amount(a: int) -> int:
        found = bfind(a, False)
        return found if found == 2**32 - 1 else width - 1 - found

    check(f"bfind.shiftamt.u{width} d, a;", rows, amount, kind)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("sign", ["u", "s"])
def test_bfe(width: int, sign: str) -> None:
    rows = list(itertools.product([x << (width - 32) | x >> 3 for x in WORDS], COUNTS, COUNTS))

    def formula(a: int, b: int, c: int) -> int:
        bits, position, length = bits_of(a, width), b & 255, c & 255
        fill = bits[min(position + length - 1, width - 1)] if sign == "s" and length else 0
        return word(
            [
                bits[position + i] if i < length and position + i < width else fill
                for i in range(width)
            ]
        )

    check(f"bfe.{sign}{width} d, a, b, c;", rows, formula, f"u{width} u32 u32", f"u{width}")


@pytest.mark.parametrize("width", [32, 64])
def test_bfi(width: int) -> None:
    rows = list(itertools.product(WORDS[2:5], WORDS[1:5], COUNTS, COUNTS))

    def formula(a: int, b: int, c: int, e: int) -> int:
        bits, new = bits_of(b, width), bits_of(a, width)
        for i in range(e & 255):
            if (c & 255) + i < width:
                bits[(c & 255) + i] = new[i]
        return word(bits)

    kinds = f"u{width} u{width} u32 u32"
    check(f"bfi.b{width} d, a, b, c, e;", rows, formula, kinds, f"u{width}")


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts_clamp(width: int) -> None:
    values = [x & (2**width - 1) for x in (0, 1, 2 ** (width - 1), 2**width - 1, 0xB00B)]
    rows = list(itertools.product(values, COUNTS))
    kinds, result, mask = f"u{width} u32", f"u{width}", (1 << width) - 1

    def arithmetic(a: int, n: int) -> int:
        negative = a - (1 << width) if a >> (width - 1) else a
        return negative // (1 << min(n, width)) & mask

    check(f"shl.b{width} d, a, b;", rows, lambda a, n: a * 2 ** min(n, width) & mask, kinds, result)
    check(f"shr.u{width} d, a, b;", rows, lambda a, n: a // 2 ** min(n, width), kinds, result)
    check(f"shr.b{width} d, a, b;", rows, lambda a, n: a // 2 ** min(n, width), kinds, result)
    check(f"shr.s{width} d, a, b;", rows, arithmetic, kinds, result)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shift(mode: str) -> None:
    rows = list(itertools.product(WORDS[1:], WORDS[2:], COUNTS))

    def amount(c: int) -> int:
        return min(c, 32) if mode == "clamp" else c % 32

    def both(a: int, b: int) -> int:
        return b * 2**32 + a

    check(
        f"shf.l.{mode}.b32 d, a, b, c;",
        rows,
        lambda a, b, c: both(a, b) * 2 ** amount(c) // 2**32 % 2**32,
    )
    check(
        f"shf.r.{mode}.b32 d, a, b, c;", rows, lambda a, b, c: both(a, b) // 2 ** amount(c) % 2**32
    )


def test_logic() -> None:
    rows = list(itertools.product(WORDS, WORDS, WORDS))
    for table in (0x00, 0x01, 0x80, 0xC0, 0x96, 0xE8, 0xCA, 0xFE):

        def formula(a: int, b: int, c: int, table: int = table) -> int:
            triples = zip(bits_of(a, 32), bits_of(b, 32), bits_of(c, 32), strict=True)
            return word([table >> (4 * x + 2 * y + z) & 1 for x, y, z in triples])

        check(f"lop3.b32 d, a, b, c, {table};", rows, formula)
    pairs: list[tuple[int, ...]] = [(x, y) for x in WORDS for y in WORDS]
    check("cnot.b32 d, a;", pairs, lambda a, b: int(a == 0))
    check("not.b32 d, a;", pairs, lambda a, b: 2**32 - 1 - a)
    check("xor.b32 d, a, b;", pairs, lambda a, b: (a | b) - (a & b))


def test_prmt() -> None:
    controls = [0x3210, 0x7654, 0x0123, 0x5410, 0xFFFF, 0x8B19, 0xC4D0]
    rows = list(itertools.product(WORDS[2:], WORDS[3:], [*range(4), *controls]))
    tables = {
        "f4e": ["3210", "4321", "5432", "6543"],
        "b4e": ["5670", "6701", "7012", "0123"],
        "rc8": ["0000", "1111", "2222", "3333"],
        "ecl": ["3210", "3211", "3222", "3333"],
        "ecr": ["0000", "1110", "2210", "3210"],
        "rc16": ["1010", "3232", "1010", "3232"],
    }

    def generic(a: int, b: int, c: int) -> int:
        eight = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        chosen = []
        for i in range(4):
            selector = c >> 4 * i & 15
            byte = eight[selector & 7]
            chosen.append((255 if byte > 127 else 0) if selector > 7 else byte)
        return int.from_bytes(bytes(chosen), "little")

    check("prmt.b32 d, a, b, c;", rows, generic)
    for mode, table in tables.items():

        def named(a: int, b: int, c: int, table: list[str] = table) -> int:
            eight = a.to_bytes(4, "little") + b.to_bytes(4, "little")
            return int.from_bytes(bytes(eight[int(s)] for s in table[c & 3]), "big")

        check(f"prmt.b32.{mode} d, a, b, c;", rows, named)


def test_masks_and_extensions() -> None:
    rows: Sequence[tuple[int, ...]] = list(itertools.product(COUNTS, COUNTS))

    def bmsk(a: int, b: int) -> int:
        return word([int(a <= i < a + b) for i in range(32)])

    check("bmsk.clamp.b32 d, a, b;", rows, bmsk)
    check("bmsk.wrap.b32 d, a, b;", rows, lambda a, b: bmsk(a % 32, b % 32))
    rows = list(itertools.product(WORDS, COUNTS))

    def szext(a: int, n: int, sign: bool) -> int:
        bits = bits_of(a, 32)
        fill = bits[n - 1] if sign and n else 0
        return word(bits[:n] + [fill] * (32 - n))

    for kind in "us":
        sign = kind == "s"
        check(
            f"szext.clamp.{kind}32 d, a, b;",
            rows,
            lambda a, b, sign=sign: szext(a, min(b, 32), sign),
        )
        check(f"szext.wrap.{kind}32 d, a, b;", rows, lambda a, b, sign=sign: szext(a, b % 32, sign))


def test_find_nth_set() -> None:
    rows = list(itertools.product(WORDS, [0, 4, 31], [0, 1, 2, 5, 2**32 - 1, 2**32 - 3]))

    def fns(mask: int, base: int, raw: int) -> int:
        offset = raw - 2**32 if raw >> 31 else raw
        if offset == 0:
            return base if mask >> base & 1 else 2**32 - 1
        way = range(base, 32) if offset > 0 else range(base, -1, -1)
        found = [i for i in way if mask >> i & 1]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else 2**32 - 1

    check("fns.b32 d, a, b, c;", rows, fns)
