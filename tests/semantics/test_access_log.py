"""The packed log gives back what was put in."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.semantics.access_log import Log
from kcheck.semantics.accesses import Access
from kcheck.semantics.shadow import READ, WRITE, Shadow
from kcheck.semantics.values import Array

THREADS = 32
EPOCH, OWN, LAST = np.zeros(4, np.int64), np.ones(4 * THREADS, np.int32), np.zeros(4 * THREADS)
SHADOW = Shadow(1 << 20, grid=True)
REGION = cast(Any, None)


def access(row: Array, lanes: Array, k: int = 1, kind: int = READ, at: int = 3) -> Access:
    cells = row + np.arange(k)[:, None]
    return Access(at, SHADOW, REGION, cells, lanes, kind, 0, EPOCH, OWN, LAST)


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """CTAs and lanes in one pattern, or in none."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    lanes = np.arange(4 * THREADS)
    row = 3 * (lanes % THREADS) + draw(st.sampled_from([0, 64, 40000])) * (lanes // THREADS)
    row = row + draw(st.sampled_from([0, 1, 1 << 19]))
    if draw(st.booleans()):
        row = rng.integers(0, 1 << 20, len(lanes))
    if draw(st.booleans()):
        here = rng.random(THREADS) < 0.5
        here[0] = True
        mask = np.tile(here, 4) if draw(st.booleans()) else rng.random(len(lanes)) < 0.5
        mask[0] = True
        row, lanes = row[mask], lanes[mask]
    return access(row, lanes, draw(st.sampled_from([1, 4])), draw(st.sampled_from([READ, WRITE])))


@settings(deadline=None)
@given(st.lists(accesses(), min_size=1, max_size=6), st.integers(0, 1 << 20))
def test_accesses_come_back(made: list[Access], low: int) -> None:
    log = Log(4, THREADS, whole=True)
    for one in made:
        log.add(one)
    assert len(log) == len(made)
    for one, packed in zip(made, log.entries, strict=True):
        back = packed.unpack()
        assert (back.cells == one.cells).all()
        assert (back.lanes == one.lanes).all()
        assert (back.kind, back.at) == (one.kind, one.at)
        meets = bool(((one.cells >= low) & (one.cells <= low + 9)).any())
        assert packed.near(low, low + 9) or not meets
        assert packed.near(int(one.cells.min()), int(one.cells.min()))
        assert not packed.near(int(one.cells.max()) + 1, 1 << 30)


def test_the_same_again_is_not_kept() -> None:
    lanes = np.arange(4 * THREADS)
    log = Log(4, THREADS)
    for step in (0, 0, 5, 0, 5):
        log.add(access(lanes + step, lanes))
    assert len(log) == 2
    log.add(access(lanes, lanes, kind=WRITE))
    log.add(access(lanes[::2], lanes[::2]))
    assert len(log) == 4
    log.add(access(lanes, lanes, at=4))
    assert [e.at for e in log.against(access(lanes, lanes), READ, lanes)] == [4, 3, 3, 3]
    assert len(list(log.against(access(lanes, lanes), WRITE, lanes))) == 1


def test_patterns_are_shared() -> None:
    """An unrolled loop over a tile costs little more than one of its instructions."""
    lanes = np.arange(4 * THREADS)
    log = Log(4, THREADS)
    for i in range(64):
        log.add(access(4096 * (lanes // THREADS) + lanes % THREADS + 32 * i, lanes, at=i))
    kept = {id(p): p.offsets.nbytes for e in log.entries for p in (e.ctas, e.cells, e.lanes)}
    assert len(log) == 64
    assert sum(kept.values()) < 200
