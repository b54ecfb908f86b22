"""Builders of library functions that the front end recognized (DESIGN.md 6, library idioms)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kcheck.canon.constants import LN2, LOG2_10, LOG2E, LOG10_2
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.powers import HALVES, POWER, WHOLE
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.float_builders import FUNCTIONS
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.values import Unsupported

R = Real[Any]
FMT = "f32"
# twice the largest exponent whose powers are written out
_POWERS = 128


def _apply(m: Machine, name: str, x: R) -> R:
    """As the instruction of this name does it."""
    return FUNCTIONS[name](m, FMT, x)


def _exp(base: Any) -> Callable[[Machine, R], R]:
    """2^(x log2 b), given log2 b."""
    return lambda m, x: _apply(m, "ex2", m.reals.mul(x, m.reals.constant(base)))


def _log(unit: Any, x: Callable[[Machine, R], R] = lambda m, x: x) -> Callable[[Machine, R], R]:
    """log2 x times a constant."""
    return lambda m, a: m.reals.mul(_apply(m, "lg2", x(m, a)), m.reals.constant(unit))


def _one_plus(m: Machine, x: R) -> R:
    return m.reals.add(m.reals.constant(1), x)


def _expm1(m: Machine, x: R) -> R:
    return m.reals.sub(_exp(LOG2E)(m, x), m.reals.constant(1))


def _erfc(m: Machine, x: R) -> R:
    return m.reals.sub(m.reals.constant(1), m.reals.function("erf", x))


def _hyperbolic(odd: bool) -> Callable[[Machine, R], R]:
    """(e^x - e^-x) / 2, or with a plus."""

    def meaning(m: Machine, x: R) -> R:
        up, down = (_exp(LOG2E)(m, y) for y in (x, m.reals.neg(x)))
        total = m.reals.sub(up, down) if odd else m.reals.add(up, down)
        return m.reals.mul(total, m.reals.constant(Fraction(1, 2)))

    return meaning


def _tan(m: Machine, x: R) -> R:
    return m.reals.div(_apply(m, "sin", x), _apply(m, "cos", x))


def _whole(m: Machine, x: R, c: R) -> R:
    """x^n: products, or one over them."""
    return _power(m, x, _twice(m, c) // 2)


def _halves(m: Machine, x: R, c: R) -> R:
    """x^(n/2): powers of x times its square root, or one over them."""
    n = _twice(m, c)
    size = m.reals.mul(_power(m, x, abs(n) // 2), _apply(m, "sqrt", x))
    return size if n > 0 else m.reals.rcp(size)


def _twice(m: Machine, c: R) -> int:
    n = m.reals.known_integer(m.reals.add(c, c))
    if n is None or abs(n) > _POWERS:
        raise Unsupported("function", f"powf with an exponent beyond {_POWERS // 2}")
    return n


def _power(m: Machine, x: R, n: int) -> R:
    out = m.reals.constant(1)
    for _ in range(abs(n)):
        out = m.reals.mul(out, x)
    return out if n >= 0 else m.reals.rcp(out)


def _pow(m: Machine, x: R, y: R) -> R:
    """For positive x."""
    return _apply(m, "ex2", m.reals.mul(y, _apply(m, "lg2", x)))


# function -> what it is over the reals
MEANINGS: dict[str, Callable[..., R]] = {
    "expf": _exp(LOG2E),
    "exp10f": _exp(LOG2_10),
    "expm1f": _expm1,
    "logf": _log(LN2),
    "log2f": lambda m, x: _apply(m, "lg2", x),
    "log10f": _log(LOG10_2),
    "log1pf": _log(LN2, _one_plus),
    "tanhf": lambda m, x: _apply(m, "tanh", x),
    "erff": lambda m, x: m.reals.function("erf", x),
    "erfcf": _erfc,
    "roundf": lambda m, x: m.reals.function("round", x),
    "sinhf": _hyperbolic(odd=True),
    "coshf": _hyperbolic(odd=False),
    "tanf": _tan,
    "atanf": lambda m, x: m.reals.function("atan", x),
    "sinf": lambda m, x: _apply(m, "sin", x),
    "cosf": lambda m, x: _apply(m, "cos", x),
    POWER: _pow,
    WHOLE: _whole,
    HALVES: _halves,
}


def _library(name: str) -> Builder:
    meaning = MEANINGS[name]

    def build(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
        dst = d.dest(instr.operands[0])
        sources = [d.real(op, FMT) for op in instr.operands[1:]]

        def run(m: Machine) -> None:
            m.reals.at = m.at
            result = meaning(m, *(m.real(m.regs[s], FMT) for s in sources))
            out = Real(result.v, result.c, result.kind, FMT)
            put(m, dst, out)

        return run

    return build


LIBRARY_BUILDERS: dict[str, Builder] = {name: _library(name) for name in MEANINGS}
