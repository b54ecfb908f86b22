from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kcheck.canon.ieee.arithmetic import modified
from kcheck.canon.ieee.engine import Ieee
from kcheck.canon.ieee.formats import FORMATS
from kcheck.canon.ieee.order import classified, comparison, extremum, xorsign
from tests.canon.ieee import model

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def f32(*x: float) -> Any:
    return np.array(x, np.float32).view(np.uint32)


def place(x: model.Number) -> Any:
    return {"inf": 10**400, "-inf": -(10**400), "-0": 0}[x] if isinstance(x, str) else x


@pytest.mark.parametrize("fmt", ["f64", "f32", "f16", "bf16"])
def test_comparisons_of_hard_patterns(fmt: str) -> None:
    a, b = (model.hard_patterns(fmt, 400, i) for i in (1, 2))
    b[::4] = a[::4]
    for cmp in [*COMPARE, *(c + "u" for c in COMPARE), "num", "nan"]:
        got = comparison(cmp, fmt, False)(model.words(a, fmt), model.words(b, fmt))
        for x, y, g in zip(a, b, got.tolist(), strict=True):
            p, q = model.value(x, fmt), model.value(y, fmt)
            if "nan" in (p, q):
                want = cmp == "nan" or (cmp != "num" and cmp.endswith("u"))
            elif cmp in ("num", "nan"):
                want = cmp == "num"
            else:
                want = COMPARE[cmp[:2]](place(p), place(q))
            assert g == want, (cmp, hex(x), hex(y))


@pytest.mark.parametrize("fmt", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("nan", [False, True])
def test_min_and_max(fmt: str, nan: bool) -> None:
    a, b = (model.hard_patterns(fmt, 400, i) for i in (3, 4))
    for op, sign in (("max", 1), ("min", -1)):
        got = extremum(op, fmt, nan)(model.words(a, fmt), model.words(b, fmt))
        for x, y, g in zip(a, b, got.tolist(), strict=True):
            p, q = model.value(x, fmt), model.value(y, fmt)
            if "nan" in (p, q):
                both = p == q or nan
                want = FORMATS[fmt].nan if both else y if p == "nan" else x
            else:
                minus = Fraction(-1, 10**400)  # -0 < +0
                keys = [sign * (minus if n == "-0" else place(n)) for n in (p, q)]
                want = x if keys[0] >= keys[1] else y
            assert g == want, (op, hex(x), hex(y))


def test_max_drops_nan_and_max_nan_keeps_it() -> None:
    nan = np.array([0xFFC12345], np.uint32)
    assert int(extremum("max", "f32", False)(nan, f32(2))[0]) == int(f32(2)[0])
    assert int(extremum("max", "f32", True)(f32(2), nan)[0]) == 0x7FFFFFFF
    ftz = modified(extremum("max", "f32", False), "f32", {"ftz": "ftz"})
    tiny = np.array([1], np.uint32)
    assert int(ftz(tiny, f32(-0.0))[0]) == 0


def test_ftz_of_a_comparison() -> None:
    tiny, zero = np.array([1], np.uint32), f32(0)
    assert comparison("gt", "f32", False)(tiny, zero).all()
    assert not comparison("gt", "f32", True)(tiny, zero).any()


def test_signs() -> None:
    engine = Ieee({})
    given = f32(1.5, -2, np.inf, -0.0)
    assert engine.operation("neg", "f32", {})(given).tolist() == f32(-1.5, 2, -np.inf, 0).tolist()
    assert engine.operation("abs", "f32", {})(given).tolist() == f32(1.5, 2, np.inf, 0).tolist()
    assert (
        int(engine.operation("neg", "f32", {"ftz": "ftz"})(np.array([1], np.uint32))[0]) == 1 << 31
    )
    signed = engine.operation("copysign", "f32", {})(f32(-1, 1, -0.0, 0), given)
    assert signed.tolist() == f32(-1.5, 2, -np.inf, 0).tolist()
    got = xorsign("min", "f32", False)(f32(-3, 3, -3), f32(2, -5, -4))
    assert got.tolist() == f32(-2, -3, 3).tolist()
    assert int(xorsign("max", "f32", True)(f32(-np.nan), f32(1))[0]) == 0x7FFFFFFF


def test_classes() -> None:
    given = f32(0, 1, 2.0**-149, np.inf, np.nan)
    want = {
        "finite": [1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1],
        "normal": [1, 1, 0, 0, 0],
        "subnormal": [0, 0, 1, 0, 0],
    }
    for test, answers in want.items():
        assert classified(test, "f32", given).tolist() == [bool(a) for a in answers], test
