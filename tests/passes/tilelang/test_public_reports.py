"""Defects that people reported of TileLang, made again: the verdict on each.

The installed release has mended some. There the program is proved, and the pass that was wrong is
put in by hand (breaking.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.passes.validation import Outcome
from tests.passes.tilelang import kernels
from tests.passes.tilelang.breaking import added_pass
from tests.passes.tilelang.support import outcome_of


def broken(
    program: Any, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, reference: Any = None
) -> Outcome:
    with added_pass(monkeypatch, name):
        outcome = outcome_of(program, folder, {"reference": reference})
    assert outcome.verdict.verdict == "refuted"
    assert outcome.rung == f"test.{name}"
    return outcome


def against(program: Any, function: Callable[..., Any], folder: Path) -> tuple[str, str | None]:
    verdict = outcome_of(program, folder, {"reference": function}).verdict
    return verdict.verdict, verdict.reason or verdict.method


def reversed_sums(X: Any) -> Any:  # noqa: N803
    return X[:, ::-1].sum(axis=0)


def test_a_barrier_dropped_under_a_branch_in_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = kernels.divided()
    assert against(program, reversed_sums, tmp_path) == ("proved", "exact")
    outcome = broken(program, "lost_barrier", tmp_path, monkeypatch, reversed_sums)
    assert outcome.verdict.reason == "race.read-write"
    assert "no barrier between" in outcome.headline


def test_a_number_of_threads_that_is_no_multiple_of_a_warp(tmp_path: Path) -> None:
    """Shuffles of all 32 lanes in a warp of 16."""

    def total(X: Any) -> Any:  # noqa: N803
        return X.sum() * np.ones(1)

    assert against(kernels.warp_sums(64), total, tmp_path) == ("proved", "exact")
    assert against(kernels.warp_sums(48), total, tmp_path) == ("refuted", "undefined.output")


def test_a_pipelined_copy_with_one_buffer_too_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = kernels.gemm(64, 64, 128, stages=3)
    outcome = broken(program, "too_few_buffers", tmp_path, monkeypatch)
    assert (outcome.verdict.reason or "").startswith("race.")
    assert "asynchronous copy" in outcome.headline


def test_an_all_reduce_over_a_width_that_is_no_power_of_two(tmp_path: Path) -> None:
    """TileLang itself refuses such a width now; a butterfly by hand shows what came of it."""

    def total(width: int) -> Callable[[Any], Any]:
        return lambda X: X[:width].sum() * np.ones(32)  # noqa: N803

    assert against(kernels.all_reduce(32), total(32), tmp_path) == ("proved", "exact")
    assert against(kernels.all_reduce(24), total(24), tmp_path) == ("refuted", "value.mismatch")
    with pytest.raises(Exception, match=r"power of two|no available layout"):
        outcome_of(kernels.row_sum(threads=96), tmp_path)


def test_shared_memory_used_again_without_a_barrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second buffer has the place of the first: two barriers do where each needs one."""
    program = kernels.twice_reversed()
    assert against(program, lambda X: 2 * X, tmp_path) == ("proved", "exact")  # noqa: N803
    outcome = broken(program, "lost_barrier", tmp_path, monkeypatch)
    assert outcome.verdict.reason == "race.read-write"
    assert "no barrier between" in outcome.headline


def test_an_index_that_is_simplified_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = broken(kernels.gemm(64, 64, 64), "wrong_simplification", tmp_path, monkeypatch)
    assert outcome.verdict.reason == "bounds.global"
    assert "of C, which has 16384 bytes" in outcome.headline
