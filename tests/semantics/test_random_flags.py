"""Random programs of flags and tickets: the lane executor's one schedule and many of the slow one.

- A race that the lane executor reports is one in some schedule of the slow evaluator.
- Where it reports none and has no doubt, no schedule has one, and all leave the same outputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from kcheck.canon.field import FieldDomain
from kcheck.launch import Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.slow import Double, SlowMachine, SlowResult
from kcheck.semantics.slow.errors import Unevaluated
from tests.semantics.flag_programs import messages, tickets
from tests.semantics.programs import Program

SEEDS = (None, 1, 2)
# for a race that none of these has: who draws which ticket is up to the schedule
MORE = range(3, 60)
Pairs = set[tuple[int, int]]


def concrete(program: Program) -> Any:
    params = tuple(
        replace(t, values=np.array(program.inputs[t.name]))
        if isinstance(t, Tensor) and t.name in program.inputs
        else t
        for t in program.launch.params
    )
    return replace(program.launch, params=params)


def outputs(run: Execution) -> dict[str, list[int]]:
    found = {}
    for name, memory in run.memories.items():
        _, held = memory.contents(4, "u32")
        ids = run.reals.ids(held, (memory.n,))
        numbers = np.broadcast_to(ids, (memory.n,)).tolist()
        found[name] = [run.reals.constants.values[i].numerator for i in numbers]
    return found


def run_slowly(kernel: Kernel, program: Program, seed: int | None) -> SlowResult | None:
    """One schedule of the slow evaluator; None if it does not come to its end."""
    machine = SlowMachine(kernel, program.launch, program.inputs, Double, seed=seed, races=True)
    try:
        result = machine.run()
    except Unevaluated:
        return None
    assert not [f for f in result.findings if f.reason.startswith(("deadlock", "bounds"))]
    return result


def compare(program: Program) -> str:
    """Assert that the evaluators agree; what is the verdict?"""
    kernel = lower(parse(program.text))
    theirs: Pairs = set()
    results: list[SlowResult | None] = []
    for seed in SEEDS:
        result = run_slowly(kernel, program, seed)
        results.append(result)
        theirs |= set() if result is None else {race.lines for race in result.races}
    try:
        run = execute(kernel, concrete(program), FieldDomain(1), races=True)
    except Refused as error:
        return f"unsupported.{error.form}"
    lines = [instr.span.line for instr in kernel.code]
    pairs = [sorted((lines[race.first], lines[race.second])) for race in run.races]
    mine = {(a, b) for a, b in pairs}
    assert run.faults == []
    if run.doubt is not None:
        return "doubt"
    for seed in MORE:
        if mine <= theirs:
            break
        more = run_slowly(kernel, program, seed)
        theirs |= set() if more is None else {race.lines for race in more.races}
    assert mine <= theirs, (mine, theirs)
    if mine:
        return "race"
    assert not theirs
    held = outputs(run)
    for end in results:
        assert end is not None
        for name, values in end.outputs.items():
            wanted = [v if isinstance(v, int) else held[name][i] for i, v in enumerate(values)]
            assert held[name] == wanted
    return "none"


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)


@SETTINGS
@given(messages())
def test_messages(program: Program) -> None:
    compare(program)


@SETTINGS
@given(tickets())
def test_tickets(program: Program) -> None:
    compare(program)


@pytest.mark.parametrize("programs", [messages, tickets])
def test_some_are_right_and_some_are_wrong(programs: Any) -> None:
    seen: Counter[str] = Counter()

    @settings(SETTINGS, max_examples=30, derandomize=True)
    @given(programs())
    def collect(program: Program) -> None:
        seen[compare(program)] += 1

    collect()
    assert min(seen["none"], seen["race"]) > 3, seen
    assert set(seen) <= {"none", "race", "doubt", "unsupported.unstable"}
