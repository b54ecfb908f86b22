"""Is an input one on which two kernels really differ? The slow evaluator, which shares no code
with the lane executor, has to find so: in exact rationals where it can, else in enclosures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.ieee.formats import FORMATS
from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, Scalar, Tensor
from kcheck.preconditions import admissible
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt
from kcheck.semantics.execution import execute
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
from kcheck.semantics.slow.numbers import DIVISION, INFINITIES

# relative difference that rounded arithmetic may make: 2^12 units in the last place of f32
NOISE = Fraction(1, 2**12)
# instructions that leave the rationals
_LARGEST = frozenset({FORMATS["f32"].largest, -FORMATS["f32"].largest})
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

    @property
    def rounds(self) -> bool:
        """Some instruction makes integers of floats."""
        return any(
            instr.opcode[0] == "cvt" and instr.opcode[-2][0] in "su" and instr.opcode[-1] in FLOATS
            for instr in self.kernel.code
        )

    @cached_property
    def bounds(self) -> bool:
        """Some literal is the largest number of f32, or its negative."""
        return bool(_LARGEST & self.literals)

    @cached_property
    def literals(self) -> frozenset[float]:
        """The float literals of its code, but for those of library functions."""
        found = {
            (op.width, op.bits)
            for instr in self.kernel.identified[0].code
            for op in instr.operands
            if isinstance(op, Flt)
        }
        kinds = {32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}
        return frozenset(float(kinds[w][0](bits).view(kinds[w][1])) for w, bits in found)

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


def integers(launch: Launch, inputs: Mapping[str, Any]) -> set[str]:
    """The names of the integers among these inputs."""
    params = (p for p in launch.params if isinstance(p, (Tensor, Scalar)))
    return {p.name for p in params if p.dtype not in FLOATS and p.name in inputs}


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


def writers(
    side: Subject, element: tuple[str, int], ctas: list[int] | None, inputs: dict[str, Any]
) -> dict[int, tuple[int, tuple[int, int, int]]]:
    """The CTAs that write an element, each with the instruction and thread that did it last."""
    return _writers(side, element, ctas, inputs, EnclosureDomain(inputs))


def _writers(
    side: Subject,
    element: tuple[str, int],
    ctas: list[int] | None,
    inputs: dict[str, Any],
    domain: EnclosureDomain,
) -> dict[int, tuple[int, tuple[int, int, int]]]:
    launch = with_integers(side.launch, inputs)
    run = execute(side.kernel, launch, domain, ctas=ctas, watch=element)
    return run.memories[element[0]].writers


class _Watched(EnclosureDomain):
    """Notes whether anything was compared: else no float decides who stores what."""

    compared = False

    def compare(self, op: str, a: Any, b: Any) -> Any:
        self.compared = True
        return super().compare(op, a, b)


class Writers:
    """Two kernels, and the CTAs of each that write an element, looked for no oftener than needed.

    `sides`: reference and subject. `ctas`: those that are executed, or None: all.
    """

    def __init__(self, reference: Subject, subject: Subject, ctas: list[int] | None) -> None:
        self.sides = (reference, subject)
        self.ctas = ctas
        self._known: dict[tuple[int, str, int], list[int]] = {}

    def of(self, i: int, element: tuple[str, int], inputs: dict[str, Any]) -> list[int]:
        """The CTAs of side `i` that write an element on these inputs, ascending."""
        side, key = self.sides[i], (i, *element)
        if side.launch.ctas == 1 and self.ctas is None:
            return [0]
        if key in self._known:
            return self._known[key]
        domain = _Watched(inputs)
        found = sorted(_writers(side, element, self.ctas, inputs, domain))
        if not domain.compared and not integers(side.launch, inputs):
            self._known[key] = found
        return found


def confirm(
    writers: Writers, inputs: dict[str, Any], element: tuple[str, int], *, divided: bool = False
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Both values (bounds) by the slow evaluator if they differ for certain, else None.

    `divided`: that the subject divides by 0 and the reference does not is a difference too.
    """
    if not admissible(inputs, *(side.launch for side in writers.sides)):
        return None  # no input of the user's
    sides = writers.sides
    for numbers in (Exact, Enclosure, Rounded):
        some, every = (test(numbers in s.numbers for s in sides) for test in (any, all))
        if not (some if numbers is Rounded else every):
            continue
        try:
            values = [
                _slow_value(side, inputs, numbers, element, writers.of(i, element, inputs))
                for i, side in enumerate(writers.sides)
            ]
        except Unevaluated:
            continue
        first, second = values
        if first is None or second is None or first.is_nan:
            return None
        # a nan shows that the input lies outside a function's domain (a divisor is 0), no more
        if second.is_nan:
            sure = numbers is not Rounded and second.reason == INFINITIES
            sure = sure and not any(map(_may_be_at_edge, sides))
            sure = sure or (divided and second.reason == DIVISION)
            return (first.bounds(), second.bounds()) if sure else None
        if numbers is Exact:
            apart = first.exact() != second.exact()
        elif numbers is Rounded:
            apart = _far(first.exact(), second.exact())
        else:
            (low, high), (floor, top) = first.bounds(), second.bounds()
            apart = high < floor or top < low
        return (first.bounds(), second.bounds()) if apart else None
    return None


def _may_be_at_edge(side: Subject) -> bool:
    """May an infinity be that of a function at the edge of its domain, not one that is written?"""
    return bool(side.kernel.identified[1]) or any(i.opcode[0] == "lg2" for i in side.kernel.code)


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
    ctas: list[int],
) -> Any:
    """The number that the slow evaluator leaves in an element; None if it is no number."""
    result = slow_run(side, inputs, numbers, ctas)
    value = result.outputs[element[0]][element[1]]
    if isinstance(value, Real):
        return value.number
    if not isinstance(value, int):
        return None
    dtype = side.launch.buffers[element[0]].dtype
    bits = 8 * DTYPE_BYTES[dtype]
    # memory holds bits: 255 is -1 where there is a sign
    return numbers.of(value - (dtype[0] == "s" and value >= 1 << (bits - 1)) * (1 << bits))


def slow_run(
    side: Subject,
    inputs: dict[str, Any],
    numbers: Any,
    ctas: list[int],
) -> SlowResult:
    """What the slow evaluator leaves."""
    return slow_machine(side, inputs, numbers, ctas).run()


def together(side: Subject, ctas: list[int]) -> list[int]:
    """The CTAs that have to run for these: all of the grid where they wait for one another."""
    return list(range(side.launch.ctas)) if side.plan.grid else ctas


def slow_machine(
    side: Subject,
    inputs: dict[str, Any],
    numbers: Any,
    ctas: list[int],
    **more: Any,
) -> SlowMachine:
    """The slow evaluator on these inputs, of these CTAs and those that have to run with them.

    Integer buffers take their inputs from the launch. `more`: arguments of SlowMachine.
    """
    ctas = together(side, ctas)
    mine = {p.name for p in side.launch.params}
    given = {name: values.tolist() for name, values in inputs.items() if name in mine}
    for name in list(given):
        tensor = side.launch.buffers.get(name)
        if tensor is not None and tensor.dtype not in FLOATS:
            given[name] = [int(v) for v in given[name]]
    return SlowMachine(side.kernel, side.launch, given, numbers, ctas=ctas, **more)


def renamed(launch: Launch, names: dict[str, str]) -> Launch:
    """The launch with parameters renamed."""
    params = tuple(replace(p, name=names.get(p.name, p.name)) for p in launch.params)
    alias = tuple(tuple(names.get(name, name) for name in group) for group in launch.alias)
    return replace(launch, params=params, alias=alias)
