"""Engines that contradict each other: kcheck says so, and proves nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.canon.term.functions import Functions
from kcheck.limits import LimitReached
from kcheck.report.json import verdict_object
from kcheck.report.text import verdict_text
from kcheck.search import Search
from tests.snippets import floats

# 1 for x in (5.3, 5.34): no family of inputs comes there
WINDOW = (
    "setp.gt.f32 %p1, %f1, 0f40A9999A; setp.lt.f32 %p2, %f1, 0f40AAE148;"
    "and.pred %p3, %p1, %p2; selp.f32 %f3, 0f3F800000, 0f00000000, %p3;"
)
NOTHING = "mov.f32 %f3, 0f00000000;"
CHOSEN = "setp.ge.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f2, %p1;"
GREATER = "max.f32 %f3, %f1, %f2;"


def test_a_false_proof_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a law that is wrong: nothing is ever positive."""
    assert floats(NOTHING, WINDOW).verdict == "refuted"
    monkeypatch.setattr(Functions, "_positive", lambda self, poly: 0)
    verdict = floats(NOTHING, WINDOW, witness_dir=tmp_path)
    assert (verdict.verdict, verdict.reason, verdict.exit_code) == ("error", "contradiction", 4)
    assert [f.reason for f in verdict.findings] == ["value.mismatch", "exact"]
    assert all("st.global" in place.text for place in verdict.findings[0].locations)
    witness = verdict.witness
    assert witness is not None
    (i,) = witness.index
    assert 5.3 < witness.inputs["x"][i] < 5.34
    assert (witness.reference, witness.subject) == ((0.0, 0.0), (1.0, 1.0))
    assert witness.path is not None
    saved = np.load(witness.path)["x"].reshape(-1)
    assert saved[i] == witness.inputs["x"][i]
    assert "report this" in verdict_text(verdict)
    assert verdict_object(verdict)["reason"] == "contradiction"


def test_a_proof_beyond_the_field_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    doubt = Search.doubt

    def noted(search: Search) -> object:
        looked.append(doubt(search))
        return looked[-1]

    monkeypatch.setattr(Search, "doubt", noted)
    verdict = floats(CHOSEN, GREATER)
    assert (verdict.verdict, verdict.method, looked) == ("proved", "exact", [None])
    assert any("there 32 elements differ" in line for line in verdict.ledger)
    assert not any("elements differ" in line for line in floats(GREATER, GREATER).ledger)


def test_the_end_of_the_time_leaves_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof was there before the time was out."""

    def late(search: Search) -> None:
        raise LimitReached("time", "1 s")

    monkeypatch.setattr(Search, "doubt", late)
    assert floats(CHOSEN, GREATER).verdict == "proved"
