from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.canon.domain import Collision, LevelsExhausted
from kcheck.canon.field import FieldDomain
from kcheck.canon.residues import FieldValue

N = 7
ZEROS = np.zeros(1, np.int64)


def constant(d: FieldDomain, value: Fraction | int) -> FieldValue:
    return d.constants([Fraction(value)], ZEROS)


def same(d: FieldDomain, a: FieldValue, b: FieldValue) -> bool:
    return bool(d.equal(a, b).all())


def differ(d: FieldDomain, a: FieldValue, b: FieldValue) -> bool:
    return not d.equal(a, b).any()


@pytest.fixture(scope="module")
def d() -> FieldDomain:
    return FieldDomain(5, trials=4, levels=3)


@pytest.fixture(scope="module")
def xyz(d: FieldDomain) -> list[FieldValue]:
    return [d.input(name, N) for name in "xyz"]


# rational functions against exact arithmetic

FRACTIONS = st.fractions(max_denominator=60).filter(lambda q: abs(q) < 10**6)
OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


@given(st.lists(FRACTIONS, min_size=3, max_size=3), st.sampled_from(sorted(OPERATIONS)))
@settings(max_examples=60, deadline=None)
def test_arithmetic_is_that_of_rationals(values: list[Fraction], name: str) -> None:
    d = FieldDomain(1, trials=2, levels=2)
    a, b, c = (constant(d, v) for v in values)
    assert same(d, getattr(d, name)(a, b), constant(d, OPERATIONS[name](*values[:2])))
    assert same(d, d.neg(a), constant(d, -values[0]))
    assert same(d, d.fma(a, b, c), constant(d, values[0] * values[1] + values[2]))
    quotient, zero = d.div(a, b)
    assert zero.all() == (values[1] == 0)
    if values[1]:
        assert same(d, quotient, constant(d, values[0] / values[1]))


def test_residues_at_the_ends_of_the_range(d: FieldDomain) -> None:
    p = d.primes.astype(object)[..., None]
    top = FieldValue((p - 1).astype(np.uint64) + np.zeros(N, np.uint64))
    assert same(d, top, constant(d, -1))
    assert same(d, d.add(top, top), constant(d, -2))
    assert same(d, d.sub(d.sub(top, top), constant(d, 1)), constant(d, -1))
    assert same(d, d.mul(top, top), constant(d, 1))
    assert same(d, d.fma(top, constant(d, 1), top), constant(d, -2))
    assert same(d, d.neg(constant(d, 0)), constant(d, 0))
    wide = FieldValue(np.broadcast_to(top.r[..., :1, None], (*d.primes.shape, 200, 200)))
    assert (d.matmul(wide, wide).r == 200).all()


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_matmul_is_exact(m: int, n: int, k: int, seed: int) -> None:
    d = FieldDomain(seed, trials=3, levels=2)
    a = d.input("a", 2 * m * k).reshape((2, m, k))
    b = d.input("b", k * n).reshape((1, k, n))
    p = d.primes.astype(object)[:, :, None, None, None]
    expected = (a.r.astype(object) @ b.r.astype(object)) % p
    assert (d.matmul(a, b).r == expected).all()


def test_matmul_over_a_long_inner_axis() -> None:
    d = FieldDomain(1, trials=1)
    k = 70_000
    a = FieldValue(np.full((1, 1, 1, k), d.primes[0, 0] - np.uint64(1)))
    assert int(d.matmul(a, a.reshape((k, 1))).r[0, 0, 0, 0]) == k


def test_division_of_many_lanes(d: FieldDomain) -> None:
    for n in (1, 2, 3, 1000, 1025):
        a, b = d.input("a", n), d.input("b", n)
        quotient, zero = d.div(a, b)
        assert not zero.any()
        assert same(d, d.mul(quotient, b), a)


# laws of exp2 and of constants


def test_exp2_turns_sums_into_products(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, _ = xyz
    two = constant(d, 2)
    assert same(d, d.exp2(d.add(x, y)), d.mul(d.exp2(x), d.exp2(y)))
    assert same(d, d.exp2(constant(d, 1)), two)
    assert same(d, d.exp2(constant(d, -3)), constant(d, Fraction(1, 8)))
    assert same(d, d.exp2(d.add(x, constant(d, 1))), d.mul(d.exp2(x), two))
    half = d.exp2(d.mul(x, constant(d, Fraction(1, 2))))
    assert same(d, d.mul(half, half), d.exp2(x))
    nested = d.exp2(d.exp2(d.add(x, constant(d, 1))))
    assert same(d, nested, d.mul(d.exp2(d.exp2(x)), d.exp2(d.exp2(x))))
    assert differ(d, d.exp2(d.exp2(x)), d.exp2(d.exp2(y)))
    assert differ(d, d.exp2(d.mul(x, two)), d.mul(d.exp2(x), two))


def test_exp2_is_a_power_of_two(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x = xyz[0]
    out = d.exp2(x)
    assert out.depth == 2
    for k, t, lane in np.ndindex(*out.r.shape):
        assert out.r[k, t, lane] == pow(2, int(x.r[k + 1, t, lane]), int(d.primes[k, t]))


def test_levels_run_out(d: FieldDomain, xyz: list[FieldValue]) -> None:
    once = d.exp2(xyz[0])
    assert d.add(once, xyz[1]).depth == 2
    twice = d.exp2(once)
    with pytest.raises(LevelsExhausted):
        d.exp2(d.mul(twice, xyz[1]))
    with pytest.raises(LevelsExhausted):
        FieldDomain(1).exp2(FieldDomain(1).input("x", 1))
    deeper = FieldDomain(1, deeper=True)
    inputs = deeper.input("x", 2)
    power = deeper.exp2(inputs)
    assert power.depth == 1
    assert deeper.equal(power, deeper.exp2(inputs)).all()
    assert deeper.opaque
    # an atom is a new indeterminate and whole again
    assert d.atom("tanh", [twice]).depth == 3
    assert d.maximum(twice, xyz[0]).depth == 3
    assert d.maximum(twice, twice).depth == 1


def test_large_constants_are_not_confused(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x = xyz[0]
    step = d.mul(d.mul(x, constant(d, 2**24)), constant(d, 2))
    assert same(d, d.mul(x, constant(d, 2**25)), step)
    # 2^31 = 69 modulo 2147483579, a prime
    assert differ(d, d.mul(x, constant(d, 2147483648)), d.mul(x, constant(d, 69)))


FALSE = {
    "x+y = x-y": lambda d, x, y: (d.add(x, y), d.sub(x, y)),
    "x*x = x": lambda d, x, y: (d.mul(x, x), x),
    "xy+1 = xy": lambda d, x, y: (d.fma(x, y, constant(d, 1)), d.mul(x, y)),
    "x/y = y/x": lambda d, x, y: (d.div(x, y)[0], d.div(y, x)[0]),
    "max = min": lambda d, x, y: (d.maximum(x, y), d.minimum(x, y)),
    "x = y": lambda d, x, y: (x, y),
    "tanh = sin": lambda d, x, y: (d.atom("tanh", [x]), d.atom("sin", [x])),
    "f(x,y) = f(y,x)": lambda d, x, y: (d.atom("f", [x, y]), d.atom("f", [y, x])),
}


@pytest.mark.parametrize("name", FALSE)
def test_false_identity_is_found(name: str, d: FieldDomain, xyz: list[FieldValue]) -> None:
    assert differ(d, *FALSE[name](d, xyz[0], xyz[1]))


def test_seed_fixes_everything() -> None:
    def run(seed: int) -> FieldValue:
        d = FieldDomain(seed, trials=3, levels=2)
        x, y = d.input("x", N), d.input("y", N)
        return d.add(d.maximum(d.exp2(x), y), d.atom("tanh", [x]))

    assert (run(3).r == run(3).r).all()
    assert (run(3).r != run(4).r).all()


def test_inputs_are_the_same_at_each_call() -> None:
    d = FieldDomain(1, trials=2, levels=2)
    early, late = d.input("x", 3), d.input("x", 9)
    assert (late.r[:, :, :3] == early.r).all()
    assert (FieldDomain(1, trials=2, levels=2).input("x", 2).r == early.r[:, :, :2]).all()
    assert len(np.unique(late.r)) == late.r.size


# collisions


def test_denominator_that_a_prime_divides() -> None:
    d = FieldDomain(1, trials=1)
    with pytest.raises(Collision, match="denominator"):
        constant(d, Fraction(1, int(d.primes[0, 0])))


def test_divisor_that_vanishes_in_some_trials() -> None:
    d = FieldDomain(1, trials=2)
    x = d.input("x", 4)
    by_chance = constant(d, int(d.primes[0, 0]))
    with pytest.raises(Collision, match="divisor"):
        d.div(x, by_chance)
    _, zero = d.div(x, d.sub(x, x))
    assert zero.all()
    _, zero = d.div(x, d.where(np.array([True, False, True, True]), x, constant(d, 0)))
    assert zero.tolist() == [False, True, False, False]


# atoms and compares


def test_atom_is_a_function_of_its_arguments(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, _ = xyz
    twice = d.add(x, x)
    assert same(d, d.atom("sqrt", [twice]), d.atom("sqrt", [d.mul(x, constant(d, 2))]))
    assert differ(d, d.atom("sqrt", [x]), d.atom("sqrt", [y]))
    assert same(d, d.atom("f", [x, constant(d, 1)])[2:3], d.atom("f", [x[2:3], constant(d, 1)]))


def test_one_trial_apart_is_another_atom() -> None:
    for trials in (1, 2, 3, 4, 5):
        d = FieldDomain(1, trials=trials)
        x = d.input("x", 1)
        for t in range(trials):
            r = x.r.copy()
            r[0, t] ^= np.uint64(1)
            assert differ(d, d.atom("f", [x]), d.atom("f", [FieldValue(r)]))


def test_compares_are_consistent(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, _ = xyz
    one = constant(d, 1)
    lt = d.compare("lt", x, y)
    assert same(d, lt, d.compare("gt", y, x))
    assert same(d, d.sub(one, lt), d.compare("ge", x, y))
    assert same(d, d.compare("le", x, y), d.compare("ge", y, x))
    assert same(d, d.compare("eq", x, y), d.compare("eq", y, x))
    assert same(d, d.compare("ne", x, y), d.sub(one, d.compare("eq", y, x)))
    assert same(d, d.compare("lt", d.add(x, one), d.add(one, y)), lt)
    assert differ(d, lt, d.compare("lt", y, x))
    assert differ(d, lt, d.compare("le", x, y))
    assert differ(d, lt, d.compare("eq", x, y))
    assert (d.decide(lt) == -1).all()


@pytest.mark.parametrize(
    ("op", "answer"), [("lt", 0), ("gt", 0), ("ne", 0), ("le", 1), ("ge", 1), ("eq", 1)]
)
def test_equal_values_compare_concretely(
    op: str, answer: int, d: FieldDomain, xyz: list[FieldValue]
) -> None:
    x, y, _ = xyz
    mask = np.arange(N) % 2 == 0
    p = d.compare(op, x, d.where(mask, x, y))
    assert (d.decide(p)[mask] == answer).all()
    assert (d.decide(p)[~mask] == -1).all()
    decided = [int(d.decide(constant(d, v))[0]) for v in (0, 1, 2)]
    assert decided == [0, 1, -1]


def test_select_takes_an_arm(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, z = xyz
    assert same(d, d.select(constant(d, 1), x, y), x)
    assert same(d, d.select(constant(d, 0), x, y), y)
    p = d.compare("lt", x, z)
    assert same(d, d.select(p, x, y), d.select(d.compare("ge", x, z), y, x))
    assert differ(d, d.select(p, x, y), d.select(p, y, x))


# maxima


def test_maximum_is_over_a_set(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, z = xyz
    top = d.maximum
    assert same(d, top(x, x), x)
    assert same(d, top(x, y), top(y, x))
    assert same(d, top(x, top(y, x)), top(y, x))
    assert same(d, top(top(x, y), top(z, y)), top(z, top(y, x)))
    assert differ(d, top(x, y), top(x, z))
    assert differ(d, top(x, y), x)
    assert same(d, d.minimum(x, d.minimum(y, z)), d.minimum(d.minimum(z, x), y))
    assert same(d, d.minimum(x, y), d.neg(top(d.neg(y), d.neg(x))))


def test_maximum_of_equal_lanes_is_the_argument(d: FieldDomain, xyz: list[FieldValue]) -> None:
    x, y, _ = xyz
    mask = np.arange(N) % 2 == 0
    top = d.maximum(d.where(mask, x, y), x)
    assert (d.equal(top, x) == mask).all()
    assert (d.equal(top, d.maximum(x, y)) == ~mask).all()
    value, single = d.max_union(d.where(mask, d.exp2(x), y), d.exp2(x))
    assert (single == mask).all()
    assert value.depth == 2


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_maxima_agree_exactly_where_their_sets_do(data: st.DataObject) -> None:
    d = FieldDomain(9, trials=2)
    x = d.input("x", 6)

    def build(members: list[int]) -> FieldValue:
        values = [x[i : i + 1] for i in members]
        while len(values) > 1:
            i = data.draw(st.integers(0, len(values) - 2))
            values[i : i + 2] = [d.maximum(values[i], values[i + 1])]
        return values[0]

    members = st.lists(st.integers(0, 5), min_size=1, max_size=8)
    first, second = data.draw(members), data.draw(members)
    assert same(d, build(first), build(second)) == (set(first) == set(second))


def test_maximum_survives_memory_shuffles_and_arithmetic() -> None:
    d = FieldDomain(2, trials=4, levels=2)
    x, y = d.input("x", 64), d.input("y", 64)
    m = d.maximum(x, y)
    store = d.store(100)
    order = np.random.default_rng(0).permutation(64).astype(np.int64)
    store.write(order + 10, m)
    back = d.sub(d.add(store.read(order + 10), y), y)
    assert same(d, d.maximum(back, x), m)
    tree = m
    for step in (32, 16, 8, 4, 2, 1):
        tree = d.maximum(tree, tree[np.arange(64) ^ step])
    line = d.maximum(x[63:], y[63:])
    for i in range(63):
        line = d.maximum(line, d.maximum(y[i : i + 1], x[i : i + 1]))
    assert same(d, tree, line)


def test_long_maxima_do_not_cost_the_square() -> None:
    d = FieldDomain(3, trials=2)
    x = d.input("x", 32 * 400).reshape((400, 32))
    forward, backward = x[0], x[399]
    for i in range(1, 400):
        forward = d.maximum(forward, x[i])
        backward = d.maximum(backward, x[399 - i])
    assert same(d, forward, backward)
    assert d.max_sets < 3 * 400 * 32


def test_counters(d: FieldDomain) -> None:
    fresh = FieldDomain(1, trials=2)
    x, y = fresh.input("x", 5), fresh.input("y", 5)
    fresh.atom("tanh", [x])
    fresh.compare("lt", x, y)
    fresh.maximum(x, y)
    assert fresh.atoms == 10
    assert fresh.max_sets == 15


# structure


def test_shapes_broadcast_like_numpy(d: FieldDomain) -> None:
    column, row, one = d.input("a", 3).reshape((3, 1)), d.input("b", 4), constant(d, 5)
    table = d.fma(column, row, one)
    assert table.shape == (3, 4)
    assert same(d, table[2, 1:2], d.add(d.mul(column[2], row[1:2]), one))
    assert d.fma(one, one, row).shape == (4,)
    assert d.fma(row, one, column).shape == (3, 4)
    assert d.div(column, row)[1].shape == (3, 4)
    assert d.maximum(column, row).shape == (3, 4)
    assert d.where(np.ones((2, 4), bool), one, row).shape == (2, 4)
    assert d.atom("f", [column, row]).shape == (3, 4)
    stacked = d.stack([d.exp2(row), row])
    assert stacked.shape == (2, 4)
    assert stacked.depth == 2


def test_indexing_is_over_lanes(d: FieldDomain) -> None:
    x = d.input("x", 60).reshape((3, 4, 5))
    lanes = np.arange(60).reshape(3, 4, 5)
    first, last = np.array([0, 2]), np.array([4, 1])
    flat = x.reshape((60,))
    for index in (1, (slice(None), 2), (first, slice(None), last), lanes > 7, Ellipsis):
        expected = flat.r[:, :, lanes[index]]
        assert x[index].shape == lanes[index].shape
        assert (x[index].r == expected).all()
