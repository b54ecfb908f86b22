"""Functions of sums and their laws: exp2, lg2, square roots, comparisons (DESIGN.md 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from kcheck import limits
from kcheck.canon.constants import MASKED
from kcheck.canon.known import LOG2E, known
from kcheck.canon.term.algebra import INDICATORS, UNIT, Algebra, opposite
from kcheck.canon.term.largest import Largest
from kcheck.canon.term.monomials import ATOMS, LOW, SHIFT, Keys, Powers, Term
from kcheck.canon.term.positives import Positives
from kcheck.canon.term.products import CASES, monomial, products, where
from kcheck.canon.term.rationals import ONE, uniform
from kcheck.canon.term.zeros import where_zero

# log2 of e^-2
_LOG_SQUARE = known(-2, {LOG2E: 1})
# powers up to which 2^(n lg2 x) is x^n
_POWERS = 64
# names of sums, and what becomes one
_NAMES = frozenset({"form", "inverse", "sqrt"})
# of these functions sums are 0 everywhere, or on no region
_ANALYTIC = frozenset({"input", "form", "inverse"})
# powers of a sum that are generators
_SHARES = {"form": Fraction(1), "inverse": Fraction(-1), "sqrt": Fraction(1, 2)}
_ODD, _EVEN = frozenset({"sin", "rint", "trunc", "erf", "atan"}), frozenset({"cos"})


class Functions:
    """Each method maps ids of sums to the id of a sum.

    `split`: a maximum of two becomes b + (a - b) [a > b], so that it meets selects.
    """

    def __init__(self, algebra: Algebra, split: bool = False) -> None:
        self.a = algebra
        self.split = split
        self._memo: dict[tuple[str, int], int] = {}
        self.positives = Positives(algebra)
        self._largest = Largest(self)
        self._within: dict[tuple[int, bool], frozenset[int]] = {}

    # cases

    def lifted(self, f: Callable[..., int], *polys: int, cases: int = CASES) -> int:
        """f of sums; where these hold a few indicators p, p f(p = 1) + (1 - p) f(p = 0).

        Where they hold many, but in a few products only, these serve as p.
        """
        found = self._indicators(polys)
        if len(found) > cases:
            return self._by_products(f, polys, cases)
        if not found:
            return f(*polys)
        g = min(found)
        yes, no = (
            self.lifted(f, *(self._where(poly, g, value) for poly in polys), cases=cases - 1)
            for value in (True, False)
        )
        if yes == no:
            return yes
        return self._chosen(g << SHIFT, yes, no)

    def _by_products(self, f: Callable[..., int], polys: tuple[int, ...], cases: int) -> int:
        a, found = self.a, products(self.a, polys)
        if not 0 < len(found) <= cases:
            return f(*polys)
        product = min(found)
        yes, no = (
            self._by_products(f, tuple(where(a, s, product, value) for s in polys), cases - 1)
            for value in (True, False)
        )
        return yes if yes == no else self._chosen(monomial(a, product), yes, no)

    def _chosen(self, key: int, yes: int, no: int) -> int:
        """`yes` where the indicators of a monomial are all 1, else `no`."""
        a = self.a
        p = a.poly([(ONE, key, 0)])
        return a.sum(a.product(p, a.sum(yes, a.minus(no))), no)

    def _where(self, poly: int, indicator: int, value: bool) -> int:
        """A sum where an indicator is 1 or 0."""
        if value and self.a.kind(indicator)[0] == "zero":
            return where_zero(self, poly, indicator)
        return self.a.restricted(poly, indicator, value)

    def _indicators(self, polys: tuple[int, ...]) -> set[int]:
        found = set[int]().union(*map(self.generators, polys))
        return {g for g in found if self.a.kind(g)[0] in INDICATORS}

    def generators(self, poly: int) -> set[int]:
        """The atoms in the monomials of a sum."""
        keys = self.a.polys[poly][1]
        if not self.a.atoms:
            return set()
        low, high = keys & LOW, keys >> SHIFT
        plain = (keys > 0) & (high < ATOMS) & (low < ATOMS)
        rest: list[int] = keys[~plain & (keys != 0)].tolist()
        return {g for key in set(rest) for g, _ in self.a.monomials.powers(key) if g >= ATOMS}

    def within(self, poly: int, *, names: bool = False) -> frozenset[int]:
        """The generators in a sum and in all that it is made of (`names`: in named sums only)."""
        key = poly, names
        if key not in self._within:
            found: set[int] = set()
            todo, seen = [poly], {poly}
            while todo:
                _, keys, exps = self.a.polys[todo.pop()]
                here = {g for p in set(keys.tolist()) for g, _ in self.a.monomials.powers(p)}
                atoms = [g for g in here - found if not names or self.a.kind(g)[0] in _NAMES]
                found |= here
                inner = {i for g in atoms if g >= ATOMS for i in self.a.inner(g)}
                if not names:
                    inner |= {self.exponent(x) for x in set(exps.tolist()) if x}
                todo += inner - seen
                seen |= inner
            self._within[key] = frozenset(found)
        return self._within[key]

    def _invertible(self, poly: int) -> bool:
        """May a sum and its inverse cancel? Not if it holds indicators: it may be 0 in some cases
        only, in which it is not divided by.
        """
        return all(self.a.kind(g)[0] not in INDICATORS for g in self.within(poly, names=True))

    def _once(self, name: str, poly: int, f: Callable[[int], int]) -> int:
        key = (name, poly)
        if key not in self._memo:
            limits.check()
            self._memo[key] = self.lifted(f, poly)
        return self._memo[key]

    def inverse(self, poly: int) -> int:
        """1/s; ZeroDivisionError where s is 0.

        Where it is 0 in some cases of its indicators only, it is a number there that nothing is
        known of: inputs for which it counts are ruled out (divisors are not 0 where they count).
        """
        if poly == 0:
            raise ZeroDivisionError("a divisor is zero")
        return self._once("inverse", poly, self._inverse)

    def _inverse(self, poly: int) -> int:
        if poly == 0:
            return self.a.poly([(ONE, self.a.atom("over", 0) << SHIFT, 0)])
        if not self._invertible(poly):
            factor, rest = self._positive_factor(poly)
            over = (ONE, self.a.atom("over", rest) << SHIFT, 0)
            return self.a.poly([self.a.times(over, self.a.power(factor, -1))])
        return self.a.poly([self.a.power(self.a.lazy(poly), -1)])

    # exponentials and logarithms

    def exp2(self, poly: int) -> int:
        """2^h."""
        return self._once("exp2", poly, self._exp2)

    def _exp2(self, poly: int) -> int:
        a = self.a
        c, p, x = a.polys[poly]
        number = (p == 0) & (x == 0)
        constant = {2: a.q.values[int(c[number][0])]} if number.any() else {}
        out = UNIT
        keep = ~number
        for i in np.flatnonzero(self.alone(p) & (x == 0)).tolist():
            what, n = a.kind(int(p[i]) >> SHIFT), a.q.values[int(c[i])]
            if what[0] != "lg2" or n.denominator > 2 or abs(n) > _POWERS:
                continue
            half = n.denominator == 2
            base = a.single(self.sqrt(what[1])) if half else a.lazy(what[1])
            if base is not None and (n > 0 or self._invertible(what[1])):
                out = a.times(out, a.power(base, int(2 * n if half else n)))
                keep[i] = False
        coords, kinds = self._coordinates(p[keep], x[keep])
        order = np.lexsort((coords, kinds))
        made, factor = a.exponents.intern(coords[order], kinds[order], c[keep][order], constant)
        return a.poly([a.times(out, (factor, 0, made))])

    def alone(self, p: Keys) -> NDArray[np.bool_]:
        """Monomials that are one atom."""
        return (p > 0) & (p & LOW == 0) & (p >> SHIFT >= ATOMS)

    def _coordinates(self, p: Keys, x: Keys) -> tuple[Keys, Keys]:
        """Keys of monomials times exponentials, and the constants that they are multiplied by; an
        exponential counts as generator -x.
        """
        if not x.any():
            return p, x
        if uniform(x, int(x[0])):
            kinds, inner = (np.full(x.size, i) for i in self.a.exponents.parted(int(x[0])))
        else:
            parted = np.array([self.a.exponents.parted(i) for i in x.tolist()])
            kinds, inner = parted.T
        out = p.copy()
        for i in np.flatnonzero(inner).tolist():
            powers = self.a.monomials.powers(int(p[i]))
            out[i] = self.a.monomials.key(((-int(inner[i]), 1), *powers))
        return out, kinds

    def exponent(self, x: int) -> int:
        """The logarithm h of a positive factor 2^h as a sum."""
        a = self.a
        coords, kinds, coefs, constant = a.exponents.rows[x]
        terms = []
        for base, n in a.exponents.constants[constant]:
            coef = a.q.intern(n)
            terms.append((coef, 0, 0) if base == 2 else (coef, self._lg2_base(base), 0))
        columns = (column.tolist() for column in (coords, kinds, coefs))
        for key, kind, c in zip(*columns, strict=True):
            powers: Powers = a.monomials.powers(key)
            inner = -powers[0][0] if powers and powers[0][0] < 0 else 0
            plain = a.monomials.key(powers[1:]) if inner else key
            terms.append(a.times((c, plain, inner), (ONE, 0, kind)))
        return a.poly(terms)

    def _lg2_base(self, base: int) -> int:
        """The monomial that is lg2 of a constant's base."""
        a = self.a
        factor, whole = a.exponents.of({base: Fraction(1)})
        return a.atom("lg2", a.poly([(whole, 0, factor)])) << SHIFT

    def _positive_factor(self, poly: int) -> tuple[Term, int]:
        """A sum as |c| 2^h, times promised inputs, times a sum: the lead of that has coefficient 1
        or -1 and no exponential.
        """
        a = self.a
        c, _, x = a.lead(poly)
        factor = a.q.intern(abs(a.q.values[c])), self.positives.content([poly]), x
        return factor, a.scaled(poly, a.power(factor, -1))

    def lg2(self, poly: int) -> int:
        """lg2 s: positive factors come apart; the rest, as a whole, is positive too (ledger)."""
        return self._once("lg2", poly, self._lg2)

    def _lg2(self, poly: int) -> int:
        a = self.a
        if poly == 0:
            return a.poly([(ONE, a.atom("undefined lg2") << SHIFT, 0)])
        (c, p, x), rest = self._positive_factor(poly)
        parts = [self._lg2_number(a.q.values[c]), self.exponent(x)]
        for g, n in a.monomials.powers(p):
            of_input = a.atom("lg2", a.poly([(ONE, g << SHIFT, 0)])) << SHIFT
            parts.append(a.poly([(a.q.intern(Fraction(n)), of_input, 0)]))
        term = a.single(rest)
        powers = a.monomials.powers(term[1]) if term is not None else ()
        alone = powers if term is not None and term[0] == ONE and len(powers) == 1 else ()
        for g, n in powers:
            kind, *inner = a.kind(g)
            # factors of a product that is positive need not be
            if kind in _SHARES and (self.sign(inner[0]) == 1 or alone == ((g, 1),)):
                times = a.q.intern(_SHARES[kind] * n)
                parts.append(a.scaled(self.lg2(inner[0]), (times, 0, 0)))
                rest = a.scaled(rest, a.power((ONE, g << SHIFT, 0), -n))
        if rest != a.one:
            parts.append(a.poly([(ONE, a.atom("lg2", rest) << SHIFT, 0)]))
        return a.sum(*parts)

    def _lg2_number(self, value: Fraction) -> int:
        """lg2 of a positive number: of its primes (the larger ones as a whole)."""
        a = self.a
        terms = []
        for n, sign in ((value.numerator, 1), (value.denominator, -1)):
            for prime, k in _factors(n):
                c = a.q.intern(Fraction(sign * k))
                terms.append((c, 0, 0) if prime == 2 else (c, self._lg2_base(prime), 0))
        return a.poly(terms)

    def sqrt(self, poly: int) -> int:
        """The square root; its square is the sum."""
        return self._once("sqrt", poly, self._sqrt)

    def _sqrt(self, poly: int) -> int:
        a = self.a
        if poly == 0:
            return 0
        (c, p, x), rest = self._positive_factor(poly)
        size = a.q.values[c]
        half, factor = a.exponents.scaled(x, Fraction(1, 2))
        primes = [*_factors(size.numerator), *((p, -n) for p, n in _factors(size.denominator))]
        root, whole = a.exponents.of({p: Fraction(n, 2) for p, n in primes})
        out = a.times((factor, 0, half), (whole, 0, root))
        for g, n in a.monomials.powers(p):
            out = a.times(out, a.power((ONE, g << SHIFT, 0), n // 2))
            if n % 2:
                of_input = a.atom("sqrt", a.poly([(ONE, g << SHIFT, 0)]))
                out = a.times(out, (ONE, of_input << SHIFT, 0))
        whole = self._root_of_square(rest) if self.split else 0
        if whole:  # |s| by cases
            return a.scaled(self.maximum({whole, a.minus(whole)}), out)
        if rest != a.one:
            out = a.times(out, (ONE, a.atom("sqrt", rest) << SHIFT, 0))
        return a.poly([out])

    def _root_of_square(self, poly: int) -> int:
        """s of the sum s^2, if that is a product of generators; else 0."""
        a = self.a
        term = a.single(poly)
        if term is None or term[1] == 0 or (term[0], term[2]) != (ONE, 0):
            return 0
        powers = a.monomials.powers(term[1])
        if any(n % 2 for _, n in powers):
            return 0
        return a.poly([(ONE, a.monomials.key(tuple((g, n // 2) for g, n in powers)), 0)])

    def tanh(self, poly: int) -> int:
        """tanh s = 2 / (1 + e^{-2s}) - 1."""
        return self._once("tanh", poly, self._tanh)

    def _tanh(self, poly: int) -> int:
        a = self.a
        c, x = a.exponents.number(_LOG_SQUARE)
        sides = []
        for sign, s in ((1, poly), (-1, a.minus(poly))):
            power = self.exp2(a.scaled(s, (c, 0, x)))
            divisor = a.sum(a.one, power)
            sides.append((a.lead(divisor) == a.single(power), divisor, sign))
        # of s and -s the one that leaves no exponential
        _, divisor, sign = min(sides)
        twice = a.scaled(self.inverse(divisor), (a.q.intern(Fraction(2)), 0, 0))
        made = a.sum(twice, a.minus(a.one))
        return made if sign == 1 else a.minus(made)

    # comparisons

    def positive(self, poly: int) -> int:
        """The indicator of s > 0."""
        return self._once("positive", poly, self._positive)

    def _positive(self, poly: int) -> int:
        a = self.a
        sign = self.sign(poly)
        if sign is not None:
            return a.one if sign > 0 else 0
        _, rest = self._positive_factor(poly)
        if a.q.values[a.lead(rest)[0]] > 0:
            return a.poly([(ONE, a.atom("positive", rest) << SHIFT, 0)])
        rest = a.minus(rest)
        either = [
            opposite((ONE, a.atom(kind, rest) << SHIFT, 0), a.q) for kind in ("positive", "zero")
        ]
        return a.poly([UNIT, *either])

    def zero(self, poly: int) -> int:
        """The indicator of s = 0."""
        return self._once("zero", poly, self._zero)

    def _zero(self, poly: int) -> int:
        a = self.a
        sign = self.sign(poly)
        if sign is not None:
            return 0 if sign else a.one
        _, rest = self._positive_factor(poly)
        if a.q.values[a.lead(rest)[0]] < 0:
            rest = a.minus(rest)
        return a.poly([(ONE, a.atom("zero", rest) << SHIFT, 0)])

    def sign(self, poly: int) -> int | None:
        """1, 0 or -1 where a sum is known to be positive, 0 or negative, else None."""
        return self.positives.sign(poly)

    def is_thin(self, poly: int) -> bool:
        """Is the set where a sum is 0 certainly without inner points? It is where terms have one
        sign, where factors are so, and of a sum of polynomials, quotients and exponentials.
        """
        a = self.a
        if self.sign(poly):
            return True
        term = a.single(poly)
        if term is None:
            kinds = {a.kind(g)[0] for g in self.within(poly)}
            return poly != 0 and kinds <= _ANALYTIC
        kinds_of = ((a.kind(g)[0], a.inner(g)) for g, _ in a.monomials.powers(term[1]))
        return all(
            kind in ("input", "inverse")
            or (kind in ("form", "sqrt") and all(map(self.is_thin, inner)))
            for kind, inner in kinds_of
        )

    # other functions

    def maximum(self, polys: set[int]) -> int:
        """The maximum of a set of sums."""
        return self._largest.of(polys)

    def function(self, name: str, poly: int) -> int:
        """lg2, sqrt, tanh, or an atom; odd and even ones of one sign."""
        lawful = {"lg2": self.lg2, "sqrt": self.sqrt, "tanh": self.tanh}.get(name)
        if lawful is not None:
            return lawful(poly)
        if name.startswith(MASKED):  # its indicators stay inside: a maximum of many has no cases
            return self.a.poly([(ONE, self.a.atom(name, poly) << SHIFT, 0)])
        return self._once(name, poly, lambda s: self._atom(name, s))

    def _atom(self, name: str, poly: int) -> int:
        a = self.a
        flip = False
        if poly and name in _ODD | _EVEN:
            flip = a.q.values[a.lead(poly)[0]] < 0
            poly = a.minus(poly) if flip else poly
        term = (ONE, a.atom(name, poly) << SHIFT, 0)
        return a.poly([opposite(term, a.q) if flip and name in _ODD else term])


def _factors(n: int) -> list[tuple[int, int]]:
    """Primes below 1000 with powers; what is left counts as a prime."""
    out = []
    for prime in (2, *range(3, 1000, 2)):
        k = 0
        while n % prime == 0:
            n //= prime
            k += 1
        if k:
            out.append((prime, k))
        if prime * prime > n:
            break
    if n > 1:
        root = math.isqrt(n)
        out.append((root, 2) if root * root == n else (n, 1))
    return out
