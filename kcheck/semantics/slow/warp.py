"""What the lanes of a warp do together: shuffles, votes, ldmatrix (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from kcheck.ptx_frontend.tree import Instr, Operand, Pair, Sink, Vec
from kcheck.semantics.slow.address import Accessor, Place
from kcheck.semantics.slow.decode import handles
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.operands import ABSORB, Decoder, Load, Slots
from kcheck.semantics.slow.state import AtMeeting, Exchange, Step, Stop, Thread
from kcheck.semantics.slow.units import UNDEF, Unit, Unstable, concat


def member_mask(load: Load, instr: Instr, t: Thread) -> int:
    """The lanes named by a mask operand; the executing lane has to be one of them."""
    mask = load(t)
    if mask is ABSORB:
        t.cta.find("undefined.mask", f"the lane mask of {instr.name} is undefined", instr, t)
        raise Stop
    if not mask >> t.lane & 1:
        message = f"lane {t.lane} is not in its own mask {mask:#010x}"
        t.cta.find("undefined.convergence", message, instr, t)
        raise Stop
    return int(mask)


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane to read from, and whether it is in range (if not, it is the lane itself)."""
    segment, clamp, b = c >> 8 & 31, c & 31, b & 31
    top = lane & segment | clamp & ~segment & 31
    bottom = lane & segment
    if mode == "up":
        source = lane - b
        valid = source >= top
    else:
        source = {"down": lane + b, "bfly": lane ^ b, "idx": bottom | b & ~segment & 31}[mode]
        valid = source <= top
    return (source, True) if valid else (lane, False)


def _masked(instr: Instr, mask: Load, exchange: Exchange) -> Step:
    """The step of an instruction with a lane mask: equal opcodes and masks meet (9.7.9.6)."""

    def step(t: Thread) -> AtMeeting:
        members = member_mask(mask, instr, t)
        return AtMeeting(instr, (instr.opcode, members), members, exchange)

    return step


def _all(given: dict[int, Any]) -> Any:
    return given


@handles("shfl")
def _shfl(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, a, b, c, members = instr.operands
    pair = target if isinstance(target, Pair) else Pair(target, Sink())  # type: ignore[arg-type]
    put, put_valid = decoder.store(pair.first, "b32"), decoder.store(pair.second, "pred")
    get = decoder.raw(a, 32)
    offset, control, mask = (decoder.load(op, "u32") for op in (b, c, members))
    mode = slots["mode"]

    def take(t: Thread, values: dict[int, Unit]) -> None:
        n, limits = offset(t), control(t)
        if n is ABSORB or limits is ABSORB:
            put(t, ABSORB)
            put_valid(t, ABSORB)
            return
        source, valid = shuffle_source(mode, t.lane, n, limits)
        put(t, values.get(source, UNDEF))
        put_valid(t, valid)

    return _masked(instr, mask, Exchange(get, _all, take))


@handles("vote", "vote.ballot")
def _vote(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source, members = instr.operands
    ballot = "ballot" in instr.opcode
    put = decoder.store(target, "u32" if ballot else "pred")
    predicate, mask = decoder.load(source, "pred"), decoder.load(members, "u32")

    def outcome(votes: dict[int, Any]) -> Any:
        if any(v is ABSORB for v in votes.values()):
            return ABSORB
        if ballot:
            return sum(1 << lane for lane, v in votes.items() if v)
        kinds = set(votes.values())
        return {"all": kinds == {True}, "any": True in kinds, "uni": len(kinds) == 1}[slots["mode"]]

    return _masked(instr, mask, Exchange(predicate, outcome, put))


@handles("bar.warp")
def _bar_warp(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    mask = decoder.load(instr.operands[0], "u32")
    return _masked(instr, mask, Exchange(lambda t: None, _all, lambda t, shared: None))


@handles("activemask")
def _activemask(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Unstable; where only an aggregate hangs on it, every lane may run alone (DESIGN.md 5)."""
    put = decoder.store(instr.operands[0], "b32")
    unstable = Unstable(instr.name)

    def step(t: Thread) -> None:
        alone = t.pc - 1 in t.cta.context.aggregates
        put(t, 1 << t.lane if alone else unstable)

    return step


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@handles("redux")
def _redux(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source, members = instr.operands
    kind = slots["type"].replace("b", "u")
    put, get, mask = (
        decoder.store(target, kind),
        decoder.load(source, kind),
        decoder.load(members, "u32"),
    )
    function = _REDUCTIONS[slots["op"]]

    def outcome(values: dict[int, Any]) -> Any:
        return ABSORB if ABSORB in values.values() else reduce(function, values.values())

    return _masked(instr, mask, Exchange(get, outcome, put))


@handles("match.any")
def _match_any(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """The lanes that hold the same value."""
    target, source, members = instr.operands
    kind = slots["type"].replace("b", "u")
    put, get, mask = (
        decoder.store(target, "u32"),
        decoder.load(source, kind),
        decoder.load(members, "u32"),
    )

    def take(t: Thread, values: dict[int, Any]) -> None:
        mine = values[t.lane]
        put(t, ABSORB if ABSORB in values.values() else _lanes_with(values, mine))

    return _masked(instr, mask, Exchange(get, _all, take))


@handles("match.all")
def _match_all(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """The mask if all lanes hold the same value, else 0."""
    target, source, members = instr.operands
    pair = target if isinstance(target, Pair) else Pair(target, Sink())  # type: ignore[arg-type]
    put, put_same = decoder.store(pair.first, "u32"), decoder.store(pair.second, "pred")
    kind = slots["type"].replace("b", "u")
    get, mask = decoder.load(source, kind), decoder.load(members, "u32")

    def take(t: Thread, values: dict[int, Any]) -> None:
        if ABSORB in values.values():
            put(t, ABSORB)
            put_same(t, ABSORB)
            return
        same = len(set(values.values())) == 1
        put(t, _lanes_with(values, values[t.lane]) if same else 0)
        put_same(t, same)

    return _masked(instr, mask, Exchange(get, _all, take))


def _lanes_with(values: dict[int, Any], value: Any) -> int:
    return sum(1 << lane for lane, other in values.items() if other == value)


def vector(operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers of a fragment; Unsupported if there are not `count`."""
    items = operand.items if isinstance(operand, Vec) else (operand,)
    if len(items) != count:
        raise Unsupported("unsupported.operand")
    return items


def meeting(instr: Instr, exchange: Exchange) -> Step:
    """The step of an aligned instruction: all live lanes come to it together."""
    return lambda t: AtMeeting(instr, (t.pc,), None, exchange)


@handles("ldmatrix")
def _ldmatrix(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Lane 8m+r gives the address of row r (16 bytes) of matrix m (PTX ISA 9.7.14.5.15)."""
    target, source = instr.operands
    count = int(slots["num"][1:])
    puts = [decoder.store(item, "b32") for item in vector(target, count)]
    accessor = Accessor(decoder, instr, source, "shared", 16, False)

    def give(t: Thread) -> Place:
        place = accessor.place(t) if t.lane < 8 * count else None
        monitor = t.cta.context.monitor
        if place is not None and monitor is not None:
            monitor.load(t, place[0], place[1], 16, place[2])
        return place

    def take(t: Thread, rows: dict[int, Place]) -> None:
        across, along = t.lane // 4, t.lane % 4
        for m, put in enumerate(puts):
            if slots["trans"]:
                pair = (_cell(rows, 8 * m + 2 * along + i, 2 * across, 2) for i in (0, 1))
                put(t, concat((unit, 16) for unit in pair))
            else:
                put(t, _cell(rows, 8 * m + across, 4 * along, 4))

    return meeting(instr, Exchange(give, _all, take))


def _cell(rows: dict[int, Place], row: int, byte: int, nbytes: int) -> Unit:
    place = rows.get(row)
    return UNDEF if place is None else place[0].read(place[1] + byte, nbytes)
