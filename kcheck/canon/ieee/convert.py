"""cvt: between formats, to whole numbers, from and to integers (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kcheck.canon.ieee.arithmetic import modified
from kcheck.canon.ieee.exact import Exact, two_sum
from kcheck.canon.ieee.formats import WORDS, Bits, Floats, decode, flush
from kcheck.canon.ieee.rounding import to_bits

_WHOLE: dict[str, Callable[[Floats], Floats]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def between(source: str, target: str, slots: Mapping[str, str]) -> Callable[[Bits], Bits]:
    """A format change; `rnd` is a mode of `rounding.MODES`, or rounds to whole numbers.

    Without `rnd` the change must be exact (a wider format). `.ftz` flushes f32 only: on the side
    that is f32.
    """
    mode = slots.get("rnd") or "rn"
    whole = _WHOLE.get(mode)
    saturate = bool(slots.get("satfinite"))

    def run(bits: Bits) -> Bits:
        x = decode(bits, source)
        if whole is not None:
            # a whole number of a wide format may still need rounding in a narrow one
            return to_bits(Exact(whole(x)), target, "rn", saturate)
        return to_bits(Exact(x), target, mode, saturate)

    flushed = run
    if slots.get("ftz"):

        def flushed(bits: Bits) -> Bits:
            out = run(flush(bits, source) if source == "f32" else bits)
            return flush(out, target) if target == "f32" else out

    return modified(flushed, source, {**slots, "ftz": ""}, target)


def from_integer(source: str, target: str, slots: Mapping[str, str]) -> Callable[[Bits], Bits]:
    """An integer type (`s32`, `u64`, ...) to a format, in the mode `rnd`."""
    signed, width = source[0] == "s", int(source[1:]) // 8

    def run(bits: Bits) -> Bits:
        x = bits.view(np.dtype(f"{'i' if signed else 'u'}{width}"))
        if width < 8:
            value = Exact(x.astype(np.float64))
        else:  # the upper 32 bits and the lower ones are exact, each for itself
            upper = np.ldexp((x >> x.dtype.type(32)).astype(np.float64), 32)
            value = Exact(*two_sum(upper, (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)))
        return to_bits(value, target, slots["rnd"])

    return modified(run, target, {"sat": slots.get("sat", "")})


def to_integer(
    source: str, target: str, register: int, slots: Mapping[str, str]
) -> Callable[[Bits], Bits]:
    """A format to an integer type in a register of that many bytes, clamped to the type.

    NaN gives 0, or the top bit alone where a side has 64 bits (PTX ISA 9.7.9, cvt).
    """
    signed, bits_out = target[0] == "s", int(target[1:])
    low = -(1 << (bits_out - 1)) if signed else 0
    high = (1 << (bits_out - signed)) - 1
    nan = (low if signed else 1 << (bits_out - 1)) if source == "f64" or bits_out == 64 else 0
    whole = _WHOLE[slots["rnd"]]
    ftz = bool(slots.get("ftz")) and source == "f32"
    kind = np.int64 if signed else np.uint64

    def run(bits: Bits) -> Bits:
        x = whole(decode(flush(bits, source) if ftz else bits, source))
        inside = (x >= float(low)) & (x < float(high + 1))
        out = np.where(inside, x, 0).astype(kind)
        out = np.where(x < low, kind(low), np.where(x >= float(high + 1), kind(high), out))
        out = np.where(np.isnan(x), kind(nan), out)
        return out.view(np.uint64).astype(WORDS[register])

    return run
