from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.ieee.arithmetic import OPERATIONS, modified, rounded
from kcheck.canon.ieee.formats import FORMATS
from tests.canon.ieee import model

ARITY = {"fma": 3, "rcp": 1, "sqrt": 1}
MODES = ("rn", "rz", "rm", "rp")


def triples(fmt: str, n: int, seed: int) -> list[list[int]]:
    """Three lists of patterns, some of which make sums that cancel or nearly do."""
    a, b, c = (model.hard_patterns(fmt, n, 10 * seed + i) for i in range(3))
    sign = FORMATS[fmt].sign
    for i in range(0, n, 3):
        product = model.operate("mul", (a[i], b[i]), fmt, "rn")
        c[i] = product ^ sign ^ (i % 2)  # the negated product, or its neighbour
        if i % 9 == 0:
            a[i] = b[i] ^ sign
    return [a, b, c]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_is_rounded_once(op: str, fmt: str, mode: str) -> None:
    given = triples(fmt, 300, MODES.index(mode))[: ARITY.get(op, 2)]
    got = rounded(op, fmt, mode)(*[model.words(g, fmt) for g in given])
    for i, bits in enumerate(zip(*given, strict=True)):
        assert int(got[i]) == model.operate(op, bits, fmt, mode), [hex(b) for b in bits]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["f64", "f32", "f16", "bf16"]), st.sampled_from(MODES))
def test_fma_of_any_patterns(data: st.DataObject, fmt: str, mode: str) -> None:
    top = 2 ** (8 * FORMATS[fmt].width) - 1
    bits = [tuple(data.draw(st.integers(0, top)) for _ in range(3)) for _ in range(4)]
    got = rounded("fma", fmt, mode)(*[model.words(list(x), fmt) for x in zip(*bits, strict=True)])
    assert [int(g) for g in got] == [model.operate("fma", b, fmt, mode) for b in bits]


def f32(x: Any) -> Any:
    return np.asarray(x, np.float32).view(np.uint32)


def test_fma_is_not_a_sum_of_float64() -> None:
    # (1 + 2^-12)^2 + 2^-70: in float64 the sum is a tie of f32, which goes to even
    x = f32([1 + 2**-12])
    got = rounded("fma", "f32")(x, x, f32([2.0**-70]))
    naive = np.float32(np.float64(1 + 2**-12) ** 2 + 2.0**-70)
    assert got.view(np.float32)[0] == np.float32(1 + 2**-11) + np.float32(2**-23)
    assert naive != got.view(np.float32)[0]


def test_fma_of_float64_keeps_the_whole_product() -> None:
    x = np.array([1 + 2.0**-52]).view(np.uint64)
    minus = np.array([-(1 + 2.0**-51)]).view(np.uint64)
    assert rounded("fma", "f64")(x, x, minus).view(np.float64)[0] == 2.0**-104


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2), min_size=1, max_size=50))
def test_operations_agree_with_numpy(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(x, np.uint64) for x in zip(*pairs, strict=True))
    kinds = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
    with np.errstate(all="ignore"):
        for fmt, kind in kinds.items():
            word = FORMATS[fmt].word
            x, y = (w.view(word).view(kind) for w in (a, b))
            for op, ufunc in (("add", np.add), ("mul", np.multiply), ("div", np.divide)):
                want, got = ufunc(x, y), rounded(op, fmt)(x.view(word), y.view(word)).view(kind)
                np.testing.assert_array_equal(got, want)
                assert (np.signbit(got) == np.signbit(want))[want == 0].all()


TINY, NORMAL = 0x00000001, 0x00800000


def test_ftz_flushes_arguments_and_results_with_their_sign() -> None:
    plain, ftz = rounded("add", "f32"), modified(rounded("add", "f32"), "f32", {"ftz": "ftz"})
    half = model.words([NORMAL | 0x80000000], "f32")
    assert int(plain(half, model.words([NORMAL + 1], "f32"))[0]) == TINY
    assert int(ftz(half, model.words([NORMAL + 1], "f32"))[0]) == 0
    assert int(ftz(half | np.uint32(1), model.words([NORMAL], "f32"))[0]) == 0x80000000
    minus = model.words([TINY | 0x80000000], "f32")
    assert int(ftz(minus, minus)[0]) == 0x80000000
    assert int(ftz(minus, model.words([0x3F800000], "f32"))[0]) == 0x3F800000


def test_sat_and_relu() -> None:
    given = f32([0.5, 2, -1, np.inf, -np.inf, np.nan, -0.0, 1])
    one = f32([1.0])
    sat = modified(rounded("mul", "f32"), "f32", {"sat": "sat"})(given, one)
    assert sat.tolist() == f32([0.5, 1, 0, 1, 0, 0, 0, 1]).tolist()
    relu = modified(rounded("mul", "f32"), "f32", {"relu": "relu"})(given, one)
    want = f32([0.5, 2, 0, np.inf, 0, 0, 0, 1])
    want[5] = 0x7FFFFFFF
    assert relu.tolist() == want.tolist()


def test_a_nan_that_is_made_is_the_canonical_one() -> None:
    odd = model.words([0xFFC12345], "f32")
    one = f32([1.0])
    for op in OPERATIONS:
        got = rounded(op, "f32")(*[odd, one, one][: ARITY.get(op, 2)])
        assert int(got[0]) == 0x7FFFFFFF, op
