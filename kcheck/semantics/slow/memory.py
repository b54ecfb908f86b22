"""Memories: cells of whatever width was stored, each with its unit (DESIGN.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcheck.semantics.slow.units import UNDEF, Home, Unit, concat, slice_bits

if TYPE_CHECKING:
    from kcheck.semantics.slow.shadow import Log

WIDEST = 8  # bytes of the widest cell


class Memory:
    """Cells by byte address; a cell never written reads as Undef.

    `log`: the accesses that a monitor saw, or None where nobody watches.
    """

    def __init__(self, log: Log | None = None) -> None:
        self.cells: dict[int, tuple[Unit, int]] = {}
        self.log = log

    def read(self, at: int, nbytes: int) -> Unit:
        """The unit of `nbytes` bytes at an address."""
        cell = self.cells.get(at)
        if cell is not None and cell[1] == nbytes:
            return cell[0]
        end = at + nbytes
        pieces: list[tuple[Unit, int]] = []
        while at < end:
            start, unit, width = self._cell(at)
            stop = min(start + width, end)
            bits = (stop - at) * 8
            pieces.append((slice_bits(unit, (at - start) * 8, bits), bits))
            at = stop
        return concat(pieces)

    def write(self, at: int, nbytes: int, unit: Unit) -> None:
        """Put a unit of `nbytes` bytes at an address; cells that it cuts keep the rest."""
        cells = self.cells
        cell = cells.get(at)
        if cell is None or cell[1] != nbytes:
            self._clear(at, at + nbytes)
        cells[at] = (unit, nbytes)

    def copy(self, at: int, source: Memory, start: int, nbytes: int) -> None:
        """Put bytes of another memory at an address, cell by cell."""
        end = start + nbytes
        shift = at - start
        while start < end:
            first, unit, width = source._cell(start)
            stop = min(first + width, end)
            part = slice_bits(unit, (start - first) * 8, (stop - start) * 8)
            self.write(start + shift, stop - start, part)
            start = stop

    def write_each(self, at: int, nbytes: int, unit: Unit) -> None:
        """Put a unit that looks the same at any width (0, UNDEF) into every byte."""
        while nbytes:
            width = 4 if at % 4 == 0 and nbytes >= 4 else 1
            self.write(at, width, unit)
            at, nbytes = at + width, nbytes - width

    def written(self, at: int, nbytes: int) -> bool:
        """Was any of these bytes ever written?"""
        return any(self._cell(byte)[0] in self.cells for byte in range(at, at + nbytes))

    def _cell(self, at: int) -> tuple[int, Unit, int]:
        """The cell that covers a byte, or one byte of Undef."""
        for start in range(at, at - WIDEST, -1):
            cell = self.cells.get(start)
            if cell is not None:
                if start + cell[1] > at:
                    return start, *cell
                break
        return at, UNDEF, 1

    def _clear(self, low: int, high: int) -> None:
        for at in range(low, high):
            start, unit, width = self._cell(at)
            if start not in self.cells:
                continue
            del self.cells[start]
            for a, b in ((start, low), (high, start + width)):
                if a < b:
                    bits = (b - a) * 8
                    self.cells[a] = (slice_bits(unit, (a - start) * 8, bits), b - a)


class Region:
    """A buffer and the memory it lies in; `readonly` for the inputs."""

    def __init__(self, home: Home, memory: Memory, base: int, readonly: bool = False) -> None:
        self.home = home
        self.memory = memory
        self.base = base  # the address of the memory's byte 0
        self.readonly = readonly
