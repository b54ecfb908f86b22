"""Sums: the greatest term."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.term.algebra import Algebra
from kcheck.canon.term.monomials import SHIFT
from kcheck.canon.term.rationals import ONE

powers = st.dictionaries(st.integers(1, 4), st.integers(1, 3), max_size=2)


@given(st.lists(st.tuples(powers, st.integers(0, 2), st.integers(1, 3)), min_size=1), st.booleans())
def test_the_lead_that_is_plain_to_see(
    found: list[tuple[dict[int, int], int, int]], atoms: bool
) -> None:
    a = Algebra()
    if atoms:  # generator 2 is a function instead
        function = a.atom("erf", a.poly([(ONE, 1 << SHIFT, 0)]))
        found = [({function if g == 2 else g: n for g, n in p.items()}, x, c) for p, x, c in found]
    exponents = [0, *(a.exponents.of({base: Fraction(1, 2)})[0] for base in (3, 5))]
    poly = a.poly(
        (a.q.intern(Fraction(c)), a.monomials.key(tuple(sorted(p.items()))), exponents[x])
        for p, x, c in found
    )
    terms = a.terms(poly)
    greatest = [terms[i] for i in a.greatest([a._vector(t) for t in terms])]
    lead = a.lead(poly)
    assert lead in greatest
    assert lead == min(greatest, key=lambda t: a._rest(poly, t))
