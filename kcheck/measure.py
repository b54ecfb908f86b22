"""Two kernels in true formats on the same inputs: `--engine ieee`.

It measures how far roundings, overflows and NaN drive them apart. Equal results prove nothing, and
different ones need no defect: the verdict is `undecided`, and says what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from kcheck.canon.families import FAMILIES, draws
from kcheck.canon.ieee.formats import FORMATS
from kcheck.confirm import fault_finding
from kcheck.evaluate_formats import distances, rounded_inputs, run_formats
from kcheck.launch import Tensor
from kcheck.preconditions import kept
from kcheck.question import Question
from kcheck.semantics.execution import Refused
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.vacuity import Divided
from kcheck.verdict import Finding, Location, Verdict
from kcheck.witness import unknown_inputs

# inputs drawn from the standard normal distribution
NORMAL = 4
# relative difference that roundings may make
NEAR = 2.0**-6
EQUAL, DIFFERENT = "tested-equal", "formats-differ"
LEDGER = (
    "true formats: the results of each instruction, rounded as the PTX ISA says; approximate "
    "instructions are rounded to nearest (docs/true-formats.md)",
    "races were not looked for",
)


@dataclass
class Measured:
    """A pair of outputs: which elements differ on some input, and where they are farthest apart.

    `ulps`: units in the last place of the reference's format; 1 of an integer.
    """

    differ: Any
    ulps: float = 0.0
    size: float = 0.0
    element: int = 0
    family: str = ""
    values: tuple[Any, Any] = (0, 0)

    def see(self, reference: Any, subject: Any, dtype: str, family: str) -> None:
        """Outputs for one input."""
        a, b = np.ravel(reference), np.ravel(subject)
        apart, ulps = distances(b, a, dtype)
        self.differ |= apart > 0
        at = int(ulps.argmax())
        if ulps[at] > self.ulps:
            self.ulps, self.size = float(ulps[at]), float(apart[at])
            self.element, self.family, self.values = at, family, (a[at], b[at])


def measure(question: Question) -> Verdict:
    """Execute both sides on inputs of all families. Refused as by the executor."""
    seen = {a.name: Measured(np.zeros(a.elements, bool)) for a, _ in question.compared}
    faults: dict[tuple[str, str, tuple[Location, ...]], Finding] = {}
    ctas, inputs = 0, 0
    for family, outputs, executed, found in _runs(question):
        for fault in found:
            faults.setdefault((fault.side, fault.reason, fault.locations), fault)
        for a, b in question.compared:
            seen[a.name].see(outputs[0][a.name], outputs[1][b.name], a.dtype, family)
        ctas, inputs = executed, inputs + 1
        question.known.done[:] = [f"{inputs} inputs were executed"]
    findings = tuple(_finding(a, seen[a.name], inputs) for a, _ in question.compared)
    reason = DIFFERENT if any(m.differ.any() for m in seen.values()) else EQUAL
    return Verdict(
        "undecided", reason, "true formats", ctas=ctas, ledger=LEDGER,
        findings=(*faults.values(), *findings),
        outputs=_outputs(question, seen), statistics={"inputs": inputs},
    )  # fmt: skip


def where_divided(question: Question, alone: Divided) -> str:
    """What becomes in true formats of an element that the subject divides by 0 on the way, and the
    reference does not: "none" (no finite number where the reference has one), "same", "other"
    (numbers that differ), or "" where a side can't be run.

    1/0 is an infinity, and 1/inf may be what is wanted.
    """
    sides = question.reference, question.subject
    found = []
    tensor = next(pair for pair in question.compared if pair[0].name == alone.name)
    for side, mine in zip(sides, tensor, strict=True):
        names = unknown_inputs(side).keys()
        given = rounded_inputs(side, {name: alone.inputs[name] for name in names})
        try:
            _, outputs = run_formats(side, given, question.ctas)
        except (Refused, Unsupported, BudgetError):
            return ""
        found.append(float(np.ravel(outputs[mine.name])[alone.at]))
    a, b = found
    if not np.isfinite(a):
        return "same" if a == b or np.isnan(b) else "other"
    if not np.isfinite(b):
        return "none"
    return "same" if abs(a - b) <= NEAR * (1 + abs(a)) else "other"


def _runs(question: Question) -> Iterator[tuple[str, list[dict[str, Any]], int, list[Finding]]]:
    """(family, outputs of each side, CTAs, what else is wrong) for one input of each family."""
    sides = question.reference, question.subject
    tries = list(_inputs(unknown_inputs(*sides), question.seed))
    own = [unknown_inputs(side).keys() for side in sides]
    for number, (family, inputs) in enumerate(tries):
        given = kept(inputs, *(side.launch for side in sides))
        for side, names in zip(sides, own, strict=True):
            given |= rounded_inputs(side, {name: given[name] for name in names})
        outputs, faults = [], list[Finding]()
        for half, (name, side) in enumerate(zip(("reference", "subject"), sides, strict=True)):
            question.progress("executing in true formats", (number + half / 2) / len(tries))
            try:
                mine = {name: given[name] for name in own[half]}
                run, out = run_formats(side, mine, question.ctas)
            except Refused as error:
                error.side = name
                raise
            outputs.append(out)
            faults += [replace(fault_finding(side, name, f), confirmed="no") for f in run.faults]
        yield family, outputs, len(run.ctas), faults


def _inputs(sizes: dict[str, int], seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(family, inputs): most families of `draws` make sums that are exact, so normal ones too."""
    rng = np.random.default_rng(seed)
    for _ in range(NORMAL):
        yield "standard normal", {name: rng.standard_normal(n) for name, n in sizes.items()}
    yield from islice(draws(sizes, seed), len(FAMILIES))


def _outputs(question: Question, seen: dict[str, Measured]) -> tuple[int, int]:
    compared = sum(a.elements for a, _ in question.compared)
    return compared - sum(int(m.differ.sum()) for m in seen.values()), compared


def _finding(tensor: Tensor, m: Measured, inputs: int) -> Finding:
    if not m.differ.any():
        return Finding(EQUAL, f"`{tensor.name}` is the same on {inputs} inputs", "both")
    at = ",".join(map(str, tensor.index(m.element)))
    ulps = f"{m.ulps:.4g} ulp of {tensor.dtype}, " if tensor.dtype in FORMATS else ""
    message = (
        f"`{tensor.name}[{at}]` = {m.values[0]} in the reference, {m.values[1]} in the subject,"
        f" {ulps}{m.size:.4g} apart, on an input of the family `{m.family}`, the most of {inputs}"
        f" inputs; {int(m.differ.sum())} of {tensor.elements} elements differ on some"
    )
    return Finding(DIFFERENT, message, "both")
