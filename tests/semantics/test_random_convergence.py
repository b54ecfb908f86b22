"""Random programs of barriers, branches, loops and returns: the same deadlocks for both."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.semantics.slow import Enclosure
from tests.semantics.harness import Outcome, entry, fast, kernel_of, launch_of, out, slow

PARAMS = [out("O", "u32", 64)]
# thread -> is it chosen?
CONDITIONS = [
    *(f"setp.lt.u32 %p1, %tid.x, {n};" for n in (1, 16, 20, 32, 48, 64)),
    *(f"and.b32 %r2, %tid.x, {n}; setp.eq.u32 %p1, %r2, 0;" for n in (1, 16, 32)),
]
# one count for each barrier; nobody waits where lanes only arrive
BARRIERS = [
    *("bar.sync 0;", "bar.sync 0;", "bar.sync 1, 32;", "bar.sync 2, 64;", "bar.warp.sync -1;"),
    *("barrier.sync 0;", "barrier.sync 1, 32;", "bar.arrive 3, 64;", "barrier.arrive 3, 64;"),
]


class Maker:
    """Makes a program from a source of randomness."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.labels = 0

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self.random.randrange(1, 4)))

    def statement(self, depth: int) -> str:
        choose = self.random.choice
        kinds = ["barrier"] * 3 + ["store"] * 2 + ["return", "guarded", "moves"]
        kind = choose(kinds + (["if"] * 3 + ["else"] * 2 + ["loop"]) * (depth > 0))
        test, barrier = choose(CONDITIONS), choose(BARRIERS)
        if kind == "barrier":
            return barrier
        if kind == "guarded":
            return f"{test} @%p1 {barrier}"
        if kind == "return":
            return f"{test} @%p1 ret;"
        if kind in ("store", "moves"):
            return {"store": "st.global.u32 [%O], 1;", "moves": "add.u32 %r1, %r1, 1;"}[kind]
        inner, one, two = self.block(depth - 1), self.label(), self.label()
        if kind == "if":
            return f"{test} @%p1 bra {one}; {inner} {one}:"
        if kind == "else":
            other = self.block(depth - 1)
            return f"{test} @%p1 bra {one}; {inner} bra {two}; {one}: {other} {two}:"
        rounds = f"%r{5 + depth}"
        return (
            f"and.b32 {rounds}, %tid.x, {choose([0, 1, 32])}; {one}: {inner} "
            f"setp.ne.u32 %p2, {rounds}, 0; mov.u32 {rounds}, 0; @%p2 bra {one};"
        )


def deadlocks(outcome: Outcome) -> tuple[bool, bool]:
    """Is there one, and one within a warp?"""
    reasons = {reason for reason, _ in outcome.findings}
    assert all(reason.startswith("deadlock.") for reason in reasons)
    return bool(reasons), "deadlock.divergent" in reasons


@settings(max_examples=80, deadline=None)
@example(534, "ret;")  # halves of a warp come to a branch one after the other
@given(st.integers(0, 10**9), st.sampled_from(["ret;", "st.global.u32 [%O], 1; ret;"]))
def test_the_same_deadlocks(seed: int, end: str) -> None:
    text = entry(f"{Maker(seed).block(2)} {end}", PARAMS)
    kernel, launch = kernel_of(text), launch_of(PARAMS, block=64)
    mine = deadlocks(fast(kernel, launch, EnclosureDomain({}), 4096)[0])
    for order in (None, 1):
        theirs = slow(kernel, launch, {}, Enclosure, order)
        assert theirs.stopped is None
        assert deadlocks(theirs) == mine, text
