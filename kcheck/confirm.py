"""Defects that the lane executor saw, looked for again by the slow evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from kcheck.canon.families import draws
from kcheck.launch import Launch
from kcheck.preconditions import kept
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.execution import Refused
from kcheck.semantics.machine import BudgetError, Fault
from kcheck.semantics.slow import UNDEF, UNWRITTEN, Enclosure, Real, SlowResult, Unevaluated
from kcheck.semantics.slow.origins import origin
from kcheck.semantics.values import Unsupported
from kcheck.verdict import Finding, Location
from kcheck.witness import Subject, slow_machine, slow_run, together, unknown_inputs, writers

# inputs that are tried before a defect counts as not confirmed
TRIES = 3
MANY_TRIES = 40


def place(instr: Instr) -> Location:
    """An instruction in the PTX, with the `.loc` that is in force there."""
    span, loc = instr.span, instr.loc
    source = (f"{loc.file}:{loc.line}",) if loc is not None and loc.line else ()
    return Location(span.source.name, span.line, span.text, source=source)


def location(
    kernel: Kernel,
    at: int,
    thread: tuple[int, int, int] | None = None,
    cta: tuple[int, int, int] | None = None,
) -> Location:
    """The place of an instruction in the PTX, and in what the PTX says that it was made from."""
    return replace(place(kernel.code[at]), thread=thread, cta=cta)


def flat(cta: tuple[int, int, int], launch: Launch) -> int:
    """The linear index of a CTA."""
    x, y, z = cta
    return x + launch.grid[0] * (y + launch.grid[1] * z)


def fault_finding(side: Subject, name: str, fault: Fault) -> Finding:
    """A fault as a finding; `name`: reference or subject."""
    place = location(side.kernel, fault.at, fault.thread, fault.cta)
    return Finding(fault.reason, fault.message, name, (place,), fault.count)


class SlowRuns:
    """Runs of the slow evaluator on a few inputs, each made once; for one side."""

    def __init__(self, side: Subject, seed: int) -> None:
        self.side, self.seed = side, seed
        self._made: dict[tuple[int, ...], list[SlowResult | None]] = {}

    def of(self, ctas: list[int], tries: int = TRIES) -> Iterator[SlowResult]:
        """The runs of these CTAs that come to an end, made as they are asked for."""
        ctas = together(self.side, ctas)
        made = self._made.setdefault(tuple(ctas), [])
        inputs = list(islice(draws(unknown_inputs(self.side), self.seed), tries))
        for i, (_, given) in enumerate(inputs):
            if i == len(made):
                made.append(self._run(kept(given, self.side.launch), ctas))
            result = made[i]
            if result is not None:
                yield result

    def _run(self, inputs: dict[str, Any], ctas: list[int]) -> SlowResult | None:
        for kind in self.side.numbers:
            try:
                return slow_run(self.side, inputs, kind, ctas)
            except Unevaluated:
                continue
        return None


def confirm_fault(runs: SlowRuns, fault: Fault) -> bool | None:
    """True: the slow evaluator finds it too; False: it does not; None: it can't tell."""
    side, kind = runs.side, fault.reason.partition(".")[0]
    answer: bool | None = None
    tries = MANY_TRIES if fault.conditional else TRIES
    for result in runs.of([flat(fault.cta, side.launch)], tries):
        answer = any(
            f.reason.partition(".")[0] == kind
            and (f.instr is None or kind == "deadlock" or f.instr is side.kernel.code[fault.at])
            for f in result.findings
        )
        if answer:
            return True
    # that a predicate held on none of the inputs that were tried contradicts nothing
    return None if fault.conditional else answer


def with_origin(
    side: Subject,
    finding: Finding,
    at: int,
    who: tuple[tuple[int, int, int], tuple[int, int, int]],
    seed: int,
) -> Finding:
    """The finding, and the load that the undefined value came from.

    `at`: the instruction that uses the value, `who`: its CTA and thread.
    """
    _, drawn = next(draws(unknown_inputs(side), seed))
    inputs = kept(drawn, side.launch)
    machine = slow_machine(side, inputs, Enclosure, [flat(who[0], side.launch)])
    made = origin(machine, *who, at)
    if made is None:
        return finding
    place = location(side.kernel, made, who[1], who[0])
    message = f"{finding.message}, by the value that line {place.line} got"
    return replace(finding, message=message, locations=(*finding.locations, place))


def last_writer(
    side: Subject, element: tuple[str, int], ctas: list[int] | None, seed: int
) -> dict[int, tuple[int, tuple[int, int, int]]]:
    """CTA -> (instruction, thread) that last wrote an element. Refused, or as the executor gives
    up, on all inputs that are tried.
    """
    gave_up: Exception | None = None
    for _, inputs in islice(draws(unknown_inputs(side), seed), TRIES):
        try:
            return writers(side, element, ctas, kept(inputs, side.launch))
        except (Refused, BudgetError, Unsupported) as error:
            gave_up = error  # a row of zeros divided by its maximum, as an integer
    assert gave_up is not None
    raise gave_up


def confirm_output(
    runs: SlowRuns, element: tuple[str, int], wanted: str, ctas: list[int]
) -> bool | None:
    """Is an element `nan`, `undefined`, `unwritten` or `written` for the slow evaluator too?"""
    answer: bool | None = None
    for result in runs.of(ctas):
        value = result.outputs[element[0]][element[1]]
        answer = _kind(value) == wanted or (wanted == "written" and value is not UNWRITTEN)
        if answer:
            return True
    return answer


def _kind(value: Any) -> str:
    if value is UNWRITTEN:
        return "unwritten"
    if value is UNDEF:
        return "undefined"
    if isinstance(value, Real) and value.number.is_nan:
        return "nan"
    return "number"


def to_watch(side: Subject, writing: dict[int, Any], ctas: list[int] | None) -> list[int]:
    """The CTAs that the slow evaluator runs to judge one element: all, where nobody writes it."""
    return sorted(writing) or (list(range(side.launch.ctas)) if ctas is None else ctas)


def first(flags: Any) -> int:
    """The first element that is set."""
    return int(np.argmax(flags))
