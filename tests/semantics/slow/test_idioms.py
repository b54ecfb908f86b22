"""Right uses of values that hang on the schedule, as nvcc compiles them; and wrong ones."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse_file
from kcheck.semantics.idioms import Idioms
from kcheck.semantics.slow import Exact, SlowMachine, SlowResult, Unsupported
from tests.semantics.slow.harness import plain

PTX = Path(__file__).parents[2] / "data" / "idioms" / "idioms.ptx"
CTAS, THREADS = 4, 64
TOTAL = CTAS * THREADS
VALUES = [Fraction(int(v), 4) for v in np.random.default_rng(1).integers(-8, 9, TOTAL)]
TABLE = np.array(VALUES, dtype=object).reshape(CTAS, THREADS)


def cleared(name: str, dtype: str, n: int) -> Tensor:
    return Tensor(name, dtype, (n,), "out", init="zero")


def left(name: str, dtype: str, n: int) -> Tensor:
    return Tensor(name, dtype, (n,), "out")


COUNTER = cleared("C", "u32", 1)
PARAMS: dict[str, list[Tensor]] = {
    "split_k": [cleared("O", "f32", THREADS)],
    "ticket": [left("P", "f32", CTAS), COUNTER, left("O", "f32", 1)],
    "ticket_all": [left("P", "f32", TOTAL), COUNTER, left("O", "f32", THREADS)],
    "semaphore": [cleared("S", "s32", 1), left("O", "f32", THREADS)],
    "semaphore_acquire": [cleared("S", "s32", 1), left("O", "f32", THREADS)],
    "cas_add": [cleared("O", "f32", 4)],
    "float_max": [cleared("O", "f32", 1)],
    "aggregate": [cleared("O", "u32", 1)],
    "grid_barrier": [left("P", "f32", TOTAL), COUNTER, left("O", "f32", TOTAL)],
    "ticket_unfenced": [left("P", "f32", CTAS), COUNTER, left("O", "f32", CTAS)],
    "ticket_early": [left("P", "f32", CTAS), COUNTER, left("O", "f32", CTAS)],
    "compaction": [COUNTER, cleared("O", "f32", TOTAL)],
    "lock": [cleared("L", "s32", 1), cleared("O", "f32", 1)],
}

WANTED: dict[str, list[Any]] = {
    "split_k": list(TABLE.sum(0)),
    "ticket": [TABLE.sum()],
    "ticket_all": list(2 * TABLE.sum(0)),
    "semaphore": list(TABLE.sum(0)),
    "semaphore_acquire": list(TABLE.sum(0)),
    "cas_add": [TABLE[:, i::4].sum() for i in range(4)],
    "float_max": [max(VALUES)],
    "aggregate": [sum(v > 0 for v in VALUES)],
    "grid_barrier": [2 * v for v in VALUES],
}


@cache
def kernel(name: str) -> Kernel:
    return lower(parse_file(PTX), name)


def run(name: str, seed: int | None = None) -> SlowResult:
    params = (Tensor("A", "f32", (TOTAL,), "in"), *PARAMS[name])
    launch = Launch(name, (CTAS, 1, 1), (THREADS, 1, 1), params)
    return SlowMachine(kernel(name), launch, {"A": VALUES}, Exact, seed=seed, races=True).run()


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_right_idioms(name: str, seed: int | None) -> None:
    result = run(name, seed)
    assert result.races == []
    assert result.findings == []
    assert [plain(unit) for unit in result.outputs["O"]] == WANTED[name]


@pytest.mark.parametrize("name", ["ticket_unfenced", "ticket_early"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_wrong_tickets(name: str, seed: int | None) -> None:
    (race,) = run(name, seed).races
    assert (race.reason, race.buffer) == ("race.global", "P")
    assert {race.first.instr.name, race.second.instr.name} == {"st.global.f32", "ld.global.f32"}


@pytest.mark.parametrize("name", ["compaction", "lock"])
def test_what_hangs_on_the_schedule_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="unstable"):
        run(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("split_k", []),
        ("ticket", ["ticket"]),
        ("semaphore", ["wait"]),
        ("semaphore_acquire", ["wait", "wait"]),
        ("cas_add", ["cas", "seed"]),
        ("float_max", []),
        ("aggregate", ["aggregate"]),
        ("grid_barrier", ["arrival", "arrival", "wait", "wait"]),
        ("compaction", []),
        ("lock", []),
    ],
)
def test_names(name: str, found: list[str]) -> None:
    idioms = Idioms(kernel(name)).found.values()
    assert sorted(idiom.name for idiom in idioms) == found
    assert {i.operation for i in idioms if i.name in ("cas", "seed")} <= {"add.f32"}


def test_a_chain_out_of_turn_waits_for_ever() -> None:
    """Without the CTA whose turn is first nobody can go on."""
    launch = Launch(
        "semaphore",
        (CTAS, 1, 1),
        (THREADS, 1, 1),
        (Tensor("A", "f32", (TOTAL,), "in"), *PARAMS["semaphore"]),
    )
    machine = SlowMachine(kernel("semaphore"), launch, {"A": VALUES}, Exact, ctas=[1, 2])
    assert [f.reason for f in machine.run().findings if "undefined" not in f.reason] == [
        "deadlock.spin"
    ]
