"""A race that somebody else reports, looked for again (issue 3, item 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kcheck.launch import Launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.conflicts import Race, Side
from kcheck.semantics.slow.errors import Unevaluated
from kcheck.semantics.slow.machine import SlowMachine
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.races import PAIRING, Monitor, Who

# schedules in which the pair is looked for
SEEDS = (None, 1, 2)
# races that are so by definition, whatever the order of the accesses in a run
BY_DEFINITION = frozenset({"race.async", "race.nc", PAIRING})


Both = tuple[Who, Who]


@dataclass(frozen=True)
class Confirmation:
    """`race`: what the monitor saw of the pair, or None. `orders`: how many of the two orders of
    its accesses directed schedules brought about; None where the definition decides. True if
    there is a race.
    """

    race: Race | None
    orders: int | None = None

    def __bool__(self) -> bool:
        return self.race is not None


def confirm_race(
    kernel: Kernel,
    launch: Launch,
    inputs: Mapping[str, Sequence[Any]],
    numbers: type[Number],
    ctas: Iterable[int] | None,
    wanted: Race | tuple[int, int],
) -> Confirmation:
    """Does the slow evaluator see the race too? `wanted`: a race, or the lines of two instructions.

    Raises Unevaluated if no schedule runs to its end.
    """
    chosen = None if ctas is None else list(ctas)
    failed: Unevaluated | None = None
    for seed in SEEDS:
        machine = SlowMachine(kernel, launch, inputs, numbers, ctas=chosen, seed=seed, races=True)
        try:
            found = next((r for r in machine.run().races if _fits(r, wanted)), None)
        except Unevaluated as error:
            failed = error
            continue
        if found is not None and found.reason in BY_DEFINITION:
            return Confirmation(found)
        if found is not None:

            def make(first: Both, at: int) -> SlowMachine:
                return SlowMachine(
                    kernel, launch, inputs, numbers, ctas=chosen, races=True, first=first, at=at
                )

            return Confirmation(found, sum(both_orders(kernel.code, found, make)))
    if failed is not None:
        raise failed
    return Confirmation(None)


def _fits(race: Race, wanted: Race | tuple[int, int]) -> bool:
    if isinstance(wanted, Race):
        return race.lines == wanted.lines and race.reason == wanted.reason
    return race.lines == (min(wanted), max(wanted))


def _who(side: Side) -> Who:
    return side.cta, side.thread


def both_orders(
    code: Sequence[Instr], race: Race, make: Callable[[Both, int], SlowMachine]
) -> Iterator[bool]:
    """Does the race's first access come first where its thread goes ahead, and last where the
    other does? `make`: a machine of these two threads, and the instruction at which the first of
    two CTAs hands over (-1: at its end).
    """
    index = {id(instr): i for i, instr in enumerate(code)}
    sides = race.first, race.second
    for one, other in (sides, sides[::-1]):
        first, at = (_who(one), _who(other)), index[id(one.instr)]
        wanted = at, index[id(other.instr)], first[0]
        # of two CTAs one goes on where the other came to its access, or, if that was not the time
        # at which it did so to the same bytes, after the other
        across = first[0][0] != first[1][0]
        yield any(_watched(make(first, to), wanted) for to in ((at, -1) if across else (-1,)))


def _watched(machine: SlowMachine, wanted: tuple[int, int, Who]) -> bool:
    try:
        return machine.watch(partial(_came, wanted))
    except Unevaluated:
        return False


def _came(wanted: tuple[int, int, Who], monitor: Monitor) -> bool:
    return wanted in monitor.orders
