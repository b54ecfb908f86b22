"""The JSON report: every field, strict JSON whatever the values are."""

from __future__ import annotations

import json
import math

import numpy as np

from kcheck.report.json import LISTED, to_json, usage_object, verdict_object
from kcheck.verdict import Difference, Finding, Location, Verdict, Witness

VERDICT = Verdict(
    "refuted",
    "value.mismatch",
    method="identity-testing",
    error_bound_log2=-112.9,
    outputs=(3, 4),
    ctas=2,
    seconds=1.23456,
    findings=(
        Finding(
            "r",
            "m",
            "both",
            (Location("f", 8, "t", (1, 2, 3), (0, 0, 0), ("g:2",)),),
            5,
            Difference("A[0]", "A[1] * 2", None, Location("g", 9, "mul")),
            "schedules",
        ),
        Finding("r", "m", "both"),
    ),
    ledger=("reals",),
    witness=Witness(
        "C",
        (3, 17),
        (-math.inf, math.nan),
        (2.0, 2.0),
        "zeros",
        {"A": np.ones(2)},
        "w.npz",
        ("w.py",),
        (("A", (0,), 1.0), ("a", (), -0.5)),
    ),
    next_steps=("look",),
    kernels=("a", "b"),
    statistics={"instructions": np.int64(7), "lanes": np.array([1, 2]), "rate": np.float32(0.5)},
)


def test_all_fields() -> None:
    def strict(constant: str) -> float:
        raise AssertionError(constant)

    assert json.loads(to_json(verdict_object(VERDICT)), parse_constant=strict) == {
        "verdict": "refuted",
        "reason": "value.mismatch",
        "method": "identity-testing",
        "error_bound_log2": -112.9,
        "kernels": {"reference": "a", "subject": "b"},
        "outputs": {"equal": 3, "compared": 4},
        "ctas": 2,
        "seconds": 1.235,
        "findings": [
            {
                "reason": "r",
                "message": "m",
                "side": "both",
                "count": 5,
                "locations": [
                    {
                        "file": "f",
                        "line": 8,
                        "text": "t",
                        "thread": [1, 2, 3],
                        "cta": [0, 0, 0],
                        "source": ["g:2"],
                    }
                ],
                "first_difference": {
                    "reference": {"value": "A[0]", "location": None},
                    "subject": {
                        "value": "A[1] * 2",
                        "location": {
                            "file": "g",
                            "line": 9,
                            "text": "mul",
                            "thread": None,
                            "cta": None,
                            "source": [],
                        },
                    },
                },
                "confirmed_by": "schedules",
            },
            {
                "reason": "r",
                "message": "m",
                "side": "both",
                "count": 1,
                "locations": [],
                "first_difference": None,
                "confirmed_by": None,
            },
        ],
        "witness": {
            "buffer": "C",
            "index": [3, 17],
            "reference": ["-inf", "nan"],
            "subject": [2.0, 2.0],
            "family": "zeros",
            "path": "w.npz",
            "scripts": ["w.py"],
            "nonzero": 2,
            "entries": [
                {"buffer": "A", "index": [0], "value": 1.0},
                {"buffer": "a", "index": [], "value": -0.5},
            ],
        },
        "ledger": ["reals"],
        "next_steps": ["look"],
        "statistics": {"instructions": 7, "lanes": [1, 2], "rate": 0.5},
    }


def test_long_inputs_are_counted() -> None:
    entries = tuple(("A", (i,), 1.0) for i in range(LISTED + 1))
    witness = Witness("C", (), (0, 0), (1, 1), "ones", entries=entries)
    found = verdict_object(Verdict("refuted", witness=witness))["witness"]
    assert (found["nonzero"], len(found["entries"])) == (LISTED + 1, LISTED)


def test_absent_fields_are_null() -> None:
    answer = json.loads(to_json(verdict_object(Verdict("undecided"))))
    for name in ("reason", "method", "error_bound_log2", "witness"):
        assert answer[name] is None
    assert answer["findings"] == answer["ledger"] == []


def test_usage() -> None:
    assert json.loads(to_json(usage_object('bad "file"'))) == {
        "verdict": "usage-error",
        "message": 'bad "file"',
    }
