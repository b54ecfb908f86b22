"""Finite numbers that a user lets stand for -infinity (DESIGN.md 6, infinities).

The kernels and launches themselves are rewritten, so that whatever evaluates them agrees, and the
ledger names each place. A number counts where it is written: as a float literal; as its bits in
an untyped move, select or store (one float, or two equal halves, where the kernel and its
parameters know one format of 16 bits only); in the initializer of a float variable; in `values:`
and as a scalar. A number that is computed never counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.canon.ieee.exact import Exact
from kcheck.canon.ieee.formats import FORMATS, decode
from kcheck.canon.ieee.rounding import to_bits
from kcheck.launch import FLOATS, Launch, Scalar, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Operand, Vec
from kcheck.verdict import UsageError

if TYPE_CHECKING:
    from kcheck.question import Question
    from kcheck.witness import Subject

# opcodes that may carry the bits of a float
_CARRIERS = frozenset({"mov", "selp", "st"})
_LINES = 4
_MINUS = {32: 0xFF800000, 64: 0xFFF0000000000000}
_HALVES = {"f16": 0xFC00, "bf16": 0xFF80}


def mask(question: Question, literals: Sequence[float]) -> None:
    """Let these numbers be -infinity on both sides. UsageError for what is no mask."""
    for number in literals:
        if not -math.inf < number < 0:
            raise UsageError(f"mask literal {number:g}: expected a finite negative number")
        where = []
        for name in ("reference", "subject"):
            side = getattr(question, name)
            kernel, lines = _kernel(side.kernel, _patterns(number, _halves(side)))
            launch, names = _launch(side.launch, number)
            setattr(question, name, replace(side, kernel=kernel, launch=launch))
            where += [f"{name} ({place})" for place in (_shown(lines), *names) if place]
        found = f"stands for -infinity in the {', the '.join(where)}" if where else ""
        note = found or "occurs in neither kernel nor launch"
        warning = "" if found else "WARNING: "
        question.ledger.append(f"{warning}{number:g} {note} (--mask-literal)")


def _shown(lines: list[int]) -> str:
    lines = sorted(set(lines))
    more = ", ..." if len(lines) > _LINES else ""
    return f"line {', '.join(map(str, lines[:_LINES]))}{more}" if lines else ""


@dataclass(frozen=True)
class _Patterns:
    """What a number looks like: bits of float literals by width, bits in registers by bytes."""

    floats: dict[tuple[int, int], int]
    bits: dict[tuple[int, int], int]


def _halves(side: Subject) -> frozenset[str]:
    """The formats of 16 bits that a kernel holds; bits mean one number in each of them."""
    words = {word for instr in side.kernel.code for word in instr.opcode}
    words |= {param.dtype for param in side.launch.params if isinstance(param, (Scalar, Tensor))}
    return frozenset(fmt for fmt in _HALVES if words & {fmt, f"{fmt}x2"})


def _bits(number: float, fmt: str) -> int | None:
    """A number rounded to a float format; None where that is no number."""
    with np.errstate(over="ignore"):
        bits = to_bits(Exact(np.array([number])), fmt, "rn")
    return int(bits[0]) if np.isfinite(decode(bits, fmt)[0]) else None


def _patterns(number: float, halves: frozenset[str]) -> _Patterns:
    bits: dict[tuple[int, int], int] = {}
    double, single = _bits(number, "f64"), _bits(number, "f32")
    assert double is not None
    floats = {(64, double): _MINUS[64]}
    if single is not None:
        number = float(np.uint32(single).view(np.float32))
        bits[4, single] = floats[32, single] = _MINUS[32]
        floats[64, int(np.float64(number).view(np.uint64))] = _MINUS[64]
        fmt = min(halves) if len(halves) == 1 else ""
        pattern = _bits(number, fmt) if fmt else None
        if pattern is not None:
            minus = _HALVES[fmt]
            bits[2, pattern] = minus
            bits[4, pattern << 16 | pattern] = minus << 16 | minus
    bits |= {(8, b): v for (_, b), v in floats.items() if b >> 32}
    return _Patterns(floats, bits)


def _kernel(kernel: Kernel, patterns: _Patterns) -> tuple[Kernel, list[int]]:
    """The kernel rewritten, and the lines where it was."""
    code, lines = [], []
    for instr in kernel.code:
        made = _instr(instr, patterns)
        if made is not instr:
            lines.append(instr.span.line)
        code.append(made)
    variables = dict(kernel.variables)
    for name, variable in variables.items():
        init = variable.init or ()
        made_init = tuple(_literal(item, patterns) for item in init)
        if made_init != init:
            variables[name] = replace(variable, init=made_init)
            lines.append(variable.span.line)
    return replace(kernel, code=tuple(code), variables=variables) if lines else kernel, lines


def _instr(instr: Instr, patterns: _Patterns) -> Instr:
    kind = instr.opcode[-1]
    size = int(kind[1:]) // 8 if kind in ("b16", "b32", "b64") else 0
    carries = size if instr.opcode[0] in _CARRIERS else 0
    operands = tuple(_operand(op, patterns, carries) for op in instr.operands)
    return instr if operands == instr.operands else replace(instr, operands=operands)


def _operand(operand: Operand, patterns: _Patterns, size: int) -> Operand:
    if isinstance(operand, Vec):
        return Vec(tuple(_operand(item, patterns, size) for item in operand.items))
    if isinstance(operand, Imm) and size:
        found = patterns.bits.get((size, operand.value & ((1 << 8 * size) - 1)))
        return operand if found is None else Imm(found)
    return _literal(operand, patterns)


def _literal(operand: Operand, patterns: _Patterns) -> Operand:
    if not isinstance(operand, Flt):
        return operand
    found = patterns.floats.get((operand.width, operand.bits))
    return operand if found is None else Flt(found, operand.width)


def _launch(launch: Launch, number: float) -> tuple[Launch, list[str]]:
    """The launch rewritten, and the parameters where it was."""
    params, names = list(launch.params), []
    for i, param in enumerate(params):
        if not isinstance(param, (Scalar, Tensor)) or param.dtype not in FLOATS:
            continue
        bits = _bits(number, param.dtype)
        if bits is None:
            continue
        rounded = float(decode(np.array([bits], FORMATS[param.dtype].word), param.dtype)[0])
        if isinstance(param, Scalar) and param.value in (number, rounded):
            params[i] = replace(param, value=-math.inf)
        elif isinstance(param, Tensor) and param.values is not None:
            here = np.isin(param.values, (number, rounded))
            if not here.any():
                continue
            params[i] = replace(param, values=np.where(here, -np.inf, param.values))
        else:
            continue
        names.append(f"`{param.name}`")
    return replace(launch, params=tuple(params)) if names else launch, names
