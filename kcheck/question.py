"""One question: two kernels, their launches, and how it is to be answered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kcheck import limits
from kcheck.canon.domain import Domain
from kcheck.canon.ieee.formats import FORMATS
from kcheck.canon.ranged import RangedDomain
from kcheck.launch import FLOATS, Launch, Tensor
from kcheck.launch_check import match_buffers, match_ledger, scalar_pairs
from kcheck.loading import KernelLike, LaunchLike, load_kernel, load_launches
from kcheck.preconditions import agreed, promise_ledger, promised, ranges, unknown_integers
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.execution import Notes
from kcheck.verdict import UsageError
from kcheck.witness import Subject, renamed

Progress = Callable[[str, float], None]
# before the names of the subject's own parameters: an invisible character that no file uses
ALONE = "\u2060"
# bits of a seed: more than the bounds that are printed
SEED_BITS = 128


@dataclass
class Known:
    """What is known before there is a verdict: its fields, and what was done, in words."""

    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    done: list[str] = field(default_factory=list[str])


@dataclass
class Question:
    """Two kernels under their launches, the subject's buffers named as the reference's."""

    reference: Subject
    subject: Subject
    pairs: list[tuple[Tensor, Tensor]]
    ctas: list[int] | None
    seed: int
    safety: bool
    witness_dir: Path | None
    report: Progress
    ledger: list[str] = field(default_factory=list[str])
    started: float = field(default_factory=time.monotonic)
    fixed: bool = False
    strict: bool = False
    # literals stand for the numbers that they were rounded from
    identify: bool = False
    engine: str = "auto"
    # where the work is, and what is known so far: for a verdict that a limit cuts short
    stage: str = ""
    known: Known = field(default_factory=lambda: Known())
    # what the runs have seen that was not judged yet, by side
    seen: dict[str, Notes] = field(default_factory=dict[str, Notes])

    def progress(self, stage: str, done: float) -> None:
        """Tell the caller how far a stage is (0 to 1). LimitReached if a limit is passed."""
        self.stage = stage
        limits.check()
        self.report(stage, done)

    def within_ranges(self, domain: Domain[Any]) -> Domain[Any]:
        """A domain that decides what preconditions and the widths of integers decide, and where
        -FLT_MAX or its like stands, that no input is beyond it.

        The same domain if there is nothing of it.
        """
        launches = self.reference.launch, self.subject.launch
        known, integers = ranges(*launches), unknown_integers(*launches)
        if self.reference.bounds or self.subject.bounds:
            known = _finite(*launches) | known
        given = promised(launches[0]) | promised(launches[1])
        nonzero = {name for name, param in given.items() if param.promise.nonzero}
        if not (known or integers or self.reference.rounds or self.subject.rounds):
            return domain
        return RangedDomain(domain, known, nonzero, integers)

    @property
    def positive(self) -> set[str]:
        """The inputs that preconditions say are positive."""
        known = ranges(self.reference.launch, self.subject.launch)
        return {name for name, (low, _) in known.items() if low > 0}

    @property
    def compared(self) -> list[tuple[Tensor, Tensor]]:
        """The pairs whose contents must agree."""
        return [
            (a, b)
            for a, b in self.pairs
            if a.role != "in" and a.compare and b.compare and a.elements
        ]


def _finite(*launches: Launch) -> dict[str, tuple[float, float]]:
    """What finite numbers the float inputs may be, in the widest format that each has."""
    found: dict[str, tuple[float, float]] = {}
    for launch in launches:
        for name, tensor in launch.buffers.items():
            if tensor.role != "out" and tensor.dtype in FLOATS:
                most = max(FORMATS[tensor.dtype].largest, found.get(name, (0.0, 0.0))[1])
                found[name] = -most, most
    return found


def ask(
    reference: KernelLike,
    subject: KernelLike,
    launch: LaunchLike,
    subject_launch: LaunchLike,
    kernel: str | None,
    subject_kernel: str | None,
    mapping: Mapping[str, str] | None,
    cta: int | None,
    seed: int | None,
) -> Question:
    """Load both sides and match their buffers."""
    first = load_kernel(reference, kernel)
    second = _load_subject(subject, subject_kernel, kernel)
    launches = load_launches((reference, subject), (first, second), launch, subject_launch)
    pairs = match_buffers(*launches, mapping)
    scalars = scalar_pairs(*launches, mapping)
    # what has no partner is the subject's alone, whatever the reference calls so
    names = {p.name: f"{ALONE}{p.name}" for p in launches[1].params}
    names |= {b.name: a.name for a, b in pairs} | {b.name: a.name for a, b in scalars}
    theirs = renamed(launches[1], names)
    promises = list(promise_ledger(launches[0], theirs))
    ours, theirs = agreed(launches[0], theirs)
    question = Question(
        Subject(first, ours),
        Subject(second, theirs),
        [(a, replace(b, name=names[b.name])) for a, b in pairs],
        None if cta is None else one_cta(cta, launches),
        secrets.randbits(SEED_BITS) if seed is None else seed,
        True,
        None,
        lambda stage, done: None,
        match_ledger(*launches, pairs, scalars) + promises,
        fixed=seed is not None,
    )
    if not question.compared:
        raise UsageError("the two kernels have no output in common that could be compared")
    return question


def _load_subject(subject: KernelLike, name: str | None, reference_name: str | None) -> Kernel:
    """`--kernel` names the subject's entry too if the subject has it."""
    if name is None and reference_name is not None:
        try:
            return load_kernel(subject, reference_name)
        except UsageError:
            pass
    return load_kernel(subject, name)


def limited(time_limit: float | None, memory_limit: float | None) -> AbstractContextManager[None]:
    """`limits.within`; UsageError for what is no limit."""
    problem = limits.problem(time_limit, memory_limit)
    if problem is not None:
        raise UsageError(problem)
    return limits.within(time_limit, memory_limit)


def one_cta(cta: int, launches: tuple[Launch, Launch]) -> list[int]:
    """The one CTA to run. UsageError if a grid has none of that number, or the grids differ."""
    for side in launches:
        if cta >= side.ctas:
            raise UsageError(f"--cta {cta}: the grid has {side.ctas} CTAs (0 to {side.ctas - 1})")
    if launches[0].grid != launches[1].grid:
        raise UsageError("--cta needs the same grid on both sides")
    return [cta]
