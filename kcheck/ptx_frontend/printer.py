"""The syntax tree -> PTX text: `parse(print_module(m)) == m`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import (
    Args,
    Block,
    Directive,
    Flt,
    Function,
    Guard,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Registers,
    Sink,
    Statement,
    Sym,
    Target,
    Variable,
    Vec,
)

_LINKAGE = ("visible", "extern", "weak", "common")
_LINES = ("loc", "file", "section")


def print_module(module: Module) -> str:
    """A module as PTX text; comments are lost, literals come out in one spelling."""
    lines = [
        f".version {module.version}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    for item in module.items:
        if isinstance(item, Function):
            lines += _function(item)
        elif isinstance(item, Variable):
            lines.append(_variable(item) + ";")
        else:
            lines.append(_directive(item))
    return "\n".join(lines) + "\n"


def print_instr(instr: Instr) -> str:
    """An instruction on one line: `@%p1 ld.global.f32 %f1, [%rd1+4];`."""
    guard = _guard(instr.guard) if instr.guard else ""
    return f"{guard}{instr.name} {', '.join(map(print_operand, instr.operands))}".rstrip() + ";"


def print_operand(operand: Operand) -> str:
    """An operand; a `Target`, which text can't hold, as `<index>`."""
    return _OPERANDS[type(operand)](operand)


def _guard(guard: Guard) -> str:
    return f"@{'!' if guard.negated else ''}{guard.reg.name} "


def _symbol(sym: Sym) -> str:
    name = f"generic({sym.name})" if sym.generic else sym.name
    return name + _offset(sym.offset)


def _offset(offset: int) -> str:
    return f"{offset:+d}" if offset else ""


def _memory(mem: Mem) -> str:
    base = print_operand(mem.base) + _offset(mem.offset)
    return f"[{', '.join((base, *map(print_operand, mem.coords)))}]"


def _list(items: tuple[Operand, ...]) -> str:
    return ", ".join(map(print_operand, items))


_OPERANDS: dict[type, Callable[[Any], str]] = {
    Reg: lambda o: str(o.name),
    Imm: lambda o: str(o.value),
    Flt: lambda o: f"0f{o.bits:08X}" if o.width == 32 else f"0d{o.bits:016X}",
    Sym: _symbol,
    Mem: _memory,
    Vec: lambda o: f"{{{_list(o.items)}}}",
    Args: lambda o: f"({_list(o.items)})",
    Sink: lambda _: "_",
    Not: lambda o: f"!{o.reg.name}",
    Pair: lambda o: f"{print_operand(o.first)}|{print_operand(o.second)}",
    Target: lambda o: f"<{o.index}>",
}


def _function(function: Function) -> list[str]:
    head = "".join(f".{word} " for word in function.linkage)
    head += ".entry " if function.entry else ".func "
    if function.results:
        head += f"({_parameters(function.results)}) "
    lines = [f"{head}{function.name} ({_parameters(function.params)})"]
    lines += [
        f".{name} {', '.join(map(str, numbers))}".rstrip() for name, numbers in function.tuning
    ]
    if function.body is None:
        lines.append(";")
    else:
        lines += _block(function.body, "")
    return lines


def _parameters(params: tuple[Variable, ...]) -> str:
    return ", ".join(map(_variable, params))


def _variable(variable: Variable) -> str:
    attributes = variable.attributes
    # `.ptr` and what follows it stand behind the type, linkage before the space
    at = attributes.index("ptr") if "ptr" in attributes else len(attributes)
    words = [word for word in attributes[:at] if word in _LINKAGE]
    words.append(variable.space)
    words += [word for word in attributes[:at] if word not in _LINKAGE]
    if variable.align is not None:
        words.append(f"align {variable.align}")
    words += [variable.type, *attributes[at:]]
    text = " ".join(f".{word}" for word in words) + f" {variable.name}"
    text += "".join(f"[{extent or ''}]" for extent in variable.shape)
    if variable.init is None:
        return text
    values = _list(variable.init)
    return f"{text} = {{{values}}}" if variable.shape else f"{text} = {values}"


def _directive(directive: Directive) -> str:
    return f".{directive.name} {directive.text}" + ";" * (directive.name not in _LINES)


def _block(block: Block, indent: str) -> list[str]:
    lines = [indent + "{"]
    for statement in block.body:
        if isinstance(statement, Block):
            lines += _block(statement, indent + "    ")
        else:
            lines.append(f"{indent}    {_statement(statement)}")
    return [*lines, indent + "}"]


def _statement(statement: Statement) -> str:
    match statement:
        case Instr():
            return print_instr(statement)
        case Label():
            return f"{statement.name}:"
        case Registers():
            count = "" if statement.count is None else f"<{statement.count}>"
            return f".reg .{statement.type} {statement.name}{count};"
        case Variable():
            return _variable(statement) + ";"
        case Directive():
            return _directive(statement)
        case Block():
            raise AssertionError("blocks are printed line by line")
