"""Infinities on conditions, against IEEE arithmetic at every setting of the conditions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kcheck.canon.constants import CASED, FINITE, MASKED, NAN, NINF, PINF, SYMBOLIC, UNKNOWN
from kcheck.canon.lanes import Real
from kcheck.canon.real import Reals
from tests.canon.term.expressions import COMPARE

Floats = NDArray[np.float64]
# indicators, all settings of which are looked at; numbers
BITS, SETTINGS = 3, 8
INDICATORS = np.array([[s >> i & 1 for s in range(SETTINGS)] for i in range(BITS)], float)
FAR = -(2.0**40)
SPECIALS = {NAN: np.nan, PINF: np.inf, NINF: -np.inf}


class Table:
    """One number for each lane and setting."""

    def __init__(self, v: Floats) -> None:
        self.v = v

    @property
    def shape(self) -> tuple[int, ...]:
        return self.v.shape[:-1]

    def __getitem__(self, index: Any) -> Table:
        return Table(self.v[index])

    def reshape(self, shape: tuple[int, ...]) -> Table:
        return Table(self.v.reshape((*shape, SETTINGS)))


class TableStore:
    """A memory of tables."""

    def __init__(self, n: int) -> None:
        self.cells = np.zeros((n, SETTINGS))

    def read(self, index: Any) -> Table:
        return Table(self.cells[index])

    def write(self, index: Any, value: Table) -> None:
        self.cells[index] = value.v


class Tables:
    """A domain of finite numbers, evaluated at every setting."""

    def constants(self, values: Sequence[Any], index: Any) -> Table:
        flat = np.array([float(v) for v in values])[index]
        return Table(np.repeat(flat[..., None], SETTINGS, axis=-1))

    def store(self, n: int) -> TableStore:
        return TableStore(n)

    def where(self, mask: Any, a: Table, b: Table) -> Table:
        return Table(np.where(np.asarray(mask)[..., None], a.v, b.v))

    def neg(self, a: Table) -> Table:
        return Table(-a.v)

    def add(self, a: Table, b: Table) -> Table:
        return Table(a.v + b.v)

    def sub(self, a: Table, b: Table) -> Table:
        return Table(a.v - b.v)

    def mul(self, a: Table, b: Table) -> Table:
        return Table(a.v * b.v)

    def exp2(self, a: Table) -> Table:
        return Table(np.exp2(np.clip(a.v, -1000, 1000)))

    def maximum(self, a: Table, b: Table) -> Table:
        return Table(np.maximum(a.v, b.v))

    def minimum(self, a: Table, b: Table) -> Table:
        return Table(np.minimum(a.v, b.v))

    def compare(self, op: str, a: Table, b: Table) -> Table:
        return Table(COMPARE[op](a.v, b.v).astype(float))

    def select(self, p: Table, a: Table, b: Table) -> Table:
        return Table(np.where(p.v == 1, a.v, b.v))

    def atom(self, name: str, args: Sequence[Table]) -> Table:
        assert name == MASKED
        return Table(np.where(args[1].v == 1, FAR, args[0].v))

    def decide(self, p: Table) -> NDArray[np.int8]:
        known = np.where((p.v == 1).all(-1), 1, np.where((p.v == 0).all(-1), 0, -1))
        return known.astype(np.int8)

    def identities(self, a: Table) -> NDArray[np.int64]:
        flat = a.v.reshape(-1, SETTINGS)
        word = np.array([hash(row.tobytes()) for row in flat], np.int64).reshape(a.shape)
        return np.stack([word, np.zeros_like(word)])


# with IEEE's rules; a maximum of NaN and x is x
IEEE: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.fmax,
    "minimum": np.fmin,
}


class Pool:
    """Values made at random, and what they are at each setting."""

    def __init__(self) -> None:
        self.reals: Reals[Any] = Reals(Tables())  # type: ignore[arg-type]
        self.made: list[tuple[Real[Any], Floats]] = []
        self.predicates: list[Floats] = list(INDICATORS)
        for row in (INDICATORS[0] + 1, INDICATORS[1] * 2 - 1, INDICATORS[2] * 3):
            self.made.append((self.reals.symbolic(Table(row[None])), row))
        for ident, value in SPECIALS.items():
            self.made.append((self.reals.uniform(ident), np.full(SETTINGS, value)))
        for n in (0, 1, -2):
            self.made.append((self.reals.constant(Fraction(n)), np.full(SETTINGS, float(n))))

    def put(self, value: Real[Any], expected: Floats) -> None:
        """Check it against what IEEE arithmetic gives, and use it from now on."""
        ident = int(self.reals.ids(value)[0])
        if ident == UNKNOWN:
            return
        got = self.seen(value, ident)
        np.testing.assert_array_equal(got, expected)
        if abs(expected[np.isfinite(expected)]).max(initial=0) < 2**20:
            self.made.append((value, expected))

    def seen(self, value: Real[Any], ident: int) -> Floats:
        """The lane at every setting."""
        if ident in SPECIALS:
            return np.full(SETTINGS, SPECIALS[ident])
        if FINITE <= ident < CASED:
            return np.full(SETTINGS, float(self.reals.constants.values[ident]))
        out = self.reals.value(value).v[0]
        if ident != SYMBOLIC:
            for condition, special in reversed(self.reals.cases.lists[ident - CASED]):
                holds = self.reals.cases.indicator(np.array([condition])).v[0] == 1
                number = float(self.reals.constants.values[special])
                out = np.where(holds, SPECIALS.get(special, number), out)
        return out


STEP = st.tuples(
    st.sampled_from([*IEEE, "exp2", "neg", "select", "select", "guard"]), *[st.integers(0, 99)] * 3
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=6, max_size=30))
def test_every_setting_is_as_ieee_says(steps: list[tuple[str, int, int, int]]) -> None:
    pool = Pool()
    reals = pool.reals
    for op, i, j, k in steps:
        (x, a), (y, b) = (pool.made[n % len(pool.made)] for n in (i, j))
        with np.errstate(all="ignore"):
            if op in IEEE:
                pool.put(getattr(reals, op)(x, y), IEEE[op](a, b))
            elif op == "neg":
                pool.put(reals.neg(x), -a)
            elif op == "exp2" and (a[np.isfinite(a)] == np.round(a[np.isfinite(a)])).all():
                if abs(a[np.isfinite(a)]).max(initial=0) < 16:
                    pool.put(reals.exp2(x), np.exp2(a))
            elif op == "select":
                p = pool.predicates[k % len(pool.predicates)]
                pool.put(reals.select(Table(p[None]), x, y), np.where(p == 1, a, b))
            elif op == "guard":
                guard(pool, (x, a), (y, b), sorted(COMPARE)[k % len(COMPARE)])


def guard(pool: Pool, x: tuple[Real[Any], Floats], y: tuple[Real[Any], Floats], op: str) -> None:
    """A comparison, which becomes a predicate."""
    unordered = op == "ne"
    known, p = pool.reals.compare(op, unordered, x[0], y[0])
    expected = COMPARE[op](x[1], y[1]).astype(float)
    answer = int(np.broadcast_to(known, (1,))[0])
    if answer in (0, 1):
        assert (expected == answer).all()
    elif answer == -1 and p is not None:
        np.testing.assert_array_equal(p.v[0], expected)
        pool.predicates.append(expected)
