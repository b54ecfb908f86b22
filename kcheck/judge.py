"""Faults and differences of two runs, confirmed by the slow evaluator, as a refutation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kcheck.artifacts import save
from kcheck.canon.constants import NAN, NAN_DIV, UNKNOWN
from kcheck.confirm import (
    confirm_output,
    first,
    last_writer,
    location,
    to_watch,
    with_origin,
)
from kcheck.contrast import Contrast
from kcheck.difference import first_difference
from kcheck.launch import unflatten
from kcheck.limits import LimitReached
from kcheck.outputs import Comparison, read_output
from kcheck.racing import orders_memory
from kcheck.search import Search, entries
from kcheck.semantics.execution import Execution, Refused
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.sightings import Judged, Sightings, rank
from kcheck.verdict import Difference, Finding, Location, Verdict, Witness, number_text
from kcheck.verdict import element as shown
from kcheck.witness import Subject, Writers, confirm

if TYPE_CHECKING:
    from kcheck.field_runs import FieldRun
    from kcheck.question import Question
    from kcheck.vacuity import Divided

SIDES = ("reference", "subject")
# updates that commute where their operands are the same (semantics.updates)
_GIVEN = frozenset({"exch", "cas", "inc", "dec"})


class Judge:
    """What is wrong with two runs, if anything. `alone`: they are one, of the subject."""

    def __init__(
        self,
        question: Question,
        run: FieldRun,
        comparisons: dict[str, Comparison],
        alone: bool = False,
    ) -> None:
        self.question = question
        self.run = run
        self.comparisons = comparisons
        self.witness: Witness | None = None
        # what is judged so far
        self.found: list[Judged] = []
        # the element of the witness as both sides compute it
        self.close: Contrast | None = None
        sides: list[tuple[str, Subject, Execution]] = [
            ("reference", question.reference, run.reference),
            ("subject", question.subject, run.subject),
        ]
        self.sides = sides[1:] if alone else sides
        self.sightings = Sightings(question, self.sides)
        self.slow = self.sightings.slow

    @property
    def outputs(self) -> tuple[int, int]:
        """Equal and compared elements."""
        equal = sum(int(c.equal.sum()) for c in self.comparisons.values())
        compared = sum(int((~c.idle).sum()) for c in self.comparisons.values())
        return equal, compared

    def certain(self) -> bool:
        """Is a defect confirmed that was seen while executing? LimitReached before it is."""
        try:
            self.question.progress("confirming what was seen", 0.0)
            for item in self.sightings.judged():
                self.found.append(item)
        except (LimitReached, MemoryError):
            if not any(sure for _, sure in self.found):
                raise
        return any(sure for _, sure in self.found)

    def refutation(self) -> Verdict | None:
        """Refuted, or undecided about something that looks wrong; None if nothing does."""
        found, witness = self.found, self.witness
        try:
            self.question.progress("confirming what was seen", 0.0)
            for item in self._seen():  # one by one: those before a limit count
                found.append(item)
            if any(c.different.any() for c in self.comparisons.values()):
                self.question.progress("looking for an input", 0.0)
                witness = witness or self._witness(Search.witness)
                if witness is not None and not witness.by_rounding:
                    found.append((self._mismatch(witness), True))
        except (LimitReached, MemoryError):
            # what is confirmed stays so; for anything else there is no time
            if not any(sure for _, sure in found):
                raise
        if not found and witness is not None:
            return self._constants(witness)
        if not found:
            return self._open_difference()
        # undefined bits are judged by whole registers here, by single bits there: no contradiction
        contradicted = [
            f for f, sure in found if sure is False and not f.reason.startswith("undefined.")
        ]
        confirmed = sorted((f for f, sure in found if sure), key=rank)
        if confirmed:
            # where a race changes who waits, that a wait never ends hangs on the schedule
            rest = [f for f in contradicted if not f.reason.startswith("deadlock.")]
            rest += [f for f, sure in found if sure is None]
            findings = (*confirmed, *rest, *self.sightings.left())
            return Verdict("refuted", confirmed[0].reason, findings=findings, witness=witness)
        findings = tuple(f for f, _ in found)
        if contradicted and all(self._may_be_ordered(f) for f in contradicted):
            return Verdict(
                "undecided",
                "unsupported.memory-order",
                findings=findings,
                next_steps=("--no-safety checks the values alone",),
            )
        if contradicted:
            return Verdict(
                "error",
                f"unconfirmed.{contradicted[0].reason}",
                findings=findings,
                next_steps=("report this: the two evaluators of kcheck disagree",),
            )
        steps = (
            "an input that makes the guards of these instructions true, as values:",
            "init: zero for an output that the host clears",
        )
        return Verdict(
            "undecided", f"unconfirmed.{findings[0].reason}", findings=findings, next_steps=steps
        )

    def _seen(self) -> Iterator[Judged]:
        """What was seen while executing, and whether it is confirmed."""
        yield from self.sightings.judged()
        yield from self._defects()
        yield from self._unwritten()

    def _may_be_ordered(self, finding: Finding) -> bool:
        """Is it a race of a kernel that orders accesses by what the lane executor's monitor does
        not know (ISA, memory consistency model), so that the slow evaluator may see no race? Or of
        updates that may come to the same in any order, of which it tells a few apart only?
        """
        kernels = {name: side.kernel for name, side, _ in self.sides}
        if not finding.reason.startswith("race."):
            return False
        updates = [_GIVEN & set(re.split(r"[.\s]", place.text)) for place in finding.locations]
        return orders_memory(kernels[finding.side]) or (bool(updates) and all(updates))

    def _constants(self, witness: Witness) -> Verdict:
        """All that was found is a difference that rounded literals could explain."""
        mismatch = self._mismatch(witness)
        message = f"{mismatch.message}: literals within 2 ulp of these could make them equal"
        finding = replace(mismatch, reason="constants", message=message, side="both")
        steps = ("compare the float literals of both kernels",)
        return Verdict(
            "undecided", "constants", findings=(finding,), witness=witness, next_steps=steps
        )

    def _open_difference(self) -> Verdict | None:
        """A difference without a witness, or a value that met an infinity."""
        for name, c in self.comparisons.items():
            if c.unknown.any():
                at = first(c.unknown)
                message = f"{shown(name, c.reference.index(at))}: a value met an infinity"
                places = self._origin(UNKNOWN)
                finding = Finding("unsupported.infinity", message, "both", places)
                return Verdict("undecided", "unsupported.infinity", findings=(finding,))
        for name, c in self.comparisons.items():
            if c.different.any():
                at = first(c.different)
                message = (
                    f"{shown(name, c.reference.index(at))} and {int(c.different.sum()) - 1} more "
                    "elements differ over the field, but no real input was found that shows it"
                )
                finding = Finding("opaque", message, "both", self._stores(name, at))
                return Verdict("undecided", "opaque", findings=(finding,))
        return None

    # values that are no numbers

    def _defects(self) -> Iterator[Judged]:
        for i, (name, _, run) in enumerate(self.sides):
            for buffer, c in self.comparisons.items():
                if not (c.nan[i] | c.undefined[i]).any():
                    continue
                ids = read_output(run, (c.reference, c.subject)[i]).ids
                zero = c.nan[i] & (ids == NAN_DIV)
                for reason, flags, special in (
                    ("undefined.output", c.undefined[i], None),
                    ("value.division-by-zero", zero, NAN_DIV),
                    ("value.nan", c.nan[i] & ~zero, NAN),
                ):
                    if flags.any():
                        yield self._defect(i, name, buffer, reason, flags, special)

    def _defect(
        self, i: int, name: str, buffer: str, reason: str, flags: Any, special: int | None
    ) -> Judged:
        question = self.question
        side = self.sides[i][1]
        at = first(flags)
        writing = last_writer(side, (buffer, at), question.ctas, question.seed)
        wanted = "undefined" if special is None else "nan"
        watched = to_watch(side, writing, question.ctas)
        sure = confirm_output(self.slow[name], (buffer, at), wanted, watched)
        places = [_store(side, writing)] if writing else []
        made = self.sides[i][2].origins.get(special if special is not None else -1, -1)
        if made >= 0:
            places.append(location(side.kernel, made))
        where = shown(buffer, self.comparisons[buffer].reference.index(at))
        what = {
            "undefined.output": "is undefined",
            "value.division-by-zero": "is divided by zero, whatever the input",
            "value.nan": "is not a number",
        }[reason]
        message = f"{where} {what}"
        finding = Finding(
            reason, message, name, tuple(places), int(flags.sum()), confirmed=_by(sure)
        )
        if sure and special is None and writing:
            cta, (by, thread) = min(writing.items())
            who = unflatten(cta, side.launch.grid), thread
            finding = with_origin(side, finding, by, who, question.seed)
        return finding, sure

    # elements that one side leaves alone

    def _unwritten(self) -> Iterator[Judged]:
        for buffer, c in self.comparisons.items():
            for wrote, lacks in ((0, 1), (1, 0)):
                flags = c.unwritten == (-1, 1)[wrote]
                if flags.any():
                    yield self._one_unwritten(buffer, c, wrote, lacks, flags)

    def _one_unwritten(
        self, buffer: str, c: Comparison, wrote: int, lacks: int, flags: Any
    ) -> Judged:
        question = self.question
        at = first(flags)
        writer, other = self.sides[wrote][1], self.sides[lacks][1]
        writing = last_writer(writer, (buffer, at), question.ctas, question.seed)
        answers = [
            confirm_output(
                self.slow[SIDES[i]], (buffer, at), wanted, to_watch(side, ctas, question.ctas)
            )
            for i, side, wanted, ctas in (
                (wrote, writer, "written", writing),
                (lacks, other, "unwritten", {}),
            )
        ]
        sure = None if None in answers else all(answers)
        message = (
            f"{shown(buffer, c.reference.index(at))} is never written by the {SIDES[lacks]}, "
            f"and written by the {SIDES[wrote]}"
        )
        places = (_store(writer, writing),) if writing else ()
        count = int(flags.sum())
        finding = Finding(
            "value.unwritten", message, SIDES[lacks], places, count, confirmed=_by(sure)
        )
        return finding, sure

    # values that differ

    def differs(self) -> bool:
        """Does one of a few inputs show a difference? That is cheaper than a proof that fails."""
        self.witness = self._witness(Search.quick)
        return self.witness is not None

    def contradiction(self) -> tuple[Finding, Witness] | None:
        """A confirmed difference of what an exact proof says is equal: kcheck is wrong somewhere.

        The search is the ordinary one, within bounded time; an end of the time for all means that
        it found nothing.
        """
        self.question.progress("looking for an input against the proof", 0.0)
        try:
            witness = self._witness(Search.doubt)
        except (LimitReached, MemoryError):
            return None
        return None if witness is None else (self._mismatch(witness), witness)

    def divided(self, alone: Divided, sure: bool) -> Verdict:
        """Equal, but that the subject alone divides by 0 in a region of inputs. `sure`: no number
        comes of it.
        """
        question, c = self.question, self.comparisons[alone.name]
        writers = Writers(question.reference, question.subject, question.ctas)
        message = (
            f"{shown(alone.name, c.reference.index(alone.at))} is divided by zero where "
            f"{alone.region}, and a number in the reference"
        )
        element = (alone.name, alone.at)
        values = confirm(writers, alone.inputs, element, divided=True) if sure else None
        places = self._stores(alone.name, alone.at)
        if values is None:
            finding = Finding("opaque", message, "subject", places, alone.count)
            return Verdict("undecided", "opaque", findings=(finding,))
        index = c.reference.index(alone.at)
        left = entries(alone.inputs, *writers.sides)
        witness = Witness(alone.name, index, *values, alone.region, alone.inputs, entries=left)
        reason = "value.division-by-zero"
        finding = Finding(reason, message, "subject", places, alone.count, confirmed="execution")
        saved = self._saved(witness)
        return Verdict("refuted", reason, findings=(finding,), witness=saved)

    def _witness(self, look: Callable[[Search], Witness | None]) -> Witness | None:
        question = self.question
        pairs = {
            name: ((c.reference, c.subject), c.different)
            for name, c in self.comparisons.items()
            if c.different.any()
        }
        writers = Writers(question.reference, question.subject, question.ctas)
        search = Search(writers, pairs, question.seed, question.progress, question.identify)
        witness = look(search)
        self.close = search.contrast
        return None if witness is None else self._saved(witness)

    def _saved(self, witness: Witness) -> Witness:
        question = self.question
        if question.witness_dir is None:
            return witness
        try:
            return save(witness, question.witness_dir, question.reference, question.subject)
        except OSError as error:
            return replace(witness, path=f"(not saved: {error})")

    def _mismatch(self, witness: Witness) -> Finding:
        c = self.comparisons[witness.buffer]
        at = c.reference.flat(witness.index)
        message = (
            f"{shown(witness.buffer, witness.index)} is {number_text(_middle(witness.reference))} "
            f"in the reference and {number_text(_middle(witness.subject))} in the subject"
        )
        places: tuple[Location, ...] = ()
        difference = None
        try:
            places = self._stores(witness.buffer, at)
            difference = self._first(witness)
        except (LimitReached, MemoryError, Refused, BudgetError, Unsupported):
            pass  # the witness stands without them
        count = int(c.different.sum())
        return Finding("value.mismatch", message, "subject", places, count, difference, "execution")

    def _first(self, witness: Witness) -> Difference | None:
        """Where the values of the witness's element begin to differ."""
        if self.close is None:
            return None
        self.question.progress("looking for the first difference", 0.0)
        found = first_difference(self.close, self.close.point(witness.inputs), self.question.seed)
        if found is None:
            return None
        places = [
            location(side.kernel, origin.at) if origin.at >= 0 else None
            for (_, side, _), origin in zip(
                self.sides, (found.reference, found.subject), strict=True
            )
        ]
        return Difference(found.reference.formula, found.subject.formula, *places)

    def _stores(self, buffer: str, at: int) -> tuple[Location, ...]:
        """The store of an element in the reference and in the subject."""
        question = self.question
        places = []
        for _, side, _ in self.sides:
            writing = last_writer(side, (buffer, at), question.ctas, question.seed)
            if writing:
                places.append(_store(side, writing))
        return tuple(places)

    def _origin(self, special: int) -> tuple[Location, ...]:
        return tuple(
            location(side.kernel, run.origins[special])
            for _, side, run in self.sides
            if run.origins.get(special, -1) >= 0
        )


def _store(side: Subject, writing: dict[int, tuple[int, tuple[int, int, int]]]) -> Location:
    cta, (at, thread) = max(writing.items())
    return location(side.kernel, at, thread, unflatten(cta, side.launch.grid))


def _by(sure: bool | None) -> str:
    return "execution" if sure else "no"


def _middle(ends: tuple[float, float]) -> float:
    """A number within an enclosure."""
    low, high = ends
    return low / 2 + high / 2
