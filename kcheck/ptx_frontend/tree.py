"""The syntax tree of a PTX module. Spans take no part in equality."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kcheck.ptx_frontend.source import Span


@dataclass(frozen=True, slots=True)
class Reg:
    """A register or a special register (`%tid.x`), by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer literal, with the sign it was written with."""

    value: int


@dataclass(frozen=True, slots=True)
class Flt:
    """A float literal: `bits` of an f32 (`width` 32, `0f...`) or f64 (`0d...`, `1.5`)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, function or label, plus a byte offset (`buf+16`).

    `generic`: written `generic(buf)` in an initializer, the generic address.
    """

    name: str
    offset: int = 0
    generic: bool = False


@dataclass(frozen=True, slots=True)
class Mem:
    """`[base+offset]`; `coords` holds what follows in the brackets (tensor coordinates)."""

    base: Reg | Sym | Imm
    offset: int = 0
    coords: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b}`: a vector or a pack."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Args:
    """`(a, b)`: the arguments or results of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: the value is dropped."""


@dataclass(frozen=True, slots=True)
class Not:
    """`!%p`."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two destinations."""

    first: Reg | Sink
    second: Reg | Sink


@dataclass(frozen=True, slots=True)
class Target:
    """A branch target after lowering: an index into `Kernel.code`."""

    index: int


Operand = Reg | Imm | Flt | Sym | Mem | Vec | Args | Sink | Not | Pair | Target


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`."""

    reg: Reg
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Loc:
    """The `.loc` in force: source file and line."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction. `opcode` is split at dots: `("ld", "global", "nc", "f32")`."""

    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    span: Span = field(compare=False, repr=False)
    loc: Loc | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The opcode as written, with dots."""
        return ".".join(self.opcode)


@dataclass(frozen=True, slots=True)
class Label:
    """`name:`."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Registers:
    """`.reg .f32 %f<10>;` (`count` 10, names `%f0..%f9`) or `.reg .pred p;` (`count` None)."""

    type: str
    name: str
    count: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space.

    `shape`: array extents, () for a scalar, 0 for an extent left open (`extern`); `init`: the
    initializer's numbers (and symbols) flattened, or None; `attributes`: what stood before the
    space (`extern`, `visible`), and `.ptr .global .align 16` of a parameter.
    """

    space: str
    type: str
    name: str
    shape: tuple[int, ...]
    align: int | None
    init: tuple[Operand, ...] | None
    attributes: tuple[str, ...]
    span: Span = field(compare=False, repr=False)

    @property
    def count(self) -> int:
        """Elements in all."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def nbytes(self) -> int:
        """Bytes in all; 0 for an open array."""
        return self.count * type_bytes(self.type)


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`: a scope for registers, variables and labels."""

    body: tuple[Statement, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive kept as text: `.loc 1 2 3`, `.pragma "nounroll"`, `.file`, `.section`."""

    name: str
    text: str
    span: Span = field(compare=False, repr=False)


Statement = Instr | Label | Registers | Variable | Block | Directive


@dataclass(frozen=True, slots=True)
class Function:
    """`.entry` or `.func`; `body` is None for a declaration.

    `tuning`: `.maxntid`, `.reqntid`, `.minnctapersm`, ... -> their numbers.
    """

    name: str
    entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    linkage: tuple[str, ...]
    tuning: tuple[tuple[str, tuple[int, ...]], ...]
    body: Block | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file. `items` keeps the order of functions, variables and directives."""

    version: str
    target: tuple[str, ...]
    address_size: int
    items: tuple[Function | Variable | Directive, ...]
    span: Span = field(compare=False, repr=False)

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels, in order."""
        return tuple(f for f in self.items if isinstance(f, Function) and f.entry and f.body)

    @property
    def functions(self) -> tuple[Function, ...]:
        """Entries, functions and declarations, in order."""
        return tuple(f for f in self.items if isinstance(f, Function))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Variables at module scope, in order."""
        return tuple(v for v in self.items if isinstance(v, Variable))


def type_bytes(type_name: str) -> int:
    """Bytes of a PTX type name without its dot; `pred` counts as 1. KeyError if unknown."""
    return _TYPE_BYTES[type_name]


_TYPE_BYTES = {
    "pred": 1,
    **{f"{k}8": 1 for k in "bus"},
    **{f"{k}16": 2 for k in "busf"},
    **{f"{k}32": 4 for k in "busf"},
    **{f"{k}64": 8 for k in "busf"},
    "b128": 16,
    "bf16": 2,
    "f16x2": 4,
    "bf16x2": 4,
    "tf32": 4,
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}


def registers(operand: Operand) -> Iterator[str]:
    """The registers that occur in an operand."""
    if isinstance(operand, Reg):
        yield operand.name
    elif isinstance(operand, Not):
        yield operand.reg.name
    elif isinstance(operand, Mem):
        yield from registers(operand.base)
        for item in operand.coords:
            yield from registers(item)
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from registers(item)
    elif isinstance(operand, Pair):
        yield from registers(operand.first)
        yield from registers(operand.second)
