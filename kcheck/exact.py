"""Exact proofs: both kernels over terms, equal if their normal forms are (DESIGN.md 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kcheck.canon.real import Reals
from kcheck.canon.term.dag import BudgetSpent
from kcheck.canon.term.domain import TermDomain
from kcheck.outputs import Comparison, compare
from kcheck.semantics.execution import Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported

if TYPE_CHECKING:
    from kcheck.field_runs import FieldRun
    from kcheck.question import Question

# operations of one graph, beyond which CTAs are taken in several parts
ROWS = 1 << 24
# operations, about, beyond which `--engine auto` is content with identity testing
MOST = 1 << 27


@dataclass
class Proof:
    """`open`: flags per buffer of compared elements that no proof was found for; `why`: the
    reason for one of them, "" if there is none. `steady`: nothing is divided by what is 0 on a
    region of inputs.
    """

    open: dict[str, Any]
    why: str
    steady: bool = False

    @property
    def whole(self) -> bool:
        """Everything is proved."""
        return not self.why and not any(flags.any() for flags in self.open.values())


def prove(question: Question, run: FieldRun, comparisons: dict[str, Comparison]) -> Proof:
    """Prove the elements equal that both sides of `run` write.

    `comparisons`: of `run`, which saw no fault, no race and no value that is no number.
    """
    missing = {name: ~c.idle & (c.unwritten == 0) for name, c in comparisons.items()}
    ctas, size = run.reference.ctas, len(run.reference.ctas)
    if _separable(question, run) and run.reference.values + run.subject.values > ROWS:
        size = 1
    start, steady = 0, True
    while start < len(ctas):
        # all of them: each side its own grid
        part = question.ctas if size >= len(ctas) else ctas[start : start + size]
        domain = TermDomain(positive=question.positive)
        found = _part(question, run, part, domain)
        if isinstance(found, str):
            return Proof(missing, found)
        for name, c in found.items():
            if (c.equal & ~missing[name]).any():
                return Proof(missing, "an element is made by several parts of the grid")
            missing[name] = missing[name] & ~c.equal
        if any((~c.equal & ~c.idle).any() for c in found.values()):
            return Proof(missing, domain.equality.left)
        work = domain.dag.count * len(ctas) // size
        if work > MOST and question.engine == "auto":
            return Proof(missing, f"about {work:.0e} operations (--engine term takes the time)")
        steady = steady and domain.equality.divides_by_numbers()
        start += size
        size = max(size * ROWS // max(domain.dag.count, 1), 1)
    return Proof(missing, "", steady)


def _separable(question: Question, run: FieldRun) -> bool:
    """Can CTAs be compared part by part: both grids are one, and no CTA sees another's stores?"""
    if question.reference.plan.grid or question.subject.plan.grid:
        return False
    sides = (run.reference, run.subject)
    updates = any(i.opcode[0] in ("atom", "red") for s in sides for i in s.kernel.code)
    return question.safety and sides[0].launch.grid == sides[1].launch.grid and not updates


def _part(
    question: Question,
    run: FieldRun,
    ctas: list[int] | None,
    domain: TermDomain,
) -> dict[str, Comparison] | str:
    """The comparison of some CTAs, or why there is none."""
    reals: Reals[Any] = Reals(question.within_ranges(domain))
    made = []
    try:
        for name, side, before in (
            ("reference", question.reference, run.reference),
            ("subject", question.subject, run.subject),
        ):
            # lanes may store equal values to one address: here they must be so exactly
            shared = any(before.same_value.values())
            again = execute(
                side.kernel,
                side.launch,
                reals.domain,
                ctas=ctas,
                reals=reals,
                races=shared,
                identify=question.identify,
                progress=partial(question.progress, f"proving: the {name}"),
            )
            if again.races:
                return "lanes store values to one address that are equal in all trials only"
            if again.doubt is not None:
                return str(again.doubt)
            made.append(again)
        question.progress("proving: normal forms", 0.0)
        pairs = {
            a.name: compare(made[0], made[1], (a, b), reals.domain) for a, b in question.compared
        }
    except BudgetSpent as error:
        return str(error)
    except (Refused, Unsupported, BudgetError) as error:
        return str(error)
    return pairs
