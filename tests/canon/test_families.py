"""Families of inputs: numbers that every format holds, and numbers beside given ones."""

from __future__ import annotations

import numpy as np

from kcheck.canon.families import ASIDE, beside, draws
from kcheck.canon.ieee.engine import Ieee, values


def test_every_format_holds_them() -> None:
    plain = Ieee({})
    for seed in range(5):
        for name, inputs in draws({"x": 40, "y": 3}, seed, wide=["y"]):
            for x in inputs.values():
                assert np.array_equal(values(plain.patterns(x, "bf16"), "bf16"), x)
            assert np.array_equal(values(plain.patterns(inputs["x"], "f16"), "f16"), inputs["x"])
            assert np.abs(inputs["x"]).max() < 65504, name


def test_half_integers() -> None:
    """Any four in a row round differently to even, away from 0, and up."""
    for seed in range(12):
        drawn = dict(draws({"x": 16}, seed))["half-integers"]["x"]
        assert np.array_equal(drawn * 2 % 2, np.ones(16))
        for i in range(13):
            x = drawn[i : i + 4]
            away = np.copysign(np.floor(np.abs(x) + 0.5), x)
            assert (np.rint(x) != away).any()
            assert (np.rint(x) != np.floor(x + 0.5)).any()


def test_beside() -> None:
    near = beside([0.123, 448.0, 1e308, np.inf, -np.inf, np.nan])
    assert np.isfinite(near).all()
    assert (np.diff(near) > 0).all()
    for x in (0.123, 448.0):
        assert {x, *(x * (1 + s * a) for a in ASIDE for s in (1, -1))} <= set(near.tolist())
    assert ((near > 0.123) & (near < 0.1231)).sum() >= 1
    assert {0.0, 1.0, -1.0, 0.5, 1.5, -2.5, (2.5 + 448) / 2} <= set(near.tolist())
