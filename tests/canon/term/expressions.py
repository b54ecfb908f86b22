"""Random expressions over the reals: built in any domain, and computed in float64."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.domain import Domain
from kcheck.canon.known import LOG2E, SQRT_PI, approximation, known

INPUTS = ("x", "y", "z")
ATOMS = frozenset({"lg2", "sqrt", "tanh", "erf", "sin", "cos", "rint"})
KNOWN = {
    "log2e": known(1, {LOG2E: 1}),
    "ln2": known(1, {LOG2E: -1}),
    "pi": known(1, {SQRT_PI: 2}),
    "sqrt2": known(1, {"sqrt 2": 1}),
    "sqrt3/2": known(Fraction(1, 2), {"sqrt 3": 1}),
    "sqrt(2/pi)": known(1, {"sqrt 2": 1, SQRT_PI: -1}),
    "log2e/sqrt2": known(Fraction(1, 2), {LOG2E: 1, "sqrt 2": 1}),
}
NUMBERS = [Fraction(n, d) for n in (-3, -1, 0, 1, 2, 5) for d in (1, 2, 3)]


COMPARE: dict[str, Any] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


@dataclass(frozen=True)
class Expr:
    """An operation with its arguments; leaves are `in:x`, numbers and known constants."""

    op: str
    args: tuple[Any, ...] = ()

    def __add__(self, other: Expr | int) -> Expr:
        return Expr("add", (self, whole(other)))

    def __sub__(self, other: Expr | int) -> Expr:
        return Expr("sub", (self, whole(other)))

    def __mul__(self, other: Expr | int) -> Expr:
        return Expr("mul", (self, whole(other)))

    def __truediv__(self, other: Expr | int) -> Expr:
        return Expr("div", (self, whole(other)))

    def __neg__(self) -> Expr:
        return Expr("neg", (self,))

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})" if self.args else self.op


def number(value: Fraction | int) -> Expr:
    return Expr(f"#{Fraction(value)}")


def constant(name: str) -> Expr:
    """A known constant, one of `KNOWN`."""
    return Expr(f"known:{name}")


def whole(value: Expr | int) -> Expr:
    return number(value) if isinstance(value, int) else value


def call(op: str, *args: Expr | int) -> Expr:
    """An operation by name, like `call("select", call("gt", x, 0), x, y)`."""
    return Expr(op, tuple(map(whole, args)))


X, Y, Z = (Expr(f"in:{name}") for name in INPUTS)


def build(expr: Expr, d: Domain[Any], made: dict[Expr, Any] | None = None) -> Any:
    """The value of an expression in a domain; shape (1,). `made`: values, each built once."""
    if made is None:
        return _build(expr, d, None)
    if expr not in made:
        made[expr] = _build(expr, d, made)
    return made[expr]


def _build(expr: Expr, d: Domain[Any], made: dict[Expr, Any] | None) -> Any:
    return apply(d, expr.op, [build(arg, d, made) for arg in expr.args])


def apply(d: Domain[Any], op: str, args: list[Any]) -> Any:
    """One operation in a domain."""
    if op.startswith("in:"):
        return d.input(op[3:], 1)
    if op.startswith("#"):
        return d.constants([Fraction(op[1:])], np.zeros(1, np.int64))
    if op.startswith("known:"):
        return d.constants([KNOWN[op[6:]]], np.zeros(1, np.int64))
    if op == "div":
        return d.div(*args)[0]
    if op in ATOMS:
        return d.atom(op, args)
    if op in COMPARE:
        return d.compare(op, *args)
    return getattr(d, op)(*args)


_FLOAT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "fma": lambda a, b, c: a * b + c,
    "exp2": np.exp2,
    "lg2": np.log2,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "rint": np.rint,
    "erf": np.vectorize(math.erf, [float]),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "select": lambda p, a, b: np.where(p, a, b),
    **COMPARE,
}


ARITY = {"neg": 1, "exp2": 1, "tanh": 1, "erf": 1, "fma": 3}


def compute(expr: Expr, inputs: dict[str, Any]) -> Any:
    """The same in float64."""
    if expr.op.startswith("in:"):
        return inputs[expr.op[3:]]
    if expr.op.startswith("#"):
        return np.full(len(inputs["x"]), float(Fraction(expr.op[1:])))
    if expr.op.startswith("known:"):
        return np.full(len(inputs["x"]), float(approximation(KNOWN[expr.op[6:]])))
    return in_float(expr.op, [compute(arg, inputs) for arg in expr.args])


def in_float(op: str, args: list[Any]) -> Any:
    """One operation in float64."""
    return _FLOAT[op](*args)


def some(rng: random.Random, depth: int, ops: tuple[str, ...]) -> Expr:
    """A random expression; what is divided by, or put under a root or a logarithm, is positive."""
    if depth == 0 or rng.random() < 0.15:
        if "known" in ops and rng.random() < 0.3:
            return constant(rng.choice(tuple(KNOWN)))
        leaf = rng.random() < 0.75
        return Expr("in:" + rng.choice(INPUTS)) if leaf else number(rng.choice(NUMBERS))
    op = rng.choice([op for op in ops if op != "known"])

    def inner() -> Expr:
        return some(rng, depth - 1, ops)

    if op == "div":
        return Expr("div", (inner(), positive(rng, inner())))
    if op in ("lg2", "sqrt"):
        return Expr(op, (positive(rng, inner()),))
    if op == "select":
        compare = Expr(rng.choice(("lt", "le", "gt", "ge", "eq", "ne")), (inner(), inner()))
        return Expr("select", (compare, inner(), inner()))
    return Expr(
        op,
        tuple(
            inner() for _ in range({"neg": 1, "exp2": 1, "tanh": 1, "erf": 1, "fma": 3}.get(op, 2))
        ),
    )


def positive(rng: random.Random, e: Expr) -> Expr:
    """An expression that is positive everywhere."""
    if rng.random() < 0.5:
        return Expr("exp2", (e,))
    return Expr("add", (Expr("mul", (e, e)), number(1)))


def points(seed: int) -> dict[str, Any]:
    """Inputs on which expressions that differ show it: small, equal, and of either sign."""
    rng = np.random.default_rng(seed)
    grid = np.array(
        [(a, b, c) for a in (-1, 0, 1, 2) for b in (-1, 0, 1, 2) for c in (-1, 0, 1, 2)]
    )
    rows = np.concatenate([grid, rng.integers(-8, 9, (64, 3)) / 4])
    return dict(zip(INPUTS, rows.T.astype(float), strict=True))


NOT = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
WRONG = {
    "add": ("sub", "mul", "maximum"),
    "sub": ("add",),
    "mul": ("add", "sub"),
    "maximum": ("minimum", "add"),
    "minimum": ("maximum",),
    "lt": ("le", "gt", "ne"),
    "le": ("lt", "ge", "eq"),
    "gt": ("ge", "lt"),
    "ge": ("gt", "eq"),
    "eq": ("ne", "le"),
    "ne": ("eq",),
}


def rewritten(rng: random.Random, e: Expr, *, selects: bool = False) -> Expr:
    """The same function by laws that hold everywhere. `selects`: by those of selects as well."""
    args = tuple(rewritten(rng, arg, selects=selects) for arg in e.args)
    if e.op in ("add", "mul", "maximum", "minimum") and rng.random() < 0.5:
        args = args[::-1]
    if e.op == "sub" and rng.random() < 0.5:
        return Expr("add", (args[0], Expr("neg", (args[1],))))
    if e.op == "mul" and args[1].op in ("add", "sub") and rng.random() < 0.5:
        parts = (Expr("mul", (args[0], part)) for part in args[1].args)
        return Expr(args[1].op, tuple(parts))
    if e.op == "exp2" and args[0].op == "add" and rng.random() < 0.5:
        return Expr("mul", tuple(Expr("exp2", (part,)) for part in args[0].args))
    if e.op == "maximum" and rng.random() < 0.3:
        return Expr("maximum", (Expr("maximum", args), args[0]))
    if selects and e.op == "maximum" and rng.random() < 0.3:
        return Expr("select", (Expr(rng.choice(("gt", "ge")), args), *args))
    if selects and e.op == "select" and rng.random() < 0.5:
        condition, yes, no = args
        return Expr("select", (Expr(NOT[condition.op], condition.args), no, yes))
    return Expr(e.op, args)


def changed(rng: random.Random, e: Expr) -> Expr:
    """One wrong step somewhere in an expression."""
    inner = [i for i, arg in enumerate(e.args) if arg.args]
    if inner and rng.random() < 0.7:
        i = rng.choice(inner)
        return Expr(e.op, (*e.args[:i], changed(rng, e.args[i]), *e.args[i + 1 :]))
    if not e.args:
        return rng.choice((e + 1, -e, X, Y))
    if e.op in WRONG:
        return Expr(rng.choice(WRONG[e.op]), e.args)
    return Expr(e.op, (changed(rng, e.args[0]), *e.args[1:]))
