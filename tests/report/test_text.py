"""The report for people."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kcheck.report.text import INLINE, SHOWN, verdict_text
from kcheck.verdict import Difference, Finding, Location, Verdict, Witness

PROVED = Verdict(
    "proved",
    method="identity-testing",
    error_bound_log2=-112.9,
    outputs=(16384, 16384),
    ctas=4,
    seconds=1.14,
    ledger=("race freedom NOT CHECKED (--no-safety)", "reals", "launch grid 2x2x1 block 128"),
    kernels=("gemm_k_kernel", "gemm_k_kernel"),
)

REFUTED = Verdict(
    "refuted",
    "value.mismatch",
    outputs=(16383, 16384),
    ctas=1,
    seconds=0.04,
    kernels=("a", "b"),
    findings=(
        Finding(
            "value.mismatch",
            "1 element differs",
            "both",
            (
                Location("b.ptx", 88, "st.global.f32 [%rd1], %f1;", (3, 0, 0), (1, 2, 0)),
                Location("a.ptx", 7, "st.global.f32 [%rd2], %f9;"),
            ),
            count=2,
        ),
    ),
    witness=Witness("C", (3, 17), (1.5, 1.5), (2.0, 2.25), "one-hot", path="w/witness.npz"),
)


def test_proved() -> None:
    assert verdict_text(PROVED).splitlines() == [
        "proved  gemm_k_kernel = gemm_k_kernel   16384 of 16384 outputs, 4 CTAs, "
        "identity-testing (error < 2^-112), 1.1 s",
        "  assumes: race freedom NOT CHECKED (--no-safety); reals; launch grid 2x2x1 block 128",
    ]


def test_refuted() -> None:
    assert verdict_text(REFUTED).splitlines() == [
        "refuted  value.mismatch  C[3,17]  a != b   16383 of 16384 outputs, 1 CTA, 0.0 s",
        "  C[3,17] = 1.5 in the reference",
        "  C[3,17] = [2, 2.25] in the subject",
        "  on an input of the family `one-hot`, saved in w/witness.npz",
        "  value.mismatch, both: 1 element differs (2 times)",
        "    b.ptx:88: st.global.f32 [%rd1], %f1;   by thread (3,0,0), CTA (1,2,0)",
        "    a.ptx:7: st.global.f32 [%rd2], %f9;",
    ]


FOUND = Finding(
    "value.mismatch",
    "m",
    "subject",
    first_difference=Difference(
        "A[0,1] * 3",
        "A[0,1] * 2",
        Location("a.ptx", 7, "mul.f32 %f1, %f2, 3.0;"),
        Location("b.ptx", 9, "mul.f32 %f1, %f2, 2.0;"),
    ),
)


def test_first_difference() -> None:
    assert verdict_text(Verdict("refuted", findings=(FOUND,))).splitlines()[1:] == [
        "  value.mismatch, subject: m",
        "    first difference: b.ptx:9: mul.f32 %f1, %f2, 2.0;   makes A[0,1] * 2 in the subject",
        "      against a.ptx:7: mul.f32 %f1, %f2, 3.0;   makes A[0,1] * 3 in the reference",
    ]
    inputs = replace(FOUND, first_difference=Difference("A[1]", "A[0]"))
    assert verdict_text(Verdict("refuted", findings=(inputs,))).splitlines()[2:] == [
        "    first difference: A[0] in the subject",
        "      against A[1] in the reference",
    ]


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ((("A", (0, 3), 1.0), ("B", (3, 5), -2.0)), "A[0,3] = 1, B[3,5] = -2, else 0"),
        ((("alpha", (), 0.5),), "alpha = 0.5, else 0"),
        ((), "all entries are 0"),
        (
            tuple(("A", (0, i), float(i)) for i in range(1, INLINE + 2)),
            "9 of 24 entries are not 0: 1 to 9",
        ),
    ],
)
def test_input_of_a_witness(
    entries: tuple[tuple[str, tuple[int, ...], float], ...], shown: str
) -> None:
    inputs = {"A": np.zeros(8), "B": np.zeros(15), "alpha": np.zeros(1)}
    witness = Witness("C", (), (1, 1), (2, 2), "zeros", inputs, "w.npz", ("w.py", "w.cu"), entries)
    assert verdict_text(Verdict("refuted", witness=witness)).splitlines()[3:] == [
        "  on an input of the family `zeros`, saved in w.npz",
        f"  {shown}",
        "  run both on it: python w.py",
        "  run both on it: nvcc -o witness w.cu -lcuda && ./witness   (needs a GPU)",
    ]


def test_undecided() -> None:
    verdict = Verdict(
        "undecided",
        "unsupported.wgmma",
        findings=(Finding("unsupported.wgmma", "m", "subject", (Location("b.ptx", 8, "wgmma;"),)),),
        next_steps=("use --cta 0", "wait for step 5"),
        kernels=("a", "b"),
    )
    assert verdict_text(verdict).splitlines() == [
        "undecided  unsupported.wgmma  a ?= b   0.0 s",
        "  unsupported.wgmma, subject: m",
        "    b.ptx:8: wgmma;",
        "  try: use --cta 0; wait for step 5",
    ]


def test_long_ledgers_are_wrapped() -> None:
    verdict = Verdict("proved", ledger=tuple(f"assumption {i}" for i in range(40)))
    lines = verdict_text(verdict, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith("  assumes: assumption 0; ")
    assert all(line.startswith("    ") for line in lines[2:])
    assert " ".join(" ".join(lines[1:]).split()) == "assumes: " + "; ".join(verdict.ledger)


def test_many_findings_are_counted() -> None:
    finding = Finding("bounds.global", "m", "subject")
    lines = verdict_text(Verdict("refuted", findings=(finding,) * 25)).splitlines()
    assert lines.count("  bounds.global, subject: m") == SHOWN
    assert lines[-1] == f"  and {25 - SHOWN} more findings (--json has all)"


@pytest.mark.parametrize(
    ("bounds", "shown"),
    [
        ((1.0, 1.0 + 1e-12), "1"),
        ((0.1, 0.1001), "[0.1, 0.1001]"),
        ((-1e30, -1e30), "-1e+30"),
        ((1.23456, 1.23457), "1.2346"),
    ],
)
def test_enclosures(bounds: tuple[float, float], shown: str) -> None:
    witness = Witness("C", (), bounds, bounds, "zeros")
    assert f"  C[] = {shown} in the subject" in verdict_text(Verdict("refuted", witness=witness))
