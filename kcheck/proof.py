"""Does a theorem turn "no difference in n trials" into a proof? (docs/identity-testing.md)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcheck.canon.bound import BoundDomain
from kcheck.canon.field import FieldDomain
from kcheck.canon.ranged import plain
from kcheck.canon.real import Reals
from kcheck.canon.theorem import Claim
from kcheck.outputs import parts_of, read_output
from kcheck.semantics.execution import Execution, execute
from kcheck.witness import Subject, unknown_shapes

if TYPE_CHECKING:
    from kcheck.field_runs import FieldRun
    from kcheck.question import Question


def claim(question: Question, run: FieldRun) -> Claim:
    """What the equality that `run` found rests on: both sides again, with degrees and supports."""
    field = FieldDomain(question.seed + run.redraws, run.trials, run.levels, roots=run.field.roots)
    domain = BoundDomain(field, unknown_shapes(question.reference, question.subject))
    reals: Reals[Any] = Reals(question.within_ranges(domain))

    def bounded(name: str, side: Subject) -> Execution:
        return execute(
            side.kernel,
            side.launch,
            reals.domain,
            ctas=question.ctas,
            reals=reals,
            identify=question.identify,
            progress=lambda done: question.progress(f"bounding the {name}", done),
        )

    first = bounded("reference", question.reference)
    second = bounded("subject", question.subject)
    pairs = (
        (plain(read_output(first, a, part).v), plain(read_output(second, b, part).v))
        for a, b in question.compared
        for part in parts_of(a)
    )
    return domain.claim(pairs)
