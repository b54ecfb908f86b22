"""A branch on tensor values: both arms are executed, and join as selects (DESIGN.md 4).

The lanes whose predicate is symbolic run one arm up to the block where all ways meet, then, from
the registers and the memory before, the other; what the arms left differently is selected by the
predicate. Arms only compute: what other threads could see, but plain stores, is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.ptx_frontend.flow import EXIT
from kcheck.ptx_frontend.idioms import LIBRARY, NOTHING
from kcheck.ptx_frontend.tree import Instr, type_bytes
from kcheck.semantics.selection import select, stored, within
from kcheck.semantics.values import Bool, Pred, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.access import Place
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine, Outcome

# what only maps registers to registers
_PURE = frozenset(
    [
        *("add", "sub", "mul", "fma", "mad", "div", "rem", "rcp", "sqrt", "rsqrt", "ex2", "lg2"),
        *("sin", "cos", "tanh", "neg", "abs", "min", "max", "copysign", "testp"),
        *("mov", "cvt", "cvta", "isspacep", "selp", "slct", "setp", "set"),
        *("and", "or", "xor", "not", "cnot", "lop3", "shl", "shr", "shf", "prmt", "popc", "clz"),
        *("bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk", "sad", "mul24", "mad24"),
        *("dp4a", "dp2a"),
    ]
)
# rounds of a loop that a tensor value may end early
MOST_ROUNDS = 32
_MEMORY = frozenset(["ld", "st"])
_CONTROL = frozenset(["bra", "brx", "ret", "exit", "trap"])
_ORDERING = frozenset(["volatile", "relaxed", "acquire", "release", "cc"])


def pure(instr: Instr) -> bool:
    """Does an instruction map registers to registers, and nothing else?"""
    name = instr.opcode[0]
    return (name in _PURE and "cc" not in instr.opcode) or name in (LIBRARY, NOTHING)


def only_computes(instr: Instr) -> bool:
    """May an instruction stand in an arm?"""
    name = instr.opcode[0]
    weak = not _ORDERING.intersection(instr.opcode)
    return pure(instr) or name in _CONTROL or (name in _MEMORY and weak)


@dataclass
class Stored:
    """Cells that an arm stored to, and the registers that they held before."""

    place: Place
    size: int
    before: list[Any]

    def read(self) -> list[Any]:
        """The registers that the cells hold now."""
        return fetch(self.place, self.size, len(self.before))

    def write(self, values: list[Any]) -> None:
        """Make the cells hold registers."""
        self.place.region.memory.save(self.place.cell, self.size, values, self.place.mask)


def fetch(place: Place, size: int, count: int) -> list[Any]:
    """`count` registers of `size` bytes from a place."""
    memory = place.region.memory
    if size >= memory.granule:
        return memory.load(place.cell, count, size, place.mask)
    loaded = []
    for i in range(count):
        at = place.rest + i * size
        cell = place.cell + at // memory.granule
        loaded.append(memory.load_bytes(cell, at % memory.granule, size, place.mask))
    return loaded


def before_store(m: Machine, place: Place, size: int, count: int) -> None:
    """Note what a store of an arm is about to replace."""
    if m.arms is None:
        return
    cell = place.cell if place.mask is None else place.cell[place.mask]
    if np.unique(cell).size < cell.size:
        raise Unsupported("predicated", "lanes that a tensor value tells apart store to one place")
    m.arms.log.append(Stored(place, size, fetch(place, size, count)))


@dataclass
class Arms:
    """The arm that is being executed, and its stores. `early`: the outermost branch around it
    whose ways meet only at the end of the kernel, or -1.
    """

    join: int
    early: int
    log: list[Stored]


def enter_block(m: Machine, barred: int) -> None:
    """Refuse a block of an arm that does more than compute: its instruction `barred` (or -1)."""
    assert m.arms is not None
    if barred < 0:
        return
    instr = m.kernel.code[barred]
    what = f"{instr.name} under a predicate on a tensor value"
    m.at = barred
    if m.arms.early >= 0:
        m.at = m.arms.early
        raise Unsupported("branch", f"behind it stands {what} (line {instr.span.line})")
    raise Unsupported("predicated", what)


class Branching:
    """The branches on tensor values of one kernel.

    `plans`: per block what its region writes; `within`: how many arms of its branch are open,
    one in another (a loop that a tensor value may leave).
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.flow = decoder.machine.control
        self.within: Counter[int] = Counter()
        self.plans: dict[int, tuple[int, list[tuple[int, int, bool]]]] = {}

    def plan(self, block: int) -> tuple[int, list[tuple[int, int, bool]]]:
        """The join of a block's branch, and the registers written on the way: slot, bytes, and
        whether they are read later. Raises Unsupported.
        """
        if block not in self.plans:
            region = self.flow.region(self.whole(block))
            if region is None:
                raise Unsupported("branch", "the ways from a branch on a tensor value never meet")
            join = EXIT if region.join == EXIT else self.first(region.join)
            registers = self.decoder.kernel.registers
            slots = [
                (self.decoder.known_slot(name), type_bytes(registers[name]), name in region.live)
                for name in sorted(region.written & registers.keys())
            ]
            self.plans[block] = join, [s for s in slots if s[0] >= 0]
        return self.plans[block]

    def whole(self, block: int) -> int:
        """The block of the kernel that ends where a block of the machine ends, which may be a part
        of it (`Plan.blocks`).
        """
        end = self.decoder.machine.blocks[block].end
        return next(i for i, b in enumerate(self.decoder.kernel.blocks) if b.end == end)

    def first(self, block: int) -> int:
        """The block of the machine that starts where a block of the kernel starts."""
        start = self.decoder.kernel.blocks[block].start
        return next(i for i, b in enumerate(self.decoder.machine.blocks) if b.start == start)

    def branch(self, m: Machine, block: int, p: Pred, yes: int, no: int) -> Outcome:
        """The group at the end of a block goes to `yes` where p holds, else to `no`.

        Lanes where p is symbolic go both ways, and on at the join.
        """
        group = m.group()
        assert p.s is not None
        open_lanes = np.broadcast_to(p.s, group.shape) & group
        settled = group & ~open_lanes
        if p.u is not None:
            gone = np.broadcast_to(p.u, group.shape) & group
            if gone.any():
                m.fault("undefined.branch", gone, "the predicate is undefined")
            open_lanes, settled = open_lanes & ~gone, settled | gone
        b = np.broadcast_to(p.b if p.u is None else p.b & ~p.u, group.shape)
        ways = [(yes, settled & b), (no, settled & ~b)]
        if open_lanes.any():
            join, registers = self.plan(block)
            self.within[block] += 1
            if self.within[block] > MOST_ROUNDS:
                raise Unsupported("branch", "a tensor value decides how often a loop runs")
            self._both(m, p, (yes, no), join, registers, open_lanes)
            self.within[block] -= 1
            ways.append((join, open_lanes))
        return ways

    def _both(
        self,
        m: Machine,
        p: Pred,
        targets: tuple[int, int],
        join: int,
        registers: list[tuple[int, int, bool]],
        lanes: Bool,
    ) -> None:
        outer, conditional, at = m.arms, m.conditional, m.at
        m.conditional = True
        early = -1 if outer is None else outer.early
        if early < 0 and join == EXIT:
            early = at
        before = [m.regs[slot] for slot, _, _ in registers]
        left, after = [], []
        stores: list[Stored] = []
        for target in targets:
            m.arms = Arms(join, early, [])
            for (slot, _, _), x in zip(registers, before, strict=True):
                m.regs[slot] = x
            _arm(m, target, join, lanes)
            left.append([m.regs[slot] for slot, _, _ in registers])
            after.append([s.read() for s in m.arms.log])
            for s in reversed(m.arms.log):
                s.write(s.before)
            stores += m.arms.log
        m.arms = outer
        m.enter(lanes)
        for i, (slot, size, live) in enumerate(registers):
            x, y = left[0][i], left[1][i]
            if not live or x is y:
                m.regs[slot] = before[i] if not live else x
                continue
            chosen = select(m, p, x, y, size)
            m.regs[slot] = chosen if m.mask is None else m.merge(before[i], chosen)
        if stores:
            _join_memory(m, p, stores, after)
        m.conditional = conditional
        m.at = at


def _arm(m: Machine, start: int, join: int, lanes: Bool) -> None:
    """Run lanes from a block to the join, the end of their way."""
    ready = m.ready
    m.ready = {start: lanes}
    try:
        while True:
            left = [block for block in m.ready if block != join]
            if not left:
                return
            block = min(left)
            m.execute(block, m.ready.pop(block))
    finally:
        m.ready = ready


def _join_memory(m: Machine, p: Pred, stores: list[Stored], after: list[list[list[Any]]]) -> None:
    """Make the cells that one of the arms stored to hold selects. `after`: per arm and store
    what its cells held in the end; now they hold what they did before.
    """
    n = len(after[0])
    for s in stores:
        before_store(m, s.place, s.size, len(s.before))
    held = []
    for part, values in ((stores[:n], after[0]), (stores[n:], after[1])):
        base = [s.read() for s in part]
        for s, new in zip(part, values, strict=True):
            s.write(new)
        held.append([s.read() for s in stores])
        for s, old in zip(part, base, strict=True):
            s.write(old)
    for s, xs, ys in zip(stores, *held, strict=True):
        lanes = m.group() if s.place.mask is None else s.place.mask
        s.write([_selected(m, p, pair, s.size, lanes) for pair in zip(xs, ys, strict=True)])


def _selected(m: Machine, p: Pred, pair: tuple[Any, Any], size: int, lanes: Bool) -> Any:
    """The one or the other register by p, as these lanes store it."""
    return within(m, lanes, lambda: stored(m, select(m, p, *pair, size), size))
