"""Kernels that Triton compiled: none is accused but those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.check import equivalent, safe
from tests.corpus import TRITON, races_of

REPLICATED = TRITON / "fused_add_rmsnorm_inplace/BAD_two_b64_w4_replicated.ptx"
UNMASKED = TRITON / "vadd_tail/BAD_nomask.ptx"
SAFE = sorted(set(TRITON.rglob("*.ptx")) - {REPLICATED, UNMASKED})


@pytest.mark.parametrize("path", SAFE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kernel_is_safe(path: Path) -> None:
    verdict = safe(path, seed=1)
    assert (verdict.verdict, verdict.findings) == ("proved", ())


def test_race_that_the_compiler_made() -> None:
    """64 elements on 128 threads: two load what the other two have stored, in place."""
    reference = REPLICATED.with_name("row_w4.ptx")
    verdict = equivalent(reference, REPLICATED, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.read-write")
    assert {f.side for f in verdict.findings} == {"subject"}
    assert (71, 94) in races_of(verdict)
    texts = [place.text for finding in verdict.findings for place in finding.locations]
    assert all("ld.global" in text or "st." in text for text in texts)
    assert equivalent(reference, REPLICATED, safety=False, seed=1).verdict == "proved"


def test_loads_past_the_end() -> None:
    verdict = safe(UNMASKED, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "bounds.global")
