"""Both kernels over a field: the filter, and the finder of differences (DESIGN.md 6)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kcheck.canon.domain import Collision, Domain, LevelsExhausted
from kcheck.canon.field import FieldDomain
from kcheck.canon.real import Reals
from kcheck.question import Question
from kcheck.semantics.execution import Execution, Notes, Refused, execute
from kcheck.witness import Subject

# exp2 inside exp2 inside ...: primes in a chain
MAX_LEVELS = 4
# new seeds after a collision of keys or a divisor that vanished by chance
REDRAWS = 3


@dataclass
class FieldRun:
    """Both kernels over one field domain."""

    field: FieldDomain
    domain: Domain[Any]  # the field, within the ranges of the inputs
    reference: Execution
    subject: Execution
    trials: int
    levels: int
    redraws: int


def field_run(
    question: Question,
    trials: int,
    redraws: int = 0,
    *,
    both: bool = True,
    roots: Collection[str] = (),
) -> FieldRun:
    """Execute both sides, with more levels and new seeds as needed.

    `redraws`: how many seeds were used up before. `both`: False runs the reference only. `roots`:
    roots of numbers that the field relates to their squares.
    """
    levels = 1 + any(
        i.opcode[0] == "ex2" for s in (question.reference, question.subject) for i in s.kernel.code
    )
    deeper = False
    while True:
        field = FieldDomain(question.seed + redraws, trials, levels, deeper=deeper, roots=roots)
        domain = question.within_ranges(field)
        reals: Reals[Any] = Reals(domain)
        try:
            a = _execute(question, question.reference, "reference", reals)
            b = _execute(question, question.subject, "subject", reals) if both else a
            return FieldRun(field, domain, a, b, trials, levels, redraws)
        except LevelsExhausted:
            # what is nested deeper is left to exact proofs
            deeper = levels == MAX_LEVELS
            levels = min(levels + 1, MAX_LEVELS)
        except Collision:
            if redraws >= REDRAWS:
                raise
            redraws += 1


def _execute(question: Question, side: Subject, name: str, reals: Reals[Any]) -> Execution:
    notes = question.seen[name] = Notes()
    if question.subject is question.reference:
        name = "kernel"
    try:
        return execute(
            side.kernel,
            side.launch,
            reals.domain,
            ctas=question.ctas,
            reals=reals,
            races=question.safety,
            strict=question.strict,
            notes=notes,
            identify=question.identify,
            progress=lambda done: question.progress(f"executing the {name}", done),
        )
    except Refused as error:
        error.side = name
        raise
