"""Rewrites of a module that keep its meaning, for identity tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from kcheck.ptx_frontend.registers import is_special
from kcheck.ptx_frontend.source import Span
from kcheck.ptx_frontend.tree import (
    Args,
    Block,
    Directive,
    Function,
    Guard,
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
    Variable,
    Vec,
)

Body = tuple[Statement, ...]
ENDS = ("bra", "brx", "ret", "exit", "trap")


def rename_registers(module: Module) -> Module:
    """Give every declared register another name, the same one in all scopes."""
    return _map_functions(module, _rename_function)


def invert_branches(module: Module) -> Module:
    """`@%p bra L;` -> `@!%p bra N; bra L; N:` in all scopes."""
    labels = (f"$inverted{n}" for n in count())

    def invert(body: Body) -> Body:
        out: list[Statement] = []
        for statement in body:
            if isinstance(statement, Block):
                out.append(replace(statement, body=invert(statement.body)))
            elif isinstance(statement, Instr) and statement.guard and statement.opcode[0] == "bra":
                label, span = next(labels), statement.span
                guard = Guard(statement.guard.reg, not statement.guard.negated)
                out.append(replace(statement, guard=guard, operands=(Sym(label),)))
                out.append(replace(statement, guard=None))
                out.append(Label(label, span))
            else:
                out.append(statement)
        return tuple(out)

    return _map_bodies(module, invert)


def reorder_blocks(module: Module, seed: int = 0) -> Module:
    """Shuffle the pieces of each entry's body, with a `bra` from each to the one that followed.

    A nested scope is never cut: what it declares is seen only inside.
    """
    rng = random.Random(seed)
    return _map_bodies(module, lambda body: _shuffle(body, rng), entries_only=True)


def _shuffle(body: Body, rng: random.Random) -> Body:
    declared = [s for s in body if isinstance(s, Registers | Variable)]
    code = [s for s in body if not isinstance(s, Registers | Variable)]
    if not code:
        return body
    span = code[0].span
    pieces = list(_pieces(code, span, rng))
    names = [f"$piece{i}" for i in range(len(pieces) + 1)]
    out: list[list[Statement]] = []
    for i, piece in enumerate(pieces):
        begin: list[Statement] = [Label(names[i], span)]
        out.append([*begin, *piece, _bra(names[i + 1], span)])
    rng.shuffle(out)
    # the last piece falls off the end of the body: so does this label
    flat = [statement for piece in out for statement in piece]
    return (*declared, _bra(names[0], span), *flat, Label(names[-1], span))


def _bra(label: str, span: Span) -> Instr:
    return Instr(("bra",), (Sym(label),), None, span)


def _pieces(code: Sequence[Statement], span: Span, rng: random.Random) -> Iterator[list[Statement]]:
    """Cut before labels, after branches and now and then; the `.loc` in force is repeated."""
    piece: list[Statement] = []
    loc: Directive | None = None
    for statement in code:
        prototype = bool(piece) and isinstance(piece[-1], Label)
        cut = isinstance(statement, Label) or (not prototype and rng.random() < 0.05)
        if cut and piece:
            yield piece
            piece = [loc] if loc else []
        piece.append(statement)
        if isinstance(statement, Directive) and statement.name == "loc":
            loc = statement
        if isinstance(statement, Instr) and statement.opcode[0] in ENDS:
            yield piece
            piece = [loc] if loc else []
    if piece:
        yield piece


def _map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    items = tuple(change(i) if isinstance(i, Function) else i for i in module.items)
    return replace(module, items=items)


def _map_bodies(
    module: Module, change: Callable[[Body], Body], entries_only: bool = False
) -> Module:
    def function(old: Function) -> Function:
        if old.body is None or (entries_only and not old.entry):
            return old
        return replace(old, body=replace(old.body, body=change(old.body.body)))

    return _map_functions(module, function)


def _new_name(name: str) -> str:
    """Injective, and a range's prefix changes like its members."""
    if is_special(name):
        return name
    return f"%new_{name[1:]}" if name[0] == "%" else f"old_{name}"


def _rename_function(function: Function) -> Function:
    def parameter(variable: Variable) -> Variable:
        if variable.space != "reg":
            return variable
        return replace(variable, name=_new_name(variable.name))

    return replace(
        function,
        params=tuple(map(parameter, function.params)),
        results=tuple(map(parameter, function.results)),
        body=function.body and _rename(function.body),
    )


def _rename(block: Block) -> Block:
    return replace(block, body=tuple(map(_rename_statement, block.body)))


def _rename_statement(statement: Statement) -> Statement:
    match statement:
        case Block():
            return _rename(statement)
        case Registers():
            return replace(statement, name=_new_name(statement.name))
        case Instr(guard=guard, operands=operands):
            if guard is not None:
                guard = Guard(_rename_register(guard.reg), guard.negated)
            return replace(statement, guard=guard, operands=_rename_all(operands))
        case _:
            return statement


def _rename_all(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    return tuple(map(_rename_operand, operands))


def _rename_register(reg: Reg) -> Reg:
    return Reg(_new_name(reg.name))


def _rename_operand(operand: Operand) -> Operand:
    match operand:
        case Reg():
            return _rename_register(operand)
        case Not(reg=reg):
            return Not(_rename_register(reg))
        case Mem(base=Reg() as base, offset=offset, coords=coords):
            return Mem(_rename_register(base), offset, _rename_all(coords))
        case Mem(base=base, offset=offset, coords=coords):
            return Mem(base, offset, _rename_all(coords))
        case Vec(items=items):
            return Vec(_rename_all(items))
        case Args(items=items):
            return Args(_rename_all(items))
        case Pair(first=first, second=second):
            return Pair(_rename_part(first), _rename_part(second))
        case _:
            return operand


def _rename_part(part: Reg | Sink) -> Reg | Sink:
    return _rename_register(part) if isinstance(part, Reg) else part
