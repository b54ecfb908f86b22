"""Float literals that differ in the last places only (DESIGN.md 3, `constants`)."""

from __future__ import annotations

import struct
from dataclasses import replace

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt, Instr

# units in the last place within which two literals may be meant to be one
ULPS = 2


def literals(kernel: Kernel) -> set[Flt]:
    """The float literals in a kernel's code."""
    return {op for instr in kernel.code for op in instr.operands if isinstance(op, Flt)}


def snapped(kernel: Kernel, reference: Kernel) -> tuple[Kernel, dict[Flt, Flt]]:
    """The kernel with each literal that is nearly one of the reference's made that one.

    Also which literals changed to what: none where there are none.
    """
    known = literals(reference)
    nearest: dict[Flt, Flt] = {}
    for literal in literals(kernel) - known:
        near = [other for other in known if _close(literal, other)]
        if near:
            nearest[literal] = min(near, key=lambda other: abs(other.bits - literal.bits))

    def swap(instr: Instr) -> Instr:
        operands = tuple(
            nearest.get(op, op) if isinstance(op, Flt) else op for op in instr.operands
        )
        return replace(instr, operands=operands)

    return replace(kernel, code=tuple(swap(instr) for instr in kernel.code)), nearest


def shown(literal: Flt) -> str:
    """The literal as PTX writes it, and its value."""
    form, mark = ("f", "0f") if literal.width == 32 else ("d", "0d")
    digits = literal.width // 4
    raw = literal.bits.to_bytes(literal.width // 8, "big")
    return f"{mark}{literal.bits:0{digits}X} ({struct.unpack('>' + form, raw)[0]:.9g})"


def _close(a: Flt, b: Flt) -> bool:
    return a.width == b.width and 0 not in (a.bits, b.bits) and abs(a.bits - b.bits) <= ULPS
