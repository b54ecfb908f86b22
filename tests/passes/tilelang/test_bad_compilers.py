"""Compilers that are known to be wrong: the rung, the reason and the place are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.passes.tilelang.installed import tilelang
from kcheck.passes.validation import Outcome, Validate, ValidationError
from tests.passes.tilelang import kernels
from tests.passes.tilelang.breaking import added_pass, left_out
from tests.passes.tilelang.support import COMPILE, outcome_of


def refuted(outcome: Outcome, rung: str, reason: str) -> None:
    assert outcome.verdict.verdict == "refuted"
    assert outcome.rung == rung
    assert outcome.verdict.reason == reason
    assert outcome.verdict.findings[0].side == "subject"
    assert outcome.headline.startswith(f"{outcome.kernel}: {rung}: {reason}: ")


def line_of(text: str) -> str:
    """`kernels.py:N`: the first line of the programs that has a text."""
    lines = Path(kernels.__file__).read_text(encoding="utf-8").splitlines()
    return f"kernels.py:{next(i for i, line in enumerate(lines, 1) if text in line)}"


@pytest.mark.parametrize("name", ["wrong_index", "wrong_sign"])
def test_a_pass_that_changes_a_value(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with added_pass(monkeypatch, name):
        outcome = outcome_of(kernels.add(), tmp_path)
    refuted(outcome, f"test.{name}", "value.mismatch")
    assert line_of("Z[bx * block + i] =") in outcome.headline
    witness = outcome.verdict.witness
    assert witness is not None
    assert witness.buffer == "Z"
    assert witness.gap > 0


def test_a_pass_that_changes_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with added_pass(monkeypatch, "wrong_stage"):
        outcome = outcome_of(kernels.gemm(64, 64, 128, stages=3), tmp_path)
    refuted(outcome, "test.wrong_stage", "race.async")
    assert line_of("T.copy(A[by * bm, ko * bk], As)") in outcome.headline


def test_barriers_switched_off(tmp_path: Path) -> None:
    config = "tl.disable_thread_storage_sync"
    outcome = outcome_of(kernels.gemm(64, 64, 64, stages=0), tmp_path, pass_configs={config: True})
    refuted(outcome, config, "race.read-write")
    assert line_of("T.copy(B[ko * bk, bx * bn], Bs)") in outcome.headline
    assert "no barrier between" in outcome.headline


def test_bounds_switched_off(tmp_path: Path) -> None:
    config = "tl.disable_safe_memory_legalize"
    outcome = outcome_of(kernels.add(), tmp_path, pass_configs={config: True})
    refuted(outcome, config, "bounds.global")
    assert "X, which has 4000 bytes" in outcome.headline
    assert line_of("Z[bx * block + i] =") in outcome.headline


def test_a_pass_that_is_left_out(tmp_path: Path, enabled: object) -> None:
    """By a tool that is registered with tilelang; without `validate` nobody notices."""
    package = tilelang()
    func = kernels.gemm(64, 64, 96, stages=0)
    with left_out("tl.ThreadSync"):
        assert package.compile(func, **COMPILE) is not None
        with pytest.raises(ValidationError, match=r"tl\.ThreadSync skipped: race") as error:
            package.compile(func, **COMPILE, validate=Validate(report=tmp_path))
    found = error.value
    assert found.rung == "tl.ThreadSync skipped"
    assert found.verdict.reason == "race.read-write"
    assert found.folder is not None
    files = {path.name for path in found.folder.iterdir()}
    wanted = {f"{side}{end}" for side in ("reference", "subject")
              for end in (".ptx", ".cu", ".launch.yaml")}  # fmt: skip
    assert wanted | {"report.txt", "report.json"} <= files
    text = (found.folder / "report.txt").read_text(encoding="utf-8")
    assert text.strip() == found.report()
    assert "subject.ptx:" in text
    assert str(found.folder) in str(found)


def test_every_rung_stops_at_the_wrong_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with added_pass(monkeypatch, "wrong_sign"):
        outcome = outcome_of(kernels.add(), tmp_path, {"every_rung": True})
    refuted(outcome, "test.wrong_sign", "value.mismatch")
    assert [s.rung for s in outcome.steps] == [
        "none", "vectorize", "split_pattern", "test.wrong_sign",
    ]  # fmt: skip
    assert [s.verdict.verdict for s in outcome.steps] == ["proved"] * 3 + ["refuted"]
    assert [s.changed > 0 for s in outcome.steps] == [False, True, True, True]
