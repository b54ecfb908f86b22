"""Outputs are compared in parts: the same flags, whatever the parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck import outputs
from kcheck.field_runs import field_run
from kcheck.outputs import Comparison, compare
from kcheck.question import ask

CASE = Path(__file__).parent / "data" / "cases" / "43-parallel-loop-truncated"


def _flags(c: Comparison) -> list[object]:
    return [c.equal, c.different, c.idle, c.unwritten, *c.nan, *c.undefined, c.unknown]


def test_parts_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ask(CASE / "ref.ptx", CASE / "bug.ptx", None, None, None, None, None, None, 1)
    run = field_run(question, 4)
    (pair,) = question.compared
    whole = compare(run.reference, run.subject, pair, run.domain)
    assert whole.unwritten.any()
    assert whole.equal.any()
    monkeypatch.setattr(outputs, "PART", 7)
    parts = compare(run.reference, run.subject, pair, run.domain)
    for one, other in zip(_flags(whole), _flags(parts), strict=True):
        assert np.array_equal(one, other)  # type: ignore[arg-type]
