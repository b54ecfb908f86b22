from __future__ import annotations

from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from kcheck.canon.domain import NoRule
from kcheck.canon.ieee.approximate import BOUNDS, Choice, approximate
from kcheck.canon.ieee.engine import Ieee
from kcheck.canon.ieee.formats import FORMATS, decode

mpmath.mp.prec = 200
TRUE: dict[str, Any] = {
    "rcp": lambda x: 1 / x,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "div.approx": lambda x, y: x / y,
    "div.full": lambda x, y: x / y,
    "ex2": lambda x: mpmath.mpf(2) ** x,
    "lg2": lambda x: mpmath.log(x, 2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
}
# the documented errors once more: relative, absolute, ulps
ERRORS: dict[tuple[str, str], tuple[str, float]] = {
    ("rcp", "f32"): ("ulp", 1),
    ("sqrt", "f32"): ("rel", 2**-23),
    ("rsqrt", "f32"): ("rel", 2**-22.9),
    ("div.approx", "f32"): ("ulp", 2),
    ("div.full", "f32"): ("ulp", 2),
    ("ex2", "f32"): ("ulp", 2),
    ("lg2", "f32"): ("rel", 2**-22),
    ("sin", "f32"): ("abs", 2**-20.5),
    ("cos", "f32"): ("abs", 2**-20.5),
    ("tanh", "f32"): ("rel", 2**-11),
    ("ex2", "f16"): ("rel", 2**-9.9),
    ("tanh", "f16"): ("abs", 2**-10.987),
    ("ex2", "bf16"): ("rel", 2**-7),
    ("tanh", "bf16"): ("abs", 2**-8),
}
CHOICES = [Choice(), Choice(1.0), Choice(-1.0), Choice(0.5), Choice(seed=7)]


def given(op: str, fmt: str, n: int) -> list[Any]:
    rng = np.random.default_rng(len(op))
    engine = Ieee({})
    if op in ("sqrt", "rsqrt", "rcp") or op.startswith("div"):
        size = np.exp2(rng.uniform(-60, 60, (2, n)))
        size = size if op in ("sqrt", "rsqrt") else size * rng.choice([-1, 1], (2, n))
    elif op == "lg2":
        size = np.exp2(rng.uniform(2, 60, (2, n)))  # where the bound is relative
    else:
        top = 13 if fmt == "f16" else 6
        size = rng.uniform(-top, top, (2, n))
    return [engine.patterns(s, fmt) for s in size[: 1 + op.startswith("div")]]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize(("op", "fmt"), BOUNDS)
def test_results_stay_within_the_documented_error(op: str, fmt: str, choice: Choice) -> None:
    words = given(op, fmt, 200)
    got = decode(approximate(op, fmt, False, choice)(*words), fmt)
    f = FORMATS[fmt]
    kind, size = ERRORS[op, fmt]
    largest = 0.0
    for i, g in enumerate(got.tolist()):
        true = TRUE[op](*[mpmath.mpf(decode(w, fmt)[i]) for w in words])
        exponent = mpmath.floor(mpmath.log(abs(true), 2))
        ulp = mpmath.mpf(2) ** (max(exponent, f.emin) - f.fbits)
        bound = size * {"ulp": ulp, "rel": abs(true), "abs": 1}[kind]
        error = abs(g - true)
        assert error <= bound or error <= ulp / 2, (op, g)
        largest = max(largest, float(error / bound))
        if choice == Choice():
            assert error <= ulp / 2  # the nearest number
    if choice.part in (1.0, -1.0) and kind != "ulp" and size > 2.0**-20:
        assert largest > 0.5  # the error is really made


def test_choices_differ_and_are_reproducible() -> None:
    words = given("ex2", "f32", 300)
    runs = [approximate("ex2", "f32", False, c)(*words) for c in (*CHOICES, Choice(seed=7))]
    assert (runs[4] == runs[5]).all()
    assert (runs[1] != runs[2]).all()
    spread = runs[4].astype(np.int64) - runs[0].astype(np.int64)
    assert spread.min() < 0 < spread.max()
    # one argument has one result, wherever it stands
    one = approximate("ex2", "f32", False, CHOICES[4])(words[0][17:18])
    assert int(one[0]) == int(runs[4][17])


INF, NAN = float("inf"), float("nan")
SPECIAL: dict[str, list[tuple[list[float], float]]] = {
    "rcp": [([INF], 0.0), ([-INF], -0.0), ([0.0], INF), ([-0.0], -INF), ([NAN], NAN)],
    "sqrt": [([-INF], NAN), ([-1.0], NAN), ([-0.0], -0.0), ([0.0], 0.0), ([INF], INF)],
    "rsqrt": [([-INF], NAN), ([-1.0], NAN), ([-0.0], -INF), ([0.0], INF), ([INF], 0.0)],
    "ex2": [([-INF], 0.0), ([-0.0], 1.0), ([0.0], 1.0), ([INF], INF), ([200.0], INF)],
    "lg2": [
        ([-INF], NAN),
        ([-1.0], NAN),
        ([-0.0], -INF),
        ([0.0], -INF),
        ([INF], INF),
        ([1.0], 0.0),
    ],
    "sin": [([-INF], NAN), ([-0.0], -0.0), ([0.0], 0.0), ([INF], NAN)],
    "cos": [([-INF], NAN), ([-0.0], 1.0), ([0.0], 1.0), ([INF], NAN)],
    "tanh": [([-INF], -1.0), ([-0.0], -0.0), ([0.0], 0.0), ([INF], 1.0), ([NAN], NAN)],
    "div.approx": [
        ([1.0, 2.0**127], 0.0),
        ([INF, 2.0**127], NAN),
        ([1.0, 0.0], INF),
        ([1.0, INF], 0.0),
        ([0.0, 0.0], NAN),
    ],
    "div.full": [([2.0**120, 2.0**127], 2.0**-7), ([1.0, -0.0], -INF)],
}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("op", SPECIAL)
def test_special_values_are_those_of_the_tables(op: str, choice: Choice) -> None:
    for arguments, want in SPECIAL[op]:
        words = [np.array([x], np.float32).view(np.uint32) for x in arguments]
        got = approximate(op, "f32", False, choice)(*words)
        if np.isnan(want):
            assert int(got[0]) == 0x7FFFFFFF
        elif op in ("tanh", "div.full") and np.isfinite(want) and want:
            assert abs(got.view(np.float32)[0] - want) <= abs(want) * 2.0**-11
        else:
            assert got.tolist() == np.array([want], np.float32).view(np.uint32).tolist(), arguments


def test_subnormals_and_ftz() -> None:
    x = np.array([-130.0], np.float32).view(np.uint32)
    assert int(approximate("ex2", "f32", False, Choice())(x)[0]) == 1 << 19
    assert int(approximate("ex2", "f32", True, Choice())(x)[0]) == 0
    tiny = np.array([0x80000001], np.uint32)
    assert int(approximate("rcp", "f32", True, Choice())(tiny)[0]) == 0xFF800000
    assert int(approximate("lg2", "f32", True, Choice())(tiny)[0]) == 0xFF800000
    assert int(approximate("lg2", "f32", False, Choice())(tiny)[0]) == 0x7FFFFFFF


def test_what_has_no_documented_bound_is_refused() -> None:
    with pytest.raises(NoRule, match="rcp in f64"):
        Ieee({}).operation("rcp", "f64", {"ftz": "ftz"})
