from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NaN and infinities are results here, as they are to the executor."""
    with np.errstate(all="ignore"):
        yield
