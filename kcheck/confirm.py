"""Defects that the lane executor saw, looked for again by the slow evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.families import draws
from kcheck.launch import Launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.machine import Fault
from kcheck.semantics.slow import UNDEF, UNWRITTEN, Enclosure, Exact, Real, Unevaluated
from kcheck.verdict import Finding, Location
from kcheck.witness import Subject, slow_run, unknown_inputs, writers

# inputs that are tried before a defect counts as not confirmed
TRIES = 3
# CTAs that the slow evaluator runs to see that nothing writes an element
FEW_CTAS = 16


def location(
    kernel: Kernel,
    at: int,
    thread: tuple[int, int, int] | None = None,
    cta: tuple[int, int, int] | None = None,
) -> Location:
    """The place of an instruction in the PTX."""
    span = kernel.code[at].span
    return Location(span.source.name, span.line, span.text, thread, cta)


def flat(cta: tuple[int, int, int], launch: Launch) -> int:
    """The linear index of a CTA."""
    x, y, z = cta
    return x + launch.grid[0] * (y + launch.grid[1] * z)


def fault_finding(side: Subject, name: str, fault: Fault) -> Finding:
    """A fault as a finding; `name`: reference or subject."""
    place = location(side.kernel, fault.at, fault.thread, fault.cta)
    return Finding(fault.reason, fault.message, name, (place,), fault.count)


def confirm_fault(side: Subject, fault: Fault, seed: int) -> bool | None:
    """True: the slow evaluator finds it too; False: it does not; None: it can't tell."""
    kind = fault.reason.partition(".")[0]
    answer: bool | None = None
    for result in _slow_results(side, [flat(fault.cta, side.launch)], seed):
        answer = any(
            f.reason.partition(".")[0] == kind
            and (f.instr is None or kind == "deadlock" or f.instr is side.kernel.code[fault.at])
            for f in result.findings
        )
        if answer:
            return True
    return answer


def _slow_results(side: Subject, ctas: list[int], seed: int) -> Any:
    """Runs of the slow evaluator that came to an end, on a few inputs."""
    numbers = (Exact, Enclosure) if side.rational else (Enclosure,)
    for count, (_, inputs) in enumerate(draws(unknown_inputs(side), seed)):
        if count == TRIES:
            return
        for kind in numbers:
            try:
                yield slow_run(side, inputs, kind, ctas)
            except Unevaluated:
                continue
            break


def last_writer(
    side: Subject, element: tuple[str, int], ctas: list[int] | None, seed: int
) -> dict[int, tuple[int, tuple[int, int, int]]]:
    """CTA -> (instruction, thread) that last wrote an element."""
    _, inputs = next(draws(unknown_inputs(side), seed))
    return writers(side, element, ctas, inputs)


def confirm_output(
    side: Subject, element: tuple[str, int], wanted: str, ctas: list[int], seed: int
) -> bool | None:
    """Is an element `nan`, `undefined`, `unwritten` or `written` for the slow evaluator too?"""
    answer: bool | None = None
    for result in _slow_results(side, ctas, seed):
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
    """The CTAs that the slow evaluator runs to judge one element."""
    every = list(range(side.launch.ctas)) if ctas is None else ctas
    return sorted(writing) or every[:FEW_CTAS]


def first(flags: Any) -> int:
    """The first element that is set."""
    return int(np.argmax(flags))
