"""Operands as written -> operands with unique names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.registers import is_special
from kcheck.ptx_frontend.scopes import Scope
from kcheck.ptx_frontend.source import Span
from kcheck.ptx_frontend.tree import (
    Args,
    Function,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Sym,
    Vec,
)


class Renaming:
    """Renames operands, and notes what they name.

    `registers`: unique name -> type of each register met; `used`: unique names of the variables.
    """

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.registers: dict[str, str] = {}
        self.used: set[str] = set()

    def operand(self, operand: Operand, scope: Scope, span: Span) -> Operand:
        """An operand as seen from a scope. PtxError at `span` if it names what is not declared."""
        if type(operand) is Reg:
            return self.register(operand, scope, span)
        rename = _RENAME.get(type(operand))
        return operand if rename is None else rename(self, operand, scope, span)

    def register(self, reg: Reg, scope: Scope, span: Span) -> Reg:
        """A register or special register."""
        found = scope.register(reg.name)
        if found is None:
            if is_special(reg.name):
                return reg
            raise PtxError(span, f"register `{reg.name}` is not declared", _declare(".reg"))
        unique, type_name = found
        self.registers.setdefault(unique.name, type_name)
        return unique

    def symbol(self, sym: Sym, scope: Scope, span: Span) -> Sym:
        """A variable (or parameter), else a function."""
        unique = scope.variable(sym.name)
        if unique is None:
            if sym.name in self.functions:
                return sym
            raise PtxError(span, f"`{sym.name}` is not declared", _declare("variable or register"))
        self.used.add(unique)
        return sym if unique == sym.name else replace(sym, name=unique)

    def _either(self, part: Reg | Sink, scope: Scope, span: Span) -> Reg | Sink:
        return self.register(part, scope, span) if isinstance(part, Reg) else part

    def _items(self, items: tuple[Operand, ...], scope: Scope, span: Span) -> tuple[Operand, ...]:
        return tuple([self.operand(item, scope, span) for item in items])

    def _memory(self, mem: Mem, scope: Scope, span: Span) -> Mem:
        base = mem.base
        if isinstance(base, Reg):
            base = self.register(base, scope, span)
        elif isinstance(base, Sym):
            base = self.symbol(base, scope, span)
        coords = self._items(mem.coords, scope, span) if mem.coords else ()
        return Mem(base, mem.offset, coords)

    def _pair(self, pair: Pair, scope: Scope, span: Span) -> Pair:
        return Pair(self._either(pair.first, scope, span), self._either(pair.second, scope, span))


def _declare(what: str) -> str:
    return f"declare the {what} in this scope or around it, before its use"


_RENAME: dict[type, Callable[[Renaming, Any, Scope, Span], Operand]] = {
    Sym: Renaming.symbol,
    Mem: Renaming._memory,
    Pair: Renaming._pair,
    Not: lambda names, o, scope, span: Not(names.register(o.reg, scope, span)),
    Vec: lambda names, o, scope, span: Vec(names._items(o.items, scope, span)),
    Args: lambda names, o, scope, span: Args(names._items(o.items, scope, span)),
}
