"""What a `.npy` file holds, as a value that its text says all of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Contents:
    """The numbers of an array, flat and row-major. `path`: for errors."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[Any, ...]


def contents(path: str) -> Contents:
    """Read a `.npy` file. OSError, ValueError or EOFError where it is none."""
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("an archive")
    return Contents(path, array.dtype.name, array.shape, tuple(array.reshape(-1).tolist()))
