"""Sums over a block, as CUDA programmers write them: those that trust lockstep are races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Scalar, Tensor
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
# kernel for blocks of any size -> the sizes it is launched with
ANY = {
    "any_interleaved": (64, 96, 128, 256, 512),
    "any_sequential": (64, 80, 128, 256, 512),
    "any_last_synced": (64, 128, 256, 512),
    "any_shuffled": (64, 96, 128, 256, 512),
}
WARP_SYNCHRONOUS = {"w_any_last": (64, 128, 256, 512)}
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
    assert entries == {*RIGHT, *RACY, *ANY, *WARP_SYNCHRONOUS, *TILES, "reduce_integers"}


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


def launch_of_any(name: str, block: int, count: int = 1000) -> Launch:
    """`count` elements for each block: not a multiple of any block, and no power of two."""
    params = (
        Tensor("in", "f32", (CTAS * count,), "in"),
        Tensor("out", "f32", (CTAS,), "out"),
        Scalar("n", "s32", count),
    )
    return Launch(name, (CTAS, 1, 1), (block, 1, 1), params)


def of_any_size(name: str, block: int, count: int = 1000) -> Verdict:
    """Against the first of them, in blocks of 64."""
    return equivalent(
        LADDER, LADDER, kernel="any_interleaved", subject_kernel=name, seed=1,
        launch=launch_of_any("any_interleaved", 64, count),
        subject_launch=launch_of_any(name, block, count),
    )  # fmt: skip


@pytest.mark.parametrize(("name", "block"), [(k, size) for k in ANY for size in ANY[k]])
def test_right_sum_in_blocks_of_any_size(name: str, block: int) -> None:
    verdict = of_any_size(name, block)
    assert (verdict.verdict, verdict.findings, verdict.outputs) == ("proved", (), (CTAS, CTAS))


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("count", [1, 45])
def test_right_sum_of_fewer_elements_than_threads(name: str, count: int) -> None:
    verdict = of_any_size(name, 64, count)
    assert (verdict.verdict, verdict.findings, verdict.outputs) == ("proved", (), (CTAS, CTAS))


@pytest.mark.parametrize("block", WARP_SYNCHRONOUS["w_any_last"])
def test_sum_that_trusts_lockstep_in_blocks_of_any_size(block: int) -> None:
    verdict = of_any_size("w_any_last", block)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.unordered")
    for finding in verdict.findings:
        assert (finding.reason, finding.side) == ("race.unordered", "subject")
        assert all("volatile.shared" in place.text for place in finding.locations)


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
