"""Races in kernels after reported defects and in compiled ones, and none in the right ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.launch import Launch, Tensor
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse_file
from kcheck.semantics.slow import Double, Race, SlowMachine, SlowResult, confirm_race

DATA = Path(__file__).parents[2] / "data"
RACY = {
    "01-partial-warp-missing-sync": (44, 49),
    "03-divergent-barrier-warp-aligned": (61, 72),
    "04-warp-tree-no-syncwarp": (46, 60),
    "06-cp-async-wait-too-lax-in-tail": (62, 78),
    "07-tiled-matmul-missing-trailing-sync": (62, 67),
    "22-inplace-neighbour-update": (35, 37),
}
SMALL = ["sum/sm_80_t32", "sum/sm_80_t128", "softmax/sm_80_b4", "rmsnorm/sm_80_b4_smem"]


def load(path: Path) -> tuple[Kernel, Launch, dict[str, list[float]]]:
    """A kernel, its launch, and inputs that hang on the shapes only."""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    random = np.random.default_rng(5)
    inputs = {
        t.name: list(random.integers(-8, 9, t.elements) / 4)
        for t in launch.params
        if isinstance(t, Tensor) and t.role != "out" and t.values is None
    }
    return lower(parse_file(path)), launch, inputs


def watch(path: Path, seed: int | None = None, ctas: list[int] | None = None) -> SlowResult:
    kernel, launch, inputs = load(path)
    machine = SlowMachine(kernel, launch, inputs, Double, seed=seed, ctas=ctas, races=True)
    return machine.run()


def pairs(result: SlowResult) -> set[tuple[tuple[int, int], str, int]]:
    return {(race.lines, race.reason, race.count) for race in result.races}


@pytest.mark.parametrize("case", RACY)
def test_races_are_confirmed(case: str) -> None:
    kernel, launch, inputs = load(DATA / "cases" / case / "bug.ptx")
    found = confirm_race(kernel, launch, inputs, Double, None, RACY[case])
    assert found
    assert isinstance(found.race, Race)
    definition = found.race.reason == "race.async"
    assert definition == case.startswith("06")
    assert found.orders == (None if definition else 2)
    assert not confirm_race(kernel, launch, inputs, Double, None, (1, 2))


@pytest.mark.parametrize("case", RACY)
@pytest.mark.parametrize("stem", ["fix", "ref"])
def test_right_kernels_have_none(case: str, stem: str) -> None:
    for seed in (None, 1):
        result = watch(DATA / "cases" / case / f"{stem}.ptx", seed)
        assert (result.races, result.findings) == ([], [])


@pytest.mark.parametrize("case", RACY)
def test_races_do_not_hang_on_the_schedule(case: str) -> None:
    path = DATA / "cases" / case / "bug.ptx"
    assert pairs(watch(path)) == pairs(watch(path, 1)) == pairs(watch(path, 2))


def test_a_pipeline_without_barriers() -> None:
    """Copies into a stage meet the ldmatrix that still read it."""
    kernel, launch, inputs = load(DATA / "tilelang/kernels/gemm/sm_80_s2_nosync_RACY.ptx")
    races = SlowMachine(kernel, launch, inputs, Double, ctas=[0], races=True).run().races
    assert {race.reason for race in races} == {"race.async"}
    opcodes = {race.first.instr.opcode[0] for race in races}
    opcodes |= {race.second.instr.opcode[0] for race in races}
    assert opcodes == {"cp", "ldmatrix"}


def test_the_same_pipeline_with_barriers() -> None:
    result = watch(DATA / "tilelang/kernels/gemm/sm_80_s2_f32.ptx", ctas=[0])
    assert (result.races, result.findings) == ([], [])


@pytest.mark.parametrize("name", SMALL)
def test_compiled_kernels_have_none(name: str) -> None:
    result = watch(DATA / "tilelang/kernels" / f"{name}.ptx", ctas=[0, 1])
    assert (result.races, result.findings) == ([], [])
