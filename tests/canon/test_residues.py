from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.field import FieldDomain


def test_memory_is_zero_at_first() -> None:
    d = FieldDomain(1, trials=2, levels=2)
    cells = d.store(5).read(np.arange(5))
    assert d.decide(cells).tolist() == [0] * 5
    assert cells.depth == 2


def test_write_then_read() -> None:
    d = FieldDomain(1, trials=2, levels=2)
    x, store = d.input("x", 6), d.store(20)
    index = np.array([[3, 4, 5], [10, 9, 8]])
    store.write(index, x.reshape((2, 3)))
    assert d.equal(store.read(index), x.reshape((2, 3))).all()
    assert d.equal(store.read(np.array([9, 3])), x[np.array([4, 0])]).all()
    store.write(index, d.constants([Fraction(7)], np.zeros(1, np.int64)))
    assert d.equal(store.read(index), d.constants([Fraction(7)], np.zeros(1, np.int64))).all()


def test_each_cell_keeps_its_depth() -> None:
    d = FieldDomain(1, trials=2, levels=3)
    x, store = d.input("x", 4), d.store(8)
    whole, once = np.arange(4), np.arange(4, 8)
    store.write(whole, x)
    store.write(once, d.exp2(x))
    assert store.read(whole).depth == 3
    assert store.read(once).depth == 2
    assert store.read(np.array([0, 7])).depth == 2
    assert d.equal(store.read(once), d.exp2(x)).all()
    store.write(once, x)
    assert store.read(np.array([0, 7])).depth == 3
    store.add(np.array([1, 1]), d.exp2(x)[:2])
    assert store.read(whole).depth == 2
    assert store.read(np.array([0, 2])).depth == 3
    store.add(np.array([1]), x[:1])
    assert store.read(np.array([1])).depth == 2


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_add_sums_duplicates(cells: list[int]) -> None:
    d = FieldDomain(4, trials=2, levels=2)
    index = np.array(cells)
    x, old, store = d.input("x", len(cells)), d.input("old", 6), d.store(6)
    store.write(np.arange(6), old)
    store.add(index, x)
    for cell in range(6):
        expected = old[cell : cell + 1]
        for lane in np.flatnonzero(index == cell):
            expected = d.add(expected, x[lane : lane + 1])
        assert d.equal(store.read(np.array([cell])), expected).all()


def test_add_of_one_value_to_many_cells() -> None:
    d = FieldDomain(4, trials=2)
    store = d.store(3)
    store.add(np.zeros((50, 40), np.int64), d.input("x", 1))
    count = d.constants([Fraction(2000)], np.zeros(1, np.int64))
    assert d.equal(store.read(np.zeros(1, np.int64)), d.mul(count, d.input("x", 1))).all()
