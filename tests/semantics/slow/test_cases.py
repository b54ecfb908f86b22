"""Kernels after reported defects: the right ones agree, the wrong ones are seen to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.launch import Tensor
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse_file
from kcheck.semantics.slow import Enclosure, Real, SlowMachine, SlowResult

DATA = Path(__file__).parent / "data"
CASES = sorted(path.name for path in DATA.iterdir())
VALUE = [
    "09-tree-reduce-non-pow2",
    "13-masked-softmax-finite-mask",
    "19-ldmatrix-trans-omitted",
]


def run(case: str, stem: str, seed: int | None = None) -> SlowResult:
    """A kernel on inputs that hang on names and shapes only; case 13 gets very low scores."""
    launch = load_launch(DATA / case / f"{stem}.launch.yaml")
    random = np.random.default_rng(5)
    inputs = {}
    for tensor in launch.params:
        if isinstance(tensor, Tensor) and tensor.role != "out" and tensor.values is None:
            values = random.integers(-8, 9, tensor.elements) / 4
            inputs[tensor.name] = list(values * 100 - 20000 if case.startswith("13") else values)
    kernel = lower(parse_file(DATA / case / f"{stem}.ptx"))
    return SlowMachine(kernel, launch, inputs, Enclosure, seed=seed).run()


def apart(x: Any, y: Any) -> bool:
    """Are two enclosures disjoint?"""
    assert isinstance(x, Real)
    assert isinstance(y, Real)
    (a, b), (c, d) = x.number.bounds(), y.number.bounds()
    assert b - a < 1e-9
    assert d - c < 1e-9
    return b < c or d < a


def differing(x: SlowResult, y: SlowResult) -> int:
    assert x.outputs.keys() == y.outputs.keys()
    pairs = [
        pair for name in x.outputs for pair in zip(x.outputs[name], y.outputs[name], strict=True)
    ]
    assert pairs
    return sum(apart(a, b) for a, b in pairs)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [None, 1])
def test_right_kernels_agree(case: str, seed: int | None) -> None:
    reference, fixed = run(case, "ref"), run(case, "fix", seed)
    assert reference.findings == fixed.findings == []
    assert differing(reference, fixed) == 0


@pytest.mark.parametrize("case", VALUE)
def test_wrong_values(case: str) -> None:
    reference, bug = run(case, "ref"), run(case, "bug")
    assert bug.findings == []
    assert differing(reference, bug) > 0


def test_store_outside_the_output() -> None:
    findings = run("17-transposed-store-wrong-stride", "bug").findings
    assert {f.reason for f in findings} == {"bounds.global"}
    lines = {f.instr.span.line for f in findings if f.instr}
    assert lines == {157, 162, 164, 166}  # the loop is unrolled four times


def test_barrier_that_waits_for_too_many() -> None:
    (finding,) = run("20-named-barrier-wrong-count", "bug").findings
    assert finding.reason == "deadlock.barrier"
    assert finding.instr is not None
    assert finding.instr.span.line == 47
