"""No false proof in pools of values that share what they are made of, guards and ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.term.dag import BudgetSpent
from kcheck.canon.term.normalize import Normalizer, Unprovable
from tests.canon.term.pools import Made, Pool

SEEDS = st.integers(0, 2**32)
# pairs of values that are compared besides neighbours
PAIRS = 30


def form(how: Normalizer, made: Made) -> int | None:
    try:
        return int(how.normalize(made.value.n)[0])
    except (BudgetSpent, Unprovable):
        return None


def assert_sound(seed: int, steps: int) -> None:
    """Values of one normal form, and those that are proved equal, are equal in float64."""
    pool = Pool(seed, steps)
    domain = pool.domain
    for how in tuple(domain.equality.ways):
        alike: dict[int, list[Made]] = {}
        for made in pool.made:
            key = form(how, made)
            if key is not None:
                for other in alike.setdefault(key, []):
                    assert not made.differs(other), f"{made.expr} = {other.expr}"
                alike[key].append(made)
    pairs = [(a, b) for i, a in enumerate(pool.made) for b in pool.made[max(i - 3, 0) : i]]
    for _ in range(PAIRS):
        a = pool.pick()
        b = pool.changed(a) if pool.rng.random() < 0.5 else pool.pick()
        if pool.rng.random() < 0.3:
            op, other = pool.rng.choice(("mul", "add", "sub")), pool.pick()
            a, b = pool.call(op, a, other), pool.call(op, b, other)
        pairs.append((a, b))
    for a, b in pairs:
        if a.differs(b):
            assert not domain.equal(a.value, b.value).any(), f"{a.expr} = {b.expr}"


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_pools(seed: int) -> None:
    assert_sound(seed, 20)


@pytest.mark.nightly
@settings(max_examples=3000, deadline=None)
@given(SEEDS)
def test_many_pools(seed: int) -> None:
    assert_sound(seed, 40)


def test_pools_tell_values_apart() -> None:
    """They hold values that differ at ties only, and guarded quotients that count everywhere."""
    pools = [Pool(seed, 20) for seed in range(40)]
    near = guarded = 0
    for pool in pools:
        for made in pool.made:
            parts = made.expr.args
            guarded += bool(
                made.expr.op == "select" and "div" in str(parts[1:]) and made.counts.all()
            )
            changed = pool.changed(made)
            apart = np.flatnonzero(made.counts & changed.counts & (made.at != changed.at))
            near += int(0 < apart.size < 60)
    assert near > 50
    assert guarded > 20
