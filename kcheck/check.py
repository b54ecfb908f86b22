"""The one place that joins the rooms: text to kernels to executions to a verdict."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.canon.domain import Collision, LevelsExhausted
from kcheck.canon.field import FieldDomain
from kcheck.canon.ieee.approximate import Choice
from kcheck.canon.real import Reals
from kcheck.canon.theorem import Claim, error_log2, trials_needed
from kcheck.evaluate import evaluate
from kcheck.evaluate_formats import evaluate_formats
from kcheck.exact import Proof, prove
from kcheck.judge import Judge
from kcheck.launch import Tensor
from kcheck.launch_check import match_buffers, match_ledger, scalar_pairs
from kcheck.ledger import assumptions
from kcheck.loading import KernelLike, LaunchLike, load_kernel, load_launches, load_one
from kcheck.outputs import Comparison, compare
from kcheck.proof import claim
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.verdict import Finding, Location, UsageError, Verdict
from kcheck.witness import Subject, renamed, unknown_inputs

Progress = Callable[[str, float], None]
# exp2 inside exp2 inside ...: primes in a chain
MAX_LEVELS = 4
# new seeds after a collision of keys or a divisor that vanished by chance
REDRAWS = 3
TRIALS = 4
# runs that one question may take: each seed at each number of levels
ATTEMPTS = (REDRAWS + 1) * MAX_LEVELS
# how often the number of trials may grow
ENLARGED = 4
# log2 of the error that `proved` by identity testing allows (DESIGN.md 3)
PROVED = -80.0
# before the names of the subject's own parameters: an invisible character that no file uses
ALONE = "\u2060"
# bits of a seed: more than the bounds that are printed
SEED_BITS = 128


ENGINES = ("enclosure", "ieee")
# the part of their allowed error that approximate instructions make
APPROX = {"nearest": 0.0, "high": 1.0, "low": -1.0, "random": 0.0}


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
    progress: Progress
    ledger: list[str] = field(default_factory=list[str])
    started: float = field(default_factory=time.monotonic)
    fixed: bool = False
    strict: bool = False
    # literals stand for the numbers that they were rounded from
    identify: bool = False
    engine: str = "auto"

    @property
    def compared(self) -> list[tuple[Tensor, Tensor]]:
        """The pairs whose contents must agree."""
        return [
            (a, b)
            for a, b in self.pairs
            if a.role != "in" and a.compare and b.compare and a.elements
        ]


def equivalent(
    reference: KernelLike,
    subject: KernelLike,
    *,
    launch: LaunchLike = None,
    subject_launch: LaunchLike = None,
    kernel: str | None = None,
    subject_kernel: str | None = None,
    mapping: Mapping[str, str] | None = None,
    cta: int | None = None,
    seed: int | None = None,
    safety: bool = True,
    strict: bool = False,
    literal_constants: bool = False,
    engine: str = "auto",
    progress: Progress | None = None,
    witness_dir: Path | None = None,
) -> Verdict:
    """Decide whether `subject` computes what `reference` computes, over the reals.

    `reference`, `subject`: a path, PTX text or a Kernel. `launch`: a path, a Launch, or None for
    the file beside the PTX (the subject's: else the reference's). `mapping`: reference buffer
    name -> subject buffer name. `cta`: compare one CTA (linear index) only. `safety`: look for
    races. `strict`: lanes that store equal values to one address in one instruction have one.
    `engine`: `field` (identity testing only), `term` (exact proofs only), or `auto`: both.
    `literal_constants`: float literals are exact, 0f3FB8AA3B is not log2 e. `witness_dir`: where
    the input of a refutation is saved. Raises UsageError and PtxError for
    bad arguments.
    """
    question = ask(
        reference, subject, launch, subject_launch, kernel, subject_kernel, mapping, cta, seed
    )
    question.safety, question.strict, question.engine = safety, strict, engine
    question.identify = not literal_constants
    question.witness_dir = witness_dir
    question.progress = progress or (lambda stage, done: None)
    return answer(question)


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
    question = Question(
        Subject(first, launches[0]),
        Subject(second, renamed(launches[1], names)),
        [(a, replace(b, name=names[b.name])) for a, b in pairs],
        None if cta is None else _one_cta(cta, launches),
        secrets.randbits(SEED_BITS) if seed is None else seed,
        True,
        None,
        lambda stage, done: None,
        match_ledger(*launches, pairs, scalars),
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


def _one_cta(cta: int, launches: tuple[Any, Any]) -> list[int]:
    for side in launches:
        if cta >= side.ctas:
            raise UsageError(f"--cta {cta}: the grid has {side.ctas} CTAs (0 to {side.ctas - 1})")
    if launches[0].grid != launches[1].grid:
        raise UsageError("--cta needs the same grid on both sides")
    return [cta]


def answer(question: Question, decide: Callable[[Question], Verdict] | None = None) -> Verdict:
    """The verdict on a question; `decide`: how, by default by comparing both sides."""
    try:
        verdict = (decide or _decide)(question)
    except Refused as error:
        verdict = _refused(error)
    except BudgetError as error:
        steps = ("a smaller launch, or --cta N",)
        verdict = _undecided(f"budget.{error.what}", str(error), steps)
    except LevelsExhausted:
        verdict = _undecided("budget.levels", f"exp2 is nested more than {MAX_LEVELS - 1} deep")
    except Collision as error:
        verdict = _undecided("budget.seeds", f"{error}", ("another --seed",))
    return replace(
        verdict,
        kernels=(question.reference.kernel.name, question.subject.kernel.name),
        seconds=time.monotonic() - question.started,
        ctas=verdict.ctas or 0,
        statistics={"seed": question.seed, **verdict.statistics},
    )


def _undecided(reason: str, message: str, steps: tuple[str, ...] = ()) -> Verdict:
    finding = Finding(reason, message, "both")
    return Verdict("undecided", reason, findings=(finding,), next_steps=steps)


def _refused(error: Refused) -> Verdict:
    reason = f"unsupported.{error.form}"
    span = error.instr.span
    place = Location(span.source.name, span.line, span.text)
    finding = Finding(reason, error.message, error.side or "both", (place,))
    return Verdict(
        "undecided",
        reason,
        findings=(finding,),
        next_steps=(f"rewrite or isolate the instruction at {span}",),
    )


@dataclass
class FieldRun:
    """Both kernels over one field domain."""

    domain: FieldDomain
    reference: Execution
    subject: Execution
    trials: int
    levels: int
    redraws: int


def field_run(question: Question, trials: int, redraws: int = 0, *, both: bool = True) -> FieldRun:
    """Execute both sides, with more levels and new seeds as needed.

    `redraws`: how many seeds were used up before. `both`: False runs the reference only.
    """
    levels = 1 + any(
        i.opcode[0] == "ex2" for s in (question.reference, question.subject) for i in s.kernel.code
    )
    while True:
        domain = FieldDomain(question.seed + redraws, trials, levels)
        reals: Reals[Any] = Reals(domain)
        try:
            a = _execute(question, question.reference, "reference", reals)
            b = _execute(question, question.subject, "subject", reals) if both else a
            return FieldRun(domain, a, b, trials, levels, redraws)
        except LevelsExhausted:
            if levels == MAX_LEVELS:
                raise
            levels += 1
        except Collision:
            if redraws >= REDRAWS:
                raise
            redraws += 1


def _execute(question: Question, side: Subject, name: str, reals: Reals[Any]) -> Execution:
    try:
        return execute(
            side.kernel,
            side.launch,
            reals.domain,
            ctas=question.ctas,
            reals=reals,
            races=question.safety,
            strict=question.strict,
            identify=question.identify,
            progress=lambda done: question.progress(f"executing the {name}", done),
        )
    except Refused as error:
        error.side = name
        raise


def _decide(question: Question) -> Verdict:
    run = field_run(question, TRIALS)
    try:
        comparisons = {
            a.name: compare(run.reference, run.subject, (a, b), run.domain)
            for a, b in question.compared
        }
    except Unsupported as error:
        stopped = _undecided(f"unsupported.{error.form}", f"an output: {error.message}")
        return Judge(question, run, {}).refutation() or stopped  # a fault on the way is a reason
    proof = None
    if run.domain.opaque and any(c.different.any() for c in comparisons.values()):
        proof = _proof(question, run, comparisons)  # functions may have laws that the field lacks
    judge = Judge(question, run, comparisons)
    facts: dict[str, Any] = {
        "ctas": len(run.reference.ctas),
        "outputs": judge.outputs,
        "statistics": {
            "trials": run.trials,
            "levels": run.levels,
            "instructions": [run.reference.instructions, run.subject.instructions],
        },
        "ledger": tuple(assumptions(question, run, comparisons)),
    }
    refutation = judge.refutation()
    if refutation is not None:
        return replace(refutation, **facts)
    proof = proof or _proof(question, run, comparisons)
    if proof is not None and proof.whole:
        equal = Verdict("proved", None, "exact")
    elif proof is not None and question.engine == "term":
        equal = _undecided("opaque", f"no exact proof: {proof.why}", ("--engine auto",))
    else:
        equal = _equal(question, run)
    statistics = {**facts.pop("statistics"), **equal.statistics}
    verdict = replace(equal, **facts, statistics=statistics)
    return _for_cta(question, verdict)


def _proof(question: Question, run: FieldRun, comparisons: dict[str, Comparison]) -> Proof | None:
    """An exact proof, or None if none is wanted; what it proves is equal from now on."""
    if question.engine == "field":
        return None
    proof = prove(question, run, comparisons)
    if proof.whole:
        for name, c in comparisons.items():
            proved = ~c.idle & (c.unwritten == 0) & ~proof.open[name]
            comparisons[name] = replace(c, equal=c.equal | proved, different=c.different & ~proved)
    return proof


def _for_cta(question: Question, verdict: Verdict) -> Verdict:
    if verdict.verdict != "proved" or question.ctas is None:
        return verdict
    return replace(verdict, verdict="proved-for-cta", reason="one CTA is not the grid")


def safe(
    kernel: KernelLike,
    *,
    launch: LaunchLike = None,
    kernel_name: str | None = None,
    cta: int | None = None,
    seed: int | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Decide whether one kernel is free of races, deadlocks, bad accesses and undefined values.

    `kernel`: a path, PTX text or a Kernel. `strict`: as in `equivalent`. The verdict says nothing
    about what it computes.
    Raises UsageError and PtxError for bad arguments.
    """
    loaded = load_kernel(kernel, kernel_name)
    side = Subject(loaded, load_one(kernel, loaded, launch))
    question = Question(
        side,
        side,
        [(t, t) for t in side.launch.buffers.values() if t.elements],
        None if cta is None else _one_cta(cta, (side.launch, side.launch)),
        secrets.randbits(SEED_BITS) if seed is None else seed,
        True,
        None,
        progress or (lambda stage, done: None),
        strict=strict,
    )
    verdict = answer(question, _decide_safety)
    return replace(verdict, kernels=("", loaded.name))


def _decide_safety(question: Question) -> Verdict:
    run = field_run(question, TRIALS, both=False)
    pairs = [(a, b) for a, b in question.pairs if a.role != "in"]
    comparisons = {
        a.name: compare(run.reference, run.reference, (a, b), run.domain) for a, b in pairs
    }
    judge = Judge(question, run, comparisons)
    judge.sides = [("subject", question.subject, run.reference)]
    facts: dict[str, Any] = {
        "ctas": len(run.reference.ctas),
        "statistics": {"levels": run.levels, "instructions": [run.reference.instructions]},
        "ledger": tuple(assumptions(question, run, comparisons)),
    }
    found = judge.refutation()
    if found is not None:
        return replace(found, **facts)
    return _for_cta(question, replace(Verdict("proved", None, "happens-before"), **facts))


def _equal(question: Question, run: FieldRun) -> Verdict:
    """No difference was found: is there a theorem that makes it a proof?"""
    for _ in range(ENLARGED):
        facts, run = _claim(question, run)
        needed = trials_needed(facts, run.levels, PROVED, ATTEMPTS)
        if needed is None:
            return _unproved(run, error_log2(facts, run.trials, run.levels, ATTEMPTS)[1])
        if needed <= run.trials:
            bound, _ = error_log2(facts, run.trials, run.levels, ATTEMPTS)
            statistics = {"trials": run.trials, "levels": run.levels}
            return Verdict("proved", None, "identity-testing", bound, statistics=statistics)
        # the claim holds for the primes of its run: a larger run needs one of its own
        run = field_run(question, needed, run.redraws)
        if not _same(question, run):
            message = f"a difference shows in {needed} trials that fewer did not show"
            return _undecided("opaque", message, ("another --seed",))
    return _unproved(run, "the bound needs ever more trials")


def _unproved(run: FieldRun, why: str) -> Verdict:
    reason = "budget.degree" if why.startswith("budget.degree") else "tested-equal"
    finding = Finding(reason, f"no difference in {run.trials} trials; {why}", "both")
    return Verdict("undecided", reason, "identity-testing", findings=(finding,))


def _claim(question: Question, run: FieldRun) -> tuple[Claim, FieldRun]:
    """The claim of a run, or of the next one where a prime divides a constant of this one."""
    while True:
        try:
            return claim(question, run), run
        except Collision:
            if run.redraws >= REDRAWS:
                raise
            run = field_run(question, run.trials, run.redraws + 1)
            if not _same(question, run):
                raise


def _same(question: Question, run: FieldRun) -> bool:
    return not any(
        compare(run.reference, run.subject, pair, run.domain).different.any()
        for pair in question.compared
    )


@dataclass(frozen=True)
class RunResult:
    """What `run` gives: arrays (float64 or integers) by buffer name, figures, findings."""

    outputs: dict[str, Any]
    statistics: dict[str, Any]
    findings: tuple[Finding, ...]


def run(
    kernel: KernelLike,
    *,
    launch: LaunchLike = None,
    kernel_name: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int | None = None,
    ctas: list[int] | None = None,
    progress: Progress | None = None,
    engine: str = "enclosure",
    approx: str = "nearest",
) -> RunResult:
    """Execute one kernel on given or random inputs.

    `engine`: "enclosure", over the reals in float64 enclosures, whose centres are the outputs; or
    "ieee", in true formats (evaluate_formats.py), where `approx` says what approximate
    instructions return: "nearest", or the "high", "low" or (by the seed) "random" end of what
    their documented error allows. Outputs have the shape of the buffer, NaN where undefined or
    never written. Raises UsageError and PtxError for bad arguments.
    """
    if engine not in ENGINES or approx not in APPROX:
        known = f"{', '.join(ENGINES)}; {', '.join(APPROX)}"
        raise UsageError(f"engine {engine}, approx {approx}: there are {known}")
    if engine != "ieee" and approx != "nearest":
        raise UsageError(f"approx {approx}: approximate instructions err in engine ieee only")
    loaded = load_kernel(kernel, kernel_name)
    side = Subject(loaded, load_one(kernel, loaded, launch))
    started = time.monotonic()
    used = secrets.randbits(SEED_BITS) if seed is None else seed
    given = _inputs(side, inputs or {}, used)
    try:
        report = progress or (lambda stage, done: None)
        stage: Callable[[float], None] = lambda done: report(f"executing {loaded.name}", done)  # noqa: E731
        if engine == "ieee":
            choice = Choice(APPROX[approx], used if approx == "random" else None)
            outputs, findings, figures = evaluate_formats(side, given, ctas, stage, choice)
        else:
            outputs, findings, figures = evaluate(side, given, ctas, stage)
    except Refused as error:
        return RunResult({}, {"seed": used}, _refused(error).findings)
    figures = {"seed": used, **figures, "seconds": round(time.monotonic() - started, 3)}
    return RunResult(outputs, figures, findings)


def _inputs(side: Subject, given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The given arrays, flattened, and small fractions for the others."""
    rng = np.random.default_rng(seed)
    sizes = unknown_inputs(side)
    for name, values in given.items():
        if name not in sizes:
            known = ", ".join(sizes) or "none"
            raise UsageError(f"input `{name}`: the kernel's open inputs are {known}")
        if np.asarray(values).size != sizes[name]:
            raise UsageError(
                f"input `{name}` has {np.asarray(values).size} elements; expected {sizes[name]}"
            )
    return {
        name: np.asarray(given[name], np.float64).reshape(-1)
        if name in given
        else rng.integers(-127, 128, n) / 64.0
        for name, n in sizes.items()
    }
