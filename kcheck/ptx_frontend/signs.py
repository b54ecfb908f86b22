"""Floats that are evidently at least 0: squares, magnitudes, powers of 2, and sums of such."""

from __future__ import annotations

from kcheck.ptx_frontend.dataflow import UNDEFINED, DataFlow, Value
from kcheck.ptx_frontend.library import operands, plain

_INFINITY = 0x7F800000
_ALWAYS = frozenset({("abs", "f32"), ("sqrt", "f32"), ("ex2", "approx", "f32")})
# words that leave the sign as it is
_WORDS = frozenset({"approx", "full", "rz", "rm", "rp", "sat", "NaN"})
# at least 0 if all operands are
_KEPT = frozenset({"add", "mul", "fma", "div", "min", "max", "rcp"})


def at_least_0(flow: DataFlow, value: Value | None) -> bool:
    """No definition leaves a number that may be less; what comes round a loop is no less then."""
    return _at_least_0(flow, value, set())


def _at_least_0(flow: DataFlow, value: Value | None, seen: set[int]) -> bool:
    if value is None:
        return False
    if value.bits is not None:
        return value.bits <= _INFINITY
    new = value.defs - seen
    seen |= new
    return bool(value.defs) and all(_leaves(flow, at, seen) for at in new)


def _leaves(flow: DataFlow, at: int, seen: set[int]) -> bool:
    if at == UNDEFINED:
        return False
    instr = flow.kernel.code[at]
    opcode = plain(instr.opcode)
    if opcode in _ALWAYS:
        return True
    if opcode == ("mov", "f32"):
        return _at_least_0(flow, flow.value(at, instr.operands[1]), seen)
    if opcode[0] not in _KEPT or opcode[-1] != "f32" or not _WORDS.issuperset(opcode[1:-1]):
        return False
    held = operands(instr)
    parts = [flow.value(at, o) for o in held]
    if opcode[0] == "max" and len(parts) == 2:
        return any(_at_least_0(flow, part, set(seen)) for part in parts)
    if opcode[0] in ("mul", "fma") and held[0] == held[1]:
        parts = parts[2:]
    return all(_at_least_0(flow, part, seen) for part in parts)
