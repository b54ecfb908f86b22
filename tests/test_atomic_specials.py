"""Floats that are no numbers, atomically added to one element by several lanes of one store."""

from __future__ import annotations

import pytest

from tests.snippets import FLOATS, compared

# lane 0 adds what %f1 holds, lane 1 what %f2 holds, to z[0], which holds 0 at first
ADD = """
setp.eq.s32 %p1, %gid, 0; setp.eq.s32 %p2, %gid, 1;
ld.global.f32 %f3, [%x]; st.global.f32 [%z], 0f00000000; bar.sync 0;
mov.u64 %d1, %pz;
@%p1 bra FIRST; @%p2 bra SECOND; mov.f32 %f4, 0f00000000; bra.uni JOIN;
FIRST: mov.f32 %f4, {first}; bra.uni JOIN;
SECOND: mov.f32 %f4, {second};
JOIN: red.global.add.f32 [%d1], %f4;
"""
NUMBER, INFINITE, NEGATIVE, UNDEFINED = "0f3F800000", "0f7F800000", "0fFF800000", "%f9"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (UNDEFINED, NUMBER, "undefined.output"),
        (NUMBER, UNDEFINED, "undefined.output"),
        (UNDEFINED, INFINITE, "undefined.output"),
        (INFINITE, UNDEFINED, "undefined.output"),
        (INFINITE, NEGATIVE, "value.nan"),
        (INFINITE, NUMBER, "value.mismatch"),
        (NUMBER, INFINITE, "value.mismatch"),
    ],
)
def test_a_sum_keeps_what_is_no_number(first: str, second: str, reason: str) -> None:
    reference = ADD.format(first=NUMBER, second=NUMBER)
    verdict = compared(reference, ADD.format(first=first, second=second), FLOATS)
    assert (verdict.verdict, verdict.reason) == ("refuted", reason)
