"""Builders of library functions that the front end recognized (DESIGN.md 6, library idioms)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.canon.constants import LN2, LOG2_10, LOG2E, LOG10_2
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.float_builders import FUNCTIONS
from kcheck.semantics.machine import Machine, Step

R = Real[Any]
FMT = "f32"


def _apply(m: Machine, name: str, x: R) -> R:
    """As the instruction of this name does it."""
    return FUNCTIONS[name](m, FMT, x)


def _exp(base: Any) -> Callable[[Machine, R], R]:
    """2^(x log2 b), given log2 b."""
    return lambda m, x: _apply(m, "ex2", m.reals.mul(x, m.reals.constant(base)))


def _log(unit: Any, x: Callable[[Machine, R], R] = lambda m, x: x) -> Callable[[Machine, R], R]:
    """log2 x times a constant."""
    return lambda m, a: m.reals.mul(_apply(m, "lg2", x(m, a)), m.reals.constant(unit))


def _minus(log: Callable[[Machine, R], R]) -> Callable[[Machine, R], R]:
    return lambda m, x: m.reals.neg(log(m, x))


def _one_plus(m: Machine, x: R) -> R:
    return m.reals.add(m.reals.constant(1), x)


def _expm1(m: Machine, x: R) -> R:
    return m.reals.sub(_exp(LOG2E)(m, x), m.reals.constant(1))


def _erfc(m: Machine, x: R) -> R:
    return m.reals.sub(m.reals.constant(1), m.reals.function("erf", x))


def _square(m: Machine, x: R) -> R:
    return m.reals.mul(x, x)


def _cube(m: Machine, x: R) -> R:
    return m.reals.mul(_square(m, x), x)


def _over(m: Machine, x: R) -> R:
    return m.reals.rcp(x)


def _root(m: Machine, x: R) -> R:
    return _apply(m, "sqrt", x)


def _over_root(m: Machine, x: R) -> R:
    return m.reals.rcp(_root(m, x))


def _three_halves(m: Machine, x: R) -> R:
    return m.reals.mul(x, _root(m, x))


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
    "neglogf": _minus(_log(LN2)),
    "neglog2f": _minus(lambda m, x: _apply(m, "lg2", x)),
    "log10f": _log(LOG10_2),
    "log1pf": _log(LN2, _one_plus),
    "tanhf": lambda m, x: _apply(m, "tanh", x),
    "erff": lambda m, x: m.reals.function("erf", x),
    "erfcf": _erfc,
    "roundf": lambda m, x: m.reals.function("round", x),
    "sinf": lambda m, x: _apply(m, "sin", x),
    "cosf": lambda m, x: _apply(m, "cos", x),
    "powf": _pow,
    "pow2f": _square,
    "pow3f": _cube,
    "powm1f": _over,
    "powhalff": _root,
    "powmhalff": _over_root,
    "pow3halff": _three_halves,
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
