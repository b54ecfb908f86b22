"""What executing the kernels showed, faults and races, confirmed one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kcheck import limits
from kcheck.confirm import SlowRuns, confirm_fault, fault_finding, with_origin
from kcheck.limits import LimitReached
from kcheck.race_runs import Confirmed, RaceRuns
from kcheck.racing import race_finding
from kcheck.semantics.machine import Fault
from kcheck.semantics.race_reports import Race
from kcheck.verdict import ORDER, Finding, Verdict
from kcheck.witness import Subject

if TYPE_CHECKING:
    from kcheck.question import Question

# a finding, and whether the slow evaluator confirms it (None: it can't tell)
Judged = tuple[Finding, bool | None]


class Seen(Protocol):
    """What a run has seen."""

    @property
    def faults(self) -> list[Fault]: ...

    @property
    def races(self) -> list[Race]: ...


class Sightings:
    """All that runs of the sides (name, kernel, run) saw; races of most pairs of lanes first."""

    def __init__(self, question: Question, sides: Sequence[tuple[str, Subject, Seen]]) -> None:
        self.seed = question.seed
        self.slow = {name: SlowRuns(side, question.seed) for name, side, _ in sides}
        self.runs = {
            name: RaceRuns(side, question.seed, run.races, question.strict)
            for name, side, run in sides
        }
        items = [(name, side, fault) for name, side, run in sides for fault in run.faults]
        races = [
            (name, side, race)
            for name, side, run in sides
            for race in sorted(run.races, key=lambda r: -r.count)
        ]
        self.open: deque[tuple[str, Subject, Fault | Race]] = deque([*items, *races])

    def judged(self) -> Iterator[Judged]:
        """One after another, as they are confirmed. LimitReached if a limit is passed."""
        limits.keep(False)
        while self.open:
            name, side, item = self.open[0]
            if isinstance(item, Race):
                judged = self._race(name, side, item)
            else:
                judged = self._fault(name, side, item)
            self.open.popleft()
            yield judged

    def left(self) -> list[Finding]:
        """Those for which there was no time: seen, not confirmed."""
        return [
            race_finding(side, name, item, Confirmed(None))
            if isinstance(item, Race)
            else replace(fault_finding(side, name, item), confirmed="no")
            for name, side, item in self.open
        ]

    def _fault(self, name: str, side: Subject, fault: Fault) -> Judged:
        finding = fault_finding(side, name, fault)
        sure = confirm_fault(self.slow[name], fault)
        if sure and fault.reason.startswith("undefined."):
            finding = self._with_origin(side, finding, fault)
        return replace(finding, confirmed="execution" if sure else "no"), sure

    def _with_origin(self, side: Subject, finding: Finding, fault: Fault) -> Finding:
        try:
            return with_origin(side, finding, fault.at, (fault.cta, fault.thread), self.seed)
        except (LimitReached, MemoryError):
            return finding  # what is confirmed stays so without its origin

    def _race(self, name: str, side: Subject, race: Race) -> Judged:
        confirmed = self.runs[name].confirm(race)
        return race_finding(side, name, race, confirmed), confirmed.sure


def rank(finding: Finding) -> int:
    """Its place in the order of reasons (DESIGN.md 3)."""
    return ORDER.index(finding.reason.partition(".")[0])


def with_seen(question: Question, verdict: Verdict, confirm: bool) -> Verdict:
    """A verdict that came before the runs were judged, and what they had seen until then.

    `confirm`: there is time to confirm it; what is confirmed refutes, whatever came after it.
    """
    alone = question.subject is question.reference
    sides = {"reference": question.reference, "subject": question.subject}
    sightings = Sightings(
        question,
        [("subject" if alone else name, sides[name], seen) for name, seen in question.seen.items()],
    )
    judged: list[Judged] = []
    try:
        for item in sightings.judged() if confirm else ():
            judged.append(item)
    except (LimitReached, MemoryError):
        pass
    sure = sorted((f for f, confirmed in judged if confirmed), key=rank)
    rest = [*(f for f, confirmed in judged if not confirmed), *sightings.left()]
    if not sure:
        return replace(verdict, findings=(*verdict.findings, *rest))
    findings = (*sure, *rest, *verdict.findings)
    reason = sure[0].reason
    return replace(verdict, verdict="refuted", reason=reason, findings=findings, next_steps=())
