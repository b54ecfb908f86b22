"""Random barrier programs: the lane executor's monitor and the slow one see the same.

Three things are named or kept apart by design:

- A cp.async that its thread has waited for is to the lane executor a plain access, and one that
  comes after a plain access is named by that one; to the slow monitor both are `race.async`.
- The lane executor keeps few accesses of a cell of global memory: of several races at a cell that
  several CTAs access, or ld.global.nc reads, it reports one (and calls a copy's race `race.global`
  like any other across CTAs).
- Whether lanes of one instruction store the same may hang on the schedule, if there are races.
- If arrivals at a barrier may be paired in several ways, what else goes wrong hangs on the
  schedule, and so does which of them are reported.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from kcheck.canon.field import FieldDomain
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import Refused, execute
from kcheck.semantics.slow import Double, SlowMachine
from tests.semantics.programs import Program, programs

Pairs = set[tuple[str, tuple[int, int]]]
PAIRING = "race.barrier-pairing"
PLAIN = {"race.async", "race.read-write", "race.write-write"}
ONE_OF_SEVERAL = {"race.global", "race.nc"}


def concrete(program: Program) -> Launch:
    """The launch with the inputs as known values: addresses and sums stay concrete."""
    params = tuple(
        replace(t, values=np.array(program.inputs[t.name]))
        if isinstance(t, Tensor) and t.name in program.inputs
        else t
        for t in program.launch.params
    )
    return replace(program.launch, params=params)


def fast(kernel: Kernel, program: Program) -> tuple[Pairs, set[str]]:
    try:
        run = execute(kernel, concrete(program), FieldDomain(1), races=True)
    except Refused as error:
        assume(error.form != "convergence")  # a shuffle that names lanes which are elsewhere
        raise
    lines = [instr.span.line for instr in kernel.code]
    races: Pairs = set()
    for race in run.races:
        a, b = lines[race.first], lines[race.second]
        races.add((race.reason, (min(a, b), max(a, b))))
    return races, {fault.reason for fault in run.faults}


def slow(kernel: Kernel, program: Program) -> tuple[Pairs, set[str]]:
    run = SlowMachine(kernel, program.launch, program.inputs, Double, races=True).run()
    faults = {f.reason for f in run.findings if f.reason.partition(".")[0] != "value"}
    return {(race.reason, race.lines) for race in run.races}, faults - {"undefined.output"}


def renamed(races: Pairs, copies: set[int]) -> Pairs:
    """Races of copies under one name."""
    return {
        ("race.async" if reason in PLAIN and copies & set(lines) else reason, lines)
        for reason, lines in races
    }


def compare(program: Program) -> bool:
    """Assert that both see the same; is there a race?"""
    kernel = lower(parse(program.text))
    mine, my_faults = fast(kernel, program)
    theirs, faults = slow(kernel, program)
    text = program.text.splitlines()
    copies = {number for number, line in enumerate(text, 1) if "cp.async.ca" in line}
    mine, theirs = renamed(mine, copies), renamed(theirs, copies)
    assert bool(mine) == bool(theirs)
    if PAIRING in {reason for reason, _ in mine | theirs}:
        assert PAIRING in {reason for reason, _ in mine} & {reason for reason, _ in theirs}
        return True
    assert my_faults == faults
    few = {lines for reason, lines in mine if reason in ONE_OF_SEVERAL}
    met = {line for lines in few for line in lines}
    if any(len(set(lines)) > 1 for _, lines in mine & theirs):
        mine, theirs = (
            {race for race in races if len(set(race[1])) > 1} for races in (mine, theirs)
        )
    assert {lines for _, lines in mine} <= {lines for _, lines in theirs}
    assert {race for race in mine if race[1] not in few} <= theirs
    assert all(met & set(lines) for _, lines in theirs - mine)
    return bool(mine)


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)


@SETTINGS
@given(programs())
def test_both_monitors_see_the_same(program: Program) -> None:
    compare(program)


def test_some_programs_have_races_and_some_have_none() -> None:
    seen = []

    @settings(SETTINGS, max_examples=60, derandomize=True)
    @given(programs())
    def collect(program: Program) -> None:
        seen.append(compare(program))

    collect()
    assert min(seen.count(True), seen.count(False)) > 10
