"""Litmus programs: the lane executor's monitor alone, the slow one, and both through `safe`."""

from __future__ import annotations

import pytest

from kcheck.canon.field import FieldDomain
from kcheck.check import safe
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import Execution, execute
from tests.semantics.litmus import LITMUS, Litmus

Found = set[tuple[str, tuple[int, ...]]]
NAMES = [litmus.name for litmus in LITMUS]


def monitored(litmus: Litmus, batch: int = 4096) -> Execution:
    kernel = lower(parse(litmus.text))
    return execute(kernel, litmus.launch, FieldDomain(1), races=True, batch=batch)


def races_of(run: Execution) -> Found:
    return {(race.reason, lines(run.kernel, race.first, race.second)) for race in run.races}


def lines(kernel: Kernel, first: int, second: int) -> tuple[int, ...]:
    return tuple(sorted(kernel.code[at].span.line for at in (first, second)))


@pytest.mark.parametrize("litmus", LITMUS, ids=NAMES)
def test_the_monitor_alone(litmus: Litmus) -> None:
    run = monitored(litmus)
    assert races_of(run) == litmus.wanted
    if "race.barrier-pairing" not in {reason for reason, _ in litmus.wanted}:
        assert run.faults == []


@pytest.mark.parametrize("litmus", [x for x in LITMUS if x.ctas > 1])
def test_ctas_one_after_another(litmus: Litmus) -> None:
    """The memory of earlier batches is kept."""
    assert races_of(monitored(litmus, batch=1)) == litmus.wanted


@pytest.mark.parametrize("litmus", LITMUS, ids=NAMES)
def test_through_safe(litmus: Litmus) -> None:
    """Each race is confirmed by the slow monitor, else the verdict is an error."""
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    found = {
        (f.reason, tuple(sorted(place.line for place in f.locations))) for f in verdict.findings
    }
    assert found == litmus.wanted
    for finding in verdict.findings:
        assert ("passed" in finding.message) == (finding.reason != "race.barrier-pairing")
    assert len(set(verdict.ledger)) == len(verdict.ledger)
    assert "the host clears `O`" in verdict.ledger
    if litmus.found:
        assert verdict.verdict == "refuted"
        assert verdict.reason in {reason for reason, _ in litmus.wanted}
    else:
        assert (verdict.verdict, verdict.reason) == ("proved", None)


def test_a_race_of_two_ctas_names_the_last_barriers() -> None:
    body = """
        setp.eq.u32 p, c, 0;
        @p bar.sync 0;
        @p bar.warp.sync -1; // B
        setp.eq.u32 p, i, 3;
        @p st.global.u32 [O+8], c; // C
    """
    litmus = Litmus("", body, ctas=2)
    text = litmus.text.splitlines()
    barrier, store = (
        next(n for n, line in enumerate(text, 1) if line.endswith(f"// {name}")) for name in "BC"
    )
    (finding,) = safe(litmus.text, launch=litmus.launch, seed=1).findings
    assert finding.message == (
        f"O at byte 8: nothing orders the two CTAs (store at line {store} by thread 3 of "
        f"CTA 0 and store at line {store} by thread 3 of CTA 1); the last that each had "
        f"passed: bar.warp.sync at line {barrier}, no barrier"
    )


@pytest.mark.parametrize(("count", "waits"), [("", False), (", 64", True)])
def test_a_count_waits_for_threads_that_left(count: str, waits: bool) -> None:
    body = f"setp.ge.u32 p, i, 32; @p ret; bar.sync 0{count};"
    litmus = Litmus("", body)
    faults = [fault.reason for fault in monitored(litmus).faults]
    assert faults == (["deadlock.barrier"] if waits else [])
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert verdict.reason == ("deadlock.barrier" if waits else None)
