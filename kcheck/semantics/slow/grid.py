"""All CTAs of a run: one after another, or in turns where one waits for another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcheck.semantics.slow.races import Who
from kcheck.semantics.slow.scheduler import SPINS, Scheduler
from kcheck.semantics.slow.state import Context, Cta, Step, Thread

# turns of every CTA without progress after which waiting is for ever: threads that spin may still
# come and go at barriers
PATIENCE = 300
# chance that a random schedule lets CTAs take turns, and that a turn goes to a started one
TURNS = 0.5


class Grid:
    """Runs CTAs. `first`: the threads that run whenever they can, and only if no other can."""

    def __init__(
        self,
        context: Context,
        ctas: Iterable[int],
        slots: int,
        steps: Sequence[Step],
        accesses: Sequence[bool],
        first: tuple[Who, Who] | None = None,
    ) -> None:
        self.context = context
        self.slots = slots
        self.steps = steps
        self.accesses = accesses
        self.first = first
        self.fresh = list(ctas)
        self.started: list[Scheduler] = []
        if context.chance is not None:
            context.chance.shuffle(self.fresh)
        elif first is not None:
            self.fresh.sort(key=self._cta_rank)
        self.fresh.reverse()
        self.turns = context.chance is not None and context.chance.random() < TURNS

    def run(self) -> None:
        """Until all CTAs are done."""
        idle = 0
        while self.fresh or self.started:
            before = self.context.progress
            scheduler = self._next()
            if scheduler.run(alone=not self.turns):
                idle = 0
                continue
            self.started.append(scheduler)
            stalled = scheduler.stalled and self.context.progress == before
            idle = idle + 1 if stalled else 0
            turns = idle // len(self.started)
            every = 1 + self.context.launch.threads // SPINS  # turns until each thread had one
            forever = turns > PATIENCE or (turns > every and all(s.spins() for s in self.started))
            if not self.fresh and forever:
                self._give_up(scheduler)
                return

    def _next(self) -> Scheduler:
        chance = self.context.chance
        if self.turns and chance is not None and self.started and chance.random() < TURNS:
            return self.started.pop(chance.randrange(len(self.started)))
        if self.fresh:
            cta = Cta(self.context, self.fresh.pop(), self.slots)
            rank = self._rank if self.first else None
            return Scheduler(cta, self.steps, self.accesses, rank)
        return self.started.pop(0)

    def _give_up(self, scheduler: Scheduler) -> None:
        t = scheduler.ready[-1]
        instr = self.context.kernel.code[t.pc - 1]
        message = f"{instr.span.text} waits for a value that nothing can write any more"
        scheduler.cta.find("deadlock.spin", message, instr, t)

    def _rank(self, t: Thread) -> int:
        assert self.first is not None
        who = t.cta.index, t.tid
        return 0 if who == self.first[0] else 2 if who == self.first[1] else 1

    def _cta_rank(self, index: int) -> int:
        assert self.first is not None
        x, y, _ = self.context.launch.grid
        place = index % x, index // x % y, index // (x * y)
        return 0 if place == self.first[0][0] else 2 if place == self.first[1][0] else 1
