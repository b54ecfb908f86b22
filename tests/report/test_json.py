"""The JSON report: every field, strict JSON whatever the values are."""

from __future__ import annotations

import json
import math

import numpy as np

from kcheck.report.json import to_json, usage_object, verdict_object
from kcheck.verdict import Finding, Location, Verdict, Witness

VERDICT = Verdict(
    "refuted",
    "value.mismatch",
    method="identity-testing",
    error_bound_log2=-112.9,
    outputs=(3, 4),
    ctas=2,
    seconds=1.23456,
    findings=(Finding("r", "m", "both", (Location("f", 8, "t", (1, 2, 3), (0, 0, 0)),), 5),),
    ledger=("reals",),
    witness=Witness("C", (3, 17), (-math.inf, math.nan), (2.0, 2.0), "zeros", {"A": np.ones(2)}),
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
                    {"file": "f", "line": 8, "text": "t", "thread": [1, 2, 3], "cta": [0, 0, 0]}
                ],
            }
        ],
        "witness": {
            "buffer": "C",
            "index": [3, 17],
            "reference": ["-inf", "nan"],
            "subject": [2.0, 2.0],
            "family": "zeros",
            "path": None,
        },
        "ledger": ["reals"],
        "next_steps": ["look"],
        "statistics": {"instructions": 7, "lanes": [1, 2], "rate": 0.5},
    }


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
