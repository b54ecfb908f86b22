"""Mutants: is a small change of a kernel that was proved equal to another noticed?

    python -m benchmarks.mutants [--data FOLDER] [--only PAIR] [--write NUMBER FILE]

Each mutant is checked with `equivalent(..., safety=False)`. A mutant that is found equal counts
as shown equal only if the slow evaluator finds the same outputs as without the mutation on random
inputs, and if mutants_reasons.yaml says why. The table goes to mutants.md; the exit status is 1
if a survivor is not explained, or if the slow evaluator contradicts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from benchmarks.mutation import KINDS, Mutation, mutations
from kcheck.canon.families import draws
from kcheck.check import equivalent
from kcheck.launch_file import find_launch, load_launch
from kcheck.loading import load_kernel
from kcheck.semantics.slow import Exact, Real, SlowResult, Unevaluated
from kcheck.witness import Subject, slow_run, unknown_inputs

HERE = Path(__file__).parent
# name -> reference, subject (below the data folder), mutants
PAIRS: dict[str, tuple[str, str, int]] = {
    name: (f"{folder}/{reference}", f"{folder}/{subject}", count)
    for name, folder, reference, subject, count in (
        ("gemm", "tilelang/kernels/gemm", "sm_80_s0", "sm_80_s2_smemstore", 18),
        ("gemm-ladder", "tilelang/ladders/gemm_s2_sm_80", "00_none", "04_async_copy", 8),
        ("bias-relu", "tilelang/kernels/gemm_bias_relu", "sm_80_s0", "sm_80_s2", 8),
        ("softmax", "tilelang/kernels/softmax", "sm_80_b1", "sm_80_b4", 36),
        ("rmsnorm", "tilelang/kernels/rmsnorm", "sm_80_b1", "sm_80_b4_smem", 40),
        ("sum", "tilelang/kernels/sum", "sm_80_t32", "sm_80_t128", 45),
        ("add-tail", "tilelang/ladders/add_tail_sm_80", "00_none", "06_loop_unswitch", 35),
        ("flash", "tilelang/kernels/flash", "sm_80_s0", "sm_80_s1", 8),
        ("tree-reduce", "cases/09-tree-reduce-non-pow2", "ref", "fix", 26),
        ("masked-softmax", "cases/13-masked-softmax-finite-mask", "ref", "fix", 26),
        ("split-k", "cases/14-splitk-bias-per-split", "ref", "fix", 25),
        ("swizzle", "cases/16-swizzle-wrong-on-read", "ref", "fix", 25),
    )
}
SEED = 20
# seconds of processor time for one mutant
LIMIT = 100
# draws of inputs on which the slow evaluator must agree, each on a CTA drawn at random (on all,
# if they add to one output)
DRAWS = 6
KILLED, EQUAL, UNDECIDED, BROKEN = "killed", "shown equal", "undecided", "CONTRADICTED"


@dataclass(frozen=True)
class Mutant:
    """A mutation of the subject of a pair."""

    pair: str
    reference: Path
    subject: Path
    mutation: Mutation


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; `why`: the reason that kcheck gave, or the slow evaluator's."""

    mutant: Mutant
    outcome: str
    why: str
    seconds: float


class Late(Exception):
    """A mutant took longer than LIMIT."""


def mutants(data: Path, only: str | None = None) -> list[Mutant]:
    """All mutants, the same at each call."""
    found = []
    for name, (reference, subject, count) in PAIRS.items():
        if only in (None, name):
            paths = [data / f"{stem}.ptx" for stem in (reference, subject)]
            rng = random.Random(f"{SEED} {name}")
            text = paths[1].read_text()
            found += [Mutant(name, paths[0], paths[1], m) for m in mutations(text, rng, count)]
    return found


def judge(mutant: Mutant) -> Outcome:
    """Run kcheck on a mutant, and the slow evaluator if it survives."""

    def late(number: int, frame: Any) -> None:
        raise Late(f"budget.time more than {LIMIT} s")

    # a limit on processor time, so that other work on the machine changes no outcome
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    started = time.monotonic()
    try:
        outcome, why = _judge(mutant)
    except Late as error:
        outcome, why = UNDECIDED, str(error)
    except Exception as error:  # a crash of kcheck is a result too
        outcome, why = UNDECIDED, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Outcome(mutant, outcome, why, time.monotonic() - started)


def _judge(mutant: Mutant) -> tuple[str, str]:
    verdict = equivalent(
        mutant.reference,
        mutant.mutation.text,
        launch=find_launch(mutant.reference),
        subject_launch=find_launch(mutant.subject),
        safety=False,
        seed=1,
    )
    if verdict.verdict == "refuted":
        return KILLED, str(verdict.reason)
    if verdict.verdict != "proved":
        message = verdict.findings[0].message if verdict.findings else ""
        return UNDECIDED, f"{verdict.reason} {message}".strip()
    return agreement(mutant)


def agreement(mutant: Mutant) -> tuple[str, str]:
    """Does the slow evaluator find the same outputs with and without the mutation?"""
    compared = 0
    try:
        originals = _slow(mutant, None)
        for (family, before), (_, after) in zip(
            originals, _slow(mutant, mutant.mutation.text), strict=True
        ):
            if after.seen > before.seen:
                return BROKEN, f"{family}: {after.findings[0].message}"
            for name, outputs in before.outputs.items():
                for i, (x, y) in enumerate(zip(outputs, after.outputs[name], strict=True)):
                    compared += isinstance(x, Real | int)
                    if not _same(x, y):
                        return BROKEN, f"{family}: {name}[{i}] is {x} before and {y} after"
    except Unevaluated as error:
        return BROKEN, str(error)
    return EQUAL, f"{len(originals)} inputs, {compared} outputs"


_ORIGINALS: dict[str, list[tuple[str, SlowResult]]] = {}


def _slow(mutant: Mutant, text: str | None) -> list[tuple[str, SlowResult]]:
    """Runs of the slow evaluator (family of inputs, result); of the original for text None."""
    if text is None and mutant.pair in _ORIGINALS:
        return _ORIGINALS[mutant.pair]
    path = find_launch(mutant.subject)
    assert path is not None
    side = Subject(load_kernel(text or mutant.subject, None), load_launch(path))
    numbers = side.numbers[0]
    rng = random.Random(mutant.pair)
    results = []
    together = any(i.opcode[0] in ("atom", "red") for i in side.kernel.code)
    for family, inputs in islice(draws(unknown_inputs(side), SEED), DRAWS):
        ctas = list(range(side.launch.ctas)) if together else [rng.randrange(side.launch.ctas)]
        results.append((family, slow_run(side, inputs, numbers, ctas)))
    if text is None:
        _ORIGINALS[mutant.pair] = results
    return results


def _same(x: Any, y: Any) -> bool:
    """Equal rationals, enclosures that meet, or the same thing that is no number."""
    if not isinstance(x, Real) or not isinstance(y, Real):
        return bool(x == y)
    a, b = x.number, y.number
    if a.is_nan or b.is_nan:
        return a.is_nan and b.is_nan
    (low, high), (floor, top) = a.bounds(), b.bounds()
    return low <= top and floor <= high and (not isinstance(a, Exact) or a.exact() == b.exact())


def reasons() -> dict[str, dict[str, str]]:
    """Pair -> key of a mutation -> why it is equal."""
    with (HERE / "mutants_reasons.yaml").open() as file:
        return yaml.safe_load(file) or {}


def explained(outcomes: list[Outcome]) -> tuple[list[Outcome], int]:
    """Survivors with their sentence, and how many have none."""
    known = reasons()
    out, missing = [], 0
    for o in outcomes:
        if o.outcome == EQUAL:
            sentence = known.get(o.mutant.pair, {}).get(o.mutant.mutation.key)
            missing += sentence is None
            o = replace(o, why=f"{sentence or 'NOT EXPLAINED'} ({o.why})")
        out.append(o)
    return out, missing


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown."""
    totals = Counter(o.outcome for o in outcomes)
    n = len(outcomes)
    real = n - totals[EQUAL]
    lines = [
        "# Mutants",
        "",
        f"`python -m benchmarks.mutants`: {n} mutants of the subjects of {len(PAIRS)} proved pairs "
        f"(seed {SEED}), checked by `kcheck equiv --no-safety`.",
        "",
        "| outcome | mutants | |",
        "|---|---|---|",
        *(f"| {k} | {totals[k]} | {totals[k] / n:.1%} |" for k in (KILLED, EQUAL, UNDECIDED)),
        "",
        f"Kill rate: {totals[KILLED]} of {n} ({totals[KILLED] / n:.1%}); of those that are not "
        f"shown equal {totals[KILLED]} of {real} ({totals[KILLED] / max(real, 1):.1%}).",
        "",
        "| kind | killed | shown equal | undecided |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        c = Counter(o.outcome for o in outcomes if o.mutant.mutation.kind == kind)
        lines.append(f"| {kind} | {c[KILLED]} | {c[EQUAL]} | {c[UNDECIDED]} |")
    lines += ["", "Pairs (reference, subject):", ""]
    lines += [f"- {name}: `{a}`, `{b}`" for name, (a, b, _) in PAIRS.items()]
    lines += [
        "",
        "| # | pair | line | kind | mutation | outcome | reason |",
        "|---|---|---|---|---|---|---|",
    ]
    for i, o in enumerate(outcomes):
        m = o.mutant.mutation
        change = f"`{m.before}` → `{m.after}`".replace("|", "\\|")
        why = o.why.replace("|", "\\|").replace("\n", " ")
        lines.append(
            f"| {i} | {o.mutant.pair} | {m.line} | {m.kind} | {change} | {o.outcome} | {why} |"
        )
    return "\n".join(lines) + "\n"


def judged(every: list[Mutant], keep: Path | None) -> list[Outcome]:
    """The outcomes in the order of the mutants; those in the file `keep` are not found anew."""
    known: dict[tuple[str, str], tuple[str, str, float]] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text().splitlines():
            pair, key, *rest = json.loads(line)
            known[pair, key] = (rest[0], rest[1], rest[2])
    open_ones = [m for m in every if (m.pair, m.mutation.key) not in known]
    with multiprocessing.Pool(2) as pool:
        for i, o in enumerate(pool.imap(judge, open_ones)):
            name = o.mutant.pair, o.mutant.mutation.key
            known[name] = o.outcome, o.why, o.seconds
            print(f"{i} {' '.join(name)} | {o.outcome} {o.why} {o.seconds:.1f} s", flush=True)
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps([*name, *known[name]]) + "\n")
    return [Outcome(m, *known[m.pair, m.mutation.key]) for m in every]


def main() -> None:
    """Judge the mutants and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE.parent / "tests" / "data")
    parser.add_argument("--only", choices=tuple(PAIRS), help="one pair; writes no table")
    parser.add_argument("--keep", type=Path, help="a file that keeps outcomes from run to run")
    parser.add_argument(
        "--write", nargs=2, metavar=("NUMBER", "FILE"), help="write one mutant's PTX and stop"
    )
    arguments = parser.parse_args()
    every = mutants(arguments.data, arguments.only)
    if arguments.write:
        Path(arguments.write[1]).write_text(every[int(arguments.write[0])].mutation.text)
        return
    outcomes, missing = explained(judged(every, arguments.keep))
    if arguments.only is None:
        (HERE / "mutants.md").write_text(table(outcomes))
    broken = sum(o.outcome == BROKEN for o in outcomes)
    print(f"{Counter(o.outcome for o in outcomes)}; {missing} not explained")
    sys.exit(bool(missing or broken))


if __name__ == "__main__":
    main()
