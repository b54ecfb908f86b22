"""Engines never contradict each other: random small kernels, rewritten by laws and by wrong steps.

Exact-equal implies that no input differs, field-different that nothing is proved without a law that
the field lacks, and every witness is real: NumPy in float64 finds the same two values.
"""

from __future__ import annotations

import random
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcheck.check import equivalent
from kcheck.verdict import Verdict
from tests.canon.term.expressions import (
    INPUTS,
    NOT,
    Expr,
    changed,
    compute,
    points,
    rewritten,
    some,
)
from tests.semantics.harness import entry, launch_of, out, symbol

SEEDS = st.integers(0, 2**32)
PARAMS = [*(symbol(name, "f32", 32) for name in INPUTS), out("z_out", "f32", 32)]
RING = ("add", "sub", "mul", "neg", "fma")
# operations, and whether all rewritings must be proved
FAMILIES = [
    (RING, True),
    (("add", "mul", "exp2", "sub"), True),
    (("add", "mul", "div", "sub"), True),
    (("add", "mul", "maximum", "minimum", "neg"), False),
    (("add", "mul", "select", "maximum", "sub"), False),
    (("add", "mul", "exp2", "maximum", "select", "div"), False),
]
PTX = {
    "add": "add.f32",
    "sub": "sub.f32",
    "mul": "mul.f32",
    "neg": "neg.f32",
    "fma": "fma.rn.f32",
    "div": "div.rn.f32",
    "exp2": "ex2.approx.f32",
    "maximum": "max.f32",
    "minimum": "min.f32",
}


class Code:
    """Straight-line PTX for an expression; equal parts are computed once."""

    def __init__(self) -> None:
        self.lines = [f"ld.global.f32 %f{i}, [%{name}];" for i, name in enumerate(INPUTS)]
        self.made: dict[Expr, str] = {Expr(f"in:{name}"): f"%f{i}" for i, name in enumerate(INPUTS)}
        self.predicates = 0

    def register(self, e: Expr) -> str:
        if e not in self.made:
            self.made[e] = self._new(e)
        return self.made[e]

    def _new(self, e: Expr) -> str:
        if e.op.startswith("#"):
            (bits,) = struct.unpack("<I", struct.pack("<f", Fraction(e.op[1:])))
            return self._line("mov.f32", f"0f{bits:08X}")
        if e.op == "select":
            condition, *arms = e.args
            yes, no = map(self.register, arms)
            a, b = map(self.register, condition.args)
            p = f"%p{self.predicates}"
            self.predicates += 1
            self.lines.append(f"setp.{condition.op}.f32 {p}, {a}, {b};")
            return self._line("selp.f32", yes, no, p)
        return self._line(PTX[e.op], *map(self.register, e.args))

    def _line(self, opcode: str, *operands: str) -> str:
        register = f"%f{len(self.lines)}"
        self.lines.append(f"{opcode} {register}, {', '.join(operands)};")
        return register


def kernel(e: Expr) -> str:
    code = Code()
    register = code.register(e)
    return entry("\n".join([*code.lines, f"st.global.f32 [%z_out], {register};"]), PARAMS)


def dyadic(e: Expr) -> Expr:
    """With numbers that f32 holds."""
    if e.op.startswith("#"):
        return Expr(f"#{Fraction(round(Fraction(e.op[1:]) * 4), 4)}")
    return Expr(e.op, tuple(map(dyadic, e.args)))


def decided(e: Expr, inputs: dict[str, Any]) -> Any:
    """Where no comparison hangs on the rounding of what is equal over the reals."""
    good: Any = True
    for part in e.args:
        good = good & decided(part, inputs)
    if e.op in NOT:
        x, y = (compute(part, inputs) for part in e.args)
        good = good & ((x == y) | ~(abs(x - y) <= 1e-9 * (1 + abs(x) + abs(y))))
    return good


def differ(a: Expr, b: Expr) -> bool:
    inputs = points(0)
    with np.errstate(all="ignore"):
        x, y = compute(a, inputs), compute(b, inputs)
        apart = abs(x - y) > 1e-6 * (1 + abs(x) + abs(y))
        apart = apart & decided(a, inputs) & decided(b, inputs)
    return bool((apart & np.isfinite(x) & np.isfinite(y) & (abs(x) < 1e9)).any())


def assert_real(verdict: Verdict, a: Expr, b: Expr) -> None:
    """The values of the witness are those that NumPy finds."""
    witness = verdict.witness
    assert witness is not None
    inputs = {name: np.zeros(1) for name in INPUTS}
    inputs |= {n: np.asarray(v, float)[list(witness.index)] for n, v in witness.inputs.items()}
    for e, (low, high) in ((a, witness.reference), (b, witness.subject)):
        with np.errstate(all="ignore"):
            (value,) = compute(e, inputs)
        if np.isfinite(value):
            slack = 1e-6 * (1 + abs(value))
            assert low - slack <= value <= high + slack, f"{e} at {inputs}"


def assert_agreement(seed: int) -> None:
    rng = random.Random(seed)
    ops, complete = rng.choice(FAMILIES)
    a = dyadic(some(rng, rng.choice((2, 3)), ops))
    lawful = rng.random() < 0.5
    b = rewritten(rng, a, selects=True)
    b = b if lawful else changed(rng, b)
    texts = [kernel(a), kernel(b)]
    launch = launch_of(PARAMS, 1, 32)
    verdicts = {
        engine: equivalent(*texts, launch=launch, safety=False, seed=1, engine=engine)
        for engine in ("auto", "term", "field")
    }
    found = {v.verdict for v in verdicts.values()}
    what = f"{a} = {b}: {found}"
    assert "error" not in found, what
    assert not {"proved", "refuted"} <= found, what
    if "proved" in found:
        assert not differ(a, b), what
    for verdict in verdicts.values():
        if verdict.verdict == "refuted" and verdict.reason == "value.mismatch":
            assert_real(verdict, a, b)
    if lawful:
        assert "refuted" not in found, what
        if complete:
            assert verdicts["term"].verdict == "proved", what


@settings(max_examples=12, deadline=None)
@example(4209864301)  # a difference in a sign has a name
@example(102255)  # both sides of a comparison are equal, but not in float64
@given(SEEDS)
def test_engines_agree(seed: int) -> None:
    assert_agreement(seed)


@pytest.mark.nightly
@settings(max_examples=2000, deadline=None)
@given(SEEDS)
def test_engines_agree_on_many(seed: int) -> None:
    assert_agreement(seed)
