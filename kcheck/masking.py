"""Finite numbers that a user lets stand for -infinity (DESIGN.md 6, infinities).

The kernels and launches themselves are rewritten, so that whatever evaluates them agrees, and the
ledger names each place. A number counts where it is written: as a float literal; as its bits in
an untyped move, select or store (one float, or two equal halves); in the initializer of a float
variable; in `values:` and as a scalar. A number that is computed never counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.launch import FLOATS, Launch, Scalar, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Operand, Vec
from kcheck.verdict import UsageError

if TYPE_CHECKING:
    from kcheck.question import Question

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
        patterns = _patterns(number)
        where = []
        for name in ("reference", "subject"):
            side = getattr(question, name)
            kernel, lines = _kernel(side.kernel, patterns)
            launch, names = _launch(side.launch, patterns)
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
    numbers: frozenset[float]


def _patterns(number: float) -> _Patterns:
    with np.errstate(over="ignore"):
        single, half = np.float32(number), np.float16(number)
    numbers = {number}
    bits: dict[tuple[int, int], int] = {}
    if np.isfinite(single):
        numbers.add(float(single))
        word = int(single.view(np.uint32))
        bits[4, word] = _MINUS[32]
        # bf16 keeps the upper half, rounded to nearest even
        rounded = {"bf16": (word + 0x7FFF + (word >> 16 & 1)) >> 16}
        if np.isfinite(half):
            rounded["f16"] = int(half.view(np.uint16))
        for fmt, pattern in rounded.items():
            minus = _HALVES[fmt]
            if pattern != minus:
                bits[2, pattern] = minus
                bits[4, pattern << 16 | pattern] = minus << 16 | minus
    floats = {(64, int(np.float64(n).view(np.uint64))): _MINUS[64] for n in numbers}
    if np.isfinite(single):
        floats[32, int(single.view(np.uint32))] = _MINUS[32]
    if np.isfinite(half):
        numbers.add(float(half))
    return _Patterns(
        floats,
        {**bits, **{(8, b): v for (_, b), v in floats.items() if b >> 32}},
        frozenset(numbers),
    )


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


def _launch(launch: Launch, patterns: _Patterns) -> tuple[Launch, list[str]]:
    """The launch rewritten, and the parameters where it was."""
    params, names = list(launch.params), []
    numbers = sorted(patterns.numbers)
    for i, param in enumerate(params):
        if isinstance(param, Scalar) and param.dtype in FLOATS and param.value in numbers:
            params[i] = replace(param, value=-math.inf)
        elif isinstance(param, Tensor) and param.values is not None and param.dtype in FLOATS:
            here = np.isin(param.values, np.array(numbers))
            if not here.any():
                continue
            params[i] = replace(param, values=np.where(here, -np.inf, param.values))
        else:
            continue
        names.append(f"`{param.name}`")
    return replace(launch, params=tuple(params)) if names else launch, names
