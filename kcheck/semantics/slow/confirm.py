"""A race that somebody else reports, looked for again (issue 3, item 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcheck.launch import Launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.slow.conflicts import Race, Side
from kcheck.semantics.slow.errors import Unevaluated
from kcheck.semantics.slow.machine import SlowMachine
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.races import PAIRING, Who

# schedules in which the pair is looked for
SEEDS = (None, 1, 2)
# races that are so by definition, whatever the order of the accesses in a run
BY_DEFINITION = frozenset({"race.async", "race.nc", PAIRING})


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
            orders = _orders(kernel, launch, inputs, numbers, chosen, found)
            return Confirmation(found, len(orders))
    if failed is not None:
        raise failed
    return Confirmation(None)


def _fits(race: Race, wanted: Race | tuple[int, int]) -> bool:
    if isinstance(wanted, Race):
        return race.lines == wanted.lines and race.reason == wanted.reason
    return race.lines == (min(wanted), max(wanted))


def _who(side: Side) -> Who:
    return side.cta, side.thread


def _orders(
    kernel: Kernel,
    launch: Launch,
    inputs: Mapping[str, Sequence[Any]],
    numbers: type[Number],
    ctas: list[int] | None,
    race: Race,
) -> set[bool]:
    """Did the race's first access come first (True), last (False), when its thread goes so?"""
    a, b = _who(race.first), _who(race.second)
    seen: set[bool] = set()
    for first in ((a, b), (b, a)):
        machine = SlowMachine(kernel, launch, inputs, numbers, ctas=ctas, first=first, races=True)
        try:
            machine.run()
        except Unevaluated:
            continue
        monitor = machine.context.monitor
        assert monitor is not None
        instrs = race.first.instr, race.second.instr
        for old, new, who in monitor.orders:
            pair = kernel.code[old], kernel.code[new]
            if who == a and pair[0] is instrs[0] and pair[1] is instrs[1]:
                seen.add(True)
            elif who == b and pair[0] is instrs[1] and pair[1] is instrs[0]:
                seen.add(False)
    return seen
