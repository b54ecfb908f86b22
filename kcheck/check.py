"""The one place that joins the rooms: text to kernels to executions to a verdict."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kcheck import limits
from kcheck.canon.domain import Collision, LevelsExhausted
from kcheck.canon.theorem import Claim, error_log2, trials_needed
from kcheck.exact import Proof, prove
from kcheck.field_runs import MAX_LEVELS, REDRAWS, FieldRun, field_run
from kcheck.judge import Judge
from kcheck.ledger import assumptions, method
from kcheck.limits import LimitReached
from kcheck.loading import KernelLike, LaunchLike, load_kernel, load_one
from kcheck.masking import mask
from kcheck.measure import measure, where_divided
from kcheck.outputs import Comparison, compare
from kcheck.preconditions import promise_ledger
from kcheck.proof import claim
from kcheck.question import SEED_BITS, Known, Progress, Question, ask, limited, one_cta
from kcheck.semantics.execution import Refused
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.sightings import with_seen
from kcheck.undecided import advised, cut_short, refused, undecided, unread
from kcheck.vacuity import Divided, zero_divisors
from kcheck.verdict import Finding, Verdict, Witness
from kcheck.witness import Subject

TRIALS = 4
# runs that one question may take: each seed at each number of levels, roots related or not
ATTEMPTS = 2 * (REDRAWS + 1) * MAX_LEVELS
# how often the number of trials may grow
ENLARGED = 4
# log2 of the error that `proved` by identity testing allows (DESIGN.md 3)
PROVED = -80.0


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
    time_limit: float | None = None,
    memory_limit: float | None = None,
    mask_literals: Sequence[float] = (),
) -> Verdict:
    """Decide whether `subject` computes what `reference` computes, over the reals.

    `reference`, `subject`: a path, PTX text or a Kernel. `launch`: a path, a Launch, or None for
    the file beside the PTX (the subject's: else the reference's). `mapping`: reference buffer
    name -> subject buffer name. `cta`: compare one CTA (linear index) only. `safety`: look for
    races. `strict`: lanes that store equal values to one address in one instruction have one.
    `engine`: `field` (identity testing only), `term` (exact proofs only), `auto`: both, or `ieee`
    (measure.py: true formats, which prove nothing).
    `literal_constants`: float literals are exact, 0f3FB8AA3B is not log2 e. `witness_dir`: where
    the input of a refutation is saved. `time_limit`: seconds; `memory_limit`:
    resident megabytes (2^20 bytes) of the whole process. `mask_literals`: finite numbers that
    stand for -infinity wherever they are written (masking.py). Raises UsageError and PtxError for
    bad arguments.
    """
    with limited(time_limit, memory_limit):
        names = (launch, subject_launch, kernel, subject_kernel, mapping, cta, seed)
        try:
            question = ask(reference, subject, *names)
        except (LimitReached, MemoryError) as error:
            return unread(error)
        question.safety, question.strict, question.engine = safety, strict, engine
        question.identify = not literal_constants
        question.witness_dir = witness_dir
        question.report = progress or (lambda stage, done: None)
        mask(question, mask_literals)
        return answer(question, measure if engine == "ieee" else None)


def answer(question: Question, decide: Callable[[Question], Verdict] | None = None) -> Verdict:
    """The verdict on a question; `decide`: how, by default by comparing both sides."""
    try:
        verdict = (decide or _decide)(question)
    except Refused as error:
        verdict = with_seen(question, refused(error), confirm=True)
    except Unsupported as error:
        verdict = undecided(f"unsupported.{error.form}", f"an output: {error.message}")
        verdict = with_seen(question, verdict, confirm=True)
    except BudgetError as error:
        verdict = with_seen(question, cut_short(question, error.what, str(error)), confirm=True)
    except LimitReached as error:
        short = cut_short(question, error.what, str(error))
        verdict = with_seen(question, short, confirm=limits.some_left())
    except MemoryError:
        short = cut_short(question, "memory", "the system has no more memory")
        verdict = with_seen(question, short, confirm=False)
    except LevelsExhausted:
        verdict = undecided("budget.levels", f"exp2 is nested more than {MAX_LEVELS - 1} deep")
        verdict = with_seen(question, verdict, confirm=True)
    except Collision as error:
        verdict = undecided("budget.seeds", f"{error}")
        verdict = with_seen(question, verdict, confirm=True)
    verdict = advised(verdict, question)
    return replace(
        verdict,
        kernels=(question.reference.kernel.name, question.subject.kernel.name),
        seconds=time.monotonic() - question.started,
        ctas=verdict.ctas or 0,
        statistics={"seed": question.seed, **verdict.statistics},
    )


def _decide(question: Question) -> Verdict:
    run = field_run(question, TRIALS)
    try:
        comparisons = _comparisons(question, run)
        if run.field.unrelated and any(c.different.any() for c in comparisons.values()):
            # sqrt 2 sqrt 2 = 2: chains with roots are few, and a bound by them is weaker
            run = field_run(question, TRIALS, run.redraws, roots=run.field.unrelated)
            comparisons = _comparisons(question, run)
    except Unsupported as error:
        stopped = undecided(f"unsupported.{error.form}", f"an output: {error.message}")
        return Judge(question, run, {}).refutation() or stopped  # a fault on the way is a reason
    judge = Judge(question, run, comparisons)
    beyond = _beyond(question, run, judge)
    facts: dict[str, Any] = {
        "ctas": len(run.reference.ctas),
        "outputs": judge.outputs,
        "statistics": {
            "trials": run.trials,
            "levels": run.levels,
            "instructions": [run.reference.instructions, run.subject.instructions],
        },
        "ledger": assumptions(question, run, comparisons) + beyond.ledger,
    }
    question.known = Known(facts, [_agreement(run, comparisons)])
    refutation = judge.refutation()
    question.seen.clear()
    _trust(run, refutation)
    if refutation is not None and refutation.reason == "opaque":
        _, alone = zero_divisors(question, run.reference)
        if alone is not None:
            refutation = _divided(question, judge, alone) or refutation
    if refutation is not None:
        return replace(refutation, **facts)
    if beyond.error is not None:
        return replace(beyond.error, **facts)
    question.known.done.append(_safe_so_far(question))
    proof = beyond.proof or _proof(question, run, comparisons)
    if proof is not None and proof.whole:
        equal = Verdict("proved", None, "exact")
    elif proof is not None and question.engine == "term":
        equal = replace(
            undecided("opaque", f"no exact proof: {proof.why}"), next_steps=("--engine auto",)
        )
    else:
        equal = _equal(question, run)
    if equal.verdict == "proved":
        steady = proof is not None and proof.steady
        lines, alone = zero_divisors(question, run.reference, steady)
        facts["ledger"] += tuple(lines)
        if alone is not None:
            equal = _divided(question, judge, alone) or equal
            facts["ledger"] += (
                f"WARNING: the subject alone divides by 0 on the way to {alone.name}, where "
                f"{alone.region}; its result in true formats is that of the reference",
            ) * (equal.verdict == "proved")
    statistics = {**facts.pop("statistics"), **equal.statistics}
    verdict = replace(equal, **facts, statistics=statistics)
    return _for_cta(question, replace(verdict, ledger=verdict.ledger + method(verdict)))


def _comparisons(question: Question, run: FieldRun) -> dict[str, Comparison]:
    return {
        a.name: compare(run.reference, run.subject, (a, b), run.domain)
        for a, b in question.compared
    }


def _divided(question: Question, judge: Judge, alone: Divided) -> Verdict | None:
    """The verdict where the subject alone divides by 0; None if its result is right."""
    found = where_divided(question, alone)
    if found == "same":
        return None
    return judge.divided(alone, sure=found == "none")


def _trust(run: FieldRun, found: Verdict | None) -> None:
    """Raise Refused if a run need not stand for every schedule, and no defect is certain."""
    if found is not None and found.verdict == "refuted":
        return
    for name, side in (("reference", run.reference), ("subject", run.subject)):
        if side.doubt is not None:
            side.doubt.side = name
            raise side.doubt


def _proof(question: Question, run: FieldRun, comparisons: dict[str, Comparison]) -> Proof | None:
    """An exact proof, or None if none is wanted."""
    return None if question.engine == "field" else prove(question, run, comparisons)


@dataclass(frozen=True)
class _Beyond:
    """What an exact proof says of a difference over the field. `error`: an input shows it."""

    proof: Proof | None = None
    ledger: tuple[str, ...] = ()
    error: Verdict | None = None


def _beyond(question: Question, run: FieldRun, judge: Judge) -> _Beyond:
    """Functions may have laws that the field lacks: what is proved is equal from now on.

    Not before a search for an input that shows the difference all the same: that would be an
    error of one of the engines. Nor where a defect is certain: a proof may take all the time.
    """
    comparisons = judge.comparisons
    different = sum(int(c.different.sum()) for c in comparisons.values())
    if not (different and run.field.opaque) or judge.certain() or judge.differs():
        return _Beyond()
    proof = _proof(question, run, comparisons)
    if proof is None or not proof.whole:
        return _Beyond(proof)
    found = judge.contradiction()
    for name, c in comparisons.items():
        proved = ~c.idle & (c.unwritten == 0) & ~proof.open[name]
        comparisons[name] = replace(c, equal=c.equal | proved, different=c.different & ~proved)
    line = f"functions have laws that the field lacks: there {different} elements differ, "
    ledger = (line + "and a search found no input that shows it",)
    return _Beyond(proof, ledger, found and _contradicted(*found))


def _contradicted(found: Finding, witness: Witness) -> Verdict:
    """An exact proof, and an input that shows it to be wrong."""
    proof = Finding("exact", "the exact engine proves that all outputs are equal", "both")
    steps = ("report this: two engines of kcheck contradict each other",)
    return Verdict(
        "error", "contradiction", findings=(found, proof), witness=witness, next_steps=steps
    )


def _agreement(run: FieldRun, comparisons: dict[str, Comparison]) -> str:
    """How far both sides agree over the field, in words."""
    different = sum(int(c.different.sum()) for c in comparisons.values())
    if different:
        return f"{different} elements differ over the field, and no input is known that shows it"
    return f"no element differs in {run.trials} trials"


def _safe_so_far(question: Question) -> str:
    return "both kernels are safe" if question.safety else "races were not looked for"


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
    time_limit: float | None = None,
    memory_limit: float | None = None,
) -> Verdict:
    """Decide whether one kernel is free of races, deadlocks, bad accesses and undefined values.

    `kernel`: a path, PTX text or a Kernel. `strict`, `time_limit`, `memory_limit`: as in
    `equivalent`. The verdict says nothing about what it computes.
    Raises UsageError and PtxError for bad arguments.
    """
    with limited(time_limit, memory_limit):
        try:
            loaded = load_kernel(kernel, kernel_name)
        except (LimitReached, MemoryError) as error:
            return unread(error, "kernel")
        side = Subject(loaded, load_one(kernel, loaded, launch))
        question = Question(
            side,
            side,
            [(t, t) for t in side.launch.buffers.values() if t.elements],
            None if cta is None else one_cta(cta, (side.launch, side.launch)),
            secrets.randbits(SEED_BITS) if seed is None else seed,
            True,
            None,
            progress or (lambda stage, done: None),
            ledger=list(promise_ledger(side.launch, side.launch)),
            strict=strict,
        )
        verdict = answer(question, _decide_safety)
        findings = tuple(replace(f, side="kernel") for f in verdict.findings)
        return replace(verdict, kernels=("", loaded.name), findings=findings)


def _decide_safety(question: Question) -> Verdict:
    run = field_run(question, TRIALS, both=False)
    pairs = [(a, b) for a, b in question.pairs if a.role != "in"]
    comparisons = {
        a.name: compare(run.reference, run.reference, (a, b), run.domain) for a, b in pairs
    }
    judge = Judge(question, run, comparisons, alone=True)
    facts: dict[str, Any] = {
        "ctas": len(run.reference.ctas),
        "statistics": {"levels": run.levels, "instructions": [run.reference.instructions]},
        "ledger": assumptions(question, run, comparisons),
    }
    question.known = Known(facts, ["the kernel was executed"])
    found = judge.refutation()
    question.seen.clear()
    _trust(run, found)
    if found is not None:
        return replace(found, **facts)
    verdict = Verdict("proved", None, "happens-before", **facts)
    return _for_cta(question, replace(verdict, ledger=verdict.ledger + method(verdict)))


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
        run = field_run(question, needed, run.redraws, roots=run.field.roots)
        if not _same(question, run):
            message = f"a difference shows in {needed} trials that fewer did not show"
            return replace(undecided("opaque", message), next_steps=("another --seed",))
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
            run = field_run(question, run.trials, run.redraws + 1, roots=run.field.roots)
            if not _same(question, run):
                raise


def _same(question: Question, run: FieldRun) -> bool:
    return not any(
        compare(run.reference, run.subject, pair, run.domain).different.any()
        for pair in question.compared
    )
