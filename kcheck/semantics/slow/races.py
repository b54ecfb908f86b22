"""The happens-before monitor: every pair of accesses that nothing orders (DESIGN.md 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcheck.launch import Launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.clocks import (
    Chain,
    Knowledge,
    Message,
    Place,
    Released,
    Waiting,
    joined,
)
from kcheck.semantics.slow.conflicts import (
    Race,
    Side,
    exempt,
    ordered,
    reason_of,
    same_stores,
)
from kcheck.semantics.slow.errors import Triple
from kcheck.semantics.slow.memory import Memory
from kcheck.semantics.slow.shadow import WORD, Access, Log, Window, Word, pieces
from kcheck.semantics.slow.state import AtBarrier, AtMeeting, Cta, Thread
from kcheck.semantics.slow.units import Home, Unit
from kcheck.semantics.strength import Kind, fence_of

PAIRING = "race.barrier-pairing"

Who = tuple[Triple, Triple]  # CTA and thread


@dataclass
class Generations:
    """A named barrier: generations completed, who waited for the last, arrivals for the next."""

    agent: int
    completed: int = 0
    waits: list[tuple[Thread, int, Instr]] = field(
        default_factory=list["tuple[Thread, int, Instr]"]
    )
    parts: list[Released] = field(default_factory=list[Released])
    last: tuple[Thread, Instr] | None = None
    arrivals: list[tuple[Thread, Instr]] = field(default_factory=list["tuple[Thread, Instr]"])


class Monitor:
    """Watches one run. `races` holds one entry per two instructions and reason.

    `same`: pairs of equal values that one instruction stored to one place, per instruction.
    `orders`: (first, second) instruction indices and (CTA, thread) of the first, of the races
    between the two threads of `focus`, in the order in which this run had them.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        kinds: dict[int, Kind],
        focus: frozenset[Who] = frozenset(),
    ) -> None:
        self.code = kernel.code
        self.launch = launch
        self.kinds = kinds
        self.races: dict[tuple[int, int, str], Race] = {}
        self.same: dict[int, int] = {}
        self.focus = focus
        self.orders: set[tuple[int, int, Who]] = set()
        self._known: dict[Thread, Knowledge] = {}
        self._serial = 0
        self._generations: dict[tuple[Cta, int], Generations] = {}
        self._open: dict[Cta, list[Access]] = {}

    # who knows what --------------------------------------------------------------------------

    def _new_agent(self) -> int:
        self._serial -= 1
        return self._serial

    def knows(self, t: Thread) -> Knowledge:
        """What a thread knows."""
        known = self._known.get(t)
        if known is None:
            cta = linear(t.cta.index, self.launch.grid)
            cells = (i // c for i, c in zip(t.cta.index, self.launch.cluster, strict=True))
            cluster = linear(tuple(cells), self.launch.grid)  # type: ignore[arg-type]
            agent = 1 + cta * self.launch.threads + t.linear
            known = self._known[t] = Knowledge(agent, Place(cta, cluster))
        return known

    def _at(self, t: Thread, pc: int) -> Knowledge:
        """The same, after the loop that the thread waited in is left."""
        known = self.knows(t)
        waiting = known.waiting
        if waiting is not None:
            idiom = waiting.kind.idiom
            if idiom is None or pc not in idiom.loop:
                known.waiting = None
                known.observe(waiting.writes)
                self._take(known, waiting.kind, waiting.messages)
        return known

    def _take(self, known: Knowledge, kind: Kind, messages: list[Message]) -> None:
        reaching = [m for m in messages if m.reaches(kind.scope, known.place)]
        if kind.acquire:
            known.learn(m.clock for m in reaching)
        else:
            known.unfenced = known.unfenced + reaching

    # synchronization -------------------------------------------------------------------------

    def fence(self, t: Thread, instr: Instr) -> None:
        """A thread executes a fence."""
        self._at(t, t.pc - 1).fence(*fence_of(instr))

    def warp_barrier(self, threads: Sequence[Thread]) -> None:
        """Lanes meet at a bar.warp.sync."""
        together = joined([self._at(t, t.pc - 1).release() for t in threads])
        for t in threads:
            self._wake(t, together)

    def _wake(self, t: Thread, together: Released) -> None:
        known = self.knows(t)
        known.seen = together.seen
        known.fenced = together.fenced
        known.unfenced = list(together.unfenced)
        known.instances.clear()
        known.last = _waits_at(t)

    def arrive(self, barrier: int, threads: Sequence[Thread]) -> None:
        """The lanes of a warp are counted at a barrier."""
        cta = threads[0].cta
        key = cta, barrier
        if key not in self._generations:
            self._generations[key] = Generations(self._new_agent())
        state = self._generations[key]
        for t in threads:
            known, instr = self._at(t, t.pc - 1), _waits_at(t)
            if state.last and known.seen.get(state.agent, 0) < state.completed:
                self._pair(barrier, state.last, (t, instr))
            state.parts.append(known.release())
            state.arrivals.append((t, instr))

    def complete(
        self, cta: Cta, barrier: int, waiting: Sequence[Thread], whole: bool, everyone: bool
    ) -> None:
        """A barrier lets its waiting threads go.

        `whole`: it is one of the whole CTA. `everyone`: all live threads waited.
        """
        state = self._generations[cta, barrier]
        together = joined(state.parts)
        warps = {t.warp for t, _ in state.arrivals}
        for t, time, waited in state.waits:
            # a barrier lets no warp arrive, and no CTA pass, before lanes that will exit did so
            gone = t.exited and (whole or t.warp in warps)
            if not gone and together.seen.get(self.knows(t).agent, 0) < time:
                self._pair(barrier, (t, waited), state.arrivals[-1])
        state.completed += 1
        together.seen[state.agent] = state.completed
        if whole:  # whoever waited elsewhere before is here, or left: no thread is there still
            for (other, _), past in self._generations.items():
                if other is cta:
                    together.seen[past.agent] = past.completed
        state.waits = []
        for t in waiting:
            self._wake(t, together)
            state.waits.append((t, self.knows(t).time, _waits_at(t)))
        state.last = state.arrivals[-1]
        state.parts, state.arrivals = [], []
        if everyone:
            self._close(cta, together)

    def _pair(
        self, barrier: int, first: tuple[Thread, Instr], second: tuple[Thread, Instr]
    ) -> None:
        sides = [self._side(t, instr, self.knows(t)) for t, instr in (first, second)]
        pcs = [self._index(instr) for _, instr in (first, second)]
        self._add(PAIRING, pcs[0], pcs[1], sides[0], sides[1], f"barrier {barrier}", 0)

    def _index(self, instr: Instr) -> int:
        return next(i for i, other in enumerate(self.code) if other is instr)

    def _close(self, cta: Cta, together: Released) -> None:
        """After a barrier of the whole CTA only accesses that it does not order can race."""
        log = cta.shared.log
        if log is None:
            return
        kept = []
        if any(t.exited for t in cta.threads):
            kept = [
                access
                for word in log.words.values()
                for access in (*word.reads.values(), *word.writes.values())
                if access.window is None
                and access.thread.exited
                and together.seen.get(access.knowledge.agent, 0) < access.time
            ]
        log.words.clear()
        opened = [a for a in self._open.get(cta, ()) if a.window and a.window.done is None]
        self._open[cta] = opened
        for access in dict.fromkeys((*kept, *opened)):
            self._enter(log, access)

    # accesses --------------------------------------------------------------------------------

    def load(self, t: Thread, memory: Memory, at: int, nbytes: int, home: Home | None) -> None:
        """A thread reads bytes of a memory."""
        log = memory.log
        if log is None:
            return
        pc = t.pc - 1
        known, kind = self._at(t, pc), self.kinds[pc]
        access = Access(t, known, kind, known.time, at, nbytes, home, False)
        if kind.is_part_of("seed"):
            access.operations = frozenset({kind.operation})
        self._check(log, access)
        chain = log.chains.get(at)
        if kind.strong and kind.is_part_of("wait"):
            messages, writes = (list(chain.messages), list(chain.writes)) if chain else ([], [])
            known.waiting = Waiting(kind, messages, writes)

    def store(
        self,
        t: Thread,
        memory: Memory,
        at: int,
        nbytes: int,
        home: Home | None,
        values: list[Unit],
    ) -> None:
        """A thread writes bytes of a memory; `values`: per element."""
        log = memory.log
        if log is None:
            return
        pc = t.pc - 1
        known, kind = self._at(t, pc), self.kinds[pc]
        instance = known.instances.get(pc, 0)
        known.instances[pc] = instance + 1
        access = Access(t, known, kind, known.time, at, nbytes, home, True)
        access.values, access.width, access.instance = values, nbytes // len(values), instance
        if kind.strong:
            access.serial = self._new_agent()
        self._check(log, access)
        self._publish(log, access)

    def update(
        self,
        t: Thread,
        memory: Memory,
        at: int,
        nbytes: int,
        home: Home | None,
        operations: frozenset[str],
    ) -> None:
        """A thread reads, modifies and writes a cell; `operations`: what may be exchanged."""
        log = memory.log
        if log is None:
            return
        pc = t.pc - 1
        known, kind = self._at(t, pc), self.kinds[pc]
        access = Access(t, known, kind, known.time, at, nbytes, home, True)
        access.operations, access.serial = operations, self._new_agent()
        self._check(log, access)
        chain = log.chains.get(at)
        if kind.is_part_of("ticket"):
            known.ticket = None
            if chain is not None:
                known.ticket = kind, list(chain.messages), list(chain.writes)
        self._publish(log, access)

    def compared(self, t: Thread, pc: int, equal: bool) -> None:
        """A ticket was compared: the one that drew the last goes on after all others.

        No fence is asked for on this side: the branch and the barrier that broadcasts it keep
        the order, and the usual code has none.
        """
        known = self._at(t, pc)
        ticket = known.ticket
        if ticket is None or ticket[0].idiom is None or pc not in ticket[0].idiom.compares:
            return
        known.ticket = None
        if equal:
            kind, messages, writes = ticket
            known.observe(writes)
            known.learn(m.clock for m in messages if m.reaches(kind.scope, known.place))

    def _publish(self, log: Log, access: Access) -> None:
        """What a later reader of the cell learns."""
        kind, known = access.kind, access.knowledge
        if not kind.strong:
            for word, _ in pieces(access.offset, access.nbytes):
                for at in range(word * WORD, (word + 1) * WORD):
                    log.chains.pop(at, None)
            return
        chain = log.chains.get(access.offset) if kind.rmw else None
        if chain is None:
            chain = log.chains[access.offset] = Chain()
        chain.messages += known.messages(kind)
        chain.writes.append(access.serial)
        if kind.release:
            known.time += 1

    def copy(
        self,
        t: Thread,
        target: tuple[Memory, int, Home | None, int],
        source: tuple[Memory, int, Home | None, int] | None,
    ) -> Window:
        """A thread issues a cp.async; both sides are (memory, offset, buffer, bytes)."""
        pc = t.pc - 1
        known, kind = self._at(t, pc), self.kinds[pc]
        window = Window(self._new_agent())
        sides = [(target, True)] + ([(source, False)] if source else [])
        for (memory, at, home, nbytes), writes in sides:
            if memory.log is None or not nbytes:
                continue
            access = Access(t, known, kind, known.time, at, nbytes, home, writes, window)
            self._check(memory.log, access)
            if writes:
                self._open.setdefault(t.cta, []).append(access)
        return window

    def waited(self, t: Thread, windows: Iterable[Window]) -> None:
        """A thread waited for its copies: from now on they count as done by it."""
        known = self._at(t, t.pc - 1)
        for window in windows:
            window.done = known.time

    # conflicts -------------------------------------------------------------------------------

    def _check(self, log: Log, new: Access) -> None:
        """Compare an access with all that are logged, then log it."""
        for index, mask in pieces(new.offset, new.nbytes):
            word = log.word(index)
            if word.writes:
                self._against(word.writes, new, mask, index)
            if new.writes and word.reads:
                self._against(word.reads, new, mask, index)
            self._put(word, new, mask)

    def _enter(self, log: Log, access: Access) -> None:
        for index, mask in pieces(access.offset, access.nbytes):
            self._put(log.word(index), access, mask)

    def _put(self, word: Word, access: Access, mask: int) -> None:
        agent = access.window.agent if access.window else access.knowledge.agent
        side = word.writes if access.writes else word.reads
        side[agent, access.kind.pc, mask] = access

    def _against(
        self, others: dict[tuple[int, int, int], Access], new: Access, mask: int, index: int
    ) -> None:
        known = new.knowledge
        for (_, _, bytes_of), old in others.items():
            common = bytes_of & mask
            if not common:
                continue
            noncoherent = old.kind.nc or new.kind.nc
            if not noncoherent and ordered(old, known):
                continue
            if not noncoherent and exempt(old, new):
                continue
            if not noncoherent and same_stores(old, new, index * WORD, common):
                self.same[new.kind.pc] = self.same.get(new.kind.pc, 0) + 1
                continue
            self._report(old, new, index, common)

    def _report(self, old: Access, new: Access, index: int, common: int) -> None:
        home = new.home or old.home
        byte = index * WORD + (common & -common).bit_length() - 1
        if home is not None and home.space == "shared":
            byte -= home.low
        sides = [self._side(a.thread, a.kind.instr, a.knowledge) for a in (old, new)]
        pcs = old.kind.pc, new.kind.pc
        if {(a.thread.cta.index, a.thread.tid) for a in (old, new)} == self.focus:
            self.orders.add((*pcs, (old.thread.cta.index, old.thread.tid)))
        name = home.name if home else ""
        self._add(reason_of(old, new), *pcs, sides[0], sides[1], name, byte)

    def _side(self, t: Thread, instr: Instr, known: Knowledge) -> Side:
        return Side(instr, t.tid, t.cta.index, known.last)

    def _add(
        self, reason: str, a: int, b: int, first: Side, second: Side, buffer: str, byte: int
    ) -> None:
        key = min(a, b), max(a, b), reason
        race = self.races.get(key)
        if race is None:
            self.races[key] = Race(reason, first, second, buffer, byte)
        else:
            race.count += 1


def _waits_at(t: Thread) -> Instr:
    assert isinstance(t.wait, (AtBarrier, AtMeeting))
    return t.wait.instr


def linear(index: Triple, extent: Triple) -> int:
    """The linear index, x fastest."""
    return index[0] + extent[0] * (index[1] + extent[1] * index[2])
