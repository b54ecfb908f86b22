"""The distinct ones of many small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# a table of so many bytes per element is faster than sorting
_SPARSE = 16


def distinct(numbers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers, rising, and for each element which it is, in the elements' shape.

    As `np.unique` has it, but without sorting where the numbers lie close together.
    """
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    span = high - low + 1
    if span > _SPARSE * numbers.size:
        used, index = np.unique(numbers, return_inverse=True)
        return used.astype(np.int64), index.reshape(numbers.shape)
    found = np.zeros(span, bool)
    places = numbers.astype(np.int64) - low
    found[places] = True
    return found.nonzero()[0] + low, (found.cumsum() - 1)[places]
