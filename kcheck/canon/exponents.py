"""The exponents of a run, and whether those of one output satisfy the theorem on exponentials.

docs/identity-testing.md: an exponent is a rational multiple of a *rest*, plus a linear form in
atoms. The theorem holds for exponents whose rests and atoms can be put in an order such that each
is affine in an indeterminate that is absent from those before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from kcheck.canon.domain import Bool
from kcheck.canon.field import FieldDomain
from kcheck.canon.hashing import Permutation, Words, pack
from kcheck.canon.interning import Ids, Interner, SortedMap
from kcheck.canon.residues import FieldValue
from kcheck.canon.size import SYMBOL, Size, of_constants
from kcheck.canon.support import EXPONENTIAL, Support, Supports


class Condition(NamedTuple):
    """What holds for one set of exponents.

    `reason` is None where the theorem applies. `rests`: how many rests are in the basis; `span`:
    the greatest degree of an exponential as a monomial in the basis; `root`: the common
    denominator of constant exponents; `x`: the degree of the rests.
    """

    reason: str | None = None
    rests: int = 0
    span: float = 0.0
    root: int = 1
    x: float = 0.0

    def hull(self, other: Condition) -> Condition:
        """A bound for both."""
        return Condition(
            self.reason or other.reason,
            max(self.rests, other.rests),
            max(self.span, other.span),
            math.lcm(self.root, other.root),
            max(self.x, other.x),
        )


class Exponents:
    """Every argument of exp2, identified by residues up to sign, doubling and its form."""

    def __init__(self, key: bytes, field: FieldDomain, supports: Supports) -> None:
        self._field, self._supports = field, supports
        self._rests, self._permutation = Interner(), Permutation(key, "rest")
        self._support: list[Support] = []  # chunks in the order of ids
        self._sizes: list[Size] = []
        self._double: list[int] = []
        self._records: dict[int, tuple[int, int]] = {}  # element -> rest up to sign, form
        self._known = SortedMap()
        self._conditions: dict[int, Condition] = {}
        # residues at level 1 of the atoms in forms: (trials, atoms)
        self.atoms = Interner()
        self._atom_residues = np.zeros((field.trials, 1024), np.uint64)
        self._filled = np.zeros(1024, bool)
        self._form_sizes: dict[int, Size] = {}

    @property
    def rests(self) -> int:
        """Rests so far."""
        return self._rests.count

    @property
    def count(self) -> int:
        """Exponents so far."""
        return len(self._records)

    def atom_ids(self, value: FieldValue) -> Ids:
        """Ids of lanes that are new indeterminates, by level 0."""
        first, second = self._permutation.digest(pack(value.r[0]))
        ids, _ = self.atoms.intern(first, second)
        while self.atoms.count > self._filled.size:
            self._filled = np.concatenate([self._filled, np.zeros_like(self._filled)])
            grown = (self._atom_residues, np.zeros_like(self._atom_residues))
            self._atom_residues = np.concatenate(grown, axis=1)
        # without level 1 an atom can't be in an exponent until it is met whole
        if value.depth > 1 and not self._filled[ids].all():
            self._atom_residues[:, ids.ravel()] = value.r[1].reshape(self._field.trials, -1)
            self._filled[ids] = True
        return ids

    def rest_size(self, support: Support, size: Size) -> Size:
        """A bound for the rests of values of a given size."""
        out = size
        for form in np.unique(support.form).tolist():
            if form not in self._form_sizes:
                constant, terms = self._supports.forms[form]
                total = of_constants([constant])
                for _, factor in terms:
                    total = total + of_constants([factor]) * SYMBOL
                self._form_sizes[form] = total
            out = out.hull(size + self._form_sizes[form])
        return out

    def record(self, value: FieldValue, support: Support, size: Size) -> Ids:
        """The sets of one exponent each, per lane of the argument of exp2.

        `size` bounds the rests.
        """
        shape = value.shape
        support = support.broadcast(shape)
        rest = self._rest_residues(value, support).reshape(self._field.trials, -1)
        flat = support.reshape((-1,))
        ids = self._intern(rest, flat, size)
        codes = (ids + 1).astype(np.uint64) << np.uint64(32)
        codes |= (flat.form + (1 << 31)).astype(np.uint64)
        used, where, inverse = np.unique(codes, return_index=True, return_inverse=True)
        sets = self._known.find(used)
        new = np.flatnonzero(sets < 0)
        if new.size:
            sets[new] = self._supports.cones.elements(used[new], used[new])
            self._known.insert(used[new], sets[new])
            for n in new.tolist():
                i = int(where[n])
                self._records[int(sets[n])] = (int(ids[i]), int(flat.form[i]))
        return sets[inverse.reshape(shape)]

    def _rest_residues(self, value: FieldValue, support: Support) -> Words:
        """Level 1 of the argument minus its form; (trials, *lanes)."""
        p = self._field.primes[1]
        used, index = np.unique(support.form, return_inverse=True)
        table = np.zeros((len(p), len(used)), np.uint64)
        for n, form in enumerate(used.tolist()):
            constant, terms = self._supports.forms[form]
            for t, q in enumerate(p.tolist()):
                total = _modulo(constant, q)
                for atom, factor in terms:
                    total += _modulo(factor, q) * int(self._atom_residues[t, atom])
                table[t, n] = total % q
        p = p.reshape(-1, *(1,) * len(value.shape))
        out: Words = (value.r[1] + p - table[:, index.reshape(value.shape)]) % p
        return out

    def _intern(self, rest: Words, support: Support, size: Size) -> Ids:
        """Rests (-1 for zero); a rest and its negative have one id."""
        rest, zero = self._canonical(rest)
        ids = np.full(zero.shape, -1, np.int64)
        lanes = np.flatnonzero(~zero)
        first, second = self._permutation.digest(pack(rest[:, lanes]))
        ids[lanes], fresh = self._rests.intern(first, second)
        if fresh.size:
            where = lanes[fresh]
            new = ids[where]
            self._support.append(support[where])
            self._sizes += [size] * fresh.size
            self._double += [-1] * fresh.size
            self._link(rest[:, where], new)
        return ids

    def _canonical(self, rest: Words) -> tuple[Words, Bool]:
        """Of r and -r one and the same, and where it is zero."""
        p = self._field.primes[1][:, None]
        zero = (rest == 0).all(axis=0)
        trial = (rest != 0).argmax(axis=0)
        lanes = np.arange(rest.shape[1])
        negative = rest[trial, lanes] > p[trial, 0] // np.uint64(2)
        rest = np.where(negative & (rest != 0), p - rest, rest)
        return rest, zero

    def _link(self, rest: Words, new: Ids) -> None:
        """Point from each rest to its double, where both are known."""
        p = self._field.primes[1][:, None]
        twice = rest * np.uint64(2) % p
        half = (rest + p * (rest & np.uint64(1))) >> np.uint64(1)
        for other, upward in ((twice, True), (half, False)):
            canonical = self._canonical(other)[0]
            found = self._rests.find(*self._permutation.digest(pack(canonical)))
            for n in np.flatnonzero(found >= 0).tolist():
                low, high = (int(new[n]), int(found[n])) if upward else (int(found[n]), int(new[n]))
                self._double[low] = high

    # the condition

    def condition(self, cone: int) -> Condition:
        """What holds for a set of exponents."""
        if cone not in self._conditions:
            self._conditions[cone] = self._examine(self._supports.cones.expand(cone))
        return self._conditions[cone]

    def _examine(self, elements: Ids) -> Condition:
        rests: dict[int, list[Fraction]] = {}
        atoms: dict[int, list[Fraction]] = {}
        root, spans = 1, []
        for element in elements.tolist():
            rest, form = self._records[element]
            constant, terms = self._supports.forms[form]
            root = math.lcm(root, constant.denominator)
            parts: list[tuple[list[Fraction], Fraction]] = []
            if rest >= 0:
                top, ratio = self._root(rest)
                parts.append((rests.setdefault(top, []), ratio))
            parts += [(atoms.setdefault(atom, []), factor) for atom, factor in terms]
            for coefficients, factor in parts:
                coefficients.append(factor)
            spans.append(parts)
        units = {id(c): _unit(c) for c in (*rests.values(), *atoms.values())}
        span = max((sum(abs(f / units[id(c)]) for c, f in parts) for parts in spans), default=0)
        return Condition(
            self._peel(sorted(rests), sorted(atoms)),
            len(rests),
            float(span),
            root,
            max((self._sizes[i].x for i in rests), default=0.0),
        )

    def _root(self, rest: int) -> tuple[int, Fraction]:
        ratio = Fraction(1)
        seen = {rest}
        while self._double[rest] >= 0 and self._double[rest] not in seen:
            rest, ratio = self._double[rest], ratio / 2
            seen.add(rest)
        return rest, ratio

    def _peel(self, rests: Sequence[int], atoms: Sequence[int]) -> str | None:
        """None if an order as the theorem asks for exists, else why it was not found."""
        s = self._supports
        if len(self._support) > 1:
            self._support = [_concatenate(self._support)]
        unit = s.opaque(np.array(atoms, np.int64), np.zeros(len(atoms), np.int64))
        unit.certain[-1] = True
        items = unit
        if rests:
            mine = self._support[0][np.array(rests)]
            if mine.flags[EXPONENTIAL].any():
                return "an exponent contains an exponential"
            items = _concatenate([mine, unit])
        left = np.arange(items.form.size)
        while left.size:
            free = self._free(items[left])
            if not free.any():
                return f"{left.size} exponents have no indeterminate of their own"
            left = left[~free]
        return None

    def _free(self, items: Support) -> Bool:
        """Items affine, for certain, in elements of one tensor that occur in no other item."""
        s = self._supports
        free = np.zeros(items.form.size, bool)
        for t in range(s.tensors):
            involved = np.flatnonzero(items.degree[t] > 0)
            good = (items.degree[t, involved] == 1) & items.certain[t, involved]
            if not good.any():
                continue
            stop = s.axes if t == s.tensors - 1 else int(s.starts[t + 1])
            alone = np.zeros(involved.size, bool)
            for axis in range(int(s.starts[t]), stop):
                low = -items.hull[axis, involved].astype(np.int64)
                high = items.hull[s.axes + axis, involved].astype(np.int64)
                alone |= _apart(low, high)
            free[involved[alone & good]] = True
        return free


def _concatenate(supports: Sequence[Support]) -> Support:
    return Support.join(lambda *arrays: np.concatenate(arrays, axis=1), supports)


def _apart(low: Ids, high: Ids) -> Bool:
    """The intervals that meet no other."""
    order = low.argsort(kind="stable")
    reach = np.maximum.accumulate(high[order])
    below = np.concatenate([[True], reach[:-1] < low[order][1:]])
    above = np.concatenate([high[order][:-1] < low[order][1:], [True]])
    out = np.zeros(low.size, bool)
    out[order] = below & above
    return out


def _modulo(value: Fraction, p: int) -> int:
    return value.numerator * pow(value.denominator, -1, p) % p


def _unit(factors: list[Fraction]) -> Fraction:
    """The greatest rational of which all are integer multiples."""
    denominator = math.lcm(*(f.denominator for f in factors))
    return Fraction(math.gcd(*(int(f * denominator) for f in factors)), denominator)
