"""Call instructions: their parts, and the copies that pass values (PTX ISA 9.0, 7.1, 9.7.12)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.source import Span
from kcheck.ptx_frontend.tree import (
    Args,
    Flt,
    Function,
    Imm,
    Instr,
    Mem,
    Operand,
    Reg,
    Sink,
    Sym,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Call:
    """`call (results), function, (arguments), prototype`; all but the function may be missing.

    `function` is a register or address in an indirect call.
    """

    results: tuple[Operand, ...]
    function: Operand
    arguments: tuple[Operand, ...]
    span: Span

    @classmethod
    def of(cls, instr: Instr) -> Call:
        """The parts of a `call`."""
        rest = list(instr.operands)
        results = rest.pop(0) if rest and isinstance(rest[0], Args | Sink) else Args(())
        if not rest:
            raise PtxError(instr.span, "a call names no function")
        function = rest.pop(0)
        arguments = rest[0] if rest and isinstance(rest[0], Args) else Args(())
        given = results.items if isinstance(results, Args) else ()
        return cls(given, function, arguments.items, instr.span)

    def bound(self, function: Function) -> Iterator[tuple[Variable, Operand, bool]]:
        """Parameters with their arguments, then results with what takes them (True)."""
        pairs = (
            ("arguments", function.params, self.arguments, False),
            ("results", function.results, self.results, True),
        )
        for what, formals, actuals, result in pairs:
            if len(formals) != len(actuals):
                message = f"`{function.name}` has {len(formals)} {what}, not {len(actuals)}"
                raise PtxError(self.span, message)
            for formal, actual in zip(formals, actuals, strict=True):
                if not isinstance(actual, Reg | Imm | Flt | Sym | Sink):
                    raise PtxError(self.span, f"this can't be passed as `{formal.name}`")
                yield formal, actual, result


def copy(type_name: str, target: Operand, source: Operand, call: Instr) -> Instr:
    """The instruction that moves a value between a register (or constant) and a variable."""
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    if isinstance(target, Sym):
        opcode, operands = ("st", "param", type_name), (Mem(target), source)
    elif isinstance(source, Sym):
        opcode, operands = ("ld", "param", type_name), (target, Mem(source))
    else:
        opcode, operands = ("mov", type_name), (target, source)
    return Instr(opcode, operands, None, call.span)
