"""The arms of a branch that hold nothing but atomics and what prepares them."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx_frontend.tree import Target
from kcheck.semantics.flow import ATOMICS, Flow

# what may stand in an arm besides atomics: it only maps values, and never fails
MAPS = frozenset({"mov", "cvta", "int.add", "int.mul.wide", "bit.shl", "bit.and", "bit.or"})
# how an elected lane learns that it is, and for how many it acts
ELECTION = frozenset({"activemask", "int.brev", "int.bfind", "int.popc", "int.setp"})
# instructions of an arm, and where arms meet at the end of the kernel
MOST = 16
END = -1


def arms_of(
    flow: Flow, at: int, elected: Mapping[int, int] | None = None
) -> tuple[list[list[int]], int] | None:
    """The arms of a guarded branch, the one that is taken first, and where they meet.

    `elected`: branches that one lane of a warp takes for all -> where it goes.
    """
    ways = [_way(flow, start, elected or {}) for start in _targets(flow, at)]
    if len(ways) != 2:
        return None
    (yes, yes_ends), (no, no_ends) = ways
    join = next((pc for pc in yes if pc in no), END)
    if join == END and not (yes_ends and no_ends):
        return None
    return [way[: way.index(join)] if join in way else way for way in (yes, no)], join


def _targets(flow: Flow, at: int) -> tuple[int, ...]:
    (target,) = flow.code[at].operands
    return (target.index, at + 1) if isinstance(target, Target) else ()


def _way(flow: Flow, start: int, elected: Mapping[int, int]) -> tuple[list[int], bool]:
    """What is executed from an instruction on, as far as no guard decides and nothing else than
    maps and atomics comes; does it end the kernel?
    """
    way: list[int] = []
    at = start
    while at < len(flow.code) and len(way) < MOST and at not in way:
        name, guarded = flow.names[at], flow.code[at].guard is not None
        way.append(at)
        if at in elected:
            at = elected[at]
            continue
        harmless = name in MAPS or name in ("bra", *ATOMICS) or (elected and name in ELECTION)
        if guarded or not harmless:
            return way, name in ("ret", "exit") and not guarded
        (at, *_) = flow.successors[at] or (len(flow.code),)
    return way, at == len(flow.code)


def apart(flow: Flow, arms: list[list[int]], maps: list[list[int]]) -> bool:
    """Is what an arm computes of no use outside it, and does it read nothing that it changes?"""
    for mine, other in (arms, arms[::-1]):
        made = {name for pc in mine for name in flow.defs[pc]}
        read = {name for pc in other for name in flow.uses[pc]}
        if made & read:
            return False
        written: set[str] = set()
        for pc in mine:
            if {n for n in flow.uses[pc] if n in made} - written:
                return False
            written |= flow.defs[pc]
    return all(
        use.pc in arm
        for arm, some in zip(arms, maps, strict=True)
        for pc in some
        for name in flow.defs[pc]
        for use in flow.reached(pc, name)
    )
