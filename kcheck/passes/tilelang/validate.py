"""Is the kernel that tilelang compiled what its reference says, and if not, since which rung?"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from kcheck.check import equivalent
from kcheck.launch import Launch
from kcheck.passes import store
from kcheck.passes.sides import Side, placed
from kcheck.passes.tilelang import nvcc
from kcheck.passes.tilelang.ladder import ALL, Ladder, Rung, first_bad
from kcheck.passes.tilelang.lowering import Lowered, lower
from kcheck.passes.tilelang.nvcc import CompileError
from kcheck.passes.tilelang.references import Reference, reference
from kcheck.passes.tilelang.request import Request, Unsupported
from kcheck.passes.validation import Outcome, Step, Validate, digest, main_finding
from kcheck.report.json import to_json, verdict_object
from kcheck.undecided import undecided
from kcheck.verdict import Verdict


class Validation:
    """One compile that is validated. `start` may be called before the compile itself: what it
    needs is made in threads beside it.
    """

    def __init__(self, request: Request, options: Validate) -> None:
        self.request = request
        self.options = options
        self.ladder = Ladder(request)
        self.seconds: dict[str, float] = {}
        self._heard: set[str] = set()
        self._ready: list[Future[None]] = []

    def start(self) -> None:
        """Lower and compile the reference, beside what the caller does next."""
        self.request.own  # noqa: B018 before anything else lowers the prim_func
        self._beside(lambda: self._prepare(last=self.options.every_rung))

    def heard(self, source: str) -> None:
        """The CUDA text that tilelang compiles just now: its PTX is made beside that."""
        if source not in self._heard:
            self._heard.add(source)
            self._beside(lambda: self._compiled("nvcc", source))

    def _beside(self, work: Callable[[], None]) -> None:
        """In a thread. Errors are met again by those who need what it makes."""
        pool = ThreadPoolExecutor(1, "kcheck")
        self._ready.append(pool.submit(work))
        pool.shutdown(wait=False)

    def _prepare(self, last: bool) -> None:
        """What is needed in every case, and what is where the kernel is made by ourselves."""
        with suppress(Exception):
            if last:
                with self._measured("lowering"):
                    source = self.ladder.last.source
                self.heard(source)
            with self._measured("lowering"):
                first = self.trusted.rung
            if first is not None:
                self._compiled("reference nvcc", first.source)

    def _compiled(self, what: str, source: str) -> None:
        with suppress(Exception), self._measured(what):
            nvcc.ptx(source, self.request)

    @contextmanager
    def _measured(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def outcome(self, source: str, launch: Launch | None) -> Outcome:
        """The verdict on a kernel: its CUDA text, and its launch where that is known."""
        fresh = launch is not None and not self.options.every_rung
        if not self._ready:
            self._prepare(last=not fresh)
        if fresh:
            self.heard(source)
        with self._measured("waiting"):
            for future in self._ready:  # more may come while the first is waited for
                future.result()
        try:
            if launch is not None and fresh:
                found = self._fresh(source, launch)
            else:
                subject = self._subject(source, launch)
                found = self._every_rung(subject) if self.options.every_rung else self._one(subject)
        except Unsupported as error:
            found = self._failed(unsupported(error))
        except CompileError as error:
            found = self._failed(undecided("unsupported.compile", f"nvcc: {error}"))
        return replace(found, seconds=dict(self.seconds))

    def _failed(self, verdict: Verdict) -> Outcome:
        return Outcome(self.request.name, verdict)

    # the two sides

    def _subject(self, source: str, launch: Launch | None) -> Rung:
        """The rung that is the user's kernel: the last one, or, where tilelang was told to do
        something else than it does by itself, one more.
        """
        last = self.ladder.last
        if source == last.source and launch in (None, last.lowered.launch):
            return last
        tooled = lower(self.request, self.ladder.own, tools=True)
        if source == tooled.source and launch in (None, tooled.launch):
            return Rung(_told(last.lowered, tooled), self.request, tooled)
        if launch is None:
            raise Unsupported("not-reproduced", "lowered again, the kernel has another CUDA text")
        lines = (None,) * source.count("\n")
        return Rung("not reproduced", self.request, Lowered(source, lines, launch, ()))

    @cached_property
    def trusted(self) -> Reference:
        """What the kernel must equal."""
        return reference(self.options.reference, self.request, self.ladder)

    @cached_property
    def reference(self) -> Side:
        """The same as a side."""
        trusted = self.trusted
        if trusted.given is not None:
            return trusted.given
        assert trusted.rung is not None
        return side("reference", trusted.rung)

    @property
    def folder(self) -> Path:
        """Where the files of this kernel go."""
        short = digest(self.request.key)[:8]
        return Path(self.options.report) / f"{self.request.name}-{short}"

    def compare(self, reference: Side, subject: Side, folder: Path | None = None) -> Verdict:
        """One proof, or the verdict that is known from before."""
        mapping = self.trusted.mapping if reference is self.reference else None
        texts = (*reference.content, *subject.content, self.options.key, str(mapping))
        key = store.verdict_key(*texts)
        known = store.load_verdict(key)
        if known is not None:
            return known
        options = self.options
        with self._measured("proof"):
            verdict = equivalent(
                reference.kernel(),
                subject.kernel(),
                launch=reference.launch,
                subject_launch=subject.launch,
                mapping=mapping,
                engine=options.engine,
                strict=options.strict,
                seed=options.seed,
                time_limit=options.time_limit,
                memory_limit=options.memory_limit,
                mask_literals=options.mask_literals,
                witness_dir=folder,
            )
        store.save_verdict(key, verdict)
        return placed(verdict, reference, subject)

    # one proof, and the climb where it fails

    def _fresh(self, source: str, launch: Launch) -> Outcome:
        """A kernel that was just compiled is compared as it is. Only what is found in it must be
        placed: for that it is lowered again.
        """
        mine = side("subject", Rung(ALL, self.request, Lowered(source, (), launch, ())))
        verdict = self.compare(self.reference, mine, self.folder)
        if verdict.verdict == "proved":
            return self._proved(ALL, mine, verdict)
        subject = self._subject(source, launch)
        return self._blamed(subject, placed(verdict, self.reference, side("subject", subject)))

    def _one(self, subject: Rung) -> Outcome:
        mine = side("subject", subject)
        verdict = self.compare(self.reference, mine, self.folder)
        if verdict.verdict == "proved":
            return self._proved(subject.name, mine, verdict)
        return self._blamed(subject, verdict)

    def _proved(self, name: str, subject: Side, verdict: Verdict) -> Outcome:
        steps = (self._step(name, self.reference, subject, verdict),)
        return Outcome(self.request.name, verdict, steps=steps)

    def _blamed(self, subject: Rung, verdict: Verdict) -> Outcome:
        """The outcome where there is no proof: the rung that is at fault, and its files."""
        mine = side("subject", subject)
        steps = [self._step(subject.name, self.reference, mine, verdict)]
        rung = self._culprit(subject, verdict, steps) if self.options.bisect else None
        return self._written(Outcome(self.request.name, verdict, rung, tuple(steps)), mine)

    def _culprit(self, subject: Rung, verdict: Verdict, steps: list[Step]) -> str:
        """The first rung that shows what the last one shows, by bisection."""
        finding = main_finding(verdict)
        ladder = self.ladder
        own = self.options.reference is None
        if finding is not None and finding.side == "reference":
            return ladder.first.name if own else "the reference"
        known = {id(subject): False} | ({id(ladder.first): True} if own else {})

        def good(at: int) -> bool:
            rung = ladder.rung(at)
            if id(rung) not in known:
                mine = side("subject", rung)
                found = self.compare(self.reference, mine)
                steps.append(self._step(rung.name, self.reference, mine, found))
                refuted = verdict.verdict == "refuted"
                same_kind = found.verdict == "refuted" if refuted else found.verdict != "proved"
                known[id(rung)] = not same_kind
            return known[id(rung)]

        with self._measured("bisection"):
            low = ladder.start - (not own)
            at = first_bad(low, len(ladder.steps), good)
        return subject.name if at == len(ladder.steps) else ladder.steps[at].name

    def _rungs(self, subject: Rung) -> Iterator[tuple[str, Rung]]:
        """The ladder up to the user's kernel: names, and what they stand for, if that is new."""
        seen: set[int] = set()
        for at in range(self.ladder.start, len(self.ladder.steps)):
            rung = self.ladder.rung(at)
            if id(rung) not in seen:
                yield self.ladder.steps[at].name, rung
            seen.add(id(rung))
        if id(subject) not in seen:
            yield subject.name, subject

    def distinct(self) -> list[tuple[str, Rung]]:
        """The rungs whose PTX or launch differs from that of the rung below, by name."""
        found: list[tuple[str, Rung]] = []
        for name, rung in self._rungs(self.ladder.last):
            below = found[-1][1] if found else None
            if below is None or (rung.normalized, rung.lowered.launch) != (
                below.normalized,
                below.lowered.launch,
            ):
                found.append((name, rung))
        return found

    def climbed(self) -> Iterator[tuple[str, int]]:
        """The distinct rungs, and how many lines of PTX each changes."""
        below = None
        for name, rung in self.distinct():
            text = rung.normalized
            yield name, 0 if below is None else changed(below, text)
            below = text

    def own(self) -> Outcome:
        """The verdict on what tilelang would compile now."""
        return self.outcome(self.ladder.last.source, None)

    def _every_rung(self, subject: Rung) -> Outcome:
        """Each rung against the one below it; the first against the reference."""
        before, below = self.reference, self.reference.normalized
        steps: list[Step] = []
        for name, rung in self._rungs(subject):
            mine = side("subject", rung)
            if mine.normalized == below and mine.launch == before.launch and steps:
                continue
            verdict = self.compare(before, mine, self.folder)
            steps.append(self._step(name, before, mine, verdict))
            if verdict.verdict != "proved":
                found = Outcome(self.request.name, verdict, name, tuple(steps))
                return self._written(found, mine, before)
            before, below = replace(mine, name="reference"), mine.normalized
        return Outcome(self.request.name, verdict, steps=tuple(steps))

    def _step(self, name: str, reference: Side, subject: Side, verdict: Verdict) -> Step:
        return Step(name, changed(reference.normalized, subject.normalized), verdict)

    def _written(self, outcome: Outcome, subject: Side, reference: Side | None = None) -> Outcome:
        """The outcome with its files, where they can be written."""
        found = replace(outcome, folder=self.folder)
        try:
            for one in (reference or self.reference, subject):
                one.write(self.folder)
            (self.folder / "report.txt").write_text(found.report() + "\n", encoding="utf-8")
            text = to_json({"rung": outcome.rung, **verdict_object(outcome.verdict)})
            (self.folder / "report.json").write_text(text + "\n", encoding="utf-8")
        except OSError:
            return outcome
        return found


def unsupported(error: Unsupported) -> Verdict:
    """No answer."""
    steps = (error.mend,) if error.mend else ()
    return replace(undecided(f"unsupported.{error.form}", str(error)), next_steps=steps)


def side(name: str, rung: Rung) -> Side:
    """A rung as one side of a comparison."""
    lines = rung.lowered.lines

    def origin(line: int) -> tuple[str, ...]:
        at = rung.places.get(line)
        if at is None:
            return ()
        python = lines[at - 1] if at <= len(lines) else None
        cuda = f"{name}.cu:{at}"
        return (cuda,) if python is None else (f"{Path(python[0]).name}:{python[1]}", cuda)

    return Side(name, rung.ptx, rung.normalized, rung.lowered.launch, origin, rung.source)


def changed(before: str, after: str) -> int:
    """Lines that were taken away or added."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in lines)


def _told(plain: Lowered, tooled: Lowered) -> str:
    """What registered tools did to the pipeline, as the name of a rung."""
    before, after = Counter(plain.passes), Counter(tooled.passes)
    words = [f"{name} skipped" for name in before - after]
    words += [f"{name} added" for name in after - before]
    return ", ".join(words) or "instruments"
