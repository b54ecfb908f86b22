"""What of a kernel hangs on the schedule, and how the lane executor treats it (DESIGN.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from kcheck.ptx_frontend.kernel import BasicBlock, Kernel
from kcheck.ptx_frontend.tree import Instr, Target
from kcheck.semantics.aggregates import is_aggregate
from kcheck.semantics.cas_loops import CasLoop, cas_loop
from kcheck.semantics.flow import ATOMICS, Flow
from kcheck.semantics.idioms import Idioms
from kcheck.semantics.strength import Kind, kinds_of
from kcheck.semantics.wait_loops import WaitLoop, wait_loop

_STRONG = frozenset({"volatile", "relaxed", "acquire"})
# instructions of a loop that may do nothing but wait, and what such a loop does not hold
TIGHT = 64
_WORK = frozenset({"st", "red", "bar", "barrier", "cp", "call", "mma", "wgmma", "ldmatrix"})


@dataclass
class Plan:
    """By instruction index. `flow` is None where nothing hangs on the schedule.

    `waits`: loads of wait loops. `arrivals`: atomics whose old value only such a loop compares.
    `tickets`: atomics with the comparisons of their old values. `cas`: compare-and-swaps that
    update by an operation; `seeds`: the loads before these. `aggregates`: `activemask`s that only
    gather an update. `spins`: loads and atomics that other loops wait by; `hopeless`: those that
    are refused even where the loop ends at once. `polls`: other strong loads that decide a branch.
    """

    flow: Flow | None = None
    kinds: dict[int, Kind] = field(default_factory=dict[int, Kind])
    waits: dict[int, WaitLoop] = field(default_factory=dict[int, WaitLoop])
    arrivals: frozenset[int] = frozenset()
    tickets: dict[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    cas: dict[int, CasLoop] = field(default_factory=dict[int, CasLoop])
    seeds: frozenset[int] = frozenset()
    aggregates: frozenset[int] = frozenset()
    spins: frozenset[int] = frozenset()
    hopeless: frozenset[int] = frozenset()
    polls: frozenset[int] = frozenset()

    @property
    def grid(self) -> bool:
        """Do CTAs, or warps, wait for one another through memory?"""
        return bool(self.waits or self.tickets)

    @cached_property
    def compares(self) -> dict[int, int]:
        """Comparison of a ticket -> the atomic."""
        return {at: pc for pc, compares in self.tickets.items() for at in compares}

    def blocks(self, kernel: Kernel) -> list[BasicBlock]:
        """The kernel's blocks, split before loads of wait loops and after tickets."""
        cuts = {*self.waits, *self.spins, *(pc + 1 for pc in self.tickets)}
        blocks = []
        for block in kernel.blocks:
            starts = [block.start, *sorted(c for c in cuts if block.start < c < block.end)]
            for start, end in zip(starts, [*starts[1:], block.end], strict=True):
                blocks.append(BasicBlock(start, end, block.successors))
        return blocks


def hangs_on_schedule(instr: Instr) -> bool:
    """May a value that the instruction gives depend on the schedule?"""
    if instr.opcode[0] in ("atom", "activemask"):
        return True
    return instr.opcode[0] == "ld" and not _STRONG.isdisjoint(instr.opcode)


def plan_of(kernel: Kernel) -> Plan:
    """The plan of a kernel; costs nothing much where nothing hangs on the schedule."""
    tight = _tight_loops(kernel)
    if not tight and not any(hangs_on_schedule(instr) for instr in kernel.code):
        return Plan()
    idioms = Idioms(kernel)
    flow = idioms.flow
    named: dict[str, list[int]] = {}
    for pc, idiom in idioms.found.items():
        named.setdefault(idiom.name, []).append(pc)
    loops = {pc: wait_loop(idioms, pc) for pc in named.get("wait", ())}
    waits = {
        pc: loop
        for pc, loop in loops.items()
        if loop is not None
        and sum(other in idioms.found[pc].loop for other in loops) == 1
        and (pc in loop.loop or not loop.seen)
    }
    cas = {pc: cas_loop(flow, pc, idioms.found[pc]) for pc in named.get("cas", ())}
    updates = {pc: loop for pc, loop in cas.items() if loop is not None}
    known = {*waits, *updates, *named.get("ticket", ())}
    spins = {pc for pc, body in tight.items() if pc not in known and _spins(flow, pc, body)}
    unclear = loops.keys() - waits.keys()
    atomics = {pc for pc in spins if flow.names[pc] in ATOMICS}
    return Plan(
        flow,
        kinds_of(kernel, idioms),
        waits,
        frozenset(pc for pc in named.get("arrival", ()) if _only_flips(flow, pc, waits)),
        {pc: idioms.found[pc].compares for pc in named.get("ticket", ())},
        updates,
        frozenset(pc for pc in named.get("seed", ()) if _is_seed(flow, pc, updates)),
        frozenset(pc for pc in named.get("aggregate", ()) if is_aggregate(flow, pc)),
        frozenset(spins | unclear),
        frozenset(atomics | unclear),
        frozenset(pc for pc in range(len(flow.code)) if pc not in waits and _polls(flow, pc)),
    )


def _tight_loops(kernel: Kernel) -> dict[int, range]:
    """Loads and atomics in short loops that do nothing but compute, load and update; the loops."""
    found: dict[int, range] = {}
    for at, instr in enumerate(kernel.code):
        target = instr.operands[0] if instr.opcode[0] == "bra" else None
        if not isinstance(target, Target) or not 0 <= at - target.index < TIGHT:
            continue
        body = range(target.index, at + 1)
        if not _WORK.isdisjoint(kernel.code[pc].opcode[0] for pc in body):
            continue
        for pc in body:
            inner = pc in found and len(found[pc]) < len(body)
            if kernel.code[pc].opcode[0] in ("ld", "atom") and not inner:
                found[pc] = body
    return found


def _only_flips(flow: Flow, pc: int, waits: dict[int, WaitLoop]) -> bool:
    """Is an arrival's old value read by nothing but loops that wait for its highest bit?"""
    inside = {at for wait in waits.values() if wait.test == "flip" for at in wait.loop}
    return all(use.pc in inside for name in flow.defs[pc] for use in flow.reached(pc, name))


def _is_seed(flow: Flow, pc: int, cas: dict[int, CasLoop]) -> bool:
    """Does the load read the cell that a loop updates, for this loop alone?"""
    place = flow.code[pc].operands[1]
    return any(
        flow.code[at].operands[1] == place
        and flow.defs[pc] <= loop.expected
        and all(use.pc in loop.loop for name in flow.defs[pc] for use in flow.reached(pc, name))
        for at, loop in cas.items()
    )


def _polls(flow: Flow, pc: int) -> bool:
    """Does it ask for what another thread may have written meanwhile, and act on that?"""
    if flow.names[pc] != "ld" or _STRONG.isdisjoint(flow.code[pc].opcode):
        return False
    return any(
        use.role == "guard" or (compared and "shared" in "".join(flow.code[use.pc].opcode))
        for use, compared in flow.ends(pc)
    )


def _spins(flow: Flow, pc: int, body: range) -> bool:
    """Does a loop end by the value that an instruction reads, and by nothing that changes else?"""
    name = flow.names[pc]
    if name != "ld" and (name not in ATOMICS or not flow.defs[pc]):
        return False
    loop = flow.cycle(pc, body)
    return bool(loop) and _ends_by(flow, pc, loop)


def _ends_by(flow: Flow, pc: int, loop: frozenset[int]) -> bool:
    base = {n for n, roles in flow.uses[pc].items() if "address" in roles}
    if not base or any(base & flow.defs[at] for at in loop):
        return False
    exits = [at for at in loop if any(after not in loop for after in flow.successors[at])]
    hangs = False
    for at in exits:
        guard = flow.code[at].guard
        needs = flow.sources([guard.reg.name], loop) if guard is not None else set()
        counts = any(n in flow.sources(flow.uses[n], loop) for n in needs)
        if counts and flow.names[pc] not in ATOMICS:
            return False
        hangs |= pc in needs
    return hangs
