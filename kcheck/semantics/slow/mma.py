"""mma.sync (PTX ISA 9.7.14.5): which lane holds which element, and the product.

A fragment is a table: for lane and element, the (row, column) it holds. `g` is lane / 4, `i` is
lane % 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import Instr, Operand
from kcheck.semantics.slow.decode import handles
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Load, Slots
from kcheck.semantics.slow.state import Exchange, Step, Thread
from kcheck.semantics.slow.units import (
    UNDEF,
    Real,
    Undef,
    Unit,
    as_int,
    as_real,
    concat,
    slice_bits,
)
from kcheck.semantics.slow.warp import meeting, vector

Cell = tuple[int, int]
Fragment = Callable[[int], list[Cell]]
Matrix = dict[Cell, Any]

ROWS, COLUMNS = 16, 8


def a_half(depth: int) -> Fragment:
    """A of 16-bit elements, 16 x depth."""

    def cells(lane: int) -> list[Cell]:
        g, i = lane // 4, lane % 4
        return [
            (g + 8 * half, 8 * block + 2 * i + k)
            for block in range(depth // 8)
            for half in (0, 1)
            for k in (0, 1)
        ]

    return cells


def b_half(depth: int) -> Fragment:
    """B of 16-bit elements, depth x 8."""

    def cells(lane: int) -> list[Cell]:
        g, i = lane // 4, lane % 4
        return [(8 * block + 2 * i + k, g) for block in range(depth // 8) for k in (0, 1)]

    return cells


def a_word(depth: int) -> Fragment:
    """A of 32-bit elements, 16 x depth."""

    def cells(lane: int) -> list[Cell]:
        g, i = lane // 4, lane % 4
        return [(g + 8 * half, 4 * block + i) for block in range(depth // 4) for half in (0, 1)]

    return cells


def b_word(depth: int) -> Fragment:
    """B of 32-bit elements, depth x 8."""

    def cells(lane: int) -> list[Cell]:
        return [(4 * block + lane % 4, lane // 4) for block in range(depth // 4)]

    return cells


def accumulator(lane: int) -> list[Cell]:
    """C and D, 16 x 8."""
    return [(lane // 4 + 8 * half, 2 * (lane % 4) + k) for half in (0, 1) for k in (0, 1)]


class _Operand:
    """Reads or writes a fragment whose registers hold one or two elements each."""

    def __init__(self, decoder: Decoder, operand: Operand, kind: str, cells: Fragment) -> None:
        self.fmt = "f32" if kind == "tf32" else kind
        self.numbers = decoder.numbers
        self.per = 1 if self.fmt == "f32" else 2
        self.cells = [cells(lane) for lane in range(32)]
        registers = vector(operand, len(self.cells[0]) // self.per)
        self.gets: list[Load] = [decoder.raw(item, 32) for item in registers]
        self.registers = registers

    def units(self, t: Thread) -> list[Unit]:
        """The lane's registers."""
        return [get(t) for get in self.gets]

    def matrix(self, lanes: dict[int, list[Unit]]) -> Matrix:
        """The elements that the lanes' registers hold."""
        matrix: Matrix = {}
        bits = 32 // self.per
        for lane, units in lanes.items():
            for e, cell in enumerate(self.cells[lane]):
                unit = units[e // self.per]
                if self.per == 2:
                    unit = slice_bits(unit, bits * (e % 2), bits)
                matrix[cell] = as_real(unit, self.fmt, self.numbers)
        return matrix

    def writer(self, decoder: Decoder) -> Callable[[Thread, list[Unit]], None]:
        puts = [decoder.store(item, "b32") for item in self.registers]

        def write(t: Thread, elements: list[Unit]) -> None:
            for r, put in enumerate(puts):
                if self.per == 1:
                    put(t, elements[r])
                else:
                    put(t, concat((elements[2 * r + k], 16) for k in (0, 1)))

        return write


@handles("mma")
def _mma(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    depth = int(slots["shape"].rpartition("k")[2])
    word = slots["a"] == "tf32"
    target, *sources = instr.operands
    d = _Operand(decoder, target, slots["d"], accumulator)
    a = _Operand(decoder, sources[0], slots["a"], (a_word if word else a_half)(depth))
    b = _Operand(decoder, sources[1], slots["b"], (b_word if word else b_half)(depth))
    c = _Operand(decoder, sources[2], slots["c"], accumulator)
    write = d.writer(decoder)

    operands = (a, b, c)

    def give(t: Thread) -> list[list[Unit]]:
        return [operand.units(t) for operand in operands]

    def share(given: dict[int, list[list[Unit]]]) -> Matrix:
        x, y, z = (
            operand.matrix({lane: units[i] for lane, units in given.items()})
            for i, operand in enumerate(operands)
        )
        return multiply(x, y, z, depth, decoder.numbers)

    def take(t: Thread, product: Matrix) -> None:
        values = [product[cell] for cell in d.cells[t.lane]]
        write(t, [UNDEF if v is ABSORB else Real(d.fmt, v.rounded(d.fmt)) for v in values])

    return meeting(instr, Exchange(give, share, take))


def bytes_of(unit: Unit, signed: bool) -> list[int | Undef]:
    """The four bytes of a register as numbers."""
    word = as_int(unit, 32)
    if isinstance(word, Undef):
        return [word] * 4
    numbers = [word >> 8 * k & 255 for k in range(4)]
    return [n - 256 if signed and n > 127 else n for n in numbers]


def a_byte(depth: int) -> Fragment:
    """A of 8-bit elements, 16 x depth."""

    def cells(lane: int) -> list[Cell]:
        g, i = lane // 4, lane % 4
        return [
            (g + 8 * half, 16 * block + 4 * i + k)
            for block in range(depth // 16)
            for half in (0, 1)
            for k in range(4)
        ]

    return cells


def b_byte(depth: int) -> Fragment:
    """B of 8-bit elements, depth x 8."""

    def cells(lane: int) -> list[Cell]:
        g, i = lane // 4, lane % 4
        return [(16 * block + 4 * i + k, g) for block in range(depth // 16) for k in range(4)]

    return cells


@handles("mma.int")
def _integer_mma(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    depth, clamped = int(slots["shape"].rpartition("k")[2]), bool(slots["satfinite"])
    fragments = [a_byte(depth), b_byte(depth), accumulator]
    counts = [depth // 8, depth // 16, 4]
    target, *sources = instr.operands
    registers = [vector(op, n) for op, n in zip(sources, counts, strict=True)]
    gets = [[decoder.raw(item, 32) for item in items] for items in registers]
    puts = [decoder.store(item, "b32") for item in vector(target, 4)]
    signs = slots["a"] == "s8", slots["b"] == "s8"

    def give(t: Thread) -> list[list[Unit]]:
        return [[get(t) for get in row] for row in gets]

    def share(given: dict[int, list[list[Unit]]]) -> dict[Cell, int | Undef]:
        a, b, c = dict[Cell, Any](), dict[Cell, Any](), dict[Cell, Any]()
        for lane, units in given.items():
            for matrix, i in ((a, 0), (b, 1)):
                values = [n for unit in units[i] for n in bytes_of(unit, signs[i])]
                matrix.update(zip(fragments[i](lane), values, strict=True))
            c.update(zip(accumulator(lane), (as_int(u, 32) for u in units[2]), strict=True))
        return {cell: _integer_sum(a, b, c, cell, depth, clamped) for cell in c}

    def take(t: Thread, product: dict[Cell, int | Undef]) -> None:
        for put, cell in zip(puts, accumulator(t.lane), strict=True):
            value = product[cell]
            put(t, UNDEF if isinstance(value, Undef) else value & 0xFFFFFFFF)

    return meeting(instr, Exchange(give, share, take))


def _integer_sum(
    a: Matrix, b: Matrix, c: Matrix, cell: Cell, depth: int, clamped: bool
) -> int | Undef:
    row, column = cell
    total: int = 0
    for k in range(depth):
        x, y = a.get((row, k), UNDEF), b.get((k, column), UNDEF)
        if isinstance(x, Undef) or isinstance(y, Undef):
            return UNDEF
        total += x * y
    start = c[cell]
    if isinstance(start, Undef):
        return UNDEF
    total += start - (1 << 32) if start >> 31 else start
    return min(max(total, -(1 << 31)), (1 << 31) - 1) if clamped else total


def multiply(a: Matrix, b: Matrix, c: Matrix, depth: int, numbers: type[Number]) -> Matrix:
    """a b + c; an element that anything undefined or missing reaches is ABSORB."""
    rows = [[a.get((r, k), UNDEF) for k in range(depth)] for r in range(ROWS)]
    columns = [[b.get((k, n), UNDEF) for k in range(depth)] for n in range(COLUMNS)]
    bad_rows = [any(isinstance(x, Undef) for x in row) for row in rows]
    bad_columns = [any(isinstance(x, Undef) for x in column) for column in columns]
    product: Matrix = {}
    for r in range(ROWS):
        for n in range(COLUMNS):
            start = c.get((r, n), UNDEF)
            if bad_rows[r] or bad_columns[n] or isinstance(start, Undef):
                product[r, n] = ABSORB
            else:
                product[r, n] = numbers.dot(rows[r], columns[n], start)
    return product
