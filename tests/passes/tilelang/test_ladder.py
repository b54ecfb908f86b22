"""Rungs: which there are, that the last one is the ordinary compile, and bisection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.passes.tilelang.ladder import NONE, OPTIMIZATIONS, Ladder, first_bad, steps
from tests.passes.tilelang import kernels
from tests.passes.tilelang.breaking import added_pass
from tests.passes.tilelang.support import asked

UNSAFE = "tl.disable_thread_storage_sync"


def names(ladder: Ladder) -> list[str]:
    """The rungs that differ from the one below."""
    found, last = [], None
    for at in range(ladder.start, len(ladder.steps)):
        if ladder.rung(at) is not last:
            found.append(ladder.steps[at].name)
        last = ladder.rung(at)
    return found


def test_gemm_has_these_rungs() -> None:
    ladder = Ladder(asked(kernels.gemm()))
    found = names(ladder)
    assert found[:4] == [NONE, "vectorize", "software_pipeline", "async_copy"]
    assert ladder.rung(len(ladder.steps) - 1) is ladder.last
    assert not ladder.missing
    # each rung has its own launch: two stages need twice the memory
    shared = [ladder.rung(at).lowered.launch.dynamic_shared for at in (0, len(ladder.steps) - 1)]
    assert shared == [8192, 16384]


def test_the_users_configs_are_the_last_rungs() -> None:
    """What is unsafe is off below; what only switches an optimization off is never on."""
    configs = {UNSAFE: True, "tirx.disable_vectorize": True, "tl.device_compile_flags": ["-DA"]}
    found = steps(asked(kernels.add(), pass_configs=configs))
    assert found[-1].name == UNSAFE
    assert found[-1].configs[UNSAFE] is True
    assert [UNSAFE in step.configs for step in found[:-1]] == [False] * (len(found) - 1)
    assert all(step.configs["tirx.disable_vectorize"] is True for step in found)
    assert all(step.configs["tl.device_compile_flags"] == ["-DA"] for step in found)
    assert [step.name for step in found[:-1]] == [NONE, *(o.name for o in OPTIMIZATIONS)]


def test_passes_of_others_are_rungs(monkeypatch: pytest.MonkeyPatch) -> None:
    with added_pass(monkeypatch, "wrong_sign"):
        ladder = Ladder(asked(kernels.add()))
        assert names(ladder)[-1] == "test.wrong_sign"
        assert "test.wrong_sign" not in ladder.first.lowered.passes


def test_what_can_not_be_lowered_stands_for_the_rung_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kcheck.passes.tilelang import ladder as module
    from kcheck.passes.tilelang import lowering

    real = lowering.lower

    def lower(request: object, configs: dict[str, object], *rest: object) -> object:
        if "tl.disable_loop_unswitching" not in configs and "tl.disable_wgmma" not in configs:
            return real(request, configs, *rest)  # type: ignore[arg-type]
        raise RuntimeError("no such luck")

    ladder = Ladder(asked(kernels.add()))
    ladder.last  # noqa: B018
    monkeypatch.setattr(module, "lower", lower)
    assert ladder.steps[ladder.start].name == "loop_unswitch"
    assert ladder.missing["vectorize"] == "no such luck"


@given(st.integers(1, 40), st.data())
def test_bisection_finds_the_first_bad_rung(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    tries: list[int] = []

    def good(at: int) -> bool:
        tries.append(at)
        return at < first

    assert first_bad(0, count, good) == first
    assert len(tries) <= count.bit_length()
