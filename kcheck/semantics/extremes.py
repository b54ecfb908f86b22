"""Float maxima and minima at cells, by integer atomics on the bits (`semantics.sign_pairs`).

A pair is done at once, as one read-modify-write, where its operand is a float and its predicates
are the operand's sign; else its atomics are executed as they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.canon.constants import CASED, NINF, PINF, UNDEF, ZERO
from kcheck.canon.lanes import Real
from kcheck.canon.real import Reals
from kcheck.ptx_frontend.forms import match
from kcheck.semantics.access import Address, Place, address
from kcheck.semantics.predicates import negate
from kcheck.semantics.sign_pairs import HALVES, Half
from kcheck.semantics.units import written_lanes
from kcheck.semantics.updates import atomic_code, places, untracked
from kcheck.semantics.values import Array, Bool, Int, Mixed, Pred, Unsupported

if TYPE_CHECKING:
    from kcheck.ptx_frontend.tree import Guard, Instr
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine, Step
    from kcheck.semantics.sign_pairs import Arms

Slots = dict[str, str]
FORMATS = {4: "f32", 8: "f64"}


@dataclass(frozen=True)
class Target:
    """What a half of a pair updates: the place, the slot of its operand, its code."""

    half: Half
    at: Address
    operand: int
    code: int


@dataclass(frozen=True)
class Update:
    """A float maximum or minimum that is due: `x` at the target's place, in lanes `where`.

    `above`: right only if what the place holds is not less than 0.
    """

    target: Target
    x: Real[Any]
    where: Bool
    above: bool = False


def target_of(d: Decoder, half: Half) -> Target:
    """Decode an atomic; raises Unsupported."""
    instr = d.kernel.code[half.at]
    found = match(instr.opcode)
    assert found is not None
    place, source = instr.operands[-2:]
    op, fmt = "max" if half.largest else "min", FORMATS[half.width]
    return Target(
        half,
        address(d, place, found.slots["space"]),
        d.integer(source, half.width),
        atomic_code(op, fmt, found.slots["scope"]),
    )


def due(m: Machine, pair: tuple[Target, Target], first: Pred, second: Pred) -> Update | None:
    """The update of two halves, each where its predicate holds; None if it is not one of floats."""
    one, other = pair
    fmt = FORMATS[one.half.width]
    held = m.regs[one.operand], m.regs[other.operand]
    if any(type(x) is not Real or x.fmt != fmt for x in held) or not _same_place(m, one, other):
        return None
    x, y = (m.real(v, fmt) for v in held)
    negative, positive = (first, second) if one.half.negative else (second, first)
    group = m.group()
    where = group & (negative.b | positive.b | _open(negative) | _open(positive))
    if first.u is not None or second.u is not None or not _equal(m, x, y, where):
        return None
    if not _chosen_by_sign(m, x, positive, negative, where):
        return None
    return Update(other if one.half.negative else one, x, where)


def _open(p: Pred) -> Any:
    return np.zeros(1, bool) if p.s is None else p.s


def _same_place(m: Machine, one: Target, other: Target) -> bool:
    a, b = m.regs[one.at.slot], m.regs[other.at.slot]
    if type(a) is not Int or type(b) is not Int or a.u is not None or b.u is not None:
        return a is b and one.at == other.at
    same = a.a.astype(np.int64) + one.at.offset == b.a.astype(np.int64) + other.at.offset
    if a.p is not b.p:
        same = same & (np.asarray(a.p if a.p is not None else -1) == (-1 if b.p is None else b.p))
    return bool((np.broadcast_to(same, (m.lanes,)) | ~m.group()).all())


def _equal(m: Machine, x: Real[Any], y: Real[Any], where: Bool) -> bool:
    if x.v is y.v and x.c is y.c:
        return True
    same = (m.reals.ids(x) == m.reals.ids(y)) & m.domain.equal(m.reals.value(x), m.reals.value(y))
    return bool((np.broadcast_to(same, (m.lanes,)) | ~where).all())


def _chosen_by_sign(m: Machine, x: Real[Any], positive: Pred, negative: Pred, where: Bool) -> bool:
    """Is, of the two predicates, the one true where x >= 0, the other where x < 0?"""
    ids = m.reals.ids(x)
    known, indicator = m.reals.compare("ge", False, x, m.reals.uniform(ZERO))
    if (_there(m, _no_number(ids) | (known == 2) | (known == 3)) & where).any():
        return False
    decided = _there(m, known >= 0)
    for p, holds in ((positive, 1), (negative, 0)):
        right = ~_open(p) & (p.b == (known == holds))
        if (where & decided & ~_there(m, right)).any():
            return False
    rest = where & ~decided
    if not rest.any():
        return True
    assert indicator is not None
    q = negate(m, negative)
    alike = [m.domain.equal(m.indicator(p), indicator) & _open(p) for p in (positive, q)]
    return bool((_there(m, alike[0] & alike[1]) | ~rest).all())


def _there(m: Machine, flags: Any) -> Bool:
    return np.broadcast_to(flags, (m.lanes,))


def _no_number(ids: Any) -> Any:
    """Undefined or unknown values and NaN; the bits of infinities are in order with the others."""
    return ((ids >= 0) & (ids < ZERO) & (ids != PINF) & (ids != NINF)) | (ids >= CASED)


def apply(m: Machine, update: Update) -> None:
    """Do what is due."""
    target = update.target
    if not update.where.any():
        return
    outer, at = m.mask, m.at
    m.at = target.half.at
    m.extremes.add(m.at)
    m.enter(update.where)
    for place in places(m, target.at, target.half.width, target.code):
        untracked(m, place, target.half.width)
        half = target.half
        extreme(m, place, update.x, half.width, half.largest, update.above)
    m.enter(outer)
    m.at = at


def extreme(
    m: Machine, place: Place, x: Real[Any], size: int, largest: bool, above: bool = False
) -> None:
    """Atomically make each cell the maximum (or minimum) of what it holds and what lanes give.

    Cells may repeat. Raises Unsupported where one holds no number.
    """
    reals, memory = m.reals, place.region.memory
    cell = place.cell if place.mask is None else place.cell[place.mask]
    if not len(cell):
        return
    value, fmt = written_lanes(reals, x, place.mask, len(cell)), x.fmt
    choose = reals.maximum if largest else reals.minimum
    cells, value = _folded(reals, choose, cell, value)
    old = _held(m, place, cells, size, fmt, zeros=not above)
    if above and not (reals.compare("ge", False, old, reals.uniform(ZERO))[0] == 1).all():
        raise Unsupported("reinterpret", "a maximum of bits that may be those of negative floats")
    new = choose(old, value)
    new.fmt = fmt
    memory.save(cells, size, [new], None)


def _held(m: Machine, place: Place, cells: Array, size: int, fmt: str, *, zeros: bool) -> Real[Any]:
    """What cells hold, as numbers; `zeros`: -0.0, the least of all signed integers, is 0."""
    if not zeros and place.region.memory.holds(cells, size, 1 << 8 * size - 1):
        raise Unsupported("reinterpret", "an atomic maximum of bits where the cell holds -0.0")
    old = place.region.memory.numbers(cells, size, fmt)
    ids = m.reals.ids(old)
    if (_no_number(ids) & (ids != UNDEF)).any():
        raise Unsupported("infinity", "an atomic maximum of bits of what is no number")
    return old


def _largest_bits(m: Machine, place: Place, x: Real[Any], size: int, signed: bool) -> None:
    """Atomically make each cell what has the largest bits, as integers, of it and what lanes give.

    Of floats below 0 the least has the largest bits; for signed integers these come before all
    others, for unsigned ones after them.
    """
    reals = m.reals
    cell = place.cell if place.mask is None else place.cell[place.mask]
    if not len(cell):
        return
    value = written_lanes(reals, x, place.mask, len(cell))
    cells, most = _folded(reals, reals.maximum, cell, value)
    _, least = _folded(reals, reals.minimum, cell, value)
    old = _held(m, place, cells, size, x.fmt, zeros=False)
    most, least = reals.maximum(old, most), reals.minimum(old, least)
    known, p = reals.compare("ge", False, most if signed else least, reals.uniform(ZERO))
    new = reals.where(known == 1, most, least)
    if p is not None and (known < 0).any():
        new = reals.where(known < 0, reals.select(p, most, least), new)
    new.fmt = x.fmt
    place.region.memory.save(cells, size, [new], None)


def _folded(
    reals: Reals[Any],
    choose: Callable[[Real[Any], Real[Any]], Real[Any]],
    cell: Array,
    value: Real[Any],
) -> tuple[Array, Real[Any]]:
    """The distinct cells, and of each the choice from all of its values: as a tree."""
    order = cell.argsort(kind="stable")
    cell, value = cell[order], reals.take(value, order)
    while True:
        rank = np.arange(len(cell)) - np.searchsorted(cell, cell)
        if not rank.any():
            return cell, value
        left = np.flatnonzero(rank % 2 == 0)
        partner = np.minimum(left + 1, len(cell) - 1)
        right = np.where(cell[partner] == cell[left], partner, left)
        value = choose(reals.take(value, left), reals.take(value, right))
        cell = cell[left]


# steps


def in_arms(
    d: Decoder, arms: Arms, guard: Guard, maps: list[tuple[int, Step]]
) -> Callable[[Machine], bool]:
    """Do the pair in the arms of a branch at once; False where it is not one of floats.

    `maps`: the steps of what else stands in the arms.
    """
    slot, pair = d.reg(guard.reg), (target_of(d, arms.halves[0]), target_of(d, arms.halves[1]))

    def run(m: Machine) -> bool:
        p, at = m.regs[slot], m.at
        if m.arms is not None or type(p) not in (Pred, Mixed):
            return False
        p = m.predicate(p)
        p, q = (negate(m, p), p) if guard.negated else (p, negate(m, p))
        for m.at, step in maps:
            step(m)
        m.at = at
        update = due(m, pair, p, q)
        if update is None:
            return False
        apply(m, update)
        return True

    return run


def in_run(d: Decoder, pairs: list[tuple[Half, Half]], steps: list[tuple[int, Step]]) -> Step:
    """Do all pairs of a stretch of code, or, if one is not of floats, its atomics one by one."""
    targets = [(target_of(d, one), target_of(d, other)) for one, other in pairs]

    def holds(m: Machine, half: Half) -> Pred:
        guard = d.kernel.code[half.at].guard
        assert guard is not None
        p = m.predicate(m.regs[d.reg(guard.reg)])
        return negate(m, p) if guard.negated else p

    def run(m: Machine) -> None:
        updates: list[Update] = []
        for one, other in targets if m.arms is None else ():
            update = due(m, (one, other), holds(m, one.half), holds(m, other.half))
            if update is not None:
                updates.append(update)
        if len(updates) == len(targets):
            for update in updates:
                apply(m, update)
            return
        for m.at, step in steps:
            step(m)

    return run


def on_bits(d: Decoder, instr: Instr, slots: Slots) -> Callable[[Machine], bool]:
    """An integer minimum or maximum alone, done at once where its operands are floats; else False.

    All of one sign: as the half of a pair. Of any sign: the largest bits as they are.
    """
    op, t = slots["op"], slots["type"]
    largest, negative = HALVES[op, t[0]]
    width = int(t[1:]) // 8
    half = Half(d.at, largest, negative, width)
    code, fmt = atomic_code(op, t, slots["scope"]), FORMATS[width]
    target = target_of(d, half)
    if not (d.pairs.branches or d.pairs.runs or d.machine.plan.cas):
        target = replace(target, code=code)  # nothing else here is a maximum of floats
    # of this sign only, so it commutes with its like only
    plain = replace(target_of(d, replace(half, largest=op == "max")), code=code)

    def run(m: Machine) -> bool:
        x = m.regs[target.operand]
        if m.arms is not None or type(x) is not Real or x.fmt != fmt:
            return False
        x, group = m.real(x, fmt), m.group()
        known, _ = m.reals.compare("ge", False, x, m.reals.uniform(ZERO))
        if (_there(m, _no_number(m.reals.ids(x)) | (known > 1)) & group).any():
            return False
        signs = set(_there(m, known)[group].tolist())
        if signs <= {0 if negative else 1}:
            apply(m, Update(target, x, group))
        elif op == "max":
            m.extremes.add(m.at)
            for place in places(m, target.at, width, code):
                untracked(m, place, width)
                _largest_bits(m, place, x, width, t[0] == "s")
        elif t[0] == "u" and signs <= {1}:
            apply(m, Update(plain, x, group, above=True))
        else:
            return False
        return True

    return run


def sign_test(d: Decoder, at: int, holds: bool, run: Step) -> Step:
    """A setp of the sign bit that only chooses in pairs that take the same register.

    `holds`: where the bit is not set. Its outcome for a zero does not matter there, whichever sign
    the zero has: where the pair is not done at once, its bits are asked for.
    """
    instr = d.kernel.code[at]
    fmt, slot = FORMATS[int(instr.opcode[2][1:]) // 8], d.reg(instr.operands[1])
    dst = d.dest(instr.operands[0])

    def test(m: Machine) -> None:
        x = m.regs[slot]
        p = _sign(m, m.real(x, fmt), holds) if type(x) is Real and x.fmt == fmt else None
        if p is None:
            run(m)
        else:
            m.regs[dst] = p if m.mask is None else m.merge(m.regs[dst], p)

    return test


def _sign(m: Machine, x: Real[Any], holds: bool) -> Pred | None:
    """Is it at least 0 (or less)? None where it is no number in some lane."""
    known, indicator = m.reals.compare("ge" if holds else "lt", False, x, m.reals.uniform(ZERO))
    if (_there(m, _no_number(m.reals.ids(x)) | (known > 1)) & m.group()).any():
        return None
    symbolic = known < 0
    return Pred(known == 1, symbolic if symbolic.any() else None, indicator)
