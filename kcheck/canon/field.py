"""The field engine: a real is a vector of residues modulo random chains of primes.

Level k of a value is its residue modulo p[k] (canon.chains). exp2 at level k is 2 to the power of
the argument's residue at level k + 1, so exp2(a + b) = exp2(a) exp2(b) and exp2(1) = 2 hold
exactly, and a result lacks its deepest level. Each trial has a chain of its own. Equal reals have
equal residues in every trial; docs/identity-testing.md bounds the chance of the converse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kcheck.canon import chains, modular, pools
from kcheck.canon.domain import Bool, Collision, Index, LevelsExhausted
from kcheck.canon.hashing import Permutation, Residues, Words, pack
from kcheck.canon.known import ROOTS, Known, Number, RandomSymbols
from kcheck.canon.residues import FieldInput, FieldStore, FieldValue, align, widen
from kcheck.canon.sets import MaxSets

# chains to draw from, below which roots are not related to their squares
LEAST = 64
# symbols of one input whose residues are kept; larger inputs would outgrow the lanes in flight
KEPT = 1 << 20


class FieldDomain:
    """Identity testing with `trials` independent chains of `levels` primes, drawn from `seed`.

    Levels are those that are ever needed: a value under n nested exp2 needs n + 1. The domain
    raises LevelsExhausted for an exp2 too many (`deeper`: takes it for an atom) and Collision where
    chance struck (draw a new seed). `atoms` and `max_sets` count what entered the tables, for the
    error bound.

    `roots`: those of `canon.known.ROOTS` that are roots modulo all primes; empty afterwards if too
    few chains have them. `unrelated`: the others that occurred.
    """

    def __init__(
        self,
        seed: int,
        trials: int = 4,
        levels: int = 1,
        *,
        deeper: bool = False,
        roots: Collection[str] = (),
    ) -> None:
        self.seed, self.trials, self.levels, self.deeper = seed, trials, levels, deeper
        squares = [int(ROOTS[symbol]) for symbol in roots]
        few = bool(squares) and pools.pool(levels, squares) < LEAST
        self.roots: frozenset[str] = frozenset() if few else frozenset(roots)
        self.unrelated: set[str] = set()
        self._key = hashlib.sha256(f"kcheck {seed} {trials} {levels}".encode()).digest()
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(self._key, "big")))
        self.primes = chains.draw(rng, trials, levels, () if few else squares)
        self.atoms = 0
        self._moduli: dict[tuple[int, int], Words] = {}
        self._powers = modular.power_tables(self.primes) if levels > 1 else None
        self._constants: dict[Fraction, Words] = {}
        self._inputs: dict[str, FieldValue] = {}
        self._functions: dict[tuple[str, int], tuple[Permutation, Residues]] = {}
        self._sets = MaxSets(self._key, self.primes)
        self._identities = Permutation(self._key, "identities")
        self.symbols = RandomSymbols(self._key, self.roots, self.primes.ravel().tolist())

    @property
    def max_sets(self) -> int:
        """Sets whose maximum was taken, and their elements."""
        return self._sets.count

    @property
    def opaque(self) -> bool:
        """Functions without algebra occurred."""
        return self.atoms > 0 or self.max_sets > 0

    def _p(self, r: Words) -> Words:
        """The primes, shaped to broadcast over residues."""
        key = (r.shape[0], r.ndim)
        if key not in self._moduli:
            shape = (r.shape[0], self.trials, *(1,) * (r.ndim - 2))
            self._moduli[key] = np.ascontiguousarray(self.primes[: r.shape[0]]).reshape(shape)
        return self._moduli[key]

    def constants(self, values: Sequence[Number], index: Index) -> FieldValue:
        """Lane i holds `values[index[i]]`; Collision if a prime divides a denominator.

        Random integers stand for irrational constants, the same ones in all trials.
        """
        used = {s for v in values if isinstance(v, Known) for s, _ in v.powers}
        self.unrelated |= used & ROOTS.keys() - self.roots
        table = np.stack([self._constant(self.symbols.rational(v)) for v in values], axis=-1)
        return FieldValue(table.take(index, axis=2))

    def _constant(self, value: Fraction) -> Words:
        if value not in self._constants:
            flat = []
            for p in self.primes.ravel().tolist():
                if value.denominator % p == 0:
                    raise Collision(f"the prime {p} divides the denominator of {value}")
                flat.append(value.numerator * pow(value.denominator, -1, p) % p)
            self._constants[value] = np.array(flat, np.uint64).reshape(self.primes.shape)
        return self._constants[value]

    def input(self, name: str, n: int) -> FieldValue:
        """Uniform residues, independent over levels and trials; fixed by the seed and `name`."""
        function = Residues(self._key, self.primes, "input", name)
        if n > KEPT:
            return FieldInput(function, n)
        known = self._inputs.get(name)
        if known is None or known.r.shape[2] < n:
            lanes = np.arange(n, dtype=np.uint64)
            known = self._inputs[name] = FieldValue(function(lanes, lanes))
        return FieldValue(known.r[:, :, :n])

    def store(self, n: int) -> FieldStore:
        """A new memory."""
        return FieldStore(self.primes, n)

    def where(self, mask: Bool, a: FieldValue, b: FieldValue) -> FieldValue:
        """`a` where the concrete mask holds, else `b`."""
        x, y = align(a, b, mask.ndim)
        return FieldValue(np.where(mask, x, y))

    def stack(self, values: Sequence[FieldValue]) -> FieldValue:
        """Values of one shape along a new first axis."""
        depth = min(v.depth for v in values)
        return FieldValue(np.stack([v.r[:depth] for v in values], axis=2))

    def neg(self, a: FieldValue) -> FieldValue:
        p = self._p(a.r)
        out = p - a.r
        # unsigned: x - p is huge while x < p, so the minimum reduces
        return FieldValue(np.minimum(out, out - p, out=out))

    def add(self, a: FieldValue, b: FieldValue) -> FieldValue:
        x, y = align(a, b)
        out = x + y
        return FieldValue(np.minimum(out, out - self._p(out), out=out))

    def sub(self, a: FieldValue, b: FieldValue) -> FieldValue:
        x, y = align(a, b)
        out = x - y
        return FieldValue(np.minimum(out, out + self._p(out), out=out))

    def mul(self, a: FieldValue, b: FieldValue) -> FieldValue:
        x, y = align(a, b)
        out = x * y
        # measured: 2 ns an element, against 3 to 10 ns for a floating-point reciprocal
        return FieldValue(np.remainder(out, self._p(out), out=out))

    def fma(self, a: FieldValue, b: FieldValue, c: FieldValue) -> FieldValue:
        x, y = align(a, b, len(c.shape))
        depth = min(len(x), c.depth)
        out = x[:depth] * y[:depth]
        z = widen(c.r[:depth], out.ndim - 2)
        if np.broadcast_shapes(out.shape, z.shape) == out.shape:
            out += z
        else:
            out = out + z
        return FieldValue(np.remainder(out, self._p(out), out=out))

    def matmul(self, a: FieldValue, b: FieldValue) -> FieldValue:
        """Batched product of (..., M, K) and (..., K, N)."""
        x, y = align(a, b)
        primes = self.primes.reshape(-1)[: len(x) * self.trials]
        rows = (len(primes), *x.shape[2:]), (len(primes), *y.shape[2:])
        out = modular.matmul(x.reshape(rows[0]), y.reshape(rows[1]), primes)
        return FieldValue(out.reshape(len(x), self.trials, *out.shape[1:]))

    def div(self, a: FieldValue, b: FieldValue) -> tuple[FieldValue, Bool]:
        """The quotient, and where the divisor is 0 in all trials; Collision if only in some."""
        x, y = align(a, b)
        zero: Bool = (y[0] == 0).all(axis=0)
        if zero.any():
            y = np.where(zero, np.uint64(1), y)
        if not y.all():
            raise Collision("a divisor vanished in some trials only")
        primes = self.primes.reshape(-1)[: len(y) * self.trials]
        out = modular.inverse(y.reshape(len(primes), -1), primes).reshape(y.shape) * x
        out %= self._p(out)
        return FieldValue(out), np.broadcast_to(zero, out.shape[2:])

    def exp2(self, a: FieldValue) -> FieldValue:
        """2 to the power of each lane; the result has one level less than the argument."""
        depth = a.depth - 1
        if depth < 1 and self.deeper:
            return self.atom("exp2", [a])
        if depth < 1 or self._powers is None:
            raise LevelsExhausted(f"exp2 below the deepest of {self.levels} levels")
        exponent = a.r[1:]
        p = self._p(a.r[:depth])
        rows = np.arange(depth * self.trials, dtype=np.intp) << modular.DIGIT
        base = rows.reshape(depth, self.trials, *(1,) * len(a.shape))
        digits = exponent.astype(np.intp)
        mask = (1 << modular.DIGIT) - 1
        out = self._powers[0].take((digits & mask) + base)
        for w in range(1, modular.WINDOWS):
            digits >>= modular.DIGIT
            out *= self._powers[w].take((digits & mask) + base)
            out %= p
        return FieldValue(out)

    def maximum(self, a: FieldValue, b: FieldValue) -> FieldValue:
        """The atom of the *set* of arguments: associative, commutative, idempotent."""
        return self.max_union(a, b)[0]

    def max_union(self, a: FieldValue, b: FieldValue) -> tuple[FieldValue, Bool]:
        """The maximum, and the lanes where both arguments are one value, which is the result."""
        x, y = np.broadcast_arrays(*align(a, b))
        r, single = self._sets.union(x, y)
        return FieldValue(r), single

    def minimum(self, a: FieldValue, b: FieldValue) -> FieldValue:
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def compare(self, op: str, a: FieldValue, b: FieldValue) -> FieldValue:
        """An atom of the difference, which makes lt/ge and gt/le complements; 0 or 1 if it is 0."""
        return _COMPARE[op](self, a, b)

    def _less(self, a: FieldValue, b: FieldValue) -> FieldValue:
        return self._indicator("lt", self.sub(b, a), at_zero=0)

    def _same(self, a: FieldValue, b: FieldValue) -> FieldValue:
        d = self.sub(a, b)
        # of d and -d take the one whose first nonzero residue is the smaller
        first = (d.r[0] != 0).argmax(axis=0)[None]
        residue = np.take_along_axis(d.r[0], first, axis=0)[0]
        p = self.primes[0][first[0]]
        return self._indicator("eq", self.where(residue > p - residue, self.neg(d), d), at_zero=1)

    def _indicator(self, name: str, d: FieldValue, at_zero: int) -> FieldValue:
        zero = (d.r[0] == 0).all(axis=0)
        out = self.atom(name, [d]).r
        return FieldValue(np.where(zero, np.uint64(at_zero), out) if zero.any() else out)

    def _not(self, p: FieldValue) -> FieldValue:
        return self.sub(FieldValue(np.ones_like(p.r)), p)

    def select(self, p: FieldValue, a: FieldValue, b: FieldValue) -> FieldValue:
        """b + p (a - b): right for either value of the indicator."""
        return self.fma(p, self.sub(a, b), b)

    def atom(self, name: str, args: Sequence[FieldValue]) -> FieldValue:
        """Fresh residues at every level, by a keyed function of the arguments' level 0.

        The result is whole even where an argument lacks levels: it is a new indeterminate, and
        level 0 in all trials is what identifies the arguments.
        """
        key = (name, len(args))
        if key not in self._functions:
            self._functions[key] = (
                Permutation(self._key, "atom", *key),
                Residues(self._key, self.primes, "atom", *key),
            )
        permutation, residues = self._functions[key]
        ndim = max(len(a.shape) for a in args)
        tops = np.broadcast_arrays(*(widen(a.r[:1], ndim) for a in args))
        words = [word for top in tops for word in pack(top[0])]
        self.atoms += words[0].size
        return FieldValue(residues(*permutation.digest(words)))

    def decide(self, p: FieldValue) -> NDArray[np.int8]:
        """1 or 0 where the indicator is that in all trials, else -1."""
        out = np.full(p.shape, -1, np.int8)
        out[(p.r[0] == 0).all(axis=0)] = 0
        out[(p.r[0] == 1).all(axis=0)] = 1
        return out

    def equal(self, a: FieldValue, b: FieldValue) -> Bool:
        """Where level 0 agrees in all trials."""
        x, y = align(a, b)
        same: Bool = (x[0] == y[0]).all(axis=0)
        return same

    def identities(self, a: FieldValue) -> Index:
        """Two hashes of level 0 in all trials."""
        words = np.stack(self._identities.digest(pack(a.r[0])))
        return words.view(np.int64)


_COMPARE: dict[str, Callable[[FieldDomain, FieldValue, FieldValue], FieldValue]] = {
    "lt": lambda d, a, b: d._less(a, b),
    "gt": lambda d, a, b: d._less(b, a),
    "ge": lambda d, a, b: d._not(d._less(a, b)),
    "le": lambda d, a, b: d._not(d._less(b, a)),
    "eq": lambda d, a, b: d._same(a, b),
    "ne": lambda d, a, b: d._not(d._same(a, b)),
}
