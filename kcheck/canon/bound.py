"""The field engine with the facts that its error bound needs (docs/identity-testing.md).

A product domain: residues, and beside them per vector a bound on degrees and coefficients
(`canon.size`); where exponentials occur also, per lane, which indeterminates a value depends on
(`canon.support`). It takes the decisions that the field takes, so one run gives the comparison
and the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.domain import Bool, Index
from kcheck.canon.exponents import Condition, Exponents
from kcheck.canon.field import FieldDomain
from kcheck.canon.known import ROOTS, Known, Number
from kcheck.canon.residues import FieldStore, FieldValue
from kcheck.canon.size import SYMBOL, Size, Zero, of_constants
from kcheck.canon.size import ZERO as NOTHING
from kcheck.canon.support import EXPONENTIAL, NONZERO, REST, Support, Supports
from kcheck.canon.theorem import Claim


class BoundValue:
    """A field value, a bound on the size of its lanes, and their support (None: not tracked)."""

    __slots__ = ("size", "support", "value")

    def __init__(self, value: FieldValue, size: Size, support: Support | None) -> None:
        self.value, self.size, self.support = value, size, support

    @property
    def shape(self) -> tuple[int, ...]:
        """The lanes' shape."""
        return self.value.shape

    def __getitem__(self, index: Any) -> BoundValue:
        """Lanes picked by a NumPy index."""
        support = self.support
        if support is not None:
            lanes = np.arange(int(np.prod(self.shape, dtype=np.int64))).reshape(self.shape)[index]
            support = support.broadcast(self.shape).reshape((-1,))[lanes]
        return BoundValue(self.value[index], self.size, support)

    def reshape(self, shape: tuple[int, ...]) -> BoundValue:
        """The same lanes in another shape."""
        support = self.support
        if support is not None:
            support = support.broadcast(self.shape).reshape(shape)
        return BoundValue(self.value.reshape(shape), self.size, support)


class BoundStore:
    """A memory of `n` values, all 0, under one bound on their size."""

    def __init__(self, cells: FieldStore, supports: Supports | None, n: int) -> None:
        self._cells, self._size, self._supports = cells, NOTHING, supports
        self._support = supports.blank((n,)) if supports else None

    def read(self, index: Index) -> BoundValue:
        """The cells at `index`."""
        support = self._support[index] if self._support else None
        return BoundValue(self._cells.read(index), self._size, support)

    def write(self, index: Index, value: BoundValue) -> None:
        """Put `value` into the cells."""
        self._cells.write(index, value.value)
        self._size = self._size.hull(value.size)
        self._put(index, value.support)

    def _put(self, index: Index, support: Support | None) -> None:
        if self._support and support:
            pairs = zip(self._support.arrays, support.broadcast(index.shape).arrays, strict=True)
            for cells, lanes in pairs:
                cells[:, index] = lanes

    def add(self, index: Index, value: BoundValue) -> None:
        """Add to the cells; a cell that occurs k times gets all k summands."""
        self._cells.add(index, value.value)
        flat = index.ravel()
        order = flat.argsort(kind="stable")
        rank = np.arange(flat.size) - flat[order].searchsorted(flat[order])
        turns = int(rank.max(initial=-1)) + 1
        self._size = self._size + value.size.sums(turns)
        if self._support and self._supports and value.support:
            lanes = value.support.broadcast(index.shape).reshape((-1,))
            for turn in range(turns):
                pick = order[rank == turn]
                total = self._supports.add(self._support[flat[pick]], lanes[pick])
                self._put(flat[pick], total)


class BoundDomain:
    """The operations. `inputs`: names and shapes of the symbolic tensors, outermost axis first.

    Exponents are tracked if the field has two levels or more. Raises what the field raises.
    """

    def __init__(
        self, field: FieldDomain, inputs: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self.field = field
        key = b"bound" + str(field.seed).encode()
        tracked = field.levels > 1
        primes = field.primes.ravel().tolist()
        self.supports = Supports(key, inputs or {}, primes) if tracked else None
        self.exponents = Exponents(key, field, self.supports) if self.supports else None
        self._tested = Zero()
        self._decisions = 0
        self._decided: set[int] = set()
        self._symbols = False
        # inputs decide where something is infinite
        self._named = False

    def _of(
        self,
        value: FieldValue,
        size: Size,
        op: Callable[[Supports, Any, Any], Support],
        a: BoundValue,
        b: BoundValue,
    ) -> BoundValue:
        support = op(self.supports, a.support, b.support) if self.supports else None
        return BoundValue(value, size, support)

    def constants(self, values: Sequence[Number], index: Index) -> BoundValue:
        """Lane i holds `values[index[i]]`; random integers stand for irrational constants."""
        exact = [self.field.symbols.rational(v) for v in values]
        self._symbols = self._symbols or any(isinstance(v, Known) for v in values)
        support = None
        if self.supports:
            ids = self.supports.forms.constants(exact)
            support = self.supports.blank(index.shape, ids[index])
        size = of_constants(map(self.field.symbols.length, values))
        return BoundValue(self.field.constants(exact, index), size, support)

    def input(self, name: str, n: int) -> BoundValue:
        """The symbols of a tensor."""
        support = self.supports.input(name, n) if self.supports else None
        return BoundValue(self.field.input(name, n), SYMBOL, support)

    def store(self, n: int) -> BoundStore:
        """A new memory."""
        return BoundStore(self.field.store(n), self.supports, n)

    def where(self, mask: Bool, a: BoundValue, b: BoundValue) -> BoundValue:
        """`a` where the concrete mask holds, else `b`."""
        value = self.field.where(mask, a.value, b.value)
        size = a.size.hull(b.size)
        return self._of(value, size, lambda s, x, y: s.where(mask, x, y), a, b)

    def stack(self, values: Sequence[BoundValue]) -> BoundValue:
        """Values of one shape along a new first axis."""
        size = values[0].size
        for v in values[1:]:
            size = size.hull(v.size)
        support = None
        if self.supports:
            parts = [v.support.broadcast(v.shape) for v in values if v.support]
            support = Support.join(lambda *a: np.stack(a, axis=1), parts)
        return BoundValue(self.field.stack([v.value for v in values]), size, support)

    def neg(self, a: BoundValue) -> BoundValue:
        support = self.supports.neg(a.support) if self.supports and a.support else None
        return BoundValue(self.field.neg(a.value), a.size, support)

    def add(self, a: BoundValue, b: BoundValue) -> BoundValue:
        value = self.field.add(a.value, b.value)
        return self._of(value, a.size + b.size, Supports.add, a, b)

    def sub(self, a: BoundValue, b: BoundValue) -> BoundValue:
        value = self.field.sub(a.value, b.value)
        return self._of(value, a.size + b.size, lambda s, x, y: s.add(x, s.neg(y)), a, b)

    def mul(self, a: BoundValue, b: BoundValue) -> BoundValue:
        value = self.field.mul(a.value, b.value)
        return self._of(value, a.size * b.size, Supports.mul, a, b)

    def fma(self, a: BoundValue, b: BoundValue, c: BoundValue) -> BoundValue:
        value = self.field.fma(a.value, b.value, c.value)
        support = None
        if self.supports and a.support and b.support and c.support:
            support = self.supports.add(self.supports.mul(a.support, b.support), c.support)
        return BoundValue(value, a.size * b.size + c.size, support)

    def matmul(self, a: BoundValue, b: BoundValue) -> BoundValue:
        """Batched product of (..., M, K) and (..., K, N)."""
        value = self.field.matmul(a.value, b.value)
        size = (a.size * b.size).sums(a.shape[-1])
        return self._of(value, size, Supports.matmul, _full(a), _full(b))

    def div(self, a: BoundValue, b: BoundValue) -> tuple[BoundValue, Bool]:
        """The quotient, and the lanes where the divisor is identically zero."""
        value, zero = self.field.div(a.value, b.value)
        self._decisions += zero.size
        self._tested = self._tested.hull(b.size.apart(NOTHING))
        if zero.any():
            self._decide(zero, b)
        return self._of(value, a.size * b.size.inverse(), Supports.div, a, b), zero

    def _decide(self, mask: Bool, *values: BoundValue) -> None:
        """Values were taken for equal or zero in some lanes."""
        if self.supports:
            for v in values:
                assert v.support is not None
                cone = np.broadcast_to(v.support.cone, mask.shape)
                self._decided.update(np.unique(cone[mask]).tolist())

    def exp2(self, a: BoundValue) -> BoundValue:
        value = self.field.exp2(a.value)
        supports, exponents = self.supports, self.exponents
        assert supports is not None
        assert exponents is not None
        assert a.support is not None
        support = supports.without_symbols(a.support)
        rest = exponents.rest_size(support, a.size)
        self._tested = self._tested.hull(rest.apart(rest))
        sets = exponents.record(a.value, support, rest)
        out = supports.blank(a.shape)
        out.flags[[NONZERO, REST, EXPONENTIAL]] = True
        out.cone = supports.union(sets, np.broadcast_to(a.support.cone, a.shape))
        constants = [supports.forms[i][0] for i in np.unique(support.form).tolist()]
        bits = float(max(math.ceil(abs(c)) for c in constants))
        return BoundValue(value, Size(e=1.0, bits=2 * bits, shift=bits), out)

    def maximum(self, a: BoundValue, b: BoundValue) -> BoundValue:
        """The atom of the set of arguments."""
        value, single = self.field.max_union(a.value, b.value)
        self._tested = self._tested.hull(a.size.apart(a.size)).hull(b.size.apart(b.size))
        self._tested = self._tested.hull(a.size.apart(b.size))
        size = SYMBOL.hull(a.size).hull(b.size) if single.any() else SYMBOL
        support = None
        if self.supports and self.exponents and a.support and b.support:
            cone = self.supports.union(a.support.cone, b.support.cone)
            form = np.zeros(value.shape, np.int64)
            form[~single] = -1 - self.exponents.atom_ids(value[~single])
            support = self.supports.blank(value.shape, form)
            if single.any():
                support = self.supports.where(single, a.support, support)
            support.cone = np.broadcast_to(cone, value.shape)
        return BoundValue(value, size, support)

    def minimum(self, a: BoundValue, b: BoundValue) -> BoundValue:
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def compare(self, op: str, a: BoundValue, b: BoundValue) -> BoundValue:
        """The field's indicator."""
        value = self.field.compare(op, a.value, b.value)
        difference = a.size + b.size
        self._tested = self._tested.hull(difference.apart(difference))
        decided = self.field.decide(value) >= 0
        if decided.any():
            self._decide(decided, a, b)
        return self._atom(value, [a, b], indicator=True)

    def select(self, p: BoundValue, a: BoundValue, b: BoundValue) -> BoundValue:
        """b + p (a - b)."""
        return self.fma(p, self.sub(a, b), b)

    def atom(self, name: str, args: Sequence[BoundValue]) -> BoundValue:
        """A new indeterminate for each list of arguments."""
        value = self.field.atom(name, [a.value for a in args])
        for a in args:
            self._tested = self._tested.hull(a.size.apart(a.size))
        return self._atom(value, args)

    def _atom(
        self, value: FieldValue, args: Sequence[BoundValue], indicator: bool = False
    ) -> BoundValue:
        support = None
        if self.supports and self.exponents:
            cone = np.zeros(value.shape, np.int64)
            for a in args:
                assert a.support is not None
                cone = self.supports.union(cone, np.broadcast_to(a.support.cone, value.shape))
            ids = self.exponents.atom_ids(value)
            if indicator:
                support = self.supports.opaque(ids, cone)
            else:
                support = self.supports.blank(value.shape, -1 - ids)
                support.cone = cone
        return BoundValue(value, SYMBOL, support)

    def decide(self, p: BoundValue) -> NDArray[np.int8]:
        """Where an indicator is 0 or 1 in all trials."""
        decided = self.field.decide(p.value)
        known = decided >= 0
        if known.any():
            self._tested = self._tested.hull(p.size.apart(Size()))
            self._decisions += known.size
            self._decide(known, p)
        return decided

    def identities(self, a: BoundValue) -> Index | None:
        """The field's; no bound is claimed of what is infinite on a condition."""
        self._named = True
        return self.field.identities(a.value)

    def equal(self, a: BoundValue, b: BoundValue) -> Bool:
        """Where level 0 agrees in all trials; a test like the others, for the executor uses it."""
        same = self.field.equal(a.value, b.value)
        self._decisions += same.size
        self._tested = self._tested.hull(a.size.apart(b.size))
        if same.any():
            self._decide(same, a, b)
        return same

    # the bound

    def claim(self, pairs: Iterable[tuple[BoundValue, BoundValue]]) -> Claim:
        """What the equality of these outputs (with all decisions on the way) rests on."""
        zero, condition = self._tested, Condition()
        cones: set[int] = set(self._decided)
        for a, b in pairs:
            zero = zero.hull(a.size.apart(b.size))
            if self.supports and a.support and b.support:
                union = self.supports.union(a.support.cone, b.support.cone)
                cones.update(np.unique(union).tolist())
        if self.exponents:
            for cone in sorted(cones):
                condition = condition.hull(self.exponents.condition(cone))
        if self._named:
            condition = condition.hull(Condition("no theorem for infinities that inputs choose"))
        roots = tuple(sorted(int(ROOTS[symbol]) for symbol in self.field.roots))
        return Claim(zero, condition, self.tests, self.hashed, self._relations, roots)

    @property
    def _relations(self) -> int:
        """Pairs of exponents, one of which may only seem to be a multiple of the other because
        random integers stand for irrational constants; 0 if none do.
        """
        if not self._symbols:
            return 0
        return 1 + (self.exponents.count**2 if self.exponents else 0)

    @property
    def hashed(self) -> int:
        """Values that were hashed to 128 bits."""
        atoms = self.field.atoms + self.field.max_sets
        return atoms + (self.exponents.rests if self.exponents else 0)

    @property
    def tests(self) -> int:
        """Comparisons on whose outcome the run depended, beside that of the outputs."""
        pairs = self.field.atoms**2 + self.field.max_sets**2
        if self.exponents:
            pairs += 2 * self.exponents.rests**2
        return pairs + self._decisions


def _full(a: BoundValue) -> BoundValue:
    support = a.support.broadcast(a.shape) if a.support else None
    return BoundValue(a.value, a.size, support)
