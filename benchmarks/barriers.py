"""Barriers left out one at a time: is each missed?

    python -m benchmarks.barriers [--only NAME] [--keep FILE]

Takes every sm_80 kernel of tests/data that is proved safe and leaves out each `bar.sync`,
`bar.warp.sync` and `cp.async.wait_*`, or lets one more group stay open. Such a mutant is refuted,
or nothing was ordered by what it lacks (benchmarks.needless says why): then random schedules of the
slow evaluator must leave the outputs of the whole kernel. Writes barriers.md beside this file; the
exit status is 1 if something is neither.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.needless import needless
from kcheck.canon.families import draws
from kcheck.canon.field import FieldDomain
from kcheck.check import safe
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse, parse_file
from kcheck.ptx_frontend.tree import Imm, Instr
from kcheck.semantics.execution import execute
from kcheck.semantics.slow import Double, SlowMachine, SlowResult, Unevaluated
from kcheck.witness import Subject, unknown_inputs

HERE = Path(__file__).parent
DATA = HERE.parent / "tests/data"
FORMS = frozenset({"bar.sync", "bar.warp", "cp.async.wait"})
SCHEDULES = 3
# seconds of processor time for the confirmation of one mutant, and for one schedule
LIMIT = 120
LEVELS = 3
# outcomes, the good ones first
REFUTED = "refuted"
SPARED = "nothing to order, all schedules agree"
SEEN = "seen by the lane executor, not confirmed in time"
NOT_RUN = "nothing to order, schedules not run"
DIFFERS = "NO RACE, YET SCHEDULES DIFFER"
OTHER = "NEITHER REFUTED NOR SAFE"
OUTCOMES = (REFUTED, SPARED, SEEN, NOT_RUN, DIFFERS, OTHER)


@dataclass(frozen=True)
class Mutant:
    """A kernel that lacks (part of) a synchronization at a line."""

    line: int
    what: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: one of OUTCOMES, and the reason or what went wrong."""

    kernel: str
    line: int
    what: str
    outcome: str
    why: str
    seconds: float


class Late(Exception):
    """A mutant took longer than LIMIT."""


def mutants(text: str) -> Iterator[Mutant]:
    """Every mutant of a PTX text with one entry."""
    for instr in lower(parse(text)).code:
        found = match(instr.opcode)
        if found is None or found.form.name not in FORMS:
            continue
        span = instr.span
        before, rest = text[span.start : span.end], text[span.end :]
        without = rest.replace(";", "", 1) if not before.endswith(";") else rest
        yield Mutant(span.line, f"no {before}", text[: span.start] + without)
        more = _laxer(instr, before)
        if more:
            yield Mutant(span.line, more, text[: span.start] + more + rest)


def _laxer(instr: Instr, text: str) -> str:
    """A wait for one group less."""
    operand = instr.operands[0] if instr.operands else None
    if match(instr.opcode) is None or instr.opcode[0] != "cp" or not isinstance(operand, Imm):
        return ""
    head, _, tail = text.rpartition(str(operand.value))
    return f"{head}{operand.value + 1}{tail}"


def judge(path: Path, mutant: Mutant) -> tuple[str, str]:
    """What becomes of a mutant, and why."""
    try:
        with limit():
            verdict = safe(mutant.text, launch=path.with_suffix(".launch.yaml"), seed=1)
    except Late:
        reason = seen(path, mutant)
        return (SEEN, reason) if reason else schedules(path, mutant)
    if verdict.verdict == "refuted":
        return REFUTED, str(verdict.reason)
    if verdict.verdict != "proved":
        return OTHER, f"{verdict.verdict} {verdict.reason}"
    return schedules(path, mutant)


@contextmanager
def limit(seconds: float = LIMIT) -> Iterator[None]:
    """Late after so much processor time, so that other work on the machine changes no outcome."""

    def late(number: int, frame: Any) -> None:
        raise Late

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def seen(path: Path, mutant: Mutant) -> str:
    """The reason that the lane executor alone gives, or an empty text."""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    run = execute(lower(parse(mutant.text)), launch, FieldDomain(1, 1, LEVELS), races=True)
    reasons = [race.reason for race in sorted(run.races, key=lambda race: -race.count)]
    reasons += [fault.reason for fault in run.faults]
    return reasons[0] if reasons else ""


def schedules(path: Path, mutant: Mutant) -> tuple[str, str]:
    """Do random schedules of the mutant's first CTA leave what the kernel leaves?"""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    whole = lower(parse_file(path))
    side = Subject(whole, launch)
    _, arrays = next(islice(draws(unknown_inputs(side), 1), 1, None))
    inputs = {name: values.tolist() for name, values in arrays.items()}

    def run(kernel: Kernel, seed: int | None) -> SlowResult:
        return SlowMachine(kernel, launch, inputs, Double, ctas=[0], seed=seed).run()

    agreed = 0
    try:
        with limit((1 + SCHEDULES) * LIMIT):
            wanted = _shown(run(whole, None))
            mutated = lower(parse(mutant.text))
            for seed in range(SCHEDULES):
                if _shown(run(mutated, seed)) != wanted:
                    return DIFFERS, f"under schedule {seed}"
                agreed += 1
    except Unevaluated as error:
        return NOT_RUN, str(error.reason)
    except Late:
        return NOT_RUN, f"{agreed} of {SCHEDULES} in time"
    return SPARED, ""


def _shown(result: SlowResult) -> tuple[dict[str, list[str]], list[str]]:
    outputs = {name: [str(unit) for unit in units] for name, units in result.outputs.items()}
    return outputs, [finding.reason for finding in result.findings]


def kernels(only: str = "") -> list[Path]:
    """The kernels that are safe to begin with, and have a launch of their own."""
    bad = ("bug", "BAD", "RACY", "nosafe")
    return [
        path
        for path in sorted(DATA.rglob("*.ptx"))
        if only in str(path)
        and path.with_suffix(".launch.yaml").exists()
        and not any(word in path.stem for word in bad)
        and ".target sm_80" in path.read_text()
    ]


def title(path: Path) -> str:
    """The kernel as a path in tests/data."""
    return str(path.relative_to(DATA).with_suffix(""))


def judged(paths: list[Path], keep: Path | None) -> list[Outcome]:
    """The outcomes of all mutants; those in the file `keep` are not found anew."""
    known: dict[tuple[str, int, str], Outcome] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text().splitlines():
            outcome = Outcome(*json.loads(line))
            known[outcome.kernel, outcome.line, outcome.what] = outcome
    every = [(path, mutant) for path in paths for mutant in mutants(path.read_text())]
    for i, (path, mutant) in enumerate(every):
        key = title(path), mutant.line, mutant.what
        if key in known:
            continue
        started = time.process_time()
        found = judge(path, mutant)
        outcome = known[key] = Outcome(*key, *found, round(time.process_time() - started, 1))
        print(f"{i + 1} of {len(every)}", *astuple(outcome), flush=True)
        if keep is not None:
            with keep.open("a") as file:
                file.write(json.dumps(astuple(outcome)) + "\n")
    return [known[title(path), mutant.line, mutant.what] for path, mutant in every]


def barrier_table(outcomes: list[Outcome]) -> list[str]:
    """All mutants, by kernel; then those that are not refuted, with the reason."""
    total = Counter(o.outcome for o in outcomes)
    lines = [
        "`python -m benchmarks.barriers`: each sm_80 kernel of tests/data that is safe, without "
        "one synchronization at a time, checked by `kcheck check`. What is not refuted runs under "
        f"{SCHEDULES} random schedules; {LIMIT} s of processor time for each step.",
        "",
        "| outcome | mutants | reasons |",
        "|---|---|---|",
    ]
    for name in OUTCOMES:
        reasons = Counter(o.why for o in outcomes if o.outcome == name)
        listed = ", ".join(f"{count} {why}" for why, count in reasons.most_common() if why)
        lines.append(f"| {name} | {total[name]} | {listed} |")
    lines += [f"| **all** | {len(outcomes)} | |", ""]
    shown = [name for name in OUTCOMES if total[name]]
    heads = ("kernel", "mutants", *shown)
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for kernel in dict.fromkeys(o.kernel for o in outcomes):
        count = Counter(o.outcome for o in outcomes if o.kernel == kernel)
        cells = [kernel, str(count.total()), *(str(count[name] or "") for name in shown)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Not refuted, and why:", ""]
    return [*lines, *(_survivor(o) for o in outcomes if o.outcome not in (REFUTED, SEEN))]


def _survivor(o: Outcome) -> str:
    said = f"{o.outcome} ({o.why})" if o.why else o.outcome
    what = o.what.replace("\t", " ")
    return f"- `{o.kernel}:{o.line}`, {what}: {said}; {needless(DATA / f'{o.kernel}.ptx', o.line)}"


def main() -> None:
    """Write the report, or print a part of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kernels whose path has this in it")
    parser.add_argument("--keep", type=Path, help="a file that keeps outcomes from run to run")
    options = parser.parse_args()
    outcomes = judged(kernels(options.only), options.keep)
    report = "\n".join(["# Barriers left out", "", *barrier_table(outcomes), ""])
    if options.only:
        print(report)
    else:
        (HERE / "barriers.md").write_text(report)
    sys.exit(any(o.outcome in (DIFFERS, OTHER) for o in outcomes))


if __name__ == "__main__":
    main()
