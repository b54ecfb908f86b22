"""TileLang with caches of its own, and compiled kernels that several tests look at."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# read when tilelang is imported: before any test is collected
_FOLDER = tempfile.TemporaryDirectory(prefix="kcheck-tests-")
os.environ["TILELANG_CACHE_DIR"] = str(Path(_FOLDER.name, "tilelang"))
os.environ["KCHECK_CACHE_DIR"] = str(Path(_FOLDER.name, "kcheck"))
os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"

TARGET = {"kind": "cuda", "arch": "sm_80"}

# `make test` installs the extra; without it there is nothing to test here
if importlib.util.find_spec("tilelang") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def enabled() -> Iterator[Any]:
    """tilelang while it knows `validate`."""
    import tilelang

    from kcheck.passes.tilelang.plugin import disable, enable

    enable()
    yield tilelang
    disable()


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for verdicts that is empty."""
    monkeypatch.setenv("KCHECK_CACHE_DIR", str(tmp_path / "verdicts"))
    return tmp_path / "verdicts"
