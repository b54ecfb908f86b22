"""Which indeterminates a value depends on, and how: what the theorem on exponentials needs.

Everything here is a safe approximation: an indeterminate that occurs is never missing, and a
dependence is `certain` only if it can't cancel, neither over the rationals nor modulo a prime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Bool
from kcheck.canon.forms import Forms
from kcheck.canon.interning import Ids, Sets

_NEVER = -(2**31) + 1
NONZERO, REST, EXPONENTIAL = range(3)


class Support:
    """Facts per lane; every array has its lanes behind one leading axis.

    A value is form + rest, where the form (canon.forms) is linear in atoms. Of the rest:
    `hull` (2 A, *lanes): minus the least and the greatest index along each of A axes of the
    inputs, the last axis being the atoms'; `degree` (T, *lanes): the total degree, 2 for more,
    in the elements of each of T tensors, the last being the atoms; `certain` (T, *lanes): the
    rest truly depends on that tensor. Of the value: `flags` (3, *lanes): not zero for certain,
    the rest may be other than zero, exponentials occur; `form` and `cone` (*lanes): the form's
    id, and the set of all exponents in the value or in arguments of its atoms.
    """

    __slots__ = ("certain", "cone", "degree", "flags", "form", "hull")

    def __init__(
        self,
        hull: NDArray[np.int32],
        degree: NDArray[np.int8],
        certain: Bool,
        flags: Bool,
        form: Ids,
        cone: Ids,
    ) -> None:
        self.hull, self.degree, self.certain = hull, degree, certain
        self.flags, self.form, self.cone = flags, form, cone

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays, with a leading axis."""
        return self.hull, self.degree, self.certain, self.flags, self.form[None], self.cone[None]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return np.broadcast_shapes(self.form.shape, self.cone.shape, self.flags.shape[1:])

    @staticmethod
    def join(op: Callable[..., NDArray[Any]], supports: Sequence[Support], *rest: Any) -> Support:
        """Apply a function array by array; it keeps the leading axis."""
        out = [op(*arrays, *rest) for arrays in zip(*(s.arrays for s in supports), strict=True)]
        return Support(out[0], out[1], out[2], out[3], out[4][0], out[5][0])

    def widen(self, ndim: int) -> Support:
        """The same lanes with at least `ndim` axes, new ones first."""
        missing = ndim - self.form.ndim
        if missing <= 0:
            return self
        return self.join(lambda a: a.reshape(len(a), *(1,) * missing, *a.shape[1:]), [self])

    def __getitem__(self, index: Any) -> Support:
        """Lanes at positions, for supports with one axis of lanes."""
        return self.join(lambda a: a[:, index], [self])

    def broadcast(self, shape: tuple[int, ...]) -> Support:
        """The same for all lanes of a shape."""
        return self.join(lambda a: np.broadcast_to(a, (len(a), *shape)), [self.widen(len(shape))])

    def reshape(self, shape: tuple[int, ...]) -> Support:
        """The same lanes in another shape."""
        return self.join(lambda a: a.reshape(len(a), *shape), [self])

    def copy(self) -> Support:
        """New arrays."""
        return self.join(np.copy, [self])


def align(a: Support, b: Support, ndim: int = 0) -> tuple[Support, Support]:
    """Both with equally many axes."""
    ndim = max(a.form.ndim, b.form.ndim, ndim)
    return a.widen(ndim), b.widen(ndim)


def _most(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """The greatest along an axis of lanes, which is kept."""
    most: NDArray[Any] = x.max(axis=axis, keepdims=True)
    return most


class Supports:
    """The operations. `inputs`: the tensors' names and shapes; others are not tracked.

    What is certain is certain modulo each of `primes` too: constants that are not zero are not
    zero there.
    """

    def __init__(
        self, key: bytes, inputs: Mapping[str, tuple[int, ...]], primes: Iterable[int] = ()
    ) -> None:
        self.shapes = {name: shape or (1,) for name, shape in inputs.items()}
        self.names = {name: t for t, name in enumerate(self.shapes)}
        ranks = [len(shape) for shape in self.shapes.values()]
        self.starts = np.cumsum([0, *ranks])  # first axis of each tensor; the atoms' at the end
        self.axes, self.tensors = int(self.starts[-1]) + 1, len(ranks) + 1
        self.forms = Forms(primes)
        self.cones = Sets(key, "cone")
        self._minus = self.forms.constants([Fraction(-1)])

    def blank(self, lanes: tuple[int, ...], form: Ids | None = None) -> Support:
        """Values that are their form, zero if there is none."""
        form = np.zeros(lanes, np.int64) if form is None else form
        flags = np.zeros((3, *lanes), bool)
        flags[NONZERO] = self.forms.nonzero(form)
        return Support(
            np.full((2 * self.axes, *lanes), _NEVER, np.int32),
            np.zeros((self.tensors, *lanes), np.int8),
            np.zeros((self.tensors, *lanes), bool),
            flags,
            form,
            np.zeros(lanes, np.int64),
        )

    def input(self, name: str, n: int) -> Support:
        """The elements 0 to n - 1 of an input."""
        out = self.blank((n,))
        out.flags[[NONZERO, REST]] = True
        if name not in self.names:
            out.degree[:] = 2  # might be anything
            out.hull[:] = -_NEVER
            return out
        t, shape = self.names[name], self.shapes[name]
        index = np.unravel_index(np.arange(n) % max(int(np.prod(shape)), 1), shape)
        axis = slice(self.starts[t], self.starts[t] + len(shape))
        out.hull[: self.axes][axis] = [-i for i in index]
        out.hull[self.axes :][axis] = index
        out.degree[t], out.certain[t] = 1, True
        return out

    def opaque(self, atoms: Ids, cone: Ids) -> Support:
        """Atoms that may vanish (indicators): no linear form."""
        out = self.blank(atoms.shape)
        out.hull[self.axes - 1], out.hull[-1] = -atoms, atoms
        out.degree[-1] = 1
        out.flags[REST] = True
        out.cone = cone
        return out

    def add(self, a: Support, b: Support) -> Support:
        """The sum or difference; a difference needs `neg` of b."""
        a, b = align(a, b)
        here, there = a.degree > 0, b.degree > 0
        certain = (a.certain & ~there) | (b.certain & ~here)
        both = here & there
        if both[:-1].any():
            certain |= (a.certain | b.certain) & both & self._disjoint(a.hull, b.hull)
        form, lost = self.forms.add(a.form, b.form)
        flags = a.flags | b.flags
        form = np.broadcast_to(form, flags.shape[1:])
        flags[NONZERO] = certain.any(axis=0) | (~flags[REST] & self.forms.nonzero(form))
        hull, degree = np.maximum(a.hull, b.hull), np.maximum(a.degree, b.degree)
        if lost.any():
            full = np.maximum(self._full_hull(a), self._full_hull(b))
            hull = np.where(lost, full, hull)
            degree[-1] = np.where(lost, np.maximum(degree[-1], 1), degree[-1])
            flags[REST] |= lost
            flags[NONZERO] &= ~lost
        return Support(hull, degree, certain, flags, form, self.union(a.cone, b.cone))

    def neg(self, a: Support) -> Support:
        """The same with its form negated."""
        form = self.forms.scale(a.form, self._minus)
        return Support(a.hull, a.degree, a.certain, a.flags, form, a.cone)

    def mul(self, a: Support, b: Support) -> Support:
        """The product."""
        a, b = align(a, b)
        first, second = self.constant(a), self.constant(b)
        if first.all():
            return self._scaled(b, a)
        if second.all():
            return self._scaled(a, b)
        out = self._product(a, b)
        for known, by, other in ((first, a, b), (second, b, a)):
            if known.any():
                out = self.where(known, self._scaled(other, self._constants_of(by, known)), out)
        return out

    def div(self, a: Support, b: Support) -> Support:
        """The quotient."""
        a, b = align(a, b)
        known = self.constant(b)
        if known.all():
            return self._scaled(a, b, invert=True)
        degree = np.where(self._full_degree(b) > 0, 2, 0).astype(np.int8)
        into = Support(b.hull, degree, b.certain & False, b.flags, b.form, b.cone)
        out = self._product(a, into)
        if known.any():
            out = self.where(known, self._scaled(a, self._constants_of(b, known), True), out)
        return out

    @staticmethod
    def _constants_of(a: Support, known: Bool) -> Support:
        """The forms where they are constants, else zero."""
        return Support(a.hull, a.degree, a.certain, a.flags, np.where(known, a.form, 0), a.cone)

    def constant(self, a: Support) -> Bool:
        """Where a value is a known constant."""
        constant: Bool = ~a.flags[REST] & ~self.forms.has_atoms(a.form)
        return constant

    def where(self, mask: Bool, a: Support, b: Support) -> Support:
        """`a` where the mask holds, else `b`."""
        a, b = align(a, b, mask.ndim)

        def pick(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
            chosen: NDArray[Any] = np.where(mask, x, y)
            return chosen

        return Support.join(pick, [a, b])

    def without_symbols(self, a: Support) -> Support:
        """The same with constant terms of the form in the rest where they are no exponents:
        those that contain the random integers of irrational constants (`canon.known`).
        """
        form, changed = self.forms.without_huge(a.form)
        if not changed.any():
            return a
        flags = a.flags.copy() | np.zeros_like(changed)
        flags[REST] |= changed
        return Support(a.hull, a.degree, a.certain, flags, form, a.cone)

    def matmul(self, a: Support, b: Support) -> Support:
        """Batched product of (..., M, K) and (..., K, N)."""
        a, b = align(a, b)
        if a.form.any() or b.form.any():
            return self._matmul_by_terms(a, b)
        degree = np.minimum(_most(a.degree, -1) + _most(b.degree, -2), 2).astype(np.int8)
        certain = self._certain_sums(a, b)
        flags = _most(a.flags, -1) | _most(b.flags, -2)
        flags[NONZERO] = certain.any(axis=0)
        return Support(
            np.maximum(_most(a.hull, -1), _most(b.hull, -2)),
            degree,
            certain,
            flags,
            np.zeros(flags.shape[1:], np.int64),
            self.union(self._union_along(a.cone, -1), self._union_along(b.cone, -2)),
        )

    def _certain_sums(self, a: Support, b: Support) -> Bool:
        """Where a tensor occurs in one factor only, and each summand has its own elements."""
        out: Bool = np.zeros((1, *(1,) * a.form.ndim), bool)
        for x, y, axis in ((a, b, -1), (b, a, -2)):
            here = x.certain.astype(np.float32)
            other = y.flags[NONZERO].astype(np.float32)
            term = (here @ other if axis == -1 else other @ here) > 0
            absent = _most(y.degree, -3 - axis) == 0
            out = out | (term & absent & self._all_disjoint(x.hull, axis))
        return out

    def _all_disjoint(self, hull: NDArray[np.int32], axis: int) -> Bool:
        """Per tensor: whether the elements of all entries along an axis are disjoint."""
        low, high = -hull[: self.axes], hull[self.axes :]
        order = low.argsort(axis=axis, kind="stable")
        low = np.moveaxis(np.take_along_axis(low, order, axis), axis, 0)
        high = np.moveaxis(np.take_along_axis(high, order, axis), axis, 0)
        apart = (np.maximum.accumulate(high)[:-1] < low[1:]) | (low[1:] == -_NEVER)
        disjoint: Bool = np.logical_or.reduceat(apart.all(axis=0), self.starts, axis=0)
        return np.expand_dims(disjoint, axis)

    def _union_along(self, cone: Ids, axis: int) -> Ids:
        parts = np.moveaxis(cone, axis, 0)
        out: Ids = parts[0]
        for part in parts[1:]:
            out = self.union(out, part)
        return np.expand_dims(out, axis)

    def _matmul_by_terms(self, a: Support, b: Support) -> Support:
        a = Support.join(lambda x: x[..., :, :, None], [a])
        b = Support.join(lambda x: x[..., None, :, :], [b])
        terms = self.mul(a, b)
        out = Support.join(lambda x: x[..., 0, :], [terms])
        for i in range(1, terms.shape[-2]):
            out = self.add(out, Support.join(lambda x, k: x[..., k, :], [terms], i))
        return out

    def _scaled(self, a: Support, by: Support, invert: bool = False) -> Support:
        form = self.forms.scale(a.form, by.form, invert)
        alive = self.forms.nonzero(by.form)
        shape = form.shape
        return Support(
            np.broadcast_to(a.hull, (len(a.hull), *shape)),
            np.broadcast_to(a.degree, (len(a.degree), *shape)),
            a.certain & alive,
            a.flags & alive,
            form,
            self.union(a.cone, by.cone),
        )

    def _product(self, a: Support, b: Support) -> Support:
        here, there = self._full_degree(a), self._full_degree(b)
        certain = (a.certain & b.flags[NONZERO] & (there == 0)) | (
            b.certain & a.flags[NONZERO] & (here == 0)
        )
        flags = a.flags | b.flags
        flags[REST] = True
        flags[NONZERO] = a.flags[NONZERO] & b.flags[NONZERO]
        certain[-1] = False
        return Support(
            np.maximum(self._full_hull(a), self._full_hull(b)),
            np.minimum(here + there, 2).astype(np.int8),
            certain,
            flags,
            np.zeros(flags.shape[1:], np.int64),
            self.union(a.cone, b.cone),
        )

    def union(self, x: Ids, y: Ids) -> Ids:
        """Unions of cones."""
        x, y = np.broadcast_arrays(x, y)
        if not y.any() or (x == y).all():
            return x
        return self.cones.union(x, y) if x.any() else y

    def _full_degree(self, a: Support) -> NDArray[np.int8]:
        """Degrees of the whole value, with the form's atoms."""
        if not a.form.any():
            return a.degree
        degree: NDArray[np.int8] = a.degree.copy()
        degree[-1] = np.maximum(degree[-1], self.forms.has_atoms(a.form))
        return degree

    def _full_hull(self, a: Support) -> NDArray[np.int32]:
        if not a.form.any():
            return a.hull
        low, high = self.forms.ranges(a.form)
        hull: NDArray[np.int32] = a.hull.copy()
        hull[self.axes - 1] = np.maximum(hull[self.axes - 1], np.where(high < 0, _NEVER, -low))
        hull[-1] = np.maximum(hull[-1], np.where(high < 0, _NEVER, high))
        return hull

    def _disjoint(self, a: NDArray[np.int32], b: NDArray[np.int32]) -> Bool:
        """Per tensor: the elements that occur in a and b are disjoint (some axis shows it)."""
        # greatest of one below the least of the other: high_a + (-low_b) < 0
        n = self.axes
        apart = (a[n:].astype(np.int64) + b[:n] < 0) | (b[n:].astype(np.int64) + a[:n] < 0)
        disjoint: Bool = np.logical_or.reduceat(apart, self.starts, axis=0)
        return disjoint
