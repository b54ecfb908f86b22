from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kcheck.canon.ieee.convert import between, from_integer, to_integer
from kcheck.canon.ieee.formats import FORMATS, decode, encode, flush, is_nan
from tests.canon.ieee import model

FOREIGN: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
NARROW = ("f16", "bf16", "e4m3", "e5m2")


def every(fmt: str) -> Any:
    """All patterns of a format of 8 or 16 bits."""
    return np.arange(2 ** (8 * FORMATS[fmt].width)).astype(FORMATS[fmt].word)


@pytest.mark.parametrize("fmt", NARROW)
def test_every_pattern_is_the_number_that_others_say(fmt: str) -> None:
    bits = every(fmt)
    want = bits.view(FOREIGN[fmt]).astype(np.float64)
    np.testing.assert_array_equal(decode(bits, fmt), want)
    assert (np.signbit(decode(bits, fmt)) == np.signbit(want))[want == 0].all()
    for b in (0, 1, 5, FORMATS[fmt].one, FORMATS[fmt].infinity - 1):
        assert decode(bits, fmt)[b] == model.value(b, fmt)
    kept = ~is_nan(bits, fmt)
    assert (encode(decode(bits, fmt), fmt) == bits)[kept].all()
    assert (encode(decode(bits, fmt), fmt)[~kept] == FORMATS[fmt].nan).all()


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("source", NARROW)
def test_every_conversion_of_narrow_formats(source: str, target: str) -> None:
    bits = every(source)
    got = between(source, target, {"rnd": "rn"})(bits)
    want = bits.view(FOREIGN[source]).astype(np.float64).astype(FOREIGN[target])
    lost = np.isnan(want.astype(np.float64))
    assert (got == want.view(FORMATS[target].word))[~lost].all()
    assert (got[lost] & FORMATS[target].word(FORMATS[target].sign - 1) == FORMATS[target].nan).all()


def around(fmt: str) -> Any:
    """float32 numbers on, between and beside the numbers of a format, as patterns."""
    numbers = np.unique(decode(every(fmt), fmt))
    numbers = numbers[np.isfinite(numbers)]
    largest = numbers[-1]
    middles = (numbers[1:] + numbers[:-1]) / 2
    edge = np.array([largest + (largest - numbers[-2]) / 2, 2 * largest])
    points = np.concatenate([numbers, middles, edge, -edge]).astype(np.float32)
    sides = [np.nextafter(points, np.float32(s * np.inf)) for s in (-1, 1)]
    return np.concatenate([points, *sides]).view(np.uint32)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rna"])
def test_ties_and_neighbours_in_all_modes(fmt: str, mode: str) -> None:
    bits = around(fmt)
    if len(bits) > 3000:
        bits = np.random.default_rng(3).choice(bits, 3000)
    got = between("f32", fmt, {"rnd": mode})(bits)
    for b, g in zip(bits.tolist(), got.tolist(), strict=True):
        assert g == model.pattern(model.rounded(model.value(b, "f32"), fmt, mode), fmt), hex(b)


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_nearest_agrees_on_every_tie(fmt: str) -> None:
    bits = around(fmt)
    want = bits.view(np.float32).astype(FOREIGN[fmt]).view(np.uint16)
    assert (between("f32", fmt, {"rnd": "rn"})(bits) == want).all()


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_tf32(mode: str) -> None:
    bits = model.words(model.hard_patterns("f32", 500, 5), "f32")
    bits[::3] |= np.uint32(0x1000)  # ties
    bits[::3] &= np.uint32(0xFFFFF000)
    got = between("f32", "tf32", {"rnd": mode})(bits)
    for b, g in zip(bits.tolist(), got.tolist(), strict=True):
        assert g == model.pattern(model.rounded(model.value(b, "f32"), "tf32", mode), "tf32")
    assert (got[got != 0x7FFFFFFF] & 0x1FFF == 0).all()


def f32(*x: float) -> Any:
    return np.array(x, np.float32).view(np.uint32)


def test_satfinite_and_relu() -> None:
    given = f32(1e9, -1e9, np.inf, -np.inf, np.nan, 3, -3)
    for fmt, top, three in (
        ("f16", 0x7BFF, 0x4200),
        ("bf16", 0x4E6E, 0x4040),
        ("e4m3", 0x7E, 0x44),
    ):
        f = FORMATS[fmt]
        got = between("f32", fmt, {"rnd": "rn", "satfinite": "satfinite"})(given)
        inf = f.infinity - 1 if f.infinite else 0x7E
        want = [top, top | f.sign, inf, inf | f.sign, f.nan, three, three | f.sign]
        assert got.tolist() == want
    relu = between("f32", "f16", {"rnd": "rn", "relu": "relu", "satfinite": "satfinite"})(given)
    assert relu.tolist() == [0x7BFF, 0, 0x7BFF, 0, 0x7FFF, 0x4200, 0]


def test_sat_of_a_conversion() -> None:
    got = between("f32", "f16", {"rnd": "rn", "sat": "sat"})(f32(2, -1, np.nan, 0.5))
    assert got.tolist() == [0x3C00, 0, 0, 0x3800]


def test_ftz_of_a_conversion_touches_f32_only() -> None:
    slots = {"rnd": "rn", "ftz": "ftz"}
    tiny = np.array([0x80000001], np.uint32)
    assert int(between("f32", "f64", {"ftz": "ftz"})(tiny)[0]) == 1 << 63
    subnormal = f32(2.0**-20)  # of f16, not of f32
    assert int(between("f32", "f16", slots)(subnormal)[0]) == 0x10
    small = np.array([2.0**-130]).view(np.uint64)
    assert int(between("f64", "f32", slots)(small)[0]) == 0
    assert int(flush(tiny, "f32")[0]) == 0x80000000


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("rni", [2, 2, -2, 0, -0.0]),
        ("rzi", [1, 2, -1, 0, -0.0]),
        ("rmi", [1, 2, -2, 0, -1]),
        ("rpi", [2, 3, -1, 1, -0.0]),
    ],
)
def test_rounding_to_whole_numbers(mode: str, want: list[float]) -> None:
    got = between("f32", "f32", {"rnd": mode})(f32(1.5, 2.5, -1.5, 0.25, -0.25))
    assert got.tolist() == f32(*want).tolist()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s64", "u64", "s32", "u8"])
@pytest.mark.parametrize("target", ["f32", "f64", "f16", "bf16"])
def test_integers_are_rounded_once(source: str, target: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    width = int(source[1:]) // 8
    kind = np.dtype(f"{'i' if source[0] == 's' else 'u'}{width}")
    info = np.iinfo(kind)
    some = rng.integers(info.min, info.max, 100, kind) >> rng.integers(0, 8 * width, 100).astype(
        kind
    )
    near = [info.min, info.max, 0, 1]
    if width == 8:  # ties of f32 and f64 that only the last bit breaks
        near += [
            2**62 + 2**38,
            2**62 + 2**38 + 1,
            2**54 + 2,
            2**54 + 3,
            2**60 + 2**7 + 1,
            2**53 + 1,
        ]
    numbers = np.concatenate([some, np.array(near, kind)])
    got = from_integer(source, target, {"rnd": mode})(numbers.view(f"u{width}"))
    for n, g in zip(numbers.tolist(), got.tolist(), strict=True):
        assert g == model.pattern(model.rounded(Fraction(n), target, mode), target), n


@pytest.mark.parametrize("target", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_integers_clamp(target: str) -> None:
    bits, signed = int(target[1:]), target[0] == "s"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    given = [0.5, 1.5, -1.5, 3e38, -3e38, np.inf, -np.inf, float(2**63), 1e10, np.nan]
    got = to_integer("f32", target, bits // 8, {"rnd": "rni"})(f32(*given))
    numbers = got.view(np.dtype(f"{'i' if signed else 'u'}{bits // 8}")).tolist()
    for x, n in zip(given[:-1], numbers[:-1], strict=True):
        whole = round(float(np.float32(x))) if np.isfinite(x) else x
        assert n == (min(max(whole, low), high) if np.isfinite(x) else high if x > 0 else low)
    assert int(got[-1]) == (2**63 if bits == 64 else 0)


def test_negative_integers_fill_a_wider_register() -> None:
    got = to_integer("f32", "s8", 4, {"rnd": "rzi"})(f32(-3.7, 200))
    assert got.tolist() == [0xFFFFFFFD, 127]


def test_float64_to_integers_at_the_edge() -> None:
    top = np.array([2.0**63, np.nextafter(2.0**63, 0), -(2.0**63)]).view(np.uint64)
    got = to_integer("f64", "s64", 8, {"rnd": "rzi"})(top).view(np.int64)
    assert got.tolist() == [2**63 - 1, 2**63 - 1024, -(2**63)]
