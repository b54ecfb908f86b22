"""Integer arithmetic against big integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from kcheck.semantics.slow import UNDEF
from tests.semantics.slow.harness import evaluate

EDGES = {
    16: [0, 1, 2, 7, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF],
    32: [0, 1, 3, 31, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x12345678],
    64: [0, 1, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 0x123456789ABCDEF0],
}


def signed(x: int, bits: int) -> int:
    return x - 2**bits if x >= 2 ** (bits - 1) else x


def read(x: int, kind: str) -> int:
    """The bits x as a value of a type."""
    return signed(x, int(kind[1:])) if kind[0] == "s" else x


def check(
    line: str, kinds: tuple[str, ...], result: str, formula: Callable[..., int | None]
) -> None:
    """All combinations of edge values (registers a, b, c -> d); None means undefined."""
    rows = list(itertools.product(*(EDGES[int(kind[1:])] for kind in kinds)))[:729]
    inputs = {
        name: (f"u{kind[1:]}", [row[i] for row in rows])
        for i, (name, kind) in enumerate(zip("abc", kinds, strict=False))
    }
    got = evaluate(line, inputs, {"d": f"u{result[1:]}"})["d"]
    mask = 2 ** int(result[1:]) - 1
    for row, value in zip(rows, got, strict=True):
        wanted = formula(*(read(x, kind) for x, kind in zip(row, kinds, strict=True)))
        assert value == (UNDEF if wanted is None else wanted & mask), (line, row)


TYPES = ("s16", "u16", "s32", "u32", "s64", "u64")


def quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return a // b if a % b == 0 or (a < 0) == (b < 0) else a // b + 1


def remainder(a: int, b: int) -> int | None:
    q = quotient(a, b)
    return None if q is None else a - q * b


BINARY: dict[str, Callable[[int, int], int | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": quotient,
    "rem": remainder,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: a if a > b else b,
}


@pytest.mark.parametrize("opcode", BINARY)
@pytest.mark.parametrize("kind", TYPES)
def test_two_operands(opcode: str, kind: str) -> None:
    check(f"{opcode}.{kind} d, a, b;", (kind, kind), kind, BINARY[opcode])


@pytest.mark.parametrize("kind", TYPES)
def test_mul_hi(kind: str) -> None:
    bits = int(kind[1:])
    check(f"mul.hi.{kind} d, a, b;", (kind, kind), kind, lambda a, b: (a * b) // 2**bits)


@pytest.mark.parametrize("kind", TYPES)
def test_mad_and_sad(kind: str) -> None:
    check(f"mad.lo.{kind} d, a, b, c;", (kind,) * 3, kind, lambda a, b, c: a * b + c)
    check(f"sad.{kind} d, a, b, c;", (kind,) * 3, kind, lambda a, b, c: c + abs(a - b))


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32"])
def test_wide(kind: str) -> None:
    result = f"{kind[0]}{2 * int(kind[1:])}"
    check(f"mul.wide.{kind} d, a, b;", (kind, kind), result, lambda a, b: a * b)
    line = f"mad.wide.{kind} d, a, b, c;"
    check(line, (kind, kind, result), result, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_abs_and_neg_wrap(kind: str) -> None:
    check(f"abs.{kind} d, a;", (kind,), kind, abs)
    check(f"neg.{kind} d, a;", (kind,), kind, lambda a: -a)


def clamp(x: int) -> int:
    return max(-(2**31), min(2**31 - 1, x))


def test_saturation() -> None:
    pair, triple = ("s32",) * 2, ("s32",) * 3
    check("add.sat.s32 d, a, b;", pair, "s32", lambda a, b: clamp(a + b))
    check("sub.sat.s32 d, a, b;", pair, "s32", lambda a, b: clamp(a - b))
    check("mad.hi.sat.s32 d, a, b, c;", triple, "s32", lambda a, b, c: clamp(a * b // 2**32 + c))


def low24(x: int, kind: str) -> int:
    field = x % 2**24
    return field - 2**24 if kind == "s32" and field >= 2**23 else field


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_24_bits(kind: str) -> None:
    def product(a: int, b: int) -> int:
        return low24(a, kind) * low24(b, kind)

    check(f"mul24.lo.{kind} d, a, b;", (kind,) * 2, kind, product)
    check(f"mul24.hi.{kind} d, a, b;", (kind,) * 2, kind, lambda a, b: product(a, b) // 2**16)
    check(f"mad24.lo.{kind} d, a, b, c;", (kind,) * 3, kind, lambda a, b, c: product(a, b) + c)


def test_carry_chains_are_wide_arithmetic() -> None:
    edges = EDGES[32]
    rows = list(itertools.product(edges, edges, edges[:4], edges[-4:]))
    inputs = {n: ("u32", [row[i] for row in rows]) for i, n in enumerate(["a", "b", "c", "e"])}
    out = evaluate(
        "add.cc.u32 lo, a, b; addc.u32 hi, c, e;"
        "sub.cc.u32 sl, a, b; subc.u32 sh, c, e;"
        "mad.lo.cc.u32 ml, a, b, c; madc.hi.u32 mh, a, b, e;",
        inputs,
        {name: "u32" for name in ("lo", "hi", "sl", "sh", "ml", "mh")},
    )
    for i, (a, b, c, e) in enumerate(rows):
        wide = ((c << 32) + a) + ((e << 32) + b)
        assert out["lo"][i] + (out["hi"][i] << 32) == wide % 2**64
        less = ((c << 32) + a) - ((e << 32) + b)
        assert out["sl"][i] + (out["sh"][i] << 32) == less % 2**64
        fused = a * b + (e << 32) + c
        assert out["ml"][i] + (out["mh"][i] << 32) == fused % 2**64


def bytes_of(x: int, kind: str) -> list[int]:
    return list(memoryview(x.to_bytes(4, "little")).cast("b" if kind == "s32" else "B"))


@pytest.mark.parametrize(("ka", "kb"), list(itertools.product(["s32", "u32"], repeat=2)))
def test_dot_products(ka: str, kb: str) -> None:
    rows = list(
        itertools.product([0x01FF80F7, 0x7F80FF01], [0x81FE0203, 0xFFFFFFFF], [5, 2**32 - 1])
    )
    inputs = {n: ("u32", [row[i] for row in rows]) for i, n in enumerate("abc")}
    out = evaluate(
        f"dp4a.{ka}.{kb} d, a, b, c; dp2a.hi.{ka}.{kb} h, a, b, c; dp2a.lo.{ka}.{kb} l, a, b, c;",
        inputs,
        {"d": "u32", "h": "u32", "l": "u32"},
    )
    for i, (a, b, c) in enumerate(rows):
        xs, ys = bytes_of(a, ka), bytes_of(b, kb)
        assert out["d"][i] == (c + sum(x * y for x, y in zip(xs, ys, strict=True))) % 2**32
        halves = [a % 2**16, a // 2**16]
        if ka == "s32":
            halves = [signed(h, 16) for h in halves]
        for name, first in (("l", 0), ("h", 2)):
            dot = halves[0] * ys[first] + halves[1] * ys[first + 1]
            assert out[name][i] == (c + dot) % 2**32
