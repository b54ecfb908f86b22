"""The arithmetic of a run in true formats: what `canon.domain.Arithmetic` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from kcheck.canon.domain import Bits, Bool, NoRule
from kcheck.canon.ieee import convert, order
from kcheck.canon.ieee.approximate import BOUNDS, Choice, approximate
from kcheck.canon.ieee.arithmetic import OPERATIONS, modified, rounded
from kcheck.canon.ieee.exact import Exact
from kcheck.canon.ieee.formats import FORMATS, decode
from kcheck.canon.ieee.rounding import to_bits
from kcheck.canon.ieee.tensor_core import core, multiply

Function = Callable[..., Bits]
NEAREST = Choice()


class Ieee:
    """IEEE 754 formats on an architecture (`arch`: 80 for sm_80) with inputs given by name.

    `choice`: what approximate instructions make of their allowed error.
    """

    def __init__(self, inputs: Mapping[str, Any], arch: int = 80, choice: Choice = NEAREST) -> None:
        self.arch, self.choice = arch, choice
        self._inputs = inputs
        self._core = core(arch)

    def input(self, name: str, n: int, dtype: str) -> Bits:
        """The first `n` elements given under `name`, as patterns."""
        return self.patterns(np.asarray(self._inputs[name]).reshape(-1)[:n], dtype)

    def patterns(self, values: Any, dtype: str) -> Bits:
        """Numbers as patterns of a format (rounded to nearest) or of an integer type."""
        if dtype in FORMATS:
            return to_bits(Exact(np.asarray(values, np.float64)), dtype, "rn")
        kind = np.dtype(f"{'i' if dtype[0] == 's' else 'u'}{int(dtype[1:]) // 8}")
        return np.asarray(values).astype(kind).view(f"u{kind.itemsize}")

    def operation(self, op: str, fmt: str, slots: Mapping[str, str]) -> Function:
        """An arithmetic instruction of one format. NoRule where it has none.

        `slots`: `rnd`, `mode`, `ftz`, `sat`, `relu`, `NaN` as PTX writes them; an operation that
        has roundings but is given none is the approximate one, but for add, sub, mul and fma.
        """
        ftz = bool(slots.get("ftz"))
        if op in ("min", "max"):
            return modified(order.extremum(op, fmt, bool(slots.get("NaN"))), fmt, slots)
        if op in ("min.xorsign", "max.xorsign"):
            inner = order.xorsign(op[:3], fmt, bool(slots.get("NaN")))
            return modified(inner, fmt, slots)
        if op in _SIGNS:
            return modified(partial(_SIGNS[op], fmt=fmt), fmt, slots)
        mode = slots.get("rnd") or ("rn" if op in ("add", "sub", "mul", "fma") else "")
        if mode and op in OPERATIONS:
            return modified(rounded(op, fmt, mode), fmt, slots)
        name = f"{op}.{slots['mode']}" if slots.get("mode") else op
        if (name, fmt) not in BOUNDS:
            raise NoRule(f"no bound on the error of {name} in {fmt} is known")
        return approximate(name, fmt, ftz, self.choice)

    def comparison(self, cmp: str, fmt: str, ftz: bool) -> Callable[[Bits, Bits], Bool]:
        """A comparison of setp."""
        return order.comparison(cmp, fmt, ftz)

    def classified(self, test: str, fmt: str, bits: Bits) -> Bool:
        """A test of testp."""
        return order.classified(test, fmt, bits)

    def convert(
        self, source: str, target: str, slots: Mapping[str, str], register: int = 0
    ) -> Callable[[Bits], Bits]:
        """cvt between formats and integer types; `register`: bytes of an integer result's."""
        if source not in FORMATS:
            return convert.from_integer(source, target, slots)
        if target not in FORMATS:
            return convert.to_integer(source, target, register, slots)
        return convert.between(source, target, slots)

    def matmul(self, fmt: str, out: str) -> Callable[[Bits, Bits, Bits], Bits]:
        """mma: (..., M, K) by (..., K, N) of `fmt` plus (..., M, N) of `out`.

        NoRule for an architecture whose tensor cores are not modelled.
        """
        model = self._core
        if model is None:
            raise NoRule(f"the tensor cores of sm_{self.arch} are not modelled")
        return lambda a, b, c: multiply(a, b, c, fmt, out, model)


_SIGNS: dict[str, Function] = {
    "neg": order.negated,
    "abs": order.magnitude,
    "copysign": order.copysign,
}


def values(bits: Bits, dtype: str) -> Any:
    """Patterns as the NumPy type that holds them exactly: f32 for the formats NumPy lacks."""
    if dtype in FORMATS:
        kind = {"f64": np.float64, "f16": np.float16}.get(dtype, np.float32)
        return decode(bits, dtype).astype(kind)
    return bits.view(f"{'i' if dtype[0] == 's' else 'u'}{bits.dtype.itemsize}")
