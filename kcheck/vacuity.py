"""Proofs that say little: outputs that are divided by 0 for a whole region of inputs.

"Divisors nonzero" rules such inputs out. Of a divisor like sum(x^2) that is a point; of one like
max(x, 0) it is half of all inputs, which the ledger should say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import FINITE, NAN_DIV, SYMBOLIC
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import FLOATS
from kcheck.limits import LimitReached
from kcheck.outputs import read_output
from kcheck.preconditions import kept
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.verdict import element
from kcheck.witness import Subject, integers, together, unknown_inputs, with_integers

if TYPE_CHECKING:
    from kcheck.question import Question

DIVISIONS = frozenset({"div", "rcp", "rsqrt"})
# instructions times lanes, beyond which nothing is tried; CTAs of a grid that are looked at
MOST, CTAS = 1 << 25, 4
# inputs at random: what is 0 on these is 0 on a region
REGIONS: dict[str, Callable[[Any], Any]] = {
    "all inputs are negative": lambda x: -x,
    "all inputs are positive": lambda x: x,
}
NO_INTEGERS = "integers are 0 and other inputs positive"


@dataclass(frozen=True)
class Divided:
    """Elements that the subject alone divides by 0 in a region; the first, on these inputs."""

    region: str
    name: str
    at: int
    count: int
    inputs: dict[str, Any]


def divides(side: Subject) -> bool:
    """Is there a division of floats?"""
    code = side.kernel.code
    return any(i.opcode[0] in DIVISIONS and i.opcode[-1][0] not in "us" for i in code)


def zero_divisors(
    question: Question, run: Execution, steady: bool = False
) -> tuple[list[str], Divided | None]:
    """A line for each region of inputs on which outputs of the reference are divided by 0; and
    what the subject alone divides by 0 in one. `steady`: that takes integers.
    """
    lines: list[str] = []
    sides = (question.reference, question.subject)
    if not any(map(divides, sides)) or run.values > MOST:
        return lines, None
    alone: Divided | None = None
    for region in _regions(question, steady):
        found = _found(question, region, 0)
        if not any(zero.any() or lone.any() for zero, lone in found.values()):
            continue
        again = _found(question, region, 1)  # by chance, or on a region?
        for name, (zero, lone) in found.items():
            by_zero = zero & again.get(name, (False, False))[0]
            by_subject = lone & again.get(name, (False, False))[1]
            tensor = next(a for a, _ in question.compared if a.name == name)
            if by_zero.any():
                where = element(name, tensor.index(int(by_zero.argmax())))
                more = f" and {by_zero.sum() - 1} more" if by_zero.sum() > 1 else ""
                lines.append(
                    f"WARNING: {where}{more} divided by 0 where {region}: "
                    "`divisors nonzero` rules these inputs out"
                )
            if alone is None and by_subject.any():
                at, count = int(by_subject.argmax()), int(by_subject.sum())
                alone = Divided(region, name, at, count, _inputs(question, region, 0))
    return lines, alone


def _found(question: Question, region: str, draw: int) -> dict[str, tuple[Any, Any]]:
    """Flags by output (the reference's name): what the reference divides by 0, and what the
    subject alone does.
    """
    sides = (question.reference, question.subject)
    inputs = _inputs(question, region, draw)
    zero, number = [], []
    for i, side in enumerate(sides):
        made = _divided(side, i, question, inputs)
        if made is None:
            return {}
        zero.append({name: flags for name, (flags, _) in made.items()})
        number.append({name: flags for name, (_, flags) in made.items()})
    return {name: (zero[0][name], zero[1][name] & number[0][name]) for name in zero[0]}


def _regions(question: Question, steady: bool) -> list[str]:
    sides = (question.reference, question.subject)
    sizes = unknown_inputs(*sides)
    some = any(integers(side.launch, sizes) for side in sides)
    return [*([] if steady else REGIONS), *([NO_INTEGERS] if some else [])]


def _inputs(question: Question, region: str, draw: int) -> dict[str, Any]:
    sides = (question.reference, question.subject)
    rng = np.random.default_rng((question.seed, draw))
    sizes = unknown_inputs(*sides)
    sign = REGIONS.get(region, REGIONS["all inputs are positive"])
    inputs = {n: sign(abs(rng.normal(size=k)) + 0.1) for n, k in sizes.items()}
    if region == NO_INTEGERS:
        for side in sides:
            for name in integers(side.launch, inputs):
                inputs[name] = np.zeros(sizes[name])
    return kept(inputs, *(side.launch for side in sides))


def _divided(
    side: Subject, i: int, question: Question, inputs: dict[str, Any]
) -> dict[str, tuple[Any, Any]] | None:
    """Flags by output (the reference's name): divided by 0, and a number; None if there is no
    telling.
    """
    found: dict[str, tuple[Any, Any]] = {}
    try:
        launch = with_integers(side.launch, inputs)
        ctas = _some(side) if question.ctas is None else question.ctas
        run = execute(side.kernel, launch, EnclosureDomain(inputs), ctas=ctas)
        for pair in question.compared:
            if pair[i].dtype in FLOATS:
                out = read_output(run, pair[i])
                number = ((out.ids == SYMBOLIC) | (out.ids >= FINITE)) & ~out.unwritten
                found[pair[0].name] = (out.ids == NAN_DIV) & ~out.unwritten, number
    except (Refused, BudgetError, Unsupported, LimitReached, MemoryError):
        return None
    return found


def _some(side: Subject) -> list[int]:
    """A few CTAs of a grid, and those that they wait for."""
    every = np.linspace(0, side.launch.ctas - 1, min(CTAS, side.launch.ctas))
    return together(side, sorted(set(every.astype(int).tolist())))
