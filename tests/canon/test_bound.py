from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from kcheck.canon.bound import BoundDomain, BoundValue
from kcheck.canon.exponents import Condition
from kcheck.canon.field import FieldDomain
from kcheck.canon.size import Zero
from kcheck.canon.theorem import Claim, error_log2, per_trial, trials_needed

SCALE = Fraction(0.1803368777036667)


def domain(shapes: dict[str, tuple[int, ...]], trials: int = 4, levels: int = 2) -> BoundDomain:
    return BoundDomain(FieldDomain(11, trials, levels), shapes)


def constant(d: BoundDomain, value: Fraction | int) -> BoundValue:
    return d.constants([Fraction(value)], np.zeros(1, np.int64))


def fold(op: Callable[[BoundValue, BoundValue], BoundValue], x: BoundValue) -> BoundValue:
    """Over the last axis, which is kept."""
    out = x[:, 0:1]
    for j in range(1, x.shape[1]):
        out = op(out, x[:, j : j + 1])
    return out


def transpose(d: BoundDomain, x: BoundValue) -> BoundValue:
    return d.stack([x[:, i] for i in range(x.shape[1])])


def scores(d: BoundDomain) -> tuple[BoundValue, BoundValue]:
    q, k, v = (d.input(n, r * 4).reshape((r, 4)) for n, r in (("q", 6), ("k", 8), ("v", 8)))
    return d.matmul(q, transpose(d, k)), v


QKV: dict[str, tuple[int, ...]] = {"q": (6, 4), "k": (8, 4), "v": (8, 4)}


def attention(d: BoundDomain) -> tuple[BoundValue, BoundValue]:
    """Output and log-sum-exp, in two passes."""
    s, v = scores(d)
    c = constant(d, SCALE)
    m = fold(d.maximum, s)
    p = d.exp2(d.sub(d.mul(s, c), d.mul(m, c)))
    total = fold(d.add, p)
    lse = d.fma(m, c, d.atom("lg2", [total]))
    return d.div(d.matmul(p, v), total)[0], lse


def online_attention(d: BoundDomain) -> tuple[BoundValue, BoundValue]:
    """The same in blocks of 2, with a running maximum."""
    s, v = scores(d)
    c = constant(d, SCALE)
    m, total, out = s[:, 0:1], constant(d, 0), constant(d, 0)
    for j in range(0, 8, 2):
        new = d.maximum(m, fold(d.maximum, s[:, j : j + 2]))
        p = d.exp2(d.fma(s[:, j : j + 2], c, d.neg(d.mul(new, c))))
        a = d.exp2(d.mul(d.sub(m, new), c))
        total = d.fma(total, a, fold(d.add, p))
        out = d.fma(out, a, d.matmul(p, v[j : j + 2]))
        m = new
    lse = d.fma(m, c, d.atom("lg2", [total]))
    return d.mul(out, d.div(constant(d, 1), total)[0]), lse


def test_attention_has_a_theorem() -> None:
    d = domain(QKV)
    pairs = list(zip(attention(d), online_attention(d), strict=True))
    assert all(d.equal(a, b).all() for a, b in pairs)
    claim = d.claim(pairs)
    assert claim.condition.reason is None
    assert claim.condition.rests == 8
    assert claim.condition.x == 2
    error, reason = error_log2(claim, 4, 2)
    assert reason == ""
    assert error is not None
    assert -80 < error < -40
    needed = trials_needed(claim, 2)
    assert needed is not None
    assert 5 <= needed <= 8
    for trials, enough in ((needed - 1, False), (needed, True)):
        error, _ = error_log2(claim, trials, 2)
        assert error is not None
        assert (error < -80) == enough


def test_a_wrong_attention_differs() -> None:
    d = domain(QKV)
    s, v = scores(d)
    p = d.exp2(d.mul(s, constant(d, SCALE)))
    right, lse = attention(d)
    assert d.equal(d.div(d.matmul(p, v), fold(d.add, p))[0], right).all()  # no maximum: equal
    assert not d.equal(d.matmul(p, v), right).any()
    assert not d.equal(lse, fold(d.add, p)).any()


def softmax(d: BoundDomain) -> BoundValue:
    x = d.input("x", 24).reshape((3, 8))
    e = d.exp2(d.sub(x, fold(d.maximum, x)))
    return d.div(e, fold(d.add, e))[0]


def test_softmax_has_a_theorem() -> None:
    d = domain({"x": (3, 8)})
    out = softmax(d)
    claim = d.claim([(out, out)])
    assert claim.condition.reason is None
    assert claim.condition.rests == 8
    assert error_log2(claim, 8, 2)[0] is not None


def shaped(d: BoundDomain) -> list[BoundValue]:
    return [d.input(n, 4) for n in "xyz"]


def one(d: BoundDomain) -> BoundValue:
    return constant(d, 1)


# exponents of one output, from three inputs x, y, z; whether the frame is found
EXPONENTS: dict[str, tuple[Callable[..., list[BoundValue]], bool]] = {
    "x": (lambda d, x, y, z: [x], True),
    "x, y, z": (lambda d, x, y, z: [x, y, z], True),
    "x, -x, 2x, x/2": (
        lambda d, x, y, z: [
            x,
            d.neg(x),
            d.mul(x, constant(d, 2)),
            d.mul(constant(d, Fraction(1, 2)), x),
        ],
        True,
    ),
    "x, x + 1, x + 1/3": (
        lambda d, x, y, z: [x, d.add(x, one(d)), d.add(x, constant(d, Fraction(1, 3)))],
        True,
    ),
    "x, x y, x y z": (lambda d, x, y, z: [x, d.mul(x, y), d.mul(d.mul(x, y), z)], True),
    "x y, y z": (lambda d, x, y, z: [d.mul(x, y), d.mul(y, z)], True),
    "x - t, y - t, t - u": (
        lambda d, x, y, z: [
            d.sub(x, d.atom("t", [z])),
            d.sub(y, d.atom("t", [z])),
            d.sub(d.atom("t", [z]), d.atom("u", [z])),
        ],
        True,
    ),
    "x t": (lambda d, x, y, z: [d.mul(x, d.atom("t", [z]))], True),
    "x / y": (lambda d, x, y, z: [d.div(x, y)[0]], True),
    "x^2": (lambda d, x, y, z: [d.mul(x, x)], False),
    "1 / x": (lambda d, x, y, z: [d.div(one(d), x)[0]], False),
    "x, x^2": (lambda d, x, y, z: [x, d.mul(x, x)], False),
    "x y, x + y, x": (lambda d, x, y, z: [d.mul(x, y), d.add(x, y), x], False),
    "x y, x z, y z": (lambda d, x, y, z: [d.mul(x, y), d.mul(x, z), d.mul(y, z)], False),
    "(x - x) y": (lambda d, x, y, z: [d.mul(d.sub(d.add(x, z), d.add(x, z)), y), y], True),
    "x^2 - x^2 + y": (lambda d, x, y, z: [d.add(d.sub(d.mul(x, x), d.mul(x, x)), y)], True),
    "x + z - z": (lambda d, x, y, z: [d.sub(d.add(x, z), z), x], True),
    "x y - x y + x, x": (
        lambda d, x, y, z: [d.add(d.sub(d.mul(x, y), d.mul(x, y)), x)],
        False,
    ),
}


@pytest.mark.parametrize("name", EXPONENTS)
def test_frame_of_exponents(name: str) -> None:
    d = domain({"x": (4,), "y": (4,), "z": (4,)})
    make, found = EXPONENTS[name]
    total = constant(d, 0)
    for exponent in make(d, *shaped(d)):
        total = d.add(total, d.exp2(exponent))
    claim = d.claim([(total, total)])
    assert (claim.condition.reason is None) == found
    error, reason = error_log2(claim, 4, 2)
    assert (error is not None) == found
    assert bool(reason) != found


def test_units_span_and_roots() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    t = d.atom("t", [y])
    half = d.mul(x, constant(d, Fraction(1, 2)))
    third = d.add(d.mul(t, constant(d, Fraction(2, 3))), constant(d, Fraction(1, 5)))
    exponents = [half, d.neg(d.add(x, t)), third]
    total = constant(d, 0)
    for e in exponents:
        total = d.add(total, d.exp2(e))
    condition = d.claim([(total, total)]).condition
    # units x/2 and t/3: -(x + t) is -2 and -3 of them
    assert condition == Condition(None, 1, 5.0, 5, 1.0)


def test_nested_exponentials_have_no_theorem() -> None:
    d = domain({"x": (4,)}, levels=3)
    out = d.exp2(d.exp2(d.input("x", 4)))
    error, reason = error_log2(d.claim([(out, out)]), 4, 3)
    assert error is None
    assert "exponential" in reason


def test_each_output_has_its_own_frame() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    # every pair x_i y_j occurs in some output: no frame for all, one for each
    outputs = [d.exp2(d.mul(x[i : i + 1], y)) for i in range(4)]
    assert d.claim([(o, o) for o in outputs]).condition.reason is None
    together = outputs[0]
    for o in outputs[1:]:
        together = d.add(together, o)
    assert d.claim([(together, together)]).condition.reason is None  # x_i of its own
    rows = constant(d, 0)
    for i in range(4):
        for j in range(4):
            rows = d.add(rows, d.exp2(d.mul(x[i : i + 1], y[j : j + 1])))
    assert d.claim([(rows, rows)]).condition.reason is not None


def test_exponents_inside_atoms_count() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x = d.input("x", 4)
    hidden = d.atom("lg2", [d.exp2(d.mul(x, x))])
    assert d.claim([(hidden, hidden)]).condition.reason is not None
    top = d.maximum(d.exp2(d.mul(x, x)), x)
    assert d.claim([(top, top)]).condition.reason is not None
    fine = d.atom("lg2", [d.exp2(x)])
    nested = d.exp2(d.sub(d.input("y", 4), fine))  # an atom may stand in an exponent
    assert d.claim([(nested, nested)]).condition.reason is None


def test_decisions_count_even_if_their_values_are_dropped() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    e = d.exp2(d.mul(x, x))
    assert (d.decide(d.compare("eq", e, d.exp2(d.mul(x, x)))) == 1).all()
    assert d.claim([(y, y)]).condition.reason is not None


def test_a_compare_of_equal_values_is_a_decision() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    d.compare("lt", d.exp2(d.mul(x, x)), y)
    assert d.claim([(y, y)]).condition.reason is None
    d.compare("lt", d.exp2(d.mul(x, x)), d.exp2(d.mul(x, x)))
    assert d.claim([(y, y)]).condition.reason is not None


def test_a_decided_indicator_is_a_decision() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    e = d.exp2(d.mul(x, x))
    assert (d.decide(e) == -1).all()
    assert d.claim([(y, y)]).condition.reason is None
    assert (d.decide(d.sub(e, e)) == 0).all()
    assert d.claim([(y, y)]).condition.reason is not None


def test_a_vanishing_divisor_is_a_decision() -> None:
    d = domain({"x": (4,), "y": (4,)})
    x, y = d.input("x", 4), d.input("y", 4)
    e = d.exp2(d.mul(x, x))
    d.div(y, e)
    assert d.claim([(y, y)]).condition.reason is None
    assert d.div(y, d.sub(e, e))[1].all()
    assert d.claim([(y, y)]).condition.reason is not None


def test_rational_functions_need_no_frame() -> None:
    d = domain({}, levels=1)
    a, b = d.input("a", 256).reshape((16, 16)), d.input("b", 256).reshape((16, 16))
    c = d.matmul(a, b)
    relu = d.maximum(c, constant(d, 0))
    claim = d.claim([(relu, relu), (c, c)])
    assert claim.zero.x == 2
    assert claim.zero.bits == pytest.approx(5)
    assert claim.condition == Condition()
    assert claim.tests == (256 + 1 + 256) ** 2
    error, _ = error_log2(claim, 5, 1)
    assert error is not None
    assert error < -80


def test_values_agree_with_the_field() -> None:
    d = domain(QKV)
    plain = FieldDomain(11, 4, 2)
    x, y = d.input("x", 4), d.input("y", 4)
    u, v = plain.input("x", 4), plain.input("y", 4)
    ours = d.select(d.compare("lt", x, y), d.minimum(x, y), d.exp2(d.add(x, y)))
    theirs = plain.select(
        plain.compare("lt", u, v), plain.minimum(u, v), plain.exp2(plain.add(u, v))
    )
    assert plain.equal(ours.value, theirs).all()
    assert (d.decide(d.compare("le", x, x)) == 1).all()


def test_indexing_keeps_value_and_support_together() -> None:
    d = domain({"x": (6,)})
    assert d.supports is not None
    x = d.input("x", 6).reshape((2, 3))
    for index in ((slice(None), 1), 0, np.array([[True, False, True], [False, True, False]])):
        part = x[index]
        assert part.support is not None
        expected = np.arange(6).reshape(2, 3)[index].ravel().tolist()
        assert part.support.hull[d.supports.axes].ravel().tolist() == expected
        assert part.shape == part.support.shape


# the formula


def claim(x: float = 2.0, e: float = 0.0, bits: float = 30.0, tests: int = 0) -> Claim:
    return Claim(Zero(x, e, bits), Condition(), tests, 0)


def test_formula_without_exponentials() -> None:
    trial = 2 / 2**30 + 31 / 30 / 25_348_667
    assert per_trial(claim(), 1) == pytest.approx(trial)
    error, _ = error_log2(claim(), 3, 1, attempts=1)
    assert error == pytest.approx(3 * np.log2(trial))
    more, _ = error_log2(claim(tests=2**20 - 1), 3, 1, attempts=8)
    assert more == pytest.approx(3 * np.log2(trial) + 20 + 3)


def test_formula_with_exponentials() -> None:
    c = Claim(Zero(2, 5, 30), Condition(None, 7, 3.0, 2, 4.0), 0, 0)
    expected = 2 / 2**30 + (2 * 5 * 3 + 7 * 4) / 2**29 + 2 * 31 / 30 / 817_344
    assert per_trial(c, 2) == pytest.approx(expected)


def test_hashing_limits_the_bound() -> None:
    c = Claim(Zero(1, 0, 1), Condition(), 0, 2**20)
    error, _ = error_log2(c, 40, 1, attempts=1)
    assert error == pytest.approx(-88, abs=0.1)


@pytest.mark.parametrize("bad", [claim(x=2.0**20), claim(bits=1e30), claim(x=float("inf"))])
def test_budget_of_degree(bad: Claim) -> None:
    error, reason = error_log2(bad, 4, 1)
    assert error is None
    assert reason.startswith("budget.degree")
    assert trials_needed(bad, 1) is None
