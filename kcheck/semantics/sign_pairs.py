"""Float maxima and minima by integer atomics on the bits, one for each sign (DESIGN.md 5).

The bits of floats >= 0 are ordered as signed integers are, also against those of any float < 0;
the bits of floats < 0 are ordered the other way round as unsigned ones are, also against those of
any float >= 0. So `v >= 0 ? atomicMax((int*)p, bits(v)) : atomicMin((unsigned*)p, bits(v))` is the
maximum of *p and v, whatever number is at p. A v of -0.0 may leave what is at p, if it is less
than 0, where the choice is by `v >= 0`; over the reals there is no -0.0.

Here is the shape of the code. That the predicates are the sign of the operand is seen when it runs
(`semantics.extremes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Imm, Instr, Mem, Reg, registers
from kcheck.semantics.arms import MAPS, apart, arms_of
from kcheck.semantics.flow import ATOMICS, Flow

# operation and type -> is it part of a maximum, and does it serve operands less than 0?
HALVES = {
    ("max", "s"): (True, False),
    ("min", "u"): (True, True),
    ("min", "s"): (False, False),
    ("max", "u"): (False, True),
}
# what may stand between the two, besides other pairs
_TESTS = MAPS | {"int.setp", "float.setp", "bit.not"}
# comparisons with 0 or -1 that hold for one sign: what holds of operands >= 0
_SIGNS = {("ge", 0): True, ("gt", -1): True, ("lt", 0): False, ("le", -1): False}


@dataclass(frozen=True)
class Half:
    """One of the two atomics; `largest`: of a maximum, `negative`: of operands less than 0."""

    at: int
    largest: bool
    negative: bool
    width: int


@dataclass(frozen=True)
class Arms:
    """A pair in the arms of a branch: what the arm that is taken holds, then what the other does.

    `maps`: what else stands in them. `join`: where they meet (`END`: at the kernel's end).
    """

    halves: tuple[Half, Half]
    maps: tuple[int, ...]
    join: int


@dataclass
class SignPairs:
    """`branches`: by the index of the branch. `runs`: pairs under guards, all of one stretch of
    code together, by the index of the last atomic. `signs`: setp of the sign bit that only choose
    in pairs -> does it hold where the bit is not set?
    """

    branches: dict[int, Arms] = field(default_factory=dict[int, Arms])
    runs: dict[int, list[tuple[Half, Half]]] = field(
        default_factory=dict[int, "list[tuple[Half, Half]]"]
    )
    signs: dict[int, bool] = field(default_factory=dict[int, bool])

    @cached_property
    def members(self) -> set[int]:
        """The atomics of the runs."""
        return {half.at for pairs in self.runs.values() for pair in pairs for half in pair}

    @cached_property
    def mates(self) -> dict[int, int]:
        """The other atomic of each pair."""
        pairs = [arms.halves for arms in self.branches.values()]
        pairs += [pair for pairs in self.runs.values() for pair in pairs]
        return {a.at: b.at for one, other in pairs for a, b in ((one, other), (other, one))}


def sign_pairs(kernel: Kernel) -> SignPairs:
    """All pairs of a kernel; costs nothing much where there is no atomic minimum or maximum."""
    found = SignPairs()
    if not any(_could_be_half(instr) for instr in kernel.code):
        return found
    flow = Flow(kernel)
    for at, instr in enumerate(kernel.code):
        if instr.opcode[0] == "bra" and instr.guard is not None:
            arms = _arms(flow, at)
            if arms is not None:
                found.branches[at] = arms
    for block in kernel.blocks:
        for pairs in _runs(flow, range(block.start, block.end)):
            found.runs[pairs[-1][1].at] = pairs
    for at in range(len(kernel.code)):
        holds = _sign_test(flow, at, found)
        if holds is not None:
            found.signs[at] = holds
    return found


def _could_be_half(instr: Instr) -> bool:
    return instr.opcode[0] in ("atom", "red") and ("min" in instr.opcode or "max" in instr.opcode)


def _half(flow: Flow, at: int) -> Half | None:
    """The half of a pair that an atomic may be: relaxed, its old value unread."""
    instr = flow.code[at]
    if not _could_be_half(instr) or flow.names[at] not in ("atom.op", "red.op"):
        return None
    found = match(instr.opcode)
    assert found is not None
    slots = found.slots
    if slots["sem"] not in ("", "relaxed"):
        return None
    if any(flow.reached(at, name) for name in flow.defs[at]):
        return None
    largest, negative = HALVES[slots["op"], slots["type"][0]]
    return Half(at, largest, negative, int(slots["type"][1:]) // 8)


def _fit(flow: Flow, one: Half, other: Half) -> bool:
    """Are they two halves of one thing?"""
    words = [[w for w in flow.code[h.at].opcode[1:-2]] for h in (one, other)]
    signs = one.negative != other.negative
    return (
        words[0] == words[1] and signs and one.width == other.width and one.largest == other.largest
    )


# in the arms of a branch


def _arms(flow: Flow, at: int) -> Arms | None:
    found = arms_of(flow, at)
    if found is None:
        return None
    arms, join = found
    halves = []
    for arm in arms:
        atomics = [pc for pc in arm if flow.names[pc] in ATOMICS]
        half = _half(flow, atomics[0]) if len(atomics) == 1 else None
        if half is None:
            return None
        halves.append(half)
    maps = [[pc for pc in arm if flow.names[pc] in MAPS] for arm in arms]
    if not _fit(flow, *halves) or not apart(flow, arms, maps):
        return None
    return Arms((halves[0], halves[1]), (*maps[0], *maps[1]), join)


# under guards


def _runs(flow: Flow, block: range) -> Iterator[list[tuple[Half, Half]]]:
    """Guarded minima and maxima that are pairs of one place and operand, none left over, with
    nothing but maps between them; all of them may be done at the last.
    """
    pairs: list[tuple[Half, Half]] = []
    alone: list[Half] = []
    for at in block:
        instr = flow.code[at]
        half = _half(flow, at) if instr.guard is not None else None
        if half is not None:
            mate = next((h for h in alone if _same_target(flow, h, half)), None)
            if mate is None:
                alone.append(half)
                continue
            alone.remove(mate)
            pairs.append((mate, half))
            if not alone:
                if all(_may_wait(flow, h.at, at) for pair in pairs for h in pair):
                    yield pairs
                pairs = []
        elif flow.names[at] not in _TESTS:
            pairs, alone = [], []


def _may_wait(flow: Flow, at: int, last: int) -> bool:
    """Is nothing that an instruction reads changed before another one?"""
    changed = {name for pc in range(at + 1, last) for name in flow.defs[pc]}
    return changed.isdisjoint(flow.uses[at])


def _same_target(flow: Flow, one: Half, other: Half) -> bool:
    """Do two halves fit, at one address and with one operand?"""
    places = [flow.code[h.at].operands[-2:] for h in (one, other)]
    target, source = places[0]
    if not _fit(flow, one, other) or places[0] != places[1]:
        return False
    if not isinstance(target, Mem) or not isinstance(source, Reg):
        return False
    names = {*registers(target), *registers(source)}
    return not any(names & flow.defs[pc] for pc in range(one.at, other.at))


def _sign_test(flow: Flow, at: int, found: SignPairs) -> bool | None:
    """Does a setp that tests the sign bit of what pairs take, and only to choose in these, hold
    where it is not set? None: it is none.
    """
    instr = flow.code[at]
    if flow.names[at] != "int.setp" or instr.opcode[2] not in ("s32", "s64"):
        return None
    _, a, b = instr.operands
    holds = _SIGNS.get((instr.opcode[1], b.value)) if isinstance(b, Imm) else None
    if holds is None or not isinstance(a, Reg) or instr.guard is not None:
        return None
    atomics: set[int] = set()
    for use, _ in flow.ends(at):
        arms = found.branches.get(use.pc)
        chosen = {use.pc} & found.members if arms is None else {h.at for h in arms.halves}
        if use.role != "guard" or not chosen:
            return None
        atomics |= chosen
    if not atomics or any(flow.code[pc].operands[-1] != a for pc in atomics):
        return None
    return holds if _kept(flow, at, a.name, atomics, found) else None


def _kept(flow: Flow, test: int, name: str, atomics: set[int], found: SignPairs) -> bool:
    """Does a register hold at the atomics what it held at the test?"""
    lasts = found.runs.keys() | {h.at for arms in found.branches.values() for h in arms.halves}
    seen = {test}
    todo = [*flow.successors[test]]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        if name in flow.defs[at]:
            return False
        if at not in lasts:
            todo += flow.successors[at]
    return atomics <= seen
