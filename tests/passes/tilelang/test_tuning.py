"""Autotuning: each configuration is validated; a wrong one is dropped, named, and never wins."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

import pytest

from kcheck.passes.tilelang.tuning import refused
from kcheck.passes.validation import Validate, ValidationError
from tests.passes.tilelang import kernels
from tests.passes.tilelang.support import COMPILE

WRONG = {"bk": 32, "stages": 1, "pass_configs": {"tl.disable_thread_storage_sync": True}}
CONFIGS = [
    {"bk": bk, "stages": stages, "threads": threads}
    for bk in (16, 32)
    for stages in (0, 1, 2)
    for threads in (64, 128)
]


@pytest.fixture
def latencies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The kernels that were timed: there is no GPU, and the last one is always the fastest."""
    monkeypatch.chdir(tmp_path)  # for autotuner.log
    tuner = importlib.import_module("tilelang.autotuner.tuner").AutoTuner
    timed: list[Any] = []

    def benchmark(self: Any, jit_kernel: Any, *args: Any, **kwargs: Any) -> tuple[float, None]:
        timed.append(jit_kernel)
        return 1.0 / len(timed), None

    monkeypatch.setattr(tuner, "_benchmark_target", benchmark)
    return timed


def tuned(package: Any, configs: list[dict[str, Any]], **options: Any) -> Any:
    def make(bk: int = 32, stages: int = 0, threads: int = 128) -> Any:
        return kernels.gemm(64, 64, 64, block=(64, 64, bk), stages=stages, threads=threads)

    jitted = package.jit(make, **COMPILE, **options)
    return package.autotune(configs=configs)(jitted)


def test_a_wrong_configuration_never_wins(
    enabled: Any, latencies: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    function = tuned(enabled, [*CONFIGS, WRONG], validate=Validate(report=tmp_path / "reports"))
    with caplog.at_level(logging.WARNING, "kcheck"):
        kernel = function()
    assert kernel is latencies[-1]
    assert len(latencies) == len(CONFIGS) == 12
    dropped = refused(function)
    assert len(dropped) == 1
    config, error = dropped[0]
    assert (config["bk"], config["stages"]) == (32, 1)
    assert error.rung == "tl.disable_thread_storage_sync"
    assert (error.verdict.reason or "").startswith("race.")
    said = [r.getMessage() for r in caplog.records if "is dropped" in r.getMessage()]
    assert len(said) == 1
    assert "tl.disable_thread_storage_sync: race." in said[0]


def test_what_the_tuner_kept_is_validated_too(
    enabled: Any, latencies: list[Any], tmp_path: Path
) -> None:
    """A wrong result from the tuner's cache is refused, not given out."""
    function = tuned(enabled, [WRONG])
    assert function() is latencies[0]  # nobody asked
    again = tuned(enabled, [WRONG], validate=Validate(report=tmp_path / "reports"))
    with pytest.raises(ValidationError, match=r"disable_thread_storage_sync: race\."):
        again()
    assert len(latencies) == 1  # it was not tuned again
