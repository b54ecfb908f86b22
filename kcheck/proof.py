"""Does a theorem turn "no difference in n trials" into a proof? (docs/identity-testing.md)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcheck.canon.bound import BoundDomain
from kcheck.canon.field import FieldDomain
from kcheck.canon.real import Reals
from kcheck.canon.theorem import Claim, error_log2, trials_needed
from kcheck.launch import Scalar, Tensor
from kcheck.outputs import read_output
from kcheck.semantics.execution import execute

if TYPE_CHECKING:
    from kcheck.check import FieldRun, Question

__all__ = ["Claim", "claim", "error_log2", "trials_needed"]


def claim(question: Question, run: FieldRun) -> Claim:
    """What the equality that `run` found rests on: both sides again, with degrees and supports."""
    field = FieldDomain(question.seed + run.redraws, run.trials, run.levels)
    domain = BoundDomain(field, shapes(question))
    reals: Reals[Any] = Reals(domain)
    runs = []
    for name, side in (("reference", question.reference), ("subject", question.subject)):
        runs.append(
            execute(
                side.kernel,
                side.launch,
                domain,
                ctas=question.ctas,
                reals=reals,
                progress=lambda done, name=name: question.progress(f"bounding the {name}", done),
            )
        )
    pairs = [
        (read_output(runs[0], a).v, read_output(runs[1], b).v) for a, b in question.compared
    ]
    return domain.claim(pairs)


def shapes(question: Question) -> dict[str, tuple[int, ...]]:
    """The symbolic inputs of both sides."""
    out: dict[str, tuple[int, ...]] = {}
    for side in (question.reference, question.subject):
        for param in side.launch.params:
            if isinstance(param, Tensor) and param.role != "out" and param.values is None:
                dense = param.strides is None
                out[param.name] = param.shape if dense else (param.elements,)
            elif isinstance(param, Scalar) and param.value is None:
                out[param.name] = (1,)
    return out

