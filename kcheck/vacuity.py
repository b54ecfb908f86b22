"""Proofs that say little: outputs that are divided by 0 for a whole region of inputs.

"Divisors nonzero" rules such inputs out. Of a divisor like sum(x^2) that is a point; of one like
max(x, 0) it is half of all inputs, which the ledger should say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import NAN_DIV, UNKNOWN
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import FLOATS
from kcheck.limits import LimitReached
from kcheck.outputs import read_output
from kcheck.preconditions import kept
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.verdict import element
from kcheck.witness import Subject, unknown_inputs, with_integers

if TYPE_CHECKING:
    from kcheck.question import Question

DIVISIONS = frozenset({"div", "rcp", "rsqrt"})
# instructions times lanes, beyond which nothing is tried
MOST = 1 << 25
# inputs at random: what is 0 on these is 0 on a region
SIGNS = {"negative": -1.0, "positive": 1.0}


def divides(side: Subject) -> bool:
    """Is there a division of floats?"""
    code = side.kernel.code
    return any(i.opcode[0] in DIVISIONS and i.opcode[-1][0] not in "us" for i in code)


def zero_divisors(question: Question, run: Execution) -> Iterator[str]:
    """A line for each region of inputs on which outputs of the reference are divided by 0."""
    if not divides(question.reference) or run.values > MOST:
        return
    for name, sign in SIGNS.items():
        found = _divided_by_zero(question, sign)
        if found is not None:
            where, count = found
            more = f" and {count - 1} more" if count > 1 else ""
            yield (
                f"WARNING: {where}{more} divided by 0 where all inputs are {name}: "
                "`divisors nonzero` rules these inputs out"
            )


def _divided_by_zero(question: Question, sign: float) -> tuple[str, int] | None:
    """An element of an output, and how many there are."""
    side = question.reference
    rng = np.random.default_rng(question.seed)
    sizes = unknown_inputs(side)
    inputs: dict[str, Any] = {n: sign * (abs(rng.normal(size=k)) + 0.1) for n, k in sizes.items()}
    inputs = kept(inputs, side.launch)
    try:
        launch = with_integers(side.launch, inputs)
        run = execute(side.kernel, launch, EnclosureDomain(inputs), ctas=question.ctas)
    except (Refused, BudgetError, Unsupported, LimitReached, MemoryError):
        return None
    for tensor, _ in question.compared:
        if tensor.dtype not in FLOATS:
            continue
        out = read_output(run, tensor)
        zero = np.isin(out.ids, (NAN_DIV, UNKNOWN)) & ~out.unwritten
        if zero.any():
            return element(tensor.name, tensor.index(int(zero.argmax()))), int(zero.sum())
    return None
