"""The planes of a memory: what each of its cells is, and how units are written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import SYMBOLIC
from kcheck.canon.lanes import CONST, SYM, Real
from kcheck.canon.real import Reals
from kcheck.semantics.codec import Codec
from kcheck.semantics.units import BITS, EMPTY, REAL, REST, TORN, UNDEFINED, Cells, code
from kcheck.semantics.values import Array, Int


class Planes:
    """`n` cells of `granule` bytes. `source`: initial reals (an input), never written itself."""

    def __init__(
        self,
        reals: Reals[Any],
        codec: Codec,
        n: int,
        granule: int,
        *,
        fmt: str = "",
        source: Any = None,
    ) -> None:
        self.reals = reals
        self.codec = codec
        self.n = n
        self.granule = granule
        self.source = source
        self.pristine = code(REAL, granule, fmt) if source is not None else code(EMPTY, 0)
        self.meta: NDArray[np.uint16] | None = None
        self.bits: NDArray[np.uint64] | None = None
        self.cid: NDArray[np.int32] | None = None
        # the region of an address that a cell holds, or -1
        self.regions: NDArray[np.int16] | None = None
        self.store: Any = None
        self.width = granule if source is not None else 0
        self.one_width = True
        # cells with sums of integers that tensor values chose -> between what each lies
        self.sums: dict[int, list[int]] = {}
        # a cell whose writers are to be found: CTA -> (instruction, lane's thread), the last one
        self.watched: int | None = None
        self.writers: dict[int, tuple[int, tuple[int, int, int]]] = {}

    def _planes(self) -> None:
        if self.meta is None:
            self.meta = np.full(self.n, self.pristine, np.uint16)
            if self.source is not None:
                self._cells()

    def _bits(self) -> NDArray[np.uint64]:
        if self.bits is None:
            self.bits = np.zeros(self.n, np.uint64)
        return self.bits

    def _cells(self) -> Any:
        if self.store is None:
            self.store = self.reals.domain.store(self.n)
            if self.source is not None:
                self.store.write(np.arange(self.n), self.source)
        return self.store

    def _unit(self, cell: Cells) -> tuple[Cells, Array, Array, Array]:
        """Start, kind, width and format code of the units that cover cells."""
        assert self.meta is not None
        meta = self.meta[cell]
        start = np.where(meta & 15 == REST, cell - (meta >> 8), cell)
        meta = self.meta[start]
        return start, meta & 15, meta >> 8, meta >> 4 & 15

    # writing

    def fill_bits(self, values: Array, width: int) -> None:
        """Initial contents: concrete units of `width` bytes from the start on."""
        self._planes()
        step = width // self.granule
        self._write(np.arange(len(values), dtype=np.int64) * step, width, Int(values))

    def _write(self, cell: Cells, width: int, value: Any) -> None:
        self._planes()
        assert self.meta is not None
        if self.width not in (0, width):
            self.one_width = False
        self.width = width
        if not self.one_width:
            self._tear(cell.reshape(-1), width)
        p = value.p if isinstance(value, Int) else None
        if p is not None and self.regions is None:
            self.regions = np.full(self.n, -1, np.int16)
        if self.regions is not None:
            self.regions[cell] = -1 if p is None else p
        if isinstance(value, Int):
            self._bits()[cell] = value.a.astype(np.uint64)
            self.meta[cell] = code(BITS, width)
        else:
            self._write_real(cell, value)
            self.meta[cell] = code(REAL, width, value.fmt)
        for i in range(1, width // self.granule):
            self.meta[cell + i] = REST | i << 8
        if value.u is not None:
            gone = np.broadcast_to(value.u, cell.shape)
            self.meta[cell[gone]] = code(UNDEFINED, width)

    def _write_real(self, cell: Cells, value: Real[Any]) -> None:
        for c in cell.tolist() if self.sums else ():
            self.sums.pop(c, None)
        if value.kind != SYM and self.cid is None:
            self.cid = np.full(self.n, SYMBOLIC, np.int32)
        if self.cid is not None:
            self.cid[cell] = SYMBOLIC if value.c is None else value.c
        if value.kind == SYM or (value.kind != CONST and value.v is not None):
            self._cells().write(cell, self.reals.value(value))

    def _tear(self, cell: Cells, width: int) -> None:
        """Split the units that a write of `width` bytes at `cell` covers only in part."""
        assert self.meta is not None
        last = cell + max(width // self.granule, 1) - 1
        for edge in (cell, last):
            start, kind, wide, _ = self._unit(edge)
            cells = np.maximum(wide // self.granule, 1)
            solid = (kind == BITS) | (kind == REAL) | (kind == UNDEFINED)
            partial = solid & ((start < cell) | (start + cells - 1 > last))
            for first in np.unique(start[partial]):
                self._shatter(int(first))

    def _shatter(self, start: int) -> None:
        assert self.meta is not None
        meta = int(self.meta[start])
        cells = (meta >> 8) // self.granule
        if meta & 15 == REAL:
            self.meta[start : start + cells] = code(TORN, self.granule)
            return
        if meta & 15 == UNDEFINED:
            self.meta[start : start + cells] = code(UNDEFINED, self.granule)
            return
        bits = self._bits()
        shifts = np.arange(cells, dtype=np.uint64) * np.uint64(8 * self.granule)
        keep = np.uint64((1 << 8 * self.granule) - 1)
        bits[start : start + cells] = bits[start] >> shifts & keep
        if self.regions is not None:
            self.regions[start : start + cells] = self.regions[start]
        self.meta[start : start + cells] = code(BITS, self.granule)
