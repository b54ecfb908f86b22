"""Runs that look for races: what stops one thread keeps no other from its accesses."""

from __future__ import annotations

import pytest

from kcheck.launch import Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.slow import Double, SlowMachine
from kcheck.semantics.slow.errors import BudgetExceeded, Unsupported
from kcheck.semantics.slow.races import Monitor, Who
from tests.semantics.slow.harness import launch_of, module
from tests.semantics.slow.watch import SETUP, names

# a loop of 3 x 30000 instructions
LOOP = "mov.u32 r, 0; L: add.u32 r, r, 1; setp.lt.u32 p, r, 30000; @p bra L;"


def machine(body: str, threads: int = 64, ctas: int = 1, budget: int = 1 << 22) -> SlowMachine:
    text = module(["O"], SETUP + body + "\nret;")
    cleared = Tensor("O", "u32", (256,), "out", init="zero")
    launch = launch_of(text, [cleared], threads, grid=(ctas, 1, 1))
    return SlowMachine(lower(parse(text)), launch, {}, Double, races=True, budget=budget)


def never(monitor: Monitor) -> bool:
    return False


def first(monitor: Monitor) -> bool:
    return True


@pytest.mark.parametrize(
    ("store", "ctas", "reason"),
    [("st.shared.u32 [f], i;", 1, "race.write-write"), ("st.global.u32 [O], c;", 2, "race.global")],
)
def test_a_store_before_a_refusal(store: str, ctas: int, reason: str) -> None:
    made = machine(store + "brkpt;", 64 if ctas == 1 else 1, ctas)
    with pytest.raises(Unsupported, match="brkpt"):
        made.watch(never)
    (race,) = made.races
    assert race.reason == reason
    assert names(race) == {store.split(" ")[0]}
    alone = machine(store + "brkpt;", 64 if ctas == 1 else 1, ctas)
    with pytest.raises(Unsupported, match="brkpt"):  # at once: values are wanted
        alone.run()
    assert alone.races == []


FLAG = """
setp.ne.u32 p, c, 0; @p bra W;
brkpt;
st.release.gpu.global.u32 [O], 1; bra E;
W: ld.acquire.gpu.global.u32 v, [O]; setp.ne.u32 q, v, 1; @q bra W; E:
"""


@pytest.mark.parametrize(
    ("body", "ctas"),
    [
        ("setp.eq.u32 p, i, 0; @p bra L; bar.sync 0; bra E; L: brkpt; E:", 1),
        ("setp.eq.u32 p, i, 0; @p bra L; bar.warp.sync -1; bra E; L: brkpt; E:", 1),
        (FLAG, 2),
        (FLAG.replace("p, c, 0", "p, i, 0"), 1),
        ("setp.eq.u32 p, i, 0; @p brkpt; shfl.sync.idx.b32 r, i, 0, 31, -1;", 1),
    ],
)
def test_who_waits_for_a_refused_thread_waits_not_for_ever(body: str, ctas: int) -> None:
    made = machine(body, 64 if ctas == 1 else 1, ctas)
    with pytest.raises(Unsupported, match="brkpt"):
        made.watch(never)
    assert made.context.findings.kept == []


def test_a_thread_that_never_ends() -> None:
    body = "st.shared.u32 [f], i; setp.ne.u32 p, i, 0; @p bra E; L: bra L; E:"
    made = machine(body)
    assert made.watch(first)
    (race,) = made.races
    assert race.reason == "race.write-write"
    made = machine("setp.eq.u32 p, i, 0; @!p bra E; L: bra L; E:", budget=1 << 16)
    with pytest.raises(BudgetExceeded):
        made.watch(never)


@pytest.mark.parametrize("threads", [(2, 40), (40, 2)])
def test_the_threads_of_a_race_go_ahead(threads: tuple[int, int]) -> None:
    ahead: frozenset[Who] = frozenset(((0, 0, 0), (i, 0, 0)) for i in threads)
    made = machine(LOOP + "st.shared.u32 [f], i;")
    assert made.watch(first, ahead)
    (race,) = made.races
    assert {race.first.thread[0], race.second.thread[0]} == set(threads)
    assert made.steps_taken < 2.1 * 3 * 30000


def test_a_thread_that_waits_is_not_ahead_of_the_one_that_it_waits_for() -> None:
    body = """
        setp.eq.u32 p, i, 0; @p st.volatile.shared.u32 [f], 0; bar.sync 0;
        setp.ne.u32 p, i, 63; @!p st.release.cta.shared.u32 [f], 1; @!p bra E;
        L: ld.acquire.cta.shared.u32 r, [f]; setp.ne.u32 q, r, 1; @q bra L; E:
        st.shared.u32 [t], i;
    """
    ahead: frozenset[Who] = frozenset(((0, 0, 0), (i, 0, 0)) for i in (3, 4))
    made = machine(body)
    assert made.watch(first, ahead)
    (race,) = made.races
    assert (race.reason, race.buffer) == ("race.write-write", "t")
    assert made.context.findings.kept == []
