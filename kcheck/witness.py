"""From a difference over the field to an input on which two kernels really differ.

Inputs are tried in float64 enclosures over all lanes; the slow evaluator, which shares no code
with the lane executor, then has to find the same: exact rationals where it can, else enclosures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.families import draws
from kcheck.canon.real import Reals
from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, Scalar, Tensor, TensorMap
from kcheck.outputs import separation
from kcheck.preconditions import admissible, kept
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.plan import Plan, plan_of
from kcheck.semantics.slow import (
    Enclosure,
    Exact,
    Number,
    Real,
    Rounded,
    SlowMachine,
    SlowResult,
    Unevaluated,
)
from kcheck.verdict import Witness

Pair = tuple[Tensor, Tensor]
# elements that are tried for one input
TRIED = 3
# seconds after which no further input is tried
PATIENCE = 60.0
# inputs on which the lane executor sees a difference that the slow evaluator does not confirm
FRUITLESS = 3
# relative difference that rounded arithmetic may make: 2^12 units in the last place of f32
NOISE = Fraction(1, 2**12)
# formats that hold nothing above the range of f16, and integers
NARROW = frozenset({"f16", "e4m3", "e5m2"} | (DTYPE_BYTES.keys() - FLOATS))
# instructions that leave the rationals
IRRATIONAL = frozenset({"ex2", "lg2", "sqrt", "rsqrt", "tanh", "sin", "cos"})


@dataclass(frozen=True)
class Subject:
    """A kernel with its launch."""

    kernel: Kernel
    launch: Launch

    @property
    def numbers(self) -> tuple[type[Number], ...]:
        """What the slow evaluator may compute with, the strictest first.

        The expansions of library functions work on the bits of rounded floats.
        """
        rational = not any(instr.opcode[0] in IRRATIONAL for instr in self.kernel.code)
        expanded = bool(self.kernel.identified[1])
        return (Exact,) * rational + (Enclosure,) + (Rounded,) * expanded

    @cached_property
    def plan(self) -> Plan:
        """What of it hangs on the schedule."""
        return plan_of(self.kernel)


def unknown_shapes(*sides: Subject) -> dict[str, tuple[int, ...]]:
    """Float inputs without `values:` and symbolic scalars: name -> shape; flat if not dense."""
    shapes: dict[str, tuple[int, ...]] = {}
    for side in sides:
        for param in side.launch.params:
            if side.launch.sharing(param.name)[0] != param.name:
                continue  # its contents are another's
            if isinstance(param, Tensor) and param.role != "out" and param.values is None:
                dense = param.strides is None
                shapes[param.name] = param.shape if dense else (param.elements,)
            elif isinstance(param, Scalar) and param.value is None:
                shapes[param.name] = (1,)
    return shapes


def unknown_inputs(*sides: Subject) -> dict[str, int]:
    """The same: name -> elements, without the empty ones."""
    sizes = {name: math.prod(shape) for name, shape in unknown_shapes(*sides).items()}
    return {name: n for name, n in sizes.items() if n}


def find_witness(
    reference: Subject,
    subject: Subject,
    pairs: dict[str, tuple[Pair, Any]],
    *,
    ctas: list[int] | None,
    seed: int,
    progress: Callable[[str, float], None],
) -> Witness | None:
    """An input on which some element differs, confirmed, or None.

    `pairs`: buffer name -> (pair of tensors, flags of the elements that may differ). A witness
    `by_rounding` is one that rounded literals could explain; any other is preferred.
    """
    sizes = unknown_inputs(reference, subject)
    started = time.monotonic()
    narrow = {
        param.name
        for side in (reference, subject)
        for param in side.launch.params
        if not isinstance(param, TensorMap) and param.dtype in NARROW
    }
    tries = [
        (family, kept(inputs, reference.launch, subject.launch))
        for family, inputs in draws(sizes, seed, sizes.keys() - narrow)
    ]
    rounded: tuple[str, dict[str, Any]] | None = None
    fruitless = 0
    for number, (family, inputs) in enumerate(tries):
        if time.monotonic() - started > PATIENCE or fruitless == FRUITLESS:
            break
        progress("looking for an input", number / len(tries))
        seen, found = _try(reference, subject, pairs, inputs, family, ctas, widen=True)
        if found is not None:
            return found
        fruitless += seen
        if rounded is None and not seen:
            apart, _ = _try(reference, subject, pairs, inputs, family, ctas, confirmed=False)
            rounded = (family, inputs) if apart else None
    if rounded is None:
        return None
    _, found = _try(reference, subject, pairs, rounded[1], rounded[0], ctas)
    return None if found is None else replace(found, by_rounding=True)


def with_integers(launch: Launch, inputs: Mapping[str, Any]) -> Launch:
    """The launch with the integers among these inputs as `values:`: an index must be a number."""
    params = [*launch.params]
    for i, param in enumerate(params):
        if isinstance(param, Tensor) and param.dtype not in FLOATS and param.name in inputs:
            numbers = np.rint(inputs[param.name]).astype(np.int64)
            params[i] = replace(param, values=numbers, strides=None, shape=numbers.shape)
        elif isinstance(param, Scalar) and param.dtype not in FLOATS and param.name in inputs:
            params[i] = replace(param, value=int(inputs[param.name][0]))
    return replace(launch, params=tuple(params))


def _run(
    side: Subject, domain: Any, reals: Any, ctas: list[int] | None, inputs: dict[str, Any]
) -> Execution:
    launch = with_integers(side.launch, inputs)
    return execute(side.kernel, launch, domain, ctas=ctas, reals=reals)


def _try(
    reference: Subject,
    subject: Subject,
    pairs: dict[str, tuple[Pair, Any]],
    inputs: dict[str, Any],
    family: str,
    ctas: list[int] | None,
    *,
    widen: bool = False,
    confirmed: bool = True,
) -> tuple[bool, Witness | None]:
    """Does some element differ on this input, and the witness that the slow evaluator confirms."""
    domain = EnclosureDomain(inputs, widen)
    reals: Reals[Any] = Reals(domain)
    try:
        a, b = (_run(side, domain, reals, ctas, inputs) for side in (reference, subject))
    except (Refused, BudgetError):
        return False, None
    apart = False
    for name, (pair, candidates) in pairs.items():
        gap = np.where(candidates, separation(a, b, pair, domain), 0)
        for element in np.argsort(-gap, kind="stable")[:TRIED]:
            if gap[element] <= 0:
                break
            apart = True
            if not confirmed:
                return True, None
            values = confirm(reference, subject, inputs, (name, int(element)), ctas)
            if values is not None:
                index = pair[0].index(int(element))
                return True, Witness(name, index, values[0], values[1], family, inputs)
    return apart, None


def writers(
    side: Subject, element: tuple[str, int], ctas: list[int] | None, inputs: dict[str, Any]
) -> dict[int, tuple[int, tuple[int, int, int]]]:
    """The CTAs that write an element, each with the instruction and thread that did it last."""
    domain = EnclosureDomain(inputs)
    launch = with_integers(side.launch, inputs)
    run = execute(side.kernel, launch, domain, ctas=ctas, watch=element)
    return run.memories[element[0]].writers


def confirm(
    reference: Subject,
    subject: Subject,
    inputs: dict[str, Any],
    element: tuple[str, int],
    ctas: list[int] | None,
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Both values (bounds) by the slow evaluator if they differ for certain, else None."""
    if not admissible(inputs, reference.launch, subject.launch):
        return None  # no input of the user's
    sides = (reference, subject)
    for numbers in (Exact, Enclosure, Rounded):
        some, every = (test(numbers in s.numbers for s in sides) for test in (any, all))
        if not (some if numbers is Rounded else every):
            continue
        try:
            values = [
                _slow_value(side, inputs, numbers, element, ctas) for side in (reference, subject)
            ]
        except Unevaluated:
            continue
        first, second = values
        # a nan shows that the input lies outside a function's domain (a divisor is 0), no more
        if first is None or second is None or first.is_nan or second.is_nan:
            return None
        if numbers is Exact:
            apart = first.exact() != second.exact()
        elif numbers is Rounded:
            apart = _far(first.exact(), second.exact())
        else:
            (low, high), (floor, top) = first.bounds(), second.bounds()
            apart = high < floor or top < low
        return (first.bounds(), second.bounds()) if apart else None
    return None


def _far(a: Any, b: Any) -> bool:
    """Two results of rounded arithmetic that differ by more than rounding."""
    if isinstance(a, float) or isinstance(b, float):  # an infinity
        return bool(a != b)
    return bool(abs(a - b) > NOISE * max(abs(a), abs(b)))


def _slow_value(
    side: Subject,
    inputs: dict[str, Any],
    numbers: Any,
    element: tuple[str, int],
    ctas: list[int] | None,
) -> Any:
    """The number that the slow evaluator leaves in an element; None if it is no number."""
    chosen = sorted(writers(side, element, ctas, inputs))
    result = slow_run(side, inputs, numbers, chosen)
    value = result.outputs[element[0]][element[1]]
    if isinstance(value, Real):
        return value.number
    return numbers.of(value) if isinstance(value, int) else None


def slow_run(
    side: Subject,
    inputs: dict[str, Any],
    numbers: Any,
    ctas: list[int],
    *,
    races: bool = False,
) -> SlowResult:
    """What the slow evaluator leaves."""
    return slow_machine(side, inputs, numbers, ctas, races=races).run()


def together(side: Subject, ctas: list[int]) -> list[int]:
    """The CTAs that have to run for these: all of the grid where they wait for one another."""
    return list(range(side.launch.ctas)) if side.plan.grid else ctas


def slow_machine(
    side: Subject,
    inputs: dict[str, Any],
    numbers: Any,
    ctas: list[int],
    *,
    races: bool = False,
) -> SlowMachine:
    """The slow evaluator on these inputs, of these CTAs and those that have to run with them.

    Integer buffers take their inputs from the launch.
    """
    ctas = together(side, ctas)
    mine = {p.name for p in side.launch.params}
    given = {name: values.tolist() for name, values in inputs.items() if name in mine}
    for name in list(given):
        tensor = side.launch.buffers.get(name)
        if tensor is not None and tensor.dtype not in FLOATS:
            given[name] = [int(v) for v in given[name]]
    return SlowMachine(side.kernel, side.launch, given, numbers, ctas=ctas, races=races)


def renamed(launch: Launch, names: dict[str, str]) -> Launch:
    """The launch with parameters renamed."""
    params = tuple(replace(p, name=names.get(p.name, p.name)) for p in launch.params)
    alias = tuple(tuple(names.get(name, name) for name in group) for group in launch.alias)
    return replace(launch, params=params, alias=alias)
