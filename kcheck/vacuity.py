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


def zero_divisors(question: Question, run: Execution) -> tuple[list[str], Divided | None]:
    """A line for each region of inputs on which outputs of the reference are divided by 0; and
    what the subject alone divides by 0 in one.
    """
    lines: list[str] = []
    sides = (question.reference, question.subject)
    if not any(map(divides, sides)) or run.values > MOST:
        return lines, None
    alone: Divided | None = None
    for region in _regions(question):
        reference, subject = (_divided(side, i, question, region) for i, side in enumerate(sides))
        for name, (by_zero, numbers) in reference.items():
            if by_zero.any():
                tensor = next(a for a, _ in question.compared if a.name == name)
                where = element(name, tensor.index(int(by_zero.argmax())))
                more = f" and {by_zero.sum() - 1} more" if by_zero.sum() > 1 else ""
                lines.append(
                    f"WARNING: {where}{more} divided by 0 where {region}: "
                    "`divisors nonzero` rules these inputs out"
                )
                break
            lone = numbers & subject[name][0] if name in subject else by_zero
            if alone is None and lone.any():
                inputs = _inputs(question, region, 0)
                alone = Divided(region, name, int(lone.argmax()), int(lone.sum()), inputs)
    return lines, alone


def _regions(question: Question) -> list[str]:
    sides = (question.reference, question.subject)
    sizes = unknown_inputs(*sides)
    some = any(integers(side.launch, sizes) for side in sides)
    return [*REGIONS, *([NO_INTEGERS] if some else [])]


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


def _divided(side: Subject, i: int, question: Question, region: str) -> dict[str, tuple[Any, Any]]:
    """Flags by output (the reference's name): divided by 0 in both of two draws, a number in both.

    Without a division all are numbers, as far as this look is concerned.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for draw in range(2):
        inputs = _inputs(question, region, draw)
        try:
            launch = with_integers(side.launch, inputs)
            ctas = _some(side) if question.ctas is None else question.ctas
            run = execute(side.kernel, launch, EnclosureDomain(inputs), ctas=ctas)
        except (Refused, BudgetError, Unsupported, LimitReached, MemoryError):
            return {}
        for pair in question.compared:
            if pair[i].dtype not in FLOATS:
                continue
            out = read_output(run, pair[i])
            by_zero = (out.ids == NAN_DIV) & ~out.unwritten
            number = ((out.ids == SYMBOLIC) | (out.ids >= FINITE)) & ~out.unwritten
            before = found.get(pair[0].name, (True, True))
            found[pair[0].name] = by_zero & before[0], number & before[1]
    return found


def _some(side: Subject) -> list[int]:
    """A few CTAs of a grid, and those that they wait for."""
    every = np.linspace(0, side.launch.ctas - 1, min(CTAS, side.launch.ctas))
    return together(side, sorted(set(every.astype(int).tolist())))
