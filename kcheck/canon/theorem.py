"""The error bound of identity testing; the proof is in docs/identity-testing.md."""

from __future__ import annotations

import math
from typing import NamedTuple

from kcheck.canon.exponents import Condition
from kcheck.canon.known import RANDOM_BITS
from kcheck.canon.pools import pool
from kcheck.canon.size import Zero, log_sum

TARGET = -80.0  # log2 of the error that a proof may have
MAX_TRIALS = 64

_DEGREE = 2.0**20  # p / 2^10: no bound beyond


class Claim(NamedTuple):
    """All that the error depends on but trials and levels.

    `zero`: a bound on every polynomial that was tested for zero; `condition`: what holds for the
    exponents; `tests`: comparisons that the run relied on; `hashed`: values known by 128 bits;
    `relations`: pairs of exponents whose relation may be that of the random integers only that
    stand for irrational constants; 0 if there are none; `roots`: numbers whose square roots are
    roots modulo all primes.
    """

    zero: Zero
    condition: Condition
    tests: int
    hashed: int
    relations: int = 0
    roots: tuple[int, ...] = ()


def error_log2(
    claim: Claim, trials: int, levels: int, attempts: int = 8
) -> tuple[float | None, str]:
    """log2 of the probability that unequal outputs pass, and "" - or None, and why not.

    `attempts`: how often a run may have been repeated with a new seed after a Collision.
    """
    if claim.condition.reason:
        return None, claim.condition.reason
    degree = _degrees(claim)
    if not max(degree) < _DEGREE:
        return None, f"budget.degree: a polynomial of degree {max(degree):.3g}"
    trial = per_trial(claim, levels)
    if not trial < 0.5:
        return None, f"budget.degree: coefficients of {claim.zero.bits:.3g} bits"
    passing = trials * math.log2(trial) + math.log2(1 + claim.tests)
    hashing = 2 * math.log2(1 + claim.hashed) - 128
    total = log_sum(log_sum(passing, hashing), _symbols(claim))
    return total + math.log2(attempts), ""


def _symbols(claim: Claim) -> float:
    """log2 of the probability that random integers for irrational constants hide a difference.

    An integer of b bits in a coefficient makes it b - 1 bits longer: that bounds the degree.
    """
    if not claim.relations:
        return -math.inf
    degree = 2 * claim.zero.bits / (RANDOM_BITS - 1) + 1
    return math.log2((1 + claim.tests + claim.relations) * degree) - (RANDOM_BITS - 1)


def trials_needed(
    claim: Claim, levels: int, target: float = TARGET, attempts: int = 8
) -> int | None:
    """The least number of trials with an error below 2^target; None if there is none."""
    for trials in range(1, MAX_TRIALS + 1):
        error, _ = error_log2(claim, trials, levels, attempts)
        if error is None:
            return None
        if error < target:
            return trials
    return None


def _degrees(claim: Claim) -> tuple[float, float, float]:
    """Degrees in x at level 0, in the basis of exponentials, and in x at level 1."""
    zero, condition = claim.zero, claim.condition
    return zero.x, 2 * zero.e * condition.span, condition.rests * condition.x


def per_trial(claim: Claim, levels: int) -> float:
    """The probability that a polynomial which is not zero vanishes in one trial."""
    x, e, rests = _degrees(claim)  # p0 > 2^30, p1 > 2^29
    zero, condition = claim.zero, claim.condition
    total = x / 2.0**30 + (e + rests) / 2.0**29
    degree = condition.root * 2 ** len(claim.roots)
    total += degree * (zero.bits + 1) / 30 / pool(levels, claim.roots)
    return total
