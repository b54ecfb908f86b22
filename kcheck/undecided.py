"""Why there is no answer, and what to try next: every `undecided` says both (DESIGN.md 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kcheck.canon.term.domain import TermDomain
from kcheck.confirm import place
from kcheck.limits import LimitReached
from kcheck.semantics.execution import Refused
from kcheck.semantics.refusals import refusals
from kcheck.verdict import Finding, Verdict

if TYPE_CHECKING:
    from kcheck.question import Question
    from kcheck.witness import Subject

# forms that are named for one kernel
SHOWN = 6
_SMALLER = "a smaller launch, or --cta N"
_VALUES = "values: in the launch file for the integers that it depends on"
_DECIDED = (
    "range: in the launch file, if it decides the comparison",
    "values: in the launch file, if it is one of integers",
)
# reason, or what it begins with -> what to try
ADVICE: dict[str, tuple[str, ...]] = {
    "budget.time": ("a larger --time-limit, if one was given", _SMALLER),
    "budget.memory": ("a larger --memory-limit, if one was given", _SMALLER),
    "budget.levels": (
        "--engine auto: exact proofs know no depth",
        "the kernels in parts: one exp inside another is tested at most 3 deep",
    ),
    "budget.degree": ("--engine term: exact proofs know no degrees", _SMALLER),
    "budget.seeds": ("another --seed",),
    "tested-equal": ("--engine auto, which tries an exact proof as well", _SMALLER),
    "formats-differ": ("--engine auto: do they differ over the reals?",),
    "opaque": (
        "range:, positive: or nonzero: in the launch file, if the inputs are so",
        "--mask-literal X, if one side masks by the number X and the other by -inf",
        "a look at the two stores: they differ in a function or a comparison",
    ),
    "constants": ("compare the float literals of both kernels",),
    "unconfirmed": ("an input that makes the guards of these instructions true, as values:",),
    "one CTA is not the grid": ("no --cta", "--accept cta, if one CTA is enough"),
    "unsupported": ("the kernels without that instruction, or that output (compare: false)",),
    "unsupported.symbolic-int": (
        "range: in the launch file for the integers that it depends on",
        _VALUES,
        "a number as the scalar's value:",
    ),
    "unsupported.branch": _DECIDED,
    "unsupported.predicated": _DECIDED,
    "unsupported.address": (_VALUES,),
    "unsupported.symbolic-address": (
        "a range: in the launch file that keeps the index within its buffer",
        _VALUES,
    ),
    "unsupported.infinity": ("guards that keep unknown values from being multiplied by inf",),
    "unsupported.magic-rounding": (
        "--mask-literal X, if the constant X is a mask that stands for -infinity",
    ),
    "unsupported.memory-order": ("--no-safety checks the values alone",),
    "unsupported.unstable": ("a kernel whose results depend on no schedule",),
}


def advice(reason: str) -> tuple[str, ...]:
    """What to try for a reason: its own row, or that of what it begins with; () if none."""
    while reason and reason not in ADVICE:
        reason = reason.rpartition(".")[0]
    return ADVICE.get(reason, ())


def undecided(reason: str, message: str) -> Verdict:
    """No answer."""
    return Verdict("undecided", reason, findings=(Finding(reason, message, "both"),))


def cut_short(question: Question, what: str, message: str) -> Verdict:
    """No answer because a budget is spent, or a limit reached: with all that is known so far."""
    parts = [f"{message} while {question.stage or 'starting'}", *question.known.done]
    return replace(undecided(f"budget.{what}", "; ".join(parts)), **question.known.facts)


def unread(error: LimitReached | MemoryError, side: str = "both") -> Verdict:
    """No answer because a limit was reached before the kernels (or the only one) were known."""
    what, message = "memory", "the system has no more memory"
    if isinstance(error, LimitReached):
        what, message = error.what, str(error)
    reason = f"budget.{what}"
    finding = Finding(reason, f"{message} while reading the kernels", side)
    return Verdict("undecided", reason, findings=(finding,), next_steps=advice(reason))


def refused(error: Refused) -> Verdict:
    """No answer because of an instruction."""
    reason = f"unsupported.{error.form}"
    finding = Finding(reason, error.message, error.side or "both", (place(error.instr),))
    steps = (*advice(reason), f"rewrite or isolate the instruction at {error.instr.span}")
    return Verdict("undecided", reason, findings=(finding,), next_steps=steps)


def advised(verdict: Verdict, question: Question) -> Verdict:
    """The verdict with what to try next, if it is none that an answer is."""
    if verdict.verdict not in ("undecided", "proved-for-cta"):
        return verdict
    reason = verdict.reason or ""
    steps = [*(verdict.next_steps or advice(reason))]
    if reason.startswith("unsupported."):
        sides = {"the kernel": question.reference}
        if question.subject is not question.reference:
            sides = {"the reference": question.reference, "the subject": question.subject}
        steps += [line for name, side in sides.items() for line in _forms(name, side)]
    return replace(verdict, next_steps=tuple(dict.fromkeys(steps)))


def _forms(name: str, side: Subject) -> Iterator[str]:
    """All forms of a kernel that are not executed, with their numbers."""
    found: dict[str, list[int]] = {}
    for instr, _ in refusals(side.kernel, side.launch, TermDomain()):
        found.setdefault(instr.name, []).append(instr.span.line)
    if found:
        shown = [f"{form} ({len(at)}, first in line {at[0]})" for form, at in found.items()]
        more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
        yield f"not executed in {name}: {', '.join(shown[:SHOWN])}{more}"
