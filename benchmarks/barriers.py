"""Barriers left out one at a time: is each missed? And what looking for races costs.

    python -m benchmarks.barriers [--only NAME] [--costs]

Takes every sm_80 kernel of tests/data that is proved safe and leaves out each `bar.sync`,
`bar.warp.sync` and `cp.async.wait_*`, or lets one more group stay open. Such a mutant is refuted,
or nothing was ordered by what it lacks: then random schedules of the slow evaluator must leave the
outputs of the whole kernel. Writes barriers.md beside this file.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

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
# instructions of the slow evaluator a schedule may take
BUDGET = 3_000_000
LEVELS = 3
# kernels that the slow evaluator takes minutes for: what the lane executor says is not confirmed
LONG = ("flash", "conv2d", "ladders")


@dataclass(frozen=True)
class Mutant:
    """A kernel that lacks (part of) a synchronization at a line."""

    line: int
    what: str
    text: str


@dataclass
class Row:
    """What became of the mutants of one kernel."""

    name: str
    reasons: Counter[str] = field(default_factory=Counter[str])
    spared: list[str] = field(default_factory=list[str])


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


def judge(path: Path, mutant: Mutant) -> str:
    """The reason for which a mutant is refuted; else `spared` or what went wrong."""
    if any(word in str(path) for word in LONG):
        return unconfirmed(path, mutant)
    verdict = safe(mutant.text, launch=path.with_suffix(".launch.yaml"), seed=1)
    if verdict.verdict == "proved":
        return schedules(path, mutant)
    refuted = verdict.verdict == "refuted"
    return str(verdict.reason) if refuted else f"{verdict.verdict} {verdict.reason}"


def unconfirmed(path: Path, mutant: Mutant) -> str:
    """What the lane executor alone says."""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    run = execute(lower(parse(mutant.text)), launch, FieldDomain(1, 1, LEVELS), races=True)
    reasons = [race.reason for race in sorted(run.races, key=lambda race: -race.count)]
    reasons += [fault.reason for fault in run.faults]
    return f"{reasons[0]} (monitor alone)" if reasons else "spared, schedules not run"


def schedules(path: Path, mutant: Mutant) -> str:
    """Do random schedules of the mutant's first CTA leave what the kernel leaves?"""
    launch = load_launch(path.with_suffix(".launch.yaml"))
    whole = lower(parse_file(path))
    side = Subject(whole, launch)
    _, arrays = next(islice(draws(unknown_inputs(side), 1), 1, None))
    inputs = {name: values.tolist() for name, values in arrays.items()}

    def run(kernel: Kernel, seed: int | None) -> SlowResult:
        machine = SlowMachine(kernel, launch, inputs, Double, ctas=[0], seed=seed, budget=BUDGET)
        return machine.run()

    try:
        wanted = _shown(run(whole, None))
        mutated = lower(parse(mutant.text))
        for seed in range(SCHEDULES):
            if _shown(run(mutated, seed)) != wanted:
                return f"DIFFERS under schedule {seed}"
    except Unevaluated as error:
        return f"spared, schedules not run ({error.reason})"
    return "spared"


def _shown(result: SlowResult) -> dict[str, list[str]]:
    return {name: [str(unit) for unit in units] for name, units in result.outputs.items()}


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


def cost(path: Path) -> tuple[float, float]:
    """Seconds of the lane executor without and with the monitor, the better of two runs."""
    kernel, launch = lower(parse_file(path)), load_launch(path.with_suffix(".launch.yaml"))

    def once(races: bool) -> float:
        started = time.process_time()
        execute(kernel, launch, FieldDomain(1, 4, LEVELS), races=races)
        return time.process_time() - started

    return min(once(False), once(False)), min(once(True), once(True))


def title(path: Path) -> str:
    """The kernel as a path in tests/data."""
    return str(path.relative_to(DATA).with_suffix(""))


def barrier_table(paths: list[Path]) -> list[str]:
    """All mutants, by kernel; then those that are spared."""
    rows = []
    for path in paths:
        row = Row(title(path))
        for mutant in mutants(path.read_text()):
            reason = judge(path, mutant)
            row.reasons[reason] += 1
            if not reason.startswith(("race", "deadlock", "undefined", "bounds")):
                row.spared.append(f"{row.name}:{mutant.line}: {mutant.what}: {reason}")
        if row.reasons:
            print(row.name, dict(row.reasons), flush=True)
            rows.append(row)
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.reasons)
    lines = ["| kernel | mutants | outcomes |", "|---|---|---|"]
    for row in rows:
        lines.append(f"| {row.name} | {sum(row.reasons.values())} | {_counts(row.reasons)} |")
    lines.append(f"| **all** | {sum(total.values())} | {_counts(total)} |")
    lines += ["", "Not refuted:", ""]
    return [*lines, *(f"- `{line}`" for row in rows for line in row.spared)]


def _counts(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def cost_table(paths: list[Path]) -> list[str]:
    """Seconds without and with the monitor."""
    lines = ["| kernel | off s | on s | ratio |", "|---|---|---|---|"]
    sums = [0.0, 0.0]
    for path in paths:
        off, on = cost(path)
        sums = [sums[0] + off, sums[1] + on]
        print(title(path), f"{off:.2f} {on:.2f} {on / off:.2f}", flush=True)
        lines.append(f"| {title(path)} | {off:.3f} | {on:.3f} | {on / off:.2f} |")
    return [*lines, f"| **all** | {sums[0]:.2f} | {sums[1]:.2f} | {sums[1] / sums[0]:.2f} |"]


def main() -> None:
    """Write the report, or print a part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kernels whose path has this in it")
    parser.add_argument("--costs", action="store_true", help="only what looking for races costs")
    options = parser.parse_args()
    paths = kernels(options.only)
    parts: dict[str, Any] = {"Barriers left out": barrier_table}
    if options.costs:
        parts = {}
    parts["What looking for races costs (processor time of the lane executor)"] = cost_table
    lines: list[str] = []
    for head, part in parts.items():
        lines += [f"## {head}", "", *part(paths), ""]
    report = "\n".join(["# Barriers", "", *lines])
    if options.only or options.costs:
        print(report)
    else:
        (HERE / "barriers.md").write_text(report)


if __name__ == "__main__":
    main()
