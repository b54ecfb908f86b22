"""The installed tilelang, imported when it is first needed."""

from __future__ import annotations

import os
import warnings
from functools import cache
from typing import Any

from kcheck.verdict import UsageError

# releases that the tests ran with
TRIED = ("0.1.15",)


@cache
def tilelang() -> Any:
    """The package. UsageError (one line, with the mend) where it can't be imported.

    Warns once where it is a release that was not tried.
    """
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    try:
        import tilelang as package
    except ImportError as error:
        raise UsageError(
            f"tilelang can't be imported ({error}): pip install 'kcheck[tilelang]'"
        ) from error
    version = str(package.__version__).partition("+")[0]
    if version not in TRIED:
        warnings.warn(
            f"kcheck was tried with tilelang {', '.join(TRIED)}; this is {version}: "
            "names of passes and hooks may have changed",
            stacklevel=2,
        )
    return package


def tvm() -> Any:
    """The TVM that tilelang brings."""
    return tilelang().tvm
