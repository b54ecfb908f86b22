"""Scores that a tensor masks with -inf: fused forms proved, with one defect each refuted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.check import equivalent
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.verdict import Verdict
from tests.test_soundness import told

PTX = Path(__file__).parent / "data" / "masks" / "masks.ptx"
MODULE = parse(PTX.read_text(), PTX.name)
KEYS, HEAD, ROWS = 8, 4, 8
# the first word of a kernel's name -> type and shape of its buffers, the last one an output
BUFFERS: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {
    "attention": (
        ("f32", (ROWS, HEAD)),
        ("f32", (KEYS, HEAD)),
        ("f32", (KEYS, HEAD)),
        ("u8", (KEYS,)),
        ("f32", (ROWS, HEAD)),
    ),
    "rows": (("f32", (32, 32)), ("f32", (32,)), ("f32", (32, 32))),
    "ends": (("f32", (32, 8)), ("u8", (8,)), ("f32", (64,))),
}
NOTE = "infinite or NaN in the reference"


def compared(reference: str, subject: str, engine: str = "auto") -> Verdict:
    """Two kernels of one kind, with buffers by their places."""
    kernels = [lower(MODULE, name) for name in (reference, subject)]
    buffers = BUFFERS.get(reference.partition("_")[0], BUFFERS["attention"])
    launches = []
    for kernel in kernels:
        roles = ["in"] * (len(buffers) - 1) + ["out"]
        params = tuple(
            Tensor(f"b{i}", dtype, shape, role)
            for i, ((dtype, shape), role) in enumerate(zip(buffers, roles, strict=True))
        )
        launches.append(Launch(kernel.name, (1, 1, 1), (32, 1, 1), params))
    return equivalent(
        *kernels, launch=launches[0], subject_launch=launches[1], seed=1, engine=engine
    )


@pytest.mark.parametrize(
    ("reference", "subject"),
    [
        ("plain", "plain"),
        ("plain", "online_good"),
        ("online_unguarded", "plain"),
        ("online_unguarded", "online_good"),
        ("rows_plain", "rows_warp"),
        ("ends_plain", "ends_back"),
    ],
)
def test_a_masked_form_is_proved(reference: str, subject: str) -> None:
    verdict = compared(reference, subject)
    assert told(verdict) == ("proved", None), verdict.findings
    assert verdict.method == "exact"
    assert any(NOTE in line for line in verdict.ledger)


def test_a_guard_for_rows_without_a_key_leaves_numbers() -> None:
    """0 stands for the maximum of nothing: then 0 is divided by 0, of which the ledger knows."""
    verdict = compared("online_good", "online_good")
    assert told(verdict) == ("proved", None)
    assert "divisors nonzero" in verdict.ledger
    assert not any(NOTE in line for line in verdict.ledger)


@pytest.mark.parametrize(
    ("reference", "subject"),
    [
        ("plain", "online_off_by_one"),
        ("plain", "online_other_row"),
        ("plain", "online_after"),
        ("ends_plain", "ends_finite"),
        ("rows_plain", "rows_strict"),
    ],
)
def test_another_mask_is_refuted(reference: str, subject: str) -> None:
    verdict = compared(reference, subject)
    assert told(verdict) == ("refuted", "value.mismatch"), verdict.findings
    assert verdict.witness is not None
    assert compared(reference, subject, "term").verdict == "refuted"


@pytest.mark.parametrize("reference", ["plain", "online_good"])
def test_nan_where_the_first_keys_are_masked_is_refuted(reference: str) -> None:
    """-inf less -inf: a number in the reference as long as a later key is left."""
    verdict = compared(reference, "online_unguarded")
    assert told(verdict) == ("refuted", "value.mismatch"), verdict.findings
    assert "nan in the subject" in verdict.findings[0].message
    assert verdict.witness is not None
    mask = verdict.witness.inputs["b3"]
    assert not mask[: KEYS // 2].any()
    assert mask[KEYS // 2 :].any()


def test_identity_testing_claims_no_bound() -> None:
    verdict = compared("rows_plain", "rows_warp", "field")
    assert told(verdict) == ("undecided", "tested-equal")
    assert "infinities" in verdict.findings[0].message
