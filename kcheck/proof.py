"""Does a theorem turn "no difference in n trials" into a proof?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcheck.check import FieldRun, Question


@dataclass(frozen=True)
class Bound:
    """log2 of the probability that kernels that differ pass; None without a theorem, and why.

    `trials`: how many would bring it below what `proved` allows.
    """

    log2: float | None
    trials: int
    why: str


def error_bound(question: Question, run: FieldRun) -> Bound:
    """The bound for these two kernels (docs/identity-testing.md)."""
    return Bound(None, 0, "TODO")
