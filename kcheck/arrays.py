"""Arrays by name in a `.npz` file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write what `np.load` reads. Unlike `np.savez` any name is as good as another."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
