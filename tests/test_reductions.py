"""Sums over a block, as CUDA programmers write them: those that trust lockstep are races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse_file
from kcheck.verdict import Verdict
from tests.corpus import DATA

LADDER, GROUPS = DATA / "races/ladder.ptx", DATA / "races/groups.ptx"
N, CTAS = 256, 2
BLOCK = {"add_on_load": 128, "several_synced": 64, "w_several": 64}
RIGHT = [
    "interleaved", "sequential", "add_on_load", "last_warp_synced", "last_warp_synced_volatile",
    "unrolled_synced", "several_synced", "shuffled_synced",
]  # fmt: skip
# warp-synchronous kernel -> reason
RACY = {
    "w_last_warp": "race.read-write",
    "w_last_warp_volatile": "race.unordered",
    "w_last_warp_half_synced": "race.read-write",
    "w_unrolled": "race.unordered",
    "w_several": "race.unordered",
    "w_shuffled": "race.read-write",
}
TILES = ["reduce_tiles", "shuffle_tiles", "sync_tiles"]


def launch(name: str) -> Launch:
    params = (Tensor("in", "f32", (CTAS * N,), "in"), Tensor("out", "f32", (CTAS,), "out"))
    return Launch(name, (CTAS, 1, 1), (BLOCK.get(name, N), 1, 1), params)


def against_the_first(path: Path, name: str, *, safety: bool = True) -> Verdict:
    return equivalent(
        LADDER, path, kernel="interleaved", subject_kernel=name, safety=safety, seed=1,
        launch=launch("interleaved"), subject_launch=launch(name),
    )  # fmt: skip


def test_every_kernel_is_listed() -> None:
    entries = {entry.name for path in (LADDER, GROUPS) for entry in parse_file(path).entries}
    assert entries == {*RIGHT, *RACY, *TILES, "reduce_integers"}


@pytest.mark.parametrize("name", RIGHT)
def test_right_sum(name: str) -> None:
    verdict = against_the_first(LADDER, name)
    assert (verdict.verdict, verdict.findings) == ("proved", ())
    assert verdict.outputs == (CTAS, CTAS)


@pytest.mark.parametrize("name", RACY)
def test_sum_that_trusts_lockstep(name: str) -> None:
    verdict = against_the_first(LADDER, name)
    assert (verdict.verdict, verdict.reason) == ("refuted", RACY[name])
    code = lower(parse_file(LADDER), name).code
    lines = {instr.span.line: instr.opcode[0] for instr in code}
    races = [f for f in verdict.findings if f.reason != "value.mismatch"]
    # nvcc keeps sums in registers where nothing is volatile, so that not even lockstep helps
    assert (len(races) < len(verdict.findings)) == (name == "w_last_warp")
    for finding in races:
        assert (finding.reason, finding.side) == (RACY[name], "subject")
        kinds = {lines[place.line] for place in finding.locations}
        assert kinds == {"ld", "st"} or (kinds == {"st"} and len(finding.locations) == 2)
    alone = safe(LADDER, kernel_name=name, launch=launch(name), seed=1)
    assert (alone.verdict, alone.reason) == ("refuted", RACY[name])


@pytest.mark.parametrize("name", sorted(set(RACY) - {"w_last_warp"}))
def test_lockstep_gives_the_right_sum(name: str) -> None:
    """Nothing but the race is wrong with it."""
    assert against_the_first(LADDER, name, safety=False).verdict == "proved"


@pytest.mark.parametrize("name", TILES)
def test_cooperative_groups(name: str) -> None:
    verdict = against_the_first(GROUPS, name)
    assert (verdict.verdict, verdict.findings) == ("proved", ())


def test_cooperative_groups_on_integers() -> None:
    known = Tensor("in", "s32", (CTAS * N,), "in", values=np.arange(CTAS * N))
    params = (known, Tensor("out", "s32", (CTAS,), "out"))
    where = Launch("reduce_integers", (CTAS, 1, 1), (N, 1, 1), params)
    verdict = safe(GROUPS, kernel_name="reduce_integers", launch=where, seed=1)
    assert (verdict.verdict, verdict.findings) == ("proved", ())
