"""Inputs whose residues are not kept: the same symbols."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.canon import field
from kcheck.canon.field import FieldDomain
from kcheck.canon.residues import FieldInput


def test_an_input_that_is_not_kept_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = FieldDomain(3, 4, 2).input("A", 500)
    monkeypatch.setattr(field, "KEPT", 100)
    read = FieldDomain(3, 4, 2).input("A", 500)
    assert isinstance(read, FieldInput)
    assert not isinstance(kept, FieldInput)
    assert (read.depth, read.shape) == (2, (500,))
    assert np.array_equal(read.r, kept.r)
    assert np.array_equal(read.reshape((5, 100)).r, kept.reshape((5, 100)).r)
    even = np.arange(500) % 2 == 0
    for index in (np.array([[3, 7], [499, 0]]), slice(3, 9), even):
        assert np.array_equal(read[index].r, kept[index].r)
