"""Kernels after reported defects: right ones equal the reference, wrong ones have the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from kcheck.check import equivalent, safe
from kcheck.launch_file import load_launch
from kcheck.verdict import Verdict
from tests.corpus import CASES, races_of, verdict_of

# seen by races only; in lockstep the values are right
RACES = [
    "01-partial-warp-missing-sync",
    "03-divergent-barrier-warp-aligned",
    "04-warp-tree-no-syncwarp",
    "06-cp-async-wait-too-lax-in-tail",
    "07-tiled-matmul-missing-trailing-sync",
    "22-inplace-neighbour-update",
]
# equal over the reals, against a contract of precision
EQUAL = ["11-softmax-without-max", "33-fp16-accumulator"]
# case -> reason: the full one, and the side that has it
WRONG = {
    "09-tree-reduce-non-pow2": "value.mismatch",
    "13-masked-softmax-finite-mask": "value.mismatch",
    "14-splitk-bias-per-split": "value.mismatch",
    "16-swizzle-wrong-on-read": "value.mismatch",
    "17-transposed-store-wrong-stride": "bounds.global",
    "19-ldmatrix-trans-omitted": "value.mismatch",
    "20-named-barrier-wrong-count": "deadlock.barrier",
    "24-index-overflow-u32": "value.mismatch",
    "27-vec4-tail-dropped": "value.unwritten",
    "36-vector-atomic-invariant-target": "value.mismatch",
    "39-k-tail-stale-smem": "value.mismatch",
    "43-parallel-loop-truncated": "value.unwritten",
}
# sm_90: (subject, the form that is refused, its line)
REFUSED = [
    ("29-mbarrier-wrong-parity", "fix", "mbarrier.init.shared::cta.b64", 40),
    ("29-mbarrier-wrong-parity", "bug", "mbarrier.init.shared::cta.b64", 40),
    ("31-missing-async-proxy-fence", "fix", "fence.proxy.async.shared::cta", 43),
    ("31-missing-async-proxy-fence", "bug", "cp.async.bulk.global.shared::cta.bulk_group", 48),
]
SM_80 = [*RACES, *EQUAL, *WRONG]


def meaning(case: str) -> dict[str, Any]:
    """What a case must be found to be."""
    loaded = yaml.safe_load((CASES / case / "case.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def assert_proved(verdict: Verdict) -> None:
    equal, compared = verdict.outputs
    assert (verdict.verdict, verdict.findings) == ("proved", ())
    assert equal == compared > 0
    assert verdict.method == "exact"


def test_every_case_is_listed() -> None:
    folders = sorted(path.name for path in CASES.iterdir())
    assert folders == sorted({*SM_80, *(case for case, *_ in REFUSED)})
    for case in SM_80:
        assert meaning(case)["arch"] == "sm_80"
    for case in EQUAL:
        assert meaning(case)["subjects"]["bug.ptx"]["verdict"] == "proved"
    for case, reason in WRONG.items():
        expected = meaning(case)["subjects"]["bug.ptx"]
        assert expected["verdict"] == "refuted"
        assert reason.startswith(expected["reason"])
    for case in RACES:
        expected = meaning(case)["subjects"]["bug.ptx"]
        reasons = [expected["reason"], *(r["reason"] for r in expected.get("also_right", []))]
        assert "race" in reasons


@pytest.mark.parametrize("subject", ["ref", "fix"])
@pytest.mark.parametrize("case", SM_80)
def test_right_kernel_is_proved(case: str, subject: str) -> None:
    assert_proved(verdict_of(CASES / case, "ref", subject))


@pytest.mark.parametrize("case", EQUAL)
def test_equal_over_the_reals(case: str) -> None:
    assert_proved(verdict_of(CASES / case, "ref", "bug"))


@pytest.mark.parametrize("case", RACES)
def test_race_is_refuted_at_its_lines(case: str) -> None:
    folder = CASES / case
    verdict = verdict_of(folder, "ref", "bug")
    assert verdict.verdict == "refuted"
    assert verdict.reason is not None
    assert verdict.reason.startswith("race.")
    assert {f.side for f in verdict.findings} == {"subject"}
    seen = meaning(case)["subjects"]["bug.ptx"].get("seen_at_lines", [])
    assert {tuple(sorted(lines)) for lines in seen} <= races_of(verdict)
    alone = safe(folder / "bug.ptx", seed=1)
    assert (alone.verdict, alone.reason) == ("refuted", verdict.reason)
    assert races_of(alone) == races_of(verdict)
    # the values are right in lockstep: nothing but safety stands in the way
    assert_proved(verdict_of(folder, "ref", "bug", safety=False))


@pytest.mark.parametrize("subject", ["ref", "fix"])
@pytest.mark.parametrize("case", RACES)
def test_right_kernel_is_safe(case: str, subject: str) -> None:
    verdict = safe(CASES / case / f"{subject}.ptx", seed=1)
    assert (verdict.verdict, verdict.findings) == ("proved", ())


@pytest.mark.parametrize("case", WRONG)
def test_wrong_kernel_is_refuted(case: str) -> None:
    verdict = verdict_of(CASES / case, "ref", "bug")
    assert (verdict.verdict, verdict.reason) == ("refuted", WRONG[case])
    finding = verdict.findings[0]
    assert (finding.reason, finding.side) == (WRONG[case], "subject")
    assert finding.locations
    seen = meaning(case)["subjects"]["bug.ptx"].get("seen_at_lines")
    if seen and WRONG[case].startswith("bounds"):
        met = {x.line for f in verdict.findings if f.reason == WRONG[case] for x in f.locations}
        assert set(seen[0]) <= met
    if WRONG[case] == "value.mismatch":
        witness = verdict.witness
        assert witness is not None
        (low, high), (floor, top) = witness.reference, witness.subject
        assert high < floor or top < low


def test_lines_of_the_store_out_of_bounds() -> None:
    """The loop is unrolled four times."""
    verdict = verdict_of(CASES / "17-transposed-store-wrong-stride", "ref", "bug")
    assert {x.line for f in verdict.findings for x in f.locations if "bounds" in f.reason} == {
        157, 162, 164, 166,
    }  # fmt: skip


def test_masked_scores_far_below_the_mask() -> None:
    """Case 13: the mask of -1e4 shows when all scores that count lie below it."""
    folder = CASES / "13-masked-softmax-finite-mask"
    verdict = verdict_of(folder, "ref", "bug")
    witness = verdict.witness
    assert witness is not None
    inputs = {name: np.asarray(values) for name, values in witness.inputs.items()}
    launch = load_launch(folder / "ref.launch.yaml")
    (scores,) = (
        inputs[name].reshape(launch.buffers[name].shape)
        for name, tensor in launch.buffers.items()
        if tensor.role == "in" and tensor.values is None
    )
    assert scores.max() < -1e4


def test_other_shapes() -> None:
    """Case 27 drops a tail that this launch does not have."""
    folder = CASES / "27-vec4-tail-dropped"
    (other,) = meaning(folder.name)["other_shapes"]
    suffix = other["launch"].removeprefix("*")
    assert sorted(other["subjects"]) == ["bug.ptx", "fix.ptx"]
    for name, expected in other["subjects"].items():
        stem = name.removesuffix(".ptx")
        verdict = equivalent(
            folder / "ref.ptx",
            folder / name,
            launch=folder / f"ref{suffix}",
            subject_launch=folder / f"{stem}{suffix}",
            seed=1,
        )
        assert expected["verdict"] == "proved"
        assert_proved(verdict)
        assert verdict.outputs == (1024, 1024)


@pytest.mark.parametrize(("case", "subject", "form", "line"), REFUSED)
def test_hopper_is_refused_with_its_line(case: str, subject: str, form: str, line: int) -> None:
    verdict = verdict_of(CASES / case, "ref", subject)
    assert (verdict.verdict, verdict.reason) == ("undecided", f"unsupported.{form}")
    (finding,) = verdict.findings
    assert finding.side == "subject"
    (place,) = finding.locations
    assert place.line == line
    assert form in place.text
    assert place.file.endswith(f"{subject}.ptx")
