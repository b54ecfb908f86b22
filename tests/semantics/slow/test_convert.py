"""cvt against Python's rounding and clamping."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.semantics.slow.harness import Columns, evaluate

F = Fraction
INTS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
PATTERNS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


def value(pattern: int, kind: str) -> int:
    bits = int(kind[1:])
    x = pattern % (1 << bits)
    return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x


def limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "s" else (0, 2**bits - 1)


@pytest.mark.parametrize(("target", "source"), list(itertools.product(INTS, INTS)))
def test_between_integers(target: str, source: str) -> None:
    """Sources narrower than their register take its low bits; results are extended by sign."""
    register = "u64" if source[1:] == "64" else "u32"
    result = "u64" if target[1:] == "64" else "u32"
    patterns = [p % 2 ** int(register[1:]) for p in PATTERNS]
    code = f"cvt.{target}.{source} d, a; cvt.sat.{target}.{source} e, a;"
    out = evaluate(code, {"a": (register, patterns)}, {"d": result, "e": result})
    low, high = limits(target)
    for i, pattern in enumerate(patterns):
        x = value(pattern, source)
        assert out["d"][i] == value(x, target) % 2 ** int(result[1:])
        assert out["e"][i] == min(max(x, low), high) % 2 ** int(result[1:])


@pytest.mark.parametrize("target", ["s8", "u8", "s16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_float_to_integer_clamps(target: str, mode: str) -> None:
    xs: list[Any] = [F(5, 2), F(7, 2), F(-5, 2), F(-1, 3), 0, 2**70, -(2**70), math.inf, -math.inf]
    modes: dict[str, Callable[[F], int]] = {
        "rni": round,
        "rzi": math.trunc,
        "rmi": math.floor,
        "rpi": math.ceil,
    }
    rounding = modes[mode]
    low, high = limits(target)
    result = "u64" if target[1:] == "64" else "u32"
    out = evaluate(f"cvt.{mode}.{target}.f32 d, a;", {"a": ("f32", xs)}, {"d": result})["d"]
    for x, got in zip(xs, out, strict=True):
        wanted = (high if x > 0 else low) if x in (math.inf, -math.inf) else rounding(x)
        assert got == min(max(wanted, low), high) % 2 ** int(result[1:]), (x, mode)


def test_nan_to_integer() -> None:
    out = evaluate(
        "cvt.rni.s32.f32 d, a; cvt.rni.s64.f32 e, a; .reg .f64 w; cvt.f64.f32 w, a;"
        "cvt.rzi.u32.f64 c, w;",
        {"a": ("f32", [math.nan])},
        {"d": "u32", "e": "u64", "c": "u32"},
    )
    assert out == {"d": [0], "e": [2**63], "c": [2**31]}


def test_format_changes_are_the_identity() -> None:
    x = F(1, 3) + 10**6
    code = ".reg .b16 h, b; .reg .f64 w; cvt.rn.f16.f32 h, a; cvt.f32.f16 d, h;"
    code += "cvt.rn.bf16.f32 b, a; cvt.f32.bf16 e, b; cvt.f64.f32 w, a; cvt.rz.f32.f64 c, w;"
    code += "cvt.rna.tf32.f32 g, a;"
    out = evaluate(code, {"a": ("f32", [x])}, dict.fromkeys("decg", "f32"))
    assert out == {name: [x] for name in "decg"}


def test_rounding_to_an_integral_value() -> None:
    xs = [F(5, 2), F(-7, 3), 4]
    code = "cvt.rni.f32.f32 d, a; cvt.rmi.f32.f32 e, a;"
    out = evaluate(code, {"a": ("f32", xs)}, {"d": "f32", "e": "f32"})
    assert out == {"d": [2, -2, 4], "e": [2, -3, 4]}


def test_integer_to_float_is_exact() -> None:
    xs = [2**32 - 1, 3, 2**31]
    code = "cvt.rn.f32.u32 d, a; cvt.rz.f32.s32 e, a; .reg .b16 h; cvt.rn.f16.u32 h, a;"
    out = evaluate(code + "cvt.f32.f16 c, h;", {"a": ("u32", xs)}, dict.fromkeys("dec", "f32"))
    assert out["d"] == out["c"] == xs
    assert out["e"] == [-1, 3, -(2**31)]


def test_halves_relu_and_satfinite() -> None:
    """The first source is the upper half."""
    code = (
        "cvt.rn.f16x2.f32 d, a, b; cvt.rn.relu.bf16x2.f32 e, a, b;"
        ".reg .b16 l, h; mov.b32 {l, h}, d; cvt.f32.f16 c, h;"
        ".reg .b16 s; cvt.rn.satfinite.f16.f32 s, a; cvt.f32.f16 g, s;"
        ".reg .b16 r; cvt.rn.relu.f16.f32 r, b; cvt.f32.f16 k, r;"
        ".reg .b16 m, n; mov.b32 {m, n}, e; cvt.f32.bf16 o, m;"
    )
    code = ".reg .b32 d, e; " + code
    inputs: Columns = {"a": ("f32", [10**6, math.inf]), "b": ("f32", [-2, F(1, 3)])}
    out = evaluate(code, inputs, dict.fromkeys("cgko", "f32"))
    assert out["c"] == [10**6, math.inf]
    assert out["g"] == [65504, 65504]
    assert out["k"] == out["o"] == [0, F(1, 3)]


def test_pack() -> None:
    code = "cvt.pack.sat.s16.s32 d, a, b; cvt.pack.sat.u8.s32.b32 e, a, b, c;"
    inputs = {
        "a": ("u32", [70000, 2**32 - 5]),
        "b": ("u32", [2**32 - 70000, 12]),
        "c": ("u32", [0xAABBCCDD] * 2),
    }
    out = evaluate(code, inputs, {"d": "u32", "e": "u32"})
    assert out["d"] == [0x7FFF8000, 0xFFFB000C]
    assert out["e"] == [0xCCDDFF00, 0xCCDD000C]
