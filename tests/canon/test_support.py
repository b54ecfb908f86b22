import random
from fractions import Fraction

import numpy as np
import pytest
import sympy

from kcheck.canon.bound import BoundDomain, BoundValue
from kcheck.canon.domain import Collision
from kcheck.canon.field import FieldDomain
from kcheck.canon.forms import Forms
from kcheck.canon.support import EXPONENTIAL, NONZERO, REST

SHAPES = {"a": (3,), "b": (2, 2)}
AXES = {"a": [0], "b": [1, 2]}


def constant(d: BoundDomain, value: Fraction | int) -> BoundValue:
    return d.constants([Fraction(value)], np.zeros(1, np.int64))


class Builder:
    """Random expressions in the domain and in sympy side by side."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.d = BoundDomain(FieldDomain(seed, 2, 2), SHAPES)
        self.symbols: dict[sympy.Symbol, tuple[str, tuple[int, ...]]] = {}
        self.items: list[tuple[sympy.Expr, BoundValue]] = []
        for name, shape in SHAPES.items():
            values = self.d.input(name, int(np.prod(shape)))
            for n, index in enumerate(np.ndindex(*shape)):
                symbol = sympy.Symbol(f"{name}{n}")
                self.symbols[symbol] = (name, index)
                self.items.append((symbol, values[n : n + 1]))
        self.items += [(sympy.Integer(c), constant(self.d, c)) for c in (2, -3, 0)]
        self.atoms: list[sympy.Symbol] = []

    def step(self) -> None:
        rng, d = self.rng, self.d
        (x, v), (y, w) = rng.choice(self.items[-10:]), rng.choice(self.items)
        kind = rng.choice("++-***/t")
        if kind == "+":
            self.items.append((x + y, d.add(v, w)))
        elif kind == "-":
            self.items.append((x - y, d.sub(v, w)))
        elif kind == "*":
            self.items.append((x * y, d.mul(v, w)))
        elif kind == "/" and sympy.cancel(y) != 0:
            self.items.append((x / y, d.div(v, w)[0]))
        elif kind == "t":
            self.atoms.append(sympy.Symbol(f"t{len(self.atoms)}"))
            self.items.append((self.atoms[-1], d.atom(f"t{len(self.atoms)}", [v])))


@pytest.mark.parametrize("seed", range(25))
def test_support_is_right_on_random_expressions(seed: int) -> None:
    build = Builder(seed)
    for _ in range(14):
        build.step()
    supports = build.d.supports
    assert supports is not None
    for expression, value in build.items:
        s = value.support
        assert s is not None
        constant_term, terms = supports.forms[int(s.form[0])]
        # atoms were numbered in the order in which they were made
        form = sympy.Rational(constant_term.numerator, constant_term.denominator) + sum(
            sympy.Rational(q.numerator, q.denominator) * build.atoms[atom] for atom, q in terms
        )
        rest = sympy.cancel(sympy.together(expression - form))
        if not s.flags[REST, 0]:
            assert rest == 0
        if s.flags[NONZERO, 0]:
            assert sympy.cancel(expression) != 0
        top, bottom = sympy.fraction(rest)
        for t, (name, axes) in enumerate(AXES.items()):
            mine = [x for x in rest.free_symbols if build.symbols.get(x, ("", ()))[0] == name]
            for symbol in mine:
                for axis, i in zip(axes, build.symbols[symbol][1], strict=True):
                    assert -s.hull[axis, 0] <= i <= s.hull[supports.axes + axis, 0]
            if mine:
                assert s.degree[t, 0] > 0
            if s.certain[t, 0]:
                assert mine
            if s.degree[t, 0] == 1 and mine:
                assert sympy.Poly(top, *mine).total_degree() <= 1
                assert not set(mine) & bottom.free_symbols
        hidden = [build.atoms.index(x) for x in rest.free_symbols if x in build.atoms]
        assert all(-s.hull[supports.axes - 1, 0] <= i <= s.hull[-1, 0] for i in hidden)


def test_certain_dependence_is_found_where_it_matters() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"q": (2, 8), "k": (5, 8)})
    q, k = d.input("q", 16).reshape((2, 8)), d.input("k", 40).reshape((5, 8))
    columns = d.stack([k[:, i] for i in range(8)])
    scores = d.mul(d.matmul(q, columns), constant(d, Fraction(1, 3)))
    chain = d.mul(q[0, 0:1], k[3, 0:1])
    for i in range(1, 8):
        chain = d.fma(q[0, i : i + 1], k[3, i : i + 1], chain)
    for support in (scores.support, chain.support):
        assert support is not None
        assert support.certain[:2].all()
        assert (support.degree[:2] == 1).all()
    cancelled = d.sub(scores, scores).support
    assert cancelled is not None
    assert not cancelled.certain.any()
    assert not cancelled.flags[NONZERO].any()
    square = d.mul(scores, scores).support
    assert square is not None
    assert (square.degree[:2] == 2).all()


def test_matmul_agrees_with_a_chain_of_fma() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"a": (4, 6), "b": (6, 3)})
    a, b = d.input("a", 24).reshape((4, 6)), d.input("b", 18).reshape((6, 3))
    # one row of zeros, as at the tail of a tile
    mask = np.arange(4)[:, None] < 3
    a = d.where(mask, a, constant(d, 0))
    product = d.matmul(a, b).support
    chain = d.mul(a[:, 0:1], b[0:1])
    for k in range(1, 6):
        chain = d.fma(a[:, k : k + 1], b[k : k + 1], chain)
    expected = chain.support
    assert product is not None
    assert expected is not None
    assert (product.certain == expected.certain)[:, :3].all()
    assert not product.certain[:, 3].any()
    assert (product.degree[:, :3] == expected.degree[:, :3]).all()
    assert (product.hull[:, :3] == expected.hull[:, :3]).all()


def test_matmul_over_a_repeated_element_is_not_certain() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"a": (1, 2), "b": (1,)})
    b = d.input("b", 1)
    column = d.stack([b, d.neg(b)])  # a0 b - a1 b: certain in a, but b might cancel
    support = d.matmul(d.input("a", 2).reshape((1, 2)), column).support
    assert support is not None
    assert support.certain[0].all()
    assert not support.certain[1].any()


def test_what_may_be_zero_makes_nothing_certain() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"x": (1,), "y": (1,)})
    x, y = d.input("x", 1), d.input("y", 1)
    for zero in (d.sub(x, x), constant(d, 0), d.compare("lt", x, y)):
        for product in (d.mul(zero, y), d.mul(y, zero), d.div(zero, y)[0]):
            assert product.support is not None
            assert not product.support.certain[1].any()
    gram = d.matmul(y.reshape((1, 1)), y.reshape((1, 1))).support
    assert gram is not None
    assert not gram.certain.any()
    assert gram.degree[1] == 2


def test_atoms_of_a_form_that_is_given_up_stay_in_sight() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"x": (1,)})
    x = d.input("x", 1)
    total = x
    for n in range(6):
        total = d.add(total, d.atom(f"f{n}", [x]))
    s = total.support
    assert s is not None
    assert s.degree[-1, 0] == 1
    assert s.flags[REST, 0]
    hidden = {-int(s.hull[1, 0]), int(s.hull[-1, 0])}
    assert hidden == {0, 4}  # the sixth atom starts a new form
    assert d.supports is not None
    assert d.supports.forms[int(s.form[0])] == (Fraction(0), ((5, Fraction(1)),))


def test_untracked_inputs_are_never_affine() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {})
    support = d.input("x", 3).support
    assert support is not None
    assert (support.degree == 2).all()
    assert not support.certain.any()


def test_support_follows_values_through_memory() -> None:
    d = BoundDomain(FieldDomain(1, 2, 2), {"x": (8,)})
    x, store = d.input("x", 8), d.store(8)
    back = np.arange(8)[::-1].copy()
    store.write(back, d.exp2(x))
    store.write(np.array([0, 1]), d.atom("f", [x[:2]]))
    store.add(np.array([7, 7]), x[4:6])
    read = store.read(np.arange(8))
    s, direct, supports = read.support, d.exp2(x).support, d.supports
    assert supports is not None
    assert s is not None
    assert direct is not None
    assert (s.cone[2:7] == direct.cone[back][2:7]).all()
    assert s.cone[7] == direct.cone[0]
    assert s.flags[EXPONENTIAL].tolist() == [False] * 2 + [True] * 6
    assert (s.form[:2] < 0).all()
    assert s.hull[supports.axes, 7] == 5


def test_forms() -> None:
    forms = Forms([101])
    ids = forms.constants([Fraction(0), Fraction(3), Fraction(-1)])
    atoms = np.array([-1, -2, -3])
    total, lost = forms.add(atoms, np.broadcast_to(ids[1], 3))
    assert not lost.any()
    assert forms[int(total[1])] == (Fraction(3), ((1, Fraction(1)),))
    zero, lost = forms.add(total, forms.scale(total, ids[2:]))
    assert (zero == 0).all()
    assert not lost.any()
    long = total
    for n in range(10, 13):
        long, lost = forms.add(long, np.full(3, -1 - n))
    assert not lost.any()
    assert forms.ranges(long)[:, 2].tolist() == [2, 12]
    long, lost = forms.add(long, np.full(3, -1 - 20))
    assert lost.all()
    assert forms[int(long[0])] == (Fraction(3), ())
    third = forms.scale(total, ids[1:2], invert=True)
    assert forms[int(third[0])] == (Fraction(1), ((0, Fraction(1, 3)),))
    with pytest.raises(Collision, match="prime"):
        forms.constants([Fraction(202)])
