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


# defect -> reference, entries of the input, lines of the first difference (subject, reference)
VALUES = {
    # padding lanes add mean^2 to the variance
    "layernorm_tail/BAD_varmask": ("two_w4", 3, (152, 194)),
    # the mean is divided by the block's size
    "layernorm_tail/BAD_meanblock": ("two_w4", 2, (138, 134)),
    # padding lanes take part in the maximum
    "softmax/BAD_pad0": ("row_w4", 0, (120, 120)),
    "softmax/BAD_online_norescale": ("row_w4", 1, None),
    # the last elements of a row are left out
    "row_sum/BAD_bound": ("b256_w4", 1, (120, 83)),
    "fused_add_rmsnorm_inplace/BAD_residual": ("row_w4", 2, None),
}


@pytest.mark.parametrize("kernel", VALUES)
def test_wrong_values(kernel: str) -> None:
    subject = TRITON / f"{kernel}.ptx"
    name, entries, lines = VALUES[kernel]
    verdict = equivalent(subject.with_name(f"{name}.ptx"), subject, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    witness, finding = verdict.witness, verdict.findings[0]
    assert witness is not None
    assert witness.buffer == "Y"
    assert (finding.reason, finding.side) == ("value.mismatch", "subject")
    assert all("st.global" in place.text for place in finding.locations)
    assert len(witness.entries) == entries
    assert {value for *_, value in witness.entries} <= {1.0}
    (low, high), (floor, top) = witness.reference, witness.subject
    assert high < floor or top < low
    found = finding.first_difference
    if lines is None:
        assert found is None
        return
    assert found is not None
    assert found.subject_at is not None
    assert found.reference_at is not None
    assert (found.subject_at.line, found.reference_at.line) == lines
