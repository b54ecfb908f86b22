"""Pairs of 16-bit units: arithmetic per half, and bit tricks that move whole halves."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kcheck.semantics.slow import Unsupported
from tests.semantics.slow.harness import evaluate

F = Fraction
X, Y = F(1, 3), F(-2, 7)  # neither has bits in any format


def halves(code: str, fmt: str = "f16", x: Any = X, y: Any = Y) -> tuple[Any, Any]:
    """The lower and upper half of b32 `d`, where b32 `a` is {x, y}."""
    code = (
        f".reg .b32 a, d; mov.b32 a, {{x, y}}; {code}"
        f".reg .b16 l, h; mov.b32 {{l, h}}, d; cvt.f32.{fmt} lo, l; cvt.f32.{fmt} hi, h;"
    )
    out = evaluate(code, {"x": (fmt, [x]), "y": (fmt, [y])}, {"lo": "f32", "hi": "f32"})
    return out["lo"][0], out["hi"][0]


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_arithmetic_per_half(fmt: str) -> None:
    assert halves(f"add.rn.{fmt}x2 d, a, a;", fmt) == (2 * X, 2 * Y)
    assert halves(f"mul.{fmt}x2 d, a, a;", fmt) == (X * X, Y * Y)
    assert halves(f"fma.rn.{fmt}x2 d, a, a, a;", fmt) == (X * X + X, Y * Y + Y)
    assert halves(f"neg.{fmt}x2 d, a;", fmt) == (-X, -Y)
    assert halves(f"abs.{fmt}x2 d, a;", fmt) == (X, -Y)
    assert halves(f"fma.rn.relu.{fmt}x2 d, a, a, a;", fmt) == (X * X + X, 0)


def test_constants_are_bits() -> None:
    assert halves("add.f16x2 d, a, 0x3c00c000;") == (X - 2, Y + 1)
    assert halves("max.f16x2 d, a, 0;") == (X, 0)
    assert halves("mul.bf16x2 d, a, 0x3f804000;", "bf16") == (2 * X, Y)


@pytest.mark.parametrize("code", ["xor.b32 d, a, 0x80008000;", "neg.f16x2 d, a;"])
def test_sign_masks(code: str) -> None:
    assert halves(code) == (-X, -Y)


def test_half_sign_masks() -> None:
    assert halves("and.b32 d, a, 0x7fff7fff;") == (X, -Y)
    assert halves("xor.b32 d, a, 0x8000;") == (-X, Y)
    assert halves("or.b32 d, a, 0x80000000;") == (X, Y)


@pytest.mark.parametrize(
    "code",
    [
        "prmt.b32 d, a, 0, 0x1032;",
        "shf.l.wrap.b32 d, a, a, 16;",
        ".reg .b32 s, t; shr.u32 s, a, 16; shl.b32 t, a, 16; or.b32 d, s, t;",
        ".reg .b32 s; shr.u32 s, a, 16; bfi.b32 d, a, s, 16, 16;",
        ".reg .b32 s, t; bfe.u32 s, a, 16, 16; and.b32 t, a, 0xffff; mad.lo.u32 d, 0, 0, 0;"
        "shl.b32 t, t, 16; or.b32 d, s, t;",
    ],
)
def test_swapping_halves(code: str) -> None:
    assert halves(code) == (Y, X)


@pytest.mark.parametrize(
    "code",
    [
        "shl.b32 d, a, 16;",
        "prmt.b32 d, a, 0, 0x1044;",
        ".reg .b16 l, h; mov.b32 {l, h}, a; mov.b32 d, {0, l};",
        ".reg .b32 s; and.b32 s, a, 0xffff; shl.b32 d, s, 16;",
    ],
)
def test_bf16_widens_to_f32(code: str) -> None:
    code = ".reg .b32 a; mov.b32 a, {x, y};" + code
    out = evaluate(code, {"x": ("bf16", [X]), "y": ("bf16", [Y])}, {"d": "f32"})
    assert out["d"] == [X]


def test_upper_bf16_widens_in_place() -> None:
    code = ".reg .b32 a; mov.b32 a, {x, y}; and.b32 d, a, 0xffff0000;"
    assert evaluate(code, {"x": ("bf16", [X]), "y": ("bf16", [Y])}, {"d": "f32"})["d"] == [Y]


def test_a_pair_is_no_f32_and_an_f16_no_bf16() -> None:
    for code in ("mov.b32 d, {x, y};", ".reg .b32 s; mov.b32 s, {0, x}; mov.b32 d, s;"):
        with pytest.raises(Unsupported, match="reinterpret"):
            evaluate(code, {"x": ("f16", [X]), "y": ("f16", [Y])}, {"d": "f32"})
    with pytest.raises(Unsupported, match="reinterpret"):
        evaluate("cvt.f32.bf16 d, x;", {"x": ("f16", [X])}, {"d": "f32"})


def test_halves_of_an_f32_are_only_good_together() -> None:
    code = ".reg .b16 l, h; mov.b32 {l, h}, a; mov.b32 d, {l, h};"
    assert evaluate(code, {"a": ("f32", [X])}, {"d": "f32"})["d"] == [X]
    with pytest.raises(Unsupported, match="reinterpret"):
        evaluate(
            ".reg .b16 l, h; mov.b32 {l, h}, a; cvt.f32.f16 d, l;",
            {"a": ("f32", [X])},
            {"d": "f32"},
        )


def test_a_double_travels_in_words() -> None:
    code = ".reg .b32 l, h; mov.b64 {l, h}, a; mov.b64 d, {l, h};"
    assert evaluate(code, {"a": ("f64", [X])}, {"d": "f64"})["d"] == [X]
