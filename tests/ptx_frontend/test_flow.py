"""Where the ways behind a branch meet, and what is read from there on."""

from __future__ import annotations

import pytest

from kcheck.ptx_frontend.flow import EXIT, ControlFlow
from tests.ptx_frontend.snippets import lowered


def region(body: str) -> tuple[str, set[str], set[str]] | None:
    """The region behind the branch `@%p1 ...`: the number that the join's first `mov` writes,
    the registers written, and those of them that are live at the join.
    """
    kernel = lowered(body)
    block = next(
        i
        for i, b in enumerate(kernel.blocks)
        if (guard := kernel.code[b.end - 1].guard) is not None and guard.reg.name == "%p1"
    )
    found = ControlFlow(kernel).region(block)
    if found is None:
        return None
    join = "end"
    if found.join != EXIT:
        join = str(kernel.code[kernel.blocks[found.join].start].operands[1].value)  # type: ignore[union-attr]
    return join, set(found.written), set(found.live)


CASES = {
    "@%p1 bra L; mov.u32 %r2, 1; L: mov.u32 %r1, 9; mov.u32 %r3, %r2;": ("9", {"%r2"}, {"%r2"}),
    "@%p1 bra L; mov.u32 %r2, 1; L: mov.u32 %r1, 9; mov.u32 %r2, 3; mov.u32 %r3, %r2;": (
        "9",
        {"%r2"},
        set(),
    ),
    # a guarded write is none that could be relied on
    "@%p1 bra L; mov.u32 %r2, 1; L: mov.u32 %r1, 9; @%p2 mov.u32 %r2, 3; mov.u32 %r3, %r2;": (
        "9",
        {"%r2"},
        {"%r2"},
    ),
    "@%p1 bra L; mov.u32 %r2, 1; @%p2 bra M; mov.u32 %r3, 2; bra M; L: mov.u32 %r4, 3; "
    "M: mov.u32 %r1, 9; setp.eq.u32 %p3, %r4, 0;": ("9", {"%r2", "%r3", "%r4"}, {"%r4"}),
    "@%p1 bra L; mov.u32 %r2, 1; ret; L: mov.u32 %r3, 2;": ("end", {"%r2", "%r3"}, set()),
    "@%p1 exit; mov.u32 %r2, 1;": ("end", {"%r2"}, set()),
    # in a loop the join may be its head, and what the next round reads is live
    "H: mov.u32 %r1, 9; @%p2 bra E; mov.u32 %r3, %r2; @%p1 bra H; mov.u32 %r2, 1; bra H; E: ret;": (
        "9",
        {"%r2"},
        {"%r2"},
    ),
    "H: mov.u32 %r1, 8; @%p1 bra E; mov.u32 %r2, 1; bra H; E: mov.u32 %r1, 9;": (
        "9",
        {"%r1", "%r2"},
        set(),
    ),
    # one way never ends: nothing hangs on it
    "@%p1 bra L; M: mov.u32 %r2, 1; bra M; L: mov.u32 %r1, 9; mov.u32 %r3, %r2;": (
        "9",
        {"%r2"},
        {"%r2"},
    ),
}


@pytest.mark.parametrize("body", CASES)
def test_regions(body: str) -> None:
    assert region(body) == CASES[body]


def test_ways_that_never_end_never_meet() -> None:
    assert region("@%p1 bra L; M: mov.u32 %r2, 1; bra M; L: mov.u32 %r2, 3; bra L;") is None
