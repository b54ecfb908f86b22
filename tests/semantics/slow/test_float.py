"""Float instructions over the reals, on exact rationals and on bit patterns."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import pytest

from kcheck.semantics.slow import UNDEF, Double, Enclosure, Unsupported
from tests.semantics.slow.harness import evaluate

F = Fraction
NAN, INF = math.nan, math.inf


def bits32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def one(line: str, outputs: str = "f32", **operands: Any) -> Any:
    """d of one thread; operands are f32 numbers."""
    inputs = {name: ("f32", [value]) for name, value in operands.items()}
    return evaluate(line, inputs, {"d": outputs})["d"][0]


def same(x: Any, y: Any) -> bool:
    return bool(x == y or (x != x and y != y))


def test_rounding_modes_mean_nothing() -> None:
    third = F(1, 3)
    for mode in ("rn", "rz", "rm", "rp"):
        assert one(f"add.{mode}.ftz.f32 d, a, b;", a=third, b=F(1, 7)) == F(10, 21)
        assert one(f"mul.{mode}.f32 d, a, b;", a=third, b=F(1, 7)) == F(1, 21)
        assert one(f"fma.{mode}.f32 d, a, b, c;", a=third, b=F(1, 7), c=1) == F(22, 21)
        assert one(f"div.{mode}.f32 d, a, b;", a=third, b=F(1, 7)) == F(7, 3)
    assert one("sub.f32 d, a, b;", a=F(1, 10**50), b=0) == F(1, 10**50)


def test_no_overflow_over_the_reals() -> None:
    assert one("mul.f32 d, a, b;", a=2**100, b=2**100) == 2**200


@pytest.mark.parametrize(("x", "wanted"), [(-3, 0), (F(1, 3), F(1, 3)), (5, 1), (INF, 1), (NAN, 0)])
def test_sat_clamps(x: Any, wanted: Any) -> None:
    assert one("add.sat.f32 d, a, b;", a=x, b=0) == wanted
    assert one("cvt.sat.f32.f32 d, a;", a=x) == wanted


def test_literals_are_exact_bits() -> None:
    assert one("add.f32 d, a, 0f3FB8AA3B;", a=0) == F(0xB8AA3B, 2**23)
    assert one("add.f32 d, a, 0f00000001;", a=0) == F(1, 2**149)
    assert one("add.f32 d, a, 1.5;", a=0) == F(3, 2)
    assert one("add.f32 d, a, 0fFF800000;", a=0) == -INF
    out = evaluate("add.f64 d, a, 0d3FF8000000000000;", {"a": ("f64", [1])}, {"d": "f64"})
    assert out["d"] == [F(5, 2)]


SPECIALS = [0, 1, -2, INF, -INF, NAN]


@pytest.mark.parametrize(
    ("opcode", "formula"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul", lambda a, b: a * b),
    ],
)
def test_infinities_follow_ieee(opcode: str, formula: Any) -> None:
    for a in SPECIALS:
        for b in SPECIALS:
            wanted = formula(float(a), float(b))
            assert same(one(f"{opcode}.f32 d, a, b;", a=a, b=b), wanted), (opcode, a, b)


def test_division_by_zero_is_nan_with_a_reason() -> None:
    for a in (0, 1, -1, INF):
        assert math.isnan(one("div.approx.f32 d, a, b;", a=a, b=0))
    assert math.isnan(one("rcp.approx.f32 d, a;", a=0))
    assert one("div.full.f32 d, a, b;", a=1, b=INF) == 0
    assert one("div.full.f32 d, a, b;", a=-INF, b=-2) == INF
    assert math.isnan(one("div.full.f32 d, a, b;", a=INF, b=INF))


def test_min_max_and_nan() -> None:
    assert one("max.f32 d, a, b;", a=NAN, b=3) == 3
    assert one("min.f32 d, a, b;", a=3, b=NAN) == 3
    assert math.isnan(one("max.NaN.f32 d, a, b;", a=NAN, b=3))
    assert math.isnan(one("min.NaN.f32 d, a, b;", a=3, b=NAN))
    assert one("max.f32 d, a, b;", a=-INF, b=-7) == -7
    assert one("min.f32 d, a, b;", a=-INF, b=-7) == -INF


def test_functions_where_they_are_rational() -> None:
    assert one("ex2.approx.f32 d, a;", a=-5) == F(1, 32)
    assert one("ex2.approx.ftz.f32 d, a;", a=-INF) == 0
    assert one("ex2.approx.f32 d, a;", a=INF) == INF
    assert one("lg2.approx.f32 d, a;", a=F(1, 8)) == -3
    assert one("lg2.approx.f32 d, a;", a=0) == -INF
    assert math.isnan(one("lg2.approx.f32 d, a;", a=-1))
    assert one("sqrt.rn.f32 d, a;", a=F(9, 16)) == F(3, 4)
    assert math.isnan(one("sqrt.rn.f32 d, a;", a=-1))
    assert one("rsqrt.approx.f32 d, a;", a=F(9, 16)) == F(4, 3)
    assert one("tanh.approx.f32 d, a;", a=-INF) == -1
    assert one("cos.approx.f32 d, a;", a=0) == 1


@pytest.mark.parametrize(
    ("opcode", "formula"),
    [
        ("ex2.approx", lambda x: 2.0**x),
        ("lg2.approx", math.log2),
        ("sqrt.approx", math.sqrt),
        ("rsqrt.approx", lambda x: 1 / math.sqrt(x)),
        ("rcp.approx", lambda x: 1 / x),
        ("sin.approx", math.sin),
        ("cos.approx", math.cos),
        ("tanh.approx", math.tanh),
    ],
)
def test_functions_in_float64(opcode: str, formula: Any) -> None:
    xs = [0.1, 0.7, 1.0, 2.5, 30.0]
    got = evaluate(f"{opcode}.f32 d, a;", {"a": ("f32", xs)}, {"d": "f32"}, Double)["d"]
    assert [float(y) for y in got] == pytest.approx([formula(x) for x in xs], rel=1e-14)


def test_signs_of_reals_by_integer_instructions() -> None:
    x = F(1, 3)  # has no bits: only the sign tricks may touch it
    assert one("xor.b32 d, a, 0x80000000;", a=x) == -x
    assert one("and.b32 d, a, 0x7fffffff;", a=-x) == x
    assert one("or.b32 d, a, 0x80000000;", a=x) == -x
    assert one("lop3.b32 d, a, 0x80000000, 0, 0x3c;", a=x) == -x
    assert one("neg.f32 d, a;", a=x) == -x
    assert one("abs.f32 d, a;", a=-x) == x
    with pytest.raises(Unsupported, match="reinterpret"):
        one("and.b32 d, a, 0xfffff000;", a=x)
    with pytest.raises(Unsupported, match="reinterpret"):
        one("add.s32 d, a, 1;", "u32", a=x)


def test_reals_become_bits_only_if_exact() -> None:
    assert one("add.u32 d, a, 1;", "u32", a=1.5) == bits32(1.5) + 1
    assert one("add.u32 d, a, 0;", "u32", a=-INF) == 0xFF800000
    assert one("shl.b32 d, a, 1;", "u32", a=F(1, 2**149)) == 2
    with pytest.raises(Unsupported, match="reinterpret"):
        one("add.u32 d, a, 0;", "u32", a=2**200)


def test_copysign_and_testp() -> None:
    assert one("copysign.f32 d, a, b;", a=-2, b=7) == -7
    assert one("copysign.f32 d, a, b;", a=3, b=F(-1, 3)) == F(1, 3)
    assert one("copysign.f32 d, 0f80000000, a;", a=4) == -4
    with pytest.raises(Unsupported, match="sign-of-zero"):
        one("copysign.f32 d, a, b;", a=0, b=7)
    tests = {
        "finite": [1, 0, 0],
        "infinite": [0, 1, 0],
        "number": [1, 1, 0],
        "notanumber": [0, 0, 1],
    }
    for name, wanted in tests.items():
        code = f"testp.{name}.f32 p, a; selp.u32 d, 1, 0, p;"
        assert evaluate(code, {"a": ("f32", [2, INF, NAN])}, {"d": "u32"})["d"] == wanted


def test_undef_absorbs() -> None:
    for line in (
        "mul.f32 d, a, u;",
        "sub.f32 d, u, u;",
        "max.f32 d, a, u;",
        "xor.b32 d, u, u;",
        "neg.f32 d, u;",
        "fma.rn.f32 d, a, a, u;",
        "mul.lo.u32 d, u, 0;",
    ):
        assert one(".reg .f32 u; " + line, a=0) is UNDEF, line
    assert one(".reg .f32 u; and.b32 d, u, 0;", "u32", a=0) == 0
    assert one(".reg .f32 u; setp.lt.f32 p, a, 1.0; selp.f32 d, a, u, p;", a=0) == 0
    assert one(".reg .f32 u; setp.lt.f32 p, a, u; selp.f32 d, a, a, p;", a=0) is UNDEF
    code = ".reg .f32 u; setp.lt.f32 p, a, u; setp.lt.f32 q, a, 0f00000000; and.pred p, p, q;"
    assert one(code + "selp.u32 d, 1, 0, p;", "u32", a=0) == 0


def test_enclosures_hold_the_result() -> None:
    """exp2(x) / (2 exp2(x)) is 1/2, which no float64 interval need hit exactly."""
    code = (
        ".reg .f32 x; mul.f32 x, a, 0f3FB8AA3B; ex2.approx.f32 x, x; add.f32 e, x, x;"
        "div.rn.f32 e, x, e; setp.gt.f32 p, e, 0f3EFFFFFF; setp.lt.and.f32 p, e, 0f3F000001, p;"
        "selp.u32 d, 1, 0, p;"
    )
    out = evaluate(code, {"a": ("f32", [0.3, -70.0])}, {"e": "f32", "d": "u32"}, Enclosure)
    assert out["d"] == [1, 1]
