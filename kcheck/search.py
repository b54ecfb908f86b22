"""From a difference over the field to an input on which two kernels really differ.

Inputs of many kinds are tried in float64 enclosures over all lanes. If none shows a difference,
one element is looked at closely (guided.py). What was found is made small (shrink.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.families import beside, draws
from kcheck.canon.real import Reals
from kcheck.contrast import Contrast, contrast, fitted, formats
from kcheck.guided import guided_points
from kcheck.launch import DTYPE_BYTES, FLOATS, Tensor, TensorMap
from kcheck.limits import LimitReached
from kcheck.outputs import separation
from kcheck.preconditions import ends, kept
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.shrink import shrunk, with_fewer_integers
from kcheck.verdict import Witness
from kcheck.witness import Subject, Writers, confirm, unknown_inputs, with_integers

Pair = tuple[Tensor, Tensor]
Pairs = dict[str, tuple[Pair, Any]]
# of the element's value in the reference and in the subject
Bounds = tuple[tuple[float, float], tuple[float, float]]
Progress = Callable[[str, float], None]
# elements that are tried for one input
TRIED = 3
# seconds after which no further input of a family is tried, none is guided, none is made smaller
PATIENCE, GUIDED, SHRINKING = 60.0, 20.0, 10.0
# runs of the slow evaluator that making integers small takes, at least
STEPS = 50
# inputs that are tried before anything dear is
QUICK = 2
# seconds for each kind of search where an exact proof has been found already
DOUBT = 10.0
# inputs on which the lane executor sees a difference that the slow evaluator does not confirm
FRUITLESS = 3
# formats that hold nothing above the range of f16, and integers
NARROW = frozenset({"f16", "e4m3", "e5m2"} | (DTYPE_BYTES.keys() - FLOATS))


class Search:
    """The search for an input on which some element differs.

    `pairs`: buffer name -> (pair of tensors, flags of the elements that may differ). `identify`:
    literals of the element that is looked at stand for what they were rounded from.
    """

    def __init__(
        self, writers: Writers, pairs: Pairs, seed: int, progress: Progress, identify: bool
    ) -> None:
        self.writers, self.pairs, self.identify = writers, pairs, identify
        self.seed, self.progress = seed, progress
        self.patience, self.guided = PATIENCE, GUIDED
        self.sizes = unknown_inputs(*writers.sides)
        self.launches = [side.launch for side in writers.sides]
        # the element of the witness as both sides compute it, if that is known
        self.contrast: Contrast | None = None

    def quick(self) -> Witness | None:
        """The same from the first few inputs only; never one `by_rounding`."""
        return self._of_families(QUICK)[0]

    def witness(self) -> Witness | None:
        """An input on which some element differs, confirmed, as small as was found; or None.

        A witness `by_rounding` is one that rounded literals could explain; any other is preferred.
        """
        found, rounded = self._of_families()
        found = found or self._guided()
        if found is None and rounded is not None:
            _, found = self._try(*rounded, widen=False)
            return None if found is None else replace(found, by_rounding=True)
        return found

    def doubt(self) -> Witness | None:
        """The same within bounded time, against an exact proof; never one `by_rounding`."""
        self.patience = self.guided = DOUBT
        return self._of_families()[0] or self._guided()

    # families

    def _of_families(
        self, most: int | None = None
    ) -> tuple[Witness | None, tuple[str, dict[str, Any]] | None]:
        """A witness, or an input that differs only up to the rounding of literals."""
        started = time.monotonic()
        narrow = {
            param.name
            for side in self.writers.sides
            for param in side.launch.params
            if not isinstance(param, TensorMap) and param.dtype in NARROW
        }
        drawn = chain(draws(self.sizes, self.seed, self.sizes.keys() - narrow), self._literals())
        tries = [(name, kept(inputs, *self.launches)) for name, inputs in islice(drawn, most)]
        rounded: tuple[str, dict[str, Any]] | None = None
        fruitless = 0
        for number, (family, inputs) in enumerate(tries):
            if time.monotonic() - started > self.patience or fruitless == FRUITLESS:
                break
            self.progress("looking for an input", number / len(tries))
            seen, found = self._try(family, inputs)
            if found is not None:
                return found, None
            fruitless += seen
            if rounded is None and not seen:
                apart, _ = self._try(family, inputs, widen=False, confirmed=False)
                rounded = (family, inputs) if apart else None
        return None, rounded

    def _literals(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Numbers at, beside and between the literals of both kernels and the ends of ranges."""
        rng = np.random.default_rng(self.seed)
        kinds = formats(*self.writers.sides)
        literals = {x for side in self.writers.sides for x in side.literals}
        inputs = {}
        for name, n in self.sizes.items():
            near = fitted(beside(literals | ends(name, *self.launches)), kinds.get(name, ()))
            inputs[name] = np.resize(rng.permutation(near), n)
        yield "near literals", inputs

    def _try(
        self, family: str, inputs: dict[str, Any], *, widen: bool = True, confirmed: bool = True
    ) -> tuple[bool, Witness | None]:
        """Does some element differ on this input, and the witness if the slow evaluator agrees."""
        domain = EnclosureDomain(inputs, widen)
        reals: Reals[Any] = Reals(domain)
        try:
            a, b = (self._run(side, domain, reals, inputs) for side in self.writers.sides)
        except (Refused, BudgetError):
            return False, None
        apart = False
        for name, (pair, candidates) in self.pairs.items():
            gap = np.where(candidates, separation(a, b, pair, domain), 0)
            for element in np.argsort(-gap, kind="stable")[:TRIED]:
                if gap[element] <= 0:
                    break
                apart = True
                if not confirmed:
                    return True, None
                at = (name, int(element))
                close = contrast(self.writers, at, inputs, self.identify)
                found = self._confirmed(family, inputs, at, close, widen)
                if found is not None:
                    return True, found
        return apart, None

    def _run(self, side: Subject, domain: Any, reals: Any, inputs: dict[str, Any]) -> Execution:
        launch = with_integers(side.launch, inputs)
        return execute(side.kernel, launch, domain, ctas=self.writers.ctas, reals=reals)

    def _confirmed(
        self,
        family: str,
        inputs: dict[str, Any],
        element: tuple[str, int],
        close: Contrast | None,
        widen: bool,
    ) -> Witness | None:
        """The witness for an element, on a smaller input if the slow evaluator agrees there."""
        tries = [inputs]
        if close is not None:
            small = self._smaller(close, inputs, widen)
            tries = ([] if small is None else [small]) + tries
            # where others divide by 0, the slow evaluator may give up
            tries.append(close.inputs(close.point(tries[0]), 1.0))
        for given in tries:
            started = time.monotonic()
            values = confirm(self.writers, given, element)
            if values is not None:
                if time.monotonic() - started < SHRINKING / STEPS:
                    given, values, close = self._of_fewer_integers(element, given, values, close)
                self.contrast = close
                index = self.pairs[element[0]][0][0].index(element[1])
                left = entries(given, *self.writers.sides)
                return Witness(element[0], index, *values, family, given, entries=left)
        return None

    def _of_fewer_integers(
        self,
        element: tuple[str, int],
        given: dict[str, Any],
        values: Bounds,
        close: Contrast | None,
    ) -> tuple[dict[str, Any], Bounds, Contrast | None]:
        """A confirmed input, the values and the element there; with small integers if possible."""
        try:
            fewer = with_fewer_integers(self.writers, element, given, SHRINKING, self.progress)
            again = None if fewer is given else confirm(self.writers, fewer, element)
            if again is not None:
                return fewer, again, contrast(self.writers, element, fewer, self.identify)
        except (LimitReached, MemoryError):
            pass  # it is confirmed as it stands
        return given, values, close

    def _smaller(
        self, close: Contrast, inputs: dict[str, Any], widen: bool
    ) -> dict[str, Any] | None:
        self.progress("making the input small", 0.0)
        point = shrunk(close, close.point(inputs), widen, SHRINKING, self.progress)
        return None if point is None else close.inputs(point)

    # one element

    def _guided(self) -> Witness | None:
        """A witness for one of a few elements, from what it is made of."""
        started, fruitless = time.monotonic(), 0
        inputs = kept(next(draws(self.sizes, self.seed))[1], *self.launches)
        for name, (_, candidates) in self.pairs.items():
            flat = np.flatnonzero(candidates)
            for element in dict.fromkeys(flat[[0, flat.size // 2, -1]].tolist()):
                left = self.guided - (time.monotonic() - started)
                close = (
                    None
                    if left < 0
                    else contrast(self.writers, (name, element), inputs, self.identify)
                )
                if close is None:
                    continue
                for point in guided_points(close, self.seed, left, self.progress):
                    given = close.inputs(point)
                    found = self._confirmed("guided", given, (name, element), close, True)
                    if found is not None:
                        return found
                    fruitless += 1
                    if fruitless == FRUITLESS:
                        return None
        return None


def entries(
    inputs: dict[str, Any], *sides: Subject
) -> tuple[tuple[str, tuple[int, ...], float], ...]:
    """(name, index, number) of the entries that are not 0; index () of a scalar."""
    buffers = {name: t for side in reversed(sides) for name, t in side.launch.buffers.items()}
    return tuple(
        (name, buffers[name].index(i) if name in buffers else (), float(values[i]))
        for name, values in inputs.items()
        for i in np.flatnonzero(values).tolist()
    )
