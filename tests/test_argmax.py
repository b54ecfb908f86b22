"""Indices of the greatest: one function in any order, with the rule for ties; others differ."""

from __future__ import annotations

import pytest

from kcheck.launch import Param
from tests.semantics.harness import out, symbol
from tests.snippets import compared

PARAMS: list[Param] = [symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "s32", 32)]
LOADS = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y]; mov.f32 %f3, 0f3F800000;"
STORE = "st.global.b32 [%z], %r1;"


def argmax(order: list[int], compares: str) -> str:
    """Of x, y and 1: a candidate that compares with the best so far takes its place."""
    first, *rest = order
    lines = [f"mov.b32 %r1, {first}; mov.f32 %f9, %f{first + 1};"]
    for i in rest:
        lines.append(
            f"setp.{compares}.f32 %p{i}, %f{i + 1}, %f9; selp.b32 %r1, {i}, %r1, %p{i};"
            f"selp.f32 %f9, %f{i + 1}, %f9, %p{i};"
        )
    return "\n".join([LOADS, *lines, STORE])


FORWARD, LAST = argmax([0, 1, 2], "gt"), argmax([0, 1, 2], "ge")


def test_first_of_equals_from_either_end() -> None:
    verdict = compared(FORWARD, argmax([2, 1, 0], "ge"), PARAMS)
    assert (verdict.verdict, verdict.method) == ("proved", "exact")


@pytest.mark.parametrize("subject", [LAST, argmax([2, 1, 0], "gt")])
def test_last_of_equals_differs_at_a_tie(subject: str) -> None:
    verdict = compared(FORWARD, subject, PARAMS)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    witness = verdict.witness
    assert witness is not None
    (i,) = witness.index
    x, y = (witness.inputs[name][i] for name in "xy")
    assert len({x, y, 1.0}) < 3
    assert "st.global" in verdict.findings[0].locations[0].text
