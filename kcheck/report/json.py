"""A verdict as one JSON object (the fields are listed in the README)."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from kcheck.verdict import Difference, Finding, Location, Verdict, Witness

# entries of a witness that are listed
LISTED = 64


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """The object that `--json` prints. Reals that JSON can't write are strings (`inf`, `nan`)."""
    equal, compared = verdict.outputs
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "method": verdict.method,
        "error_bound_log2": verdict.error_bound_log2,
        "kernels": {"reference": verdict.kernels[0], "subject": verdict.kernels[1]},
        "outputs": {"equal": equal, "compared": compared},
        "ctas": verdict.ctas,
        "seconds": round(verdict.seconds, 3),
        "findings": [finding_object(finding) for finding in verdict.findings],
        "witness": _witness(verdict.witness) if verdict.witness else None,
        "ledger": list(verdict.ledger),
        "next_steps": list(verdict.next_steps),
        "statistics": _plain(verdict.statistics),
    }


def usage_object(message: str) -> dict[str, Any]:
    """What `--json` prints where the arguments or files can't be used (exit 2)."""
    return {"verdict": "usage-error", "message": message}


def to_json(value: dict[str, Any]) -> str:
    """One object, indented, strict JSON."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def finding_object(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "reason": finding.reason,
        "message": finding.message,
        "side": finding.side,
        "count": finding.count,
        "confirmed_by": finding.confirmed or None,
        "locations": [_location(location) for location in finding.locations],
        "first_difference": _difference(finding.first_difference),
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "reference": {"value": found.reference, "location": _location(found.reference_at)},
        "subject": {"value": found.subject, "location": _location(found.subject_at)},
    }


def _location(location: Location | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {
        "file": location.file,
        "line": location.line,
        "text": location.text,
        "thread": location.thread,
        "cta": location.cta,
        "source": location.source,
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "buffer": witness.buffer,
        "index": witness.index,
        "reference": witness.reference,
        "subject": witness.subject,
        "family": witness.family,
        "path": witness.path,
        "scripts": witness.scripts,
        "nonzero": len(witness.entries),
        "entries": [_entry(*entry) for entry in witness.entries[:LISTED]],
    }


def _entry(name: str, index: tuple[int, ...], value: float) -> dict[str, Any]:
    return {"buffer": name, "index": index, "value": value}


def _plain(value: Any) -> Any:
    """The same with NumPy's types and non-finite reals replaced by what JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
