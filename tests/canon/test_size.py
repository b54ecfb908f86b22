import math
import random
from fractions import Fraction

import pytest
import sympy

from kcheck.canon.size import SYMBOL, ZERO, Size, log2, log_sum, of_constants

X = sympy.symbols("x0:4")


def truth(expression: sympy.Expr) -> tuple[int, int, float, float]:
    """Degrees and log2 of the l1 norms of the reduced numerator and denominator."""
    parts = sympy.fraction(sympy.cancel(sympy.together(expression)))
    polys = [sympy.Poly(p, *X, domain="QQ") for p in parts]
    scale = math.lcm(*(int(c.q) for p in polys for c in p.coeffs()))
    norms = [math.log2(max(sum(abs(int(c * scale)) for c in p.coeffs()), 1)) for p in polys]
    return polys[0].total_degree(), polys[1].total_degree(), norms[0], norms[1]


def random_pair(rng: random.Random, depth: int) -> tuple[sympy.Expr, Size]:
    kind = rng.choice("xxc") if depth == 0 else rng.choice("+-*/")
    if kind == "x":
        return rng.choice(X), SYMBOL
    if kind == "c":
        value = Fraction(rng.randint(1, 40), rng.choice([1, 2, 3, 8, 7]))
        return sympy.Rational(value.numerator, value.denominator), of_constants([value])
    (a, s), (b, t) = random_pair(rng, depth - 1), random_pair(rng, depth - 1)
    if kind == "*":
        return a * b, s * t
    if kind == "/" and sympy.cancel(b) != 0:
        return a / b, s * t.inverse()
    return (a - b if kind == "-" else a + b), s + t


@pytest.mark.parametrize("seed", range(60))
def test_size_bounds_the_reduced_quotient(seed: int) -> None:
    expression, size = random_pair(random.Random(seed), 3)
    x, den_x, bits, den_bits = truth(expression)
    assert size.x >= x
    assert size.den_x >= den_x
    # the reduced quotient's coefficients divide those of the unreduced one, up to Gelfond's bound
    slack = 2 * (size.x + size.den_x) + 1e-6
    power = abs(size.shift)
    assert size.bits + power + slack >= bits
    assert size.den_bits + power + slack >= den_bits


def polynomial(seed: int) -> tuple[sympy.Poly, Size]:
    """A random integer polynomial by sums and products alone."""
    rng = random.Random(seed)
    items: list[tuple[sympy.Expr, Size]] = [(x, SYMBOL) for x in X]
    items += [(sympy.Integer(c), of_constants([Fraction(c)])) for c in (3, -5, 1000)]
    for _ in range(8):
        (a, s), (b, t) = rng.choice(items), rng.choice(items)
        items.append((sympy.expand(a * b), s * t) if rng.random() < 0.4 else (a + b, s + t))
    return sympy.Poly(items[-1][0], *X), items[-1][1]


@pytest.mark.parametrize("seed", range(40))
def test_size_bounds_a_polynomial(seed: int) -> None:
    poly, size = polynomial(seed)
    assert size.x >= max(poly.total_degree(), 0)
    norm = sum(abs(int(c)) for c in poly.coeffs())
    assert size.bits + 1e-9 >= math.log2(max(norm, 1))
    assert (size.den_x, size.den_bits, size.shift) == (0, 0, 0)


def test_bounds_are_tight_for_an_inner_product() -> None:
    total = ZERO
    for _ in range(1024):
        total = total + SYMBOL * SYMBOL
    assert total.x == 2
    assert total.bits == pytest.approx(10, abs=1e-6)
    assert total.bits >= 10
    assert (SYMBOL * SYMBOL).sums(1024).bits == 10


def test_constants() -> None:
    assert of_constants([Fraction(3, 8)]) == Size(bits=log2(3), shift=3)
    both = of_constants([Fraction(1, 8), Fraction(5)])
    assert both.shift == 3
    assert both.bits >= math.log2(40)
    assert of_constants([Fraction(1, 3)]).den_bits >= math.log2(3)
    assert of_constants([Fraction(0)]).bits == -math.inf
    big = 3**5000
    assert log2(big) == pytest.approx(5000 * math.log2(3), rel=1e-12)
    assert log2(2**2000) == 2000


def test_difference_of_quotients() -> None:
    quotient = SYMBOL * SYMBOL.inverse()  # a/b
    zero = quotient.apart(quotient)  # (a d - c b) / (b d)
    assert zero.x == 2
    assert zero.bits == pytest.approx(1)
    shifted = of_constants([Fraction(1, 1024)]) * SYMBOL
    assert shifted.apart(SYMBOL).bits >= math.log2(1025)


def test_exponentials_have_their_own_degree() -> None:
    e = Size(e=1.0)
    assert (e * e + SYMBOL * e).e == 2
    assert (SYMBOL * e.inverse()).den_e == 1
    assert (SYMBOL * e.inverse()).apart(SYMBOL).e == 1


def test_log_sum() -> None:
    assert log_sum(-math.inf, 3) == 3
    assert log_sum(3, 3) == pytest.approx(4)
    assert log_sum(1000, -1000) >= 1000
