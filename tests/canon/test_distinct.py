"""Distinct numbers: as NumPy has them, whether they lie close together or far apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.distinct import distinct


@given(
    st.lists(st.integers(-3, 40) | st.integers(-(2**62), 2**62), max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_as_numpy_has_them(values: list[int], rows: bool, short: bool) -> None:
    if short:
        values = [v for v in values if abs(v) < 100]
    numbers = np.array(values, np.int32 if short else np.int64).reshape((1, -1) if rows else (-1,))
    used, index = distinct(numbers)
    assert used.tolist() == sorted(set(values))
    assert index.shape == numbers.shape
    assert (used[index] == numbers).all()
