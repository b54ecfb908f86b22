"""Families of kernels that Triton compiled: each gets the verdict of its family.yaml, by a proof.

A sample lies in tests/data/triton. All are taken under `-m nightly`, from the folder that
KCHECK_CORPUS names (`triton/<family>/*.ptx` in it).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcheck.check import equivalent
from tests.corpus import TRITON

VARIABLE = "KCHECK_CORPUS"


def _families() -> dict[str, dict[str, Any]]:
    """The contents of each family.yaml: `reference`, `subjects` (verdict and reason)."""
    files = sorted(TRITON.glob("*/family.yaml"))
    return {path.parent.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}


FAMILIES = _families()
# sm_90 has instructions of its own
NAMES = [
    f"{family}/{subject.removesuffix('.ptx')}"
    for family, content in FAMILIES.items()
    for subject in content["subjects"]
    if "sm90" not in subject
]
SAMPLE = [
    "fused_add_rmsnorm_inplace/two_b64_w2",
    "layernorm_tail/nofma_two_w4",
    "matmul_f16/b16x16x16_w1_s2",
    "matmul_splitk/split2_b32x32x32_w4_s2",
    "matmul_tail/b32x32x16_w4_s4",
    "row_sum/b32_w1_s4",
    "row_sum/b64_w2",
    "softmax/online_b32_w1",
    "softmax/row_w8",
    "transpose_f16/direct_b32x32_w4",
    "vadd_tail/persistent_g3_s3",
]


def assert_verdict(folder: Path, name: str) -> None:
    """The verdict on a subject of a family, whose files lie in `folder`/<family>."""
    family, subject = name.split("/")
    content = FAMILIES[family]
    expected = content["subjects"][f"{subject}.ptx"]
    paths = [folder / family / file for file in (content["reference"], f"{subject}.ptx")]
    verdict = equivalent(*paths, seed=1)
    assert verdict.verdict == expected["verdict"], (verdict.reason, verdict.findings)
    if verdict.verdict == "proved":
        assert (verdict.method, verdict.findings) == ("exact", ())
        return
    assert verdict.reason is not None
    assert verdict.reason.partition(".")[0] == expected["reason"]
    assert all(finding.locations for finding in verdict.findings)
    if verdict.reason == "value.mismatch":
        assert verdict.witness is not None


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(name: str) -> None:
    assert_verdict(TRITON, name)


def test_the_families_are_whole() -> None:
    assert (len(FAMILIES), len(NAMES)) == (10, 81)
    assert set(SAMPLE) < set(NAMES)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_every_file(name: str) -> None:
    place = os.environ.get(VARIABLE)
    assert place, f"{VARIABLE} must name the folder that holds triton/<family>/*.ptx"
    folder = Path(place) / "triton"
    assert folder.is_dir(), f"{VARIABLE}={place}: it holds no folder triton/"
    assert_verdict(folder, name)
