"""One output element as both kernels compute it: two graphs of operations, side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.constants import CASED, FINITE, SYMBOLIC
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.ieee.engine import Ieee, values
from kcheck.canon.interval import Ends
from kcheck.canon.real import Reals
from kcheck.canon.term.dag import BudgetSpent, TermValue, TracedDag
from kcheck.canon.term.domain import TermDomain
from kcheck.canon.term.slice import Slice, slice_of
from kcheck.launch import FLOATS, Launch
from kcheck.outputs import read_output
from kcheck.preconditions import kept
from kcheck.semantics.execution import Refused, execute
from kcheck.semantics.machine import BudgetError
from kcheck.semantics.values import Unsupported
from kcheck.verdict import element as shown
from kcheck.witness import Subject, Writers, integers, together, with_integers

# operations of the CTAs that write an element, and of the element itself, that are looked at
ROWS, PLACES = 1 << 25, 1 << 20
# values that are computed at once
AT_ONCE = 1 << 21


@dataclass
class Contrast:
    """What one element is in the reference (root 0) and in the subject (root 1).

    `made`: the instruction that made each place, -1 for symbols and constants that none made.
    `formats`: dtypes of each input. `launches`: of both sides. `given`: the input that it was made
    on; its integers decide addresses, so they stay as they are.
    """

    slice: Slice
    made: NDArray[np.int64]
    formats: dict[str, set[str]]
    launches: tuple[Launch, ...]
    given: Mapping[str, Any]

    def symbol(self, i: int) -> str:
        """`A[0,3]`."""
        name, at = self.slice.names[i]
        for launch in self.launches:
            if name in launch.buffers:
                return shown(name, launch.buffers[name].index(at))
        return name

    def point(self, inputs: Mapping[str, Any]) -> NDArray[np.float64]:
        """The numbers of the symbols in arrays by input name."""
        names = self.slice.names
        return np.array([float(inputs[name][i]) for name, i in names], np.float64)

    def inputs(self, point: NDArray[np.float64], rest: float = 0.0) -> dict[str, Any]:
        """Arrays by input name; what is no symbol here is `rest`, or what the user promises."""
        fixed = {name for launch in self.launches for name in integers(launch, self.given)}
        arrays = {
            name: values if name in fixed else np.full(np.size(values), rest)
            for name, values in self.given.items()
        }
        for (name, i), value in zip(self.slice.names, point.tolist(), strict=True):
            arrays[name][i] = value
        return kept(arrays, *self.launches)

    def rounded(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers (symbols, n) as the formats of their inputs hold them, 0 where none does, and
        as the user promises them.
        """
        out = points.copy()
        owner = np.array([name for name, _ in self.slice.names])
        for name, kinds in self.formats.items():
            mine = owner == name
            out[mine] = fitted(out[mine], kinds)
            if mine.any():
                out[mine] = kept({name: out[mine]}, *self.launches)[name]
        return out

    def gaps(self, points: NDArray[np.float64], widen: bool) -> NDArray[np.float64]:
        """How far apart both values are at each of the points (symbols, n), relative to their
        size; 0 where the enclosures meet.
        """
        parts = []
        for points_here in self._parts(points):
            n = points_here.shape[1]
            store = self._replay(points_here, widen)
            ends = store.read(self.slice.roots[:, None] * n + np.arange(n)).ends
            parts.append(_gap(ends))
        return np.concatenate(parts) if parts else np.zeros(0)

    def at(self, places: NDArray[np.int64], points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The middles of some places (places, n) at points (symbols, n); NaN where unbounded."""
        parts = []
        for points_here in self._parts(points):
            n = points_here.shape[1]
            low, high = (
                self._replay(points_here, False).read(places[:, None] * n + np.arange(n)).ends
            )
            with np.errstate(all="ignore"):
                middle = low / 2 + high / 2
            parts.append(np.where(np.isfinite(middle), middle, np.nan))
        return np.concatenate(parts, axis=1)

    def _parts(self, points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        size = max(AT_ONCE // self.slice.size, 1)
        return [points[:, i : i + size] for i in range(0, points.shape[1], size)]

    def _replay(self, points: NDArray[np.float64], widen: bool) -> Any:
        limits.check()
        domain = EnclosureDomain({"": points}, widen)
        symbols = domain.input("", points.size).reshape(points.shape)
        return self.slice.replay(domain, symbols, points.shape[1])


def _gap(ends: Ends) -> NDArray[np.float64]:
    (low, floor), (high, top) = ends
    with np.errstate(all="ignore"):
        gap = np.maximum(floor - high, low - top)
        size = np.maximum(np.maximum(abs(low), abs(high)), abs(floor)) + 1e-300
        return np.where(gap > 0, np.minimum(gap / size, 1), 0.0)


def contrast(
    writers: Writers, element: tuple[str, int], inputs: dict[str, Any], identify: bool = False
) -> Contrast | None:
    """The graphs of an element; None where they can't be had, or are too large.

    `inputs`: some: integers are what they say, and the stores of a CTA may hang on them.
    `identify`: float literals stand for the numbers that they were rounded from. No law of the
    exact engine is used, so that an error of it is found, unless a branch can't do without.
    """
    for deciding in (False, True):
        domain = TermDomain(TracedDag(ROWS)) if deciding else _Undecided(TracedDag(ROWS))
        try:
            return _contrast(domain, writers, element, inputs, identify)
        except (Refused, Unsupported):
            continue
        except (BudgetError, BudgetSpent):
            return None
    return None


class _Undecided(TermDomain):
    """Comparisons stay open."""

    def decide(self, p: TermValue) -> NDArray[np.int8]:
        return np.full(p.shape, -1, np.int8)


def _contrast(
    domain: TermDomain,
    writers: Writers,
    element: tuple[str, int],
    inputs: dict[str, Any],
    identify: bool,
) -> Contrast | None:
    dag = domain.dag
    assert isinstance(dag, TracedDag)
    reals: Reals[Any] = Reals(domain)
    dag.where = lambda: reals.at
    roots = []
    for i, side in enumerate(writers.sides):
        reals.at = -1
        chosen = together(side, writers.of(i, element, inputs))
        launch = with_integers(side.launch, inputs)
        run = execute(side.kernel, launch, domain, ctas=chosen, reals=reals, identify=identify)
        tensor = side.launch.buffers[element[0]]
        out = read_output(run, tensor, slice(element[1], element[1] + 1))
        ident = int(out.ids[0])
        if out.unwritten[0] or SYMBOLIC < ident < FINITE or ident >= CASED:
            return None
        roots.append(int(out.v.n[0]))
    found = slice_of(domain, roots)
    if found.size > PLACES:
        return None
    made = np.where(found.row >= 0, dag.places(np.maximum(found.row, 0)), -1)
    launches = tuple(side.launch for side in writers.sides)
    return Contrast(found, made, formats(*writers.sides), launches, inputs)


def fitted(numbers: NDArray[np.float64], kinds: Collection[str]) -> NDArray[np.float64]:
    """Numbers as the float formats among some hold them, 0 where none does."""
    for kind in sorted(FLOATS.intersection(kinds)):
        with np.errstate(over="ignore"):
            numbers = values(Ieee({}).patterns(numbers, kind), kind)
    return np.where(np.isfinite(numbers), numbers, 0)


def formats(*sides: Subject) -> dict[str, set[str]]:
    """The dtypes of each parameter, by name."""
    kinds: dict[str, set[str]] = {}
    for side in sides:
        for param in side.launch.params:
            if hasattr(param, "dtype"):
                kinds.setdefault(param.name, set()).add(param.dtype)
    return kinds
