"""All CTAs of a run: one after another, or in turns where one waits for another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcheck.semantics.slow.errors import BudgetExceeded, Unevaluated
from kcheck.semantics.slow.races import Who
from kcheck.semantics.slow.scheduler import SPINS, Scheduler
from kcheck.semantics.slow.state import PREEMPTED, Context, Cta, Signal, Step, Thread

# turns of every CTA without progress after which waiting is for ever: threads that spin may still
# come and go at barriers
PATIENCE = 300
# chance that a random schedule lets CTAs take turns, and that a turn goes to a started one
TURNS = 0.5


class Grid:
    """Runs CTAs. `first`: the thread that runs whenever it can, and the one that runs only if no
    other can; of two CTAs, the second begins once the first thread came to instruction `at`.
    `turns`: let CTAs take turns, in order. `ahead`: threads that go ahead of their CTA's others.
    """

    def __init__(
        self,
        context: Context,
        ctas: Iterable[int],
        slots: int,
        steps: Sequence[Step],
        accesses: Sequence[bool],
        first: tuple[Who, Who] | None = None,
        at: int = -1,
        turns: bool = False,
        ahead: frozenset[Who] = frozenset(),
    ) -> None:
        self.context = context
        self.slots = slots
        self.steps = steps
        self.accesses = accesses
        self.first = first
        self.ahead = ahead
        # the first thread came there, and its CTA has to hand over
        self.came = False
        self.across = at >= 0 and first is not None and first[0][0] != first[1][0]
        if self.across and first is not None:
            self.steps = [*steps[:at], self._noted(steps[at], first[0]), *steps[at + 1 :]]
        self.fresh = list(ctas)
        self.started: list[Scheduler] = []
        if context.chance is not None:
            context.chance.shuffle(self.fresh)
        elif first is not None:
            self.fresh.sort(key=self._cta_rank)
        self.fresh.reverse()
        self.turns = turns or (context.chance is not None and context.chance.random() < TURNS)

    def run(self) -> None:
        """Until all CTAs are done. Raises Unevaluated, where somebody looks for races once all
        CTAs that can go on are done.
        """
        idle = 0
        refused: Unevaluated | None = None
        while self.fresh or self.started:
            before = self.context.progress
            scheduler = self._next()
            try:
                done = scheduler.run(alone=not self.turns)
            except BudgetExceeded:
                raise
            except Unevaluated as error:
                if not scheduler.watched:
                    raise
                refused, done = refused or error, True
            if done:
                idle = 0
                continue
            self.started.append(scheduler)
            stalled = scheduler.stalled and self.context.progress == before
            idle = idle + 1 if stalled else 0
            turns = idle // len(self.started)
            every = 1 + self.context.launch.threads // SPINS  # turns until each thread had one
            forever = turns > PATIENCE or (turns > every and all(s.spins() for s in self.started))
            if not self.fresh and forever:
                refused = next((s.refused for s in self.started if s.refused), refused)
                if refused is None:
                    self._give_up(scheduler)
                break
        if refused is not None:
            raise refused

    def _next(self) -> Scheduler:
        chance = self.context.chance
        if self.turns and chance is not None and self.started and chance.random() < TURNS:
            return self.started.pop(chance.randrange(len(self.started)))
        if self.fresh:
            cta = Cta(self.context, self.fresh.pop(), self.slots)
            rank = self._rank if self.first else None
            ahead = [t for t in cta.threads if (cta.index, t.tid) in self.ahead]
            scheduler = Scheduler(cta, self.steps, self.accesses, rank, ahead)
            scheduler.until = self._handed_over if self.across else None
            return scheduler
        return self.started.pop(0)

    def _noted(self, step: Step, who: Who) -> Step:
        def noted(t: Thread) -> Signal | None:
            signal = step(t)
            if (t.cta.index, t.tid) != who:
                return signal
            self.came = True
            return PREEMPTED if signal is None else signal

        return noted

    def _handed_over(self) -> bool:
        came, self.came = self.came, False
        return came

    def _give_up(self, scheduler: Scheduler) -> None:
        t = scheduler.ready[-1]
        instr = self.context.kernel.code[t.pc - 1]
        message = f"{instr.span.text} waits for a value that nothing can write any more"
        scheduler.cta.find("deadlock.spin", message, instr, t)

    def _rank(self, t: Thread) -> int:
        assert self.first is not None
        who = t.cta.index, t.tid
        if self.across:  # the order of the CTAs is enough
            return 0 if who in self.first else 1
        return 0 if who == self.first[0] else 2 if who == self.first[1] else 1

    def _cta_rank(self, index: int) -> int:
        assert self.first is not None
        x, y, _ = self.context.launch.grid
        place = index % x, index // x % y, index // (x * y)
        second, others = (1, 2) if self.across else (2, 1)
        return 0 if place == self.first[0][0] else second if place == self.first[1][0] else others
