"""Memory: cells of one granule, each the start of a value unit, its continuation, or nothing.

A unit has a width and is concrete bits or a real; two f16 units read as b32 are `Packed`, half of
an f32 unit can't be read (`unsupported.reinterpret`), half of concrete bits can (DESIGN.md 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import NAN, NINF, PINF, SYMBOLIC, UNDEF
from kcheck.canon.real import CONST, SYM, Real, Reals
from kcheck.semantics.codec import Codec
from kcheck.semantics.units import (
    BITS,
    EMPTY,
    FMT_CODE,
    FMTS,
    REAL,
    REST,
    TORN,
    UNDEFINED,
    Cells,
    code,
    combined,
    gathered,
    real_width,
    undefined,
    widened,
    with_undefined,
    written_lanes,
)
from kcheck.semantics.values import (
    FMT_BYTES,
    MAGIC,
    UNSIGNED,
    Array,
    Bool,
    Int,
    Mixed,
    Packed,
    Unstable,
    Unsupported,
    either,
)
from kcheck.semantics.words import Source, number, read_as, whole


class Memory:
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

    # reading

    def load(self, cell: Cells, count: int, size: int, mask: Bool | None) -> list[Any]:
        """`count` registers of `size` bytes from byte addresses `cell * granule` on, per lane.

        Cells of lanes outside the mask must be valid all the same.
        """
        unit = self._uniform(cell, count * size, mask)
        if unit is not None:
            kind, width, fmt = unit & 15, unit >> 8, FMTS[unit >> 4 & 15]
            if kind in (EMPTY, UNDEFINED):
                return [undefined(size) for _ in range(count)]
            if width == size or (kind == BITS and width < size) or (2 * width == size == 4):
                return self._load_units(cell, count, size, kind, width, fmt)
        step = max(size // self.granule, 1)
        return [self.load_bytes(cell + i * step, 0, size, mask) for i in range(count)]

    def _uniform(self, cell: Cells, nbytes: int, mask: Bool | None) -> int | None:
        """The code that all units of all active lanes share, or None."""
        if self.meta is None:
            return self.pristine
        first = int(self.meta[cell[0 if mask is None else int(mask.argmax())]])
        width = first >> 8
        if first & 15 == REST or width > nbytes or (width and nbytes % width):
            return None
        step = max(width // self.granule, 1)
        k = nbytes // max(width, self.granule)
        metas = self.meta[cell if k == 1 else cell + (np.arange(k) * step)[:, None]]
        same = metas == first
        return first if (same if mask is None else same | ~mask).all() else None

    def _load_units(
        self, cell: Cells, count: int, size: int, kind: int, width: int, fmt: str
    ) -> list[Any]:
        per = size // width
        k = count * per
        index = cell[None, :] + (np.arange(k) * (width // self.granule))[:, None]
        if kind == BITS:
            assert self.bits is not None
            bits = self.bits[index]
            out: list[Any] = []
            for i in range(count):
                whole = bits[i * per]
                for j in range(1, per):
                    whole = whole | bits[i * per + j] << np.uint64(8 * width * j)
                p = self._regions(index[i * per : (i + 1) * per], per)
                out.append(Int(whole.astype(UNSIGNED[size]), p))
            return out
        parts = self._reals(index, fmt)
        if per == 1:
            return parts
        return [Packed(parts[2 * i], parts[2 * i + 1]) for i in range(count)]

    def _regions(self, index: Cells, per: int) -> Array | None:
        """The regions of addresses in units at (per, lanes), one register a lane."""
        if self.regions is None:
            return None
        p = self.regions[index]
        if (p < 0).all():
            return None
        if per > 1:
            raise Unsupported("pointer-bits", "an address in memory is read with its neighbour")
        return p[0]

    def _reals(self, index: Cells, fmt: str) -> list[Real[Any]]:
        """Real units at (k, lanes)."""
        v = self.source[index] if self.store is None and self.source is not None else None
        if v is None:
            v = self._cells().read(index)
        ids = None if self.cid is None else self.cid[index]
        out = []
        for i in range(len(index)):
            c = None if ids is None else ids[i]
            if c is None or not (c >= 0).any():
                real: Real[Any] = Real(v[i], None, SYM)
            else:
                real = self.reals.mixed(v[i], c)
            real.fmt = fmt
            out.append(real)
        return out

    def load_bytes(self, cell: Cells, rest: Any, size: int, mask: Bool | None) -> Any:
        """One register from `rest` bytes into each cell: units of any kind and width, any lanes."""
        active = np.ones(len(cell), bool) if mask is None else mask
        self._planes()
        pieces = max(size // self.granule, 1)
        narrow = size
        for i in range(pieces):
            _, kind, width, _ = self._unit(np.minimum(cell + i, self.n - 1))
            solid = active & ((kind == BITS) | (kind == REAL) | (kind == TORN))
            narrow = min(narrow, int(width[solid].min(initial=size)))
        parts = [
            self._piece(cell + i * narrow // self.granule, rest, narrow, active)
            for i in range(size // narrow)
        ]
        return combined(parts, narrow, size)

    def _unit(self, cell: Cells) -> tuple[Cells, Array, Array, Array]:
        """Start, kind, width and format code of the units that cover cells."""
        assert self.meta is not None
        meta = self.meta[cell]
        start = np.where(meta & 15 == REST, cell - (meta >> 8), cell)
        meta = self.meta[start]
        return start, meta & 15, meta >> 8, meta >> 4 & 15

    def _piece(self, cell: Cells, rest: Any, size: int, active: Bool) -> Any:
        start, kind, width, fmts = self._unit(cell)
        offset = (cell - start) * self.granule + rest
        real = (kind == REAL) & active
        partial = real & ((width != size) | (offset != 0))
        if partial.any() and (partial == active).all():
            return self._fields(start, offset, size, active)
        if (partial | ((kind == TORN) & active)).any():
            raise Unsupported("reinterpret", "a part of a float in memory is read")
        concrete = (kind == BITS) & active
        unknown = active & ~real & ~concrete
        bits = self._bits()[start] >> (8 * offset).astype(np.uint64)
        p = self._regions(start[None, :], 1)
        if p is not None and (concrete & (p >= 0) & ((width != size) | (offset != 0))).any():
            raise Unsupported("pointer-bits", "a part of an address in memory is read")
        if not real.any():
            return Int(bits.astype(UNSIGNED[size]), p, unknown if unknown.any() else None)
        if p is not None and (concrete & (p >= 0)).any():
            raise Unsupported("pointer-bits", "lanes read addresses and numbers at once")
        fmt = FMTS[int(fmts[int(real.argmax())])]
        value = self._reals(np.where(real, start, start[int(real.argmax())])[None, :], fmt)[0]
        if (fmts[real] != FMT_CODE[fmt]).any():
            if any(FMTS[f] in FMT_BYTES for f in np.unique(fmts[real])):
                raise Unsupported("reinterpret", "lanes read different float formats at once")
            value, fmt = read_as(self.reals, value, 8 * size, True), f"s{8 * size}"
            value.fmt = fmt
        if not (concrete | unknown).any():
            return value
        ids = np.broadcast_to(self.reals.ids(value), cell.shape).copy()
        if concrete.any():
            ids[concrete] = self._ids(bits[concrete].astype(UNSIGNED[size]), fmt)
        ids[unknown] = UNDEF
        merged = self.reals.mixed(self.reals.value(value), ids)
        merged.fmt = fmt
        return merged

    def _fields(self, start: Cells, offset: Array, size: int, active: Bool) -> Any:
        """`size` bytes at `offset` bytes into wider symbolic integers, as unsigned numbers."""
        _, _, width, fmts = self._unit(start)
        value, merged = None, None
        for key in np.unique(np.stack([offset, width, fmts])[:, active], axis=1).T.tolist():
            here = active & (offset == key[0]) & (width == key[1]) & (fmts == key[2])
            if FMTS[key[2]] in FMT_BYTES or key[0] + size > key[1]:
                raise Unsupported("reinterpret", "a part of a float in memory is read")
            cells = np.where(here, start, start[int(here.argmax())])
            whole_value = self._reals(cells[None, :], FMTS[key[2]])[0]
            word = whole(Source(whole_value), 8 * key[1])
            value = number(self.reals, word.field(8 * key[0], 8 * size, 8 * size))
            merged = value if merged is None else self.reals.where(here, value, merged)
        assert merged is not None
        merged.fmt = f"u{8 * size}"
        return merged

    def _ids(self, bits: Array, fmt: str) -> Array:
        """Concrete bits as constants of a format."""
        if fmt in FMT_BYTES:
            return self.codec.to_ids(bits, fmt)
        return self.reals.integers(bits if fmt[0] == "u" else bits.view(f"i{bits.itemsize}"))

    # writing

    def save(self, cell: Cells, size: int, values: list[Any], mask: Bool | None) -> None:
        """Registers of `size` bytes, one after another, from `cell` on; the inverse of load."""
        if mask is not None:
            cell = cell[mask]
        step = size // self.granule
        units: list[tuple[Cells, int, Any]] = []
        for i, value in enumerate(values):
            units += self._split(cell + i * step, size, value, mask)
        for at, width, value in gathered(units, self.reals):
            self._write(at, width, value)

    def _split(
        self, cell: Cells, size: int, value: Any, mask: Bool | None
    ) -> list[tuple[Cells, int, Any]]:
        """A register as units (cells, width, Int or Real of the written lanes)."""
        if isinstance(value, Mixed):
            out = []
            for i, (part, v) in enumerate(value.parts):
                later = [m for m, _ in value.parts[i + 1 :]]
                own = part & ~np.logical_or.reduce(later) if later else part
                kept = own if mask is None else own & mask
                here = kept if mask is None else kept[mask]
                out += self._split(cell[here], size, v, kept) if here.any() else []
            return out
        if isinstance(value, Packed):
            if self.granule > 2:
                return self._split(cell, size, widened(value), mask)
            half = 2 // self.granule
            u = value.u
            return [
                *self._split(cell, 2, with_undefined(value.lo, u), mask),
                *self._split(cell + half, 2, with_undefined(value.hi, u), mask),
            ]
        if value is None:
            value = undefined(size)
        if isinstance(value, Unstable):
            raise Unsupported("unstable", f"{value.what} is stored")
        if isinstance(value, Real) and real_width(value.fmt) != size:
            raise Unsupported("reinterpret", f"an {value.fmt} is stored as {size} bytes")
        return [(cell, size, written_lanes(self.reals, value, mask, len(cell)))]

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

    def holds(self, cell: Cells, size: int, bits: int) -> bool:
        """Is one of these units known to hold these bits?"""
        self._planes()
        _, kind, width, _ = self._unit(cell)
        known = (kind == BITS) & (width == size)
        return bool((known & (self._bits()[cell] == np.uint64(bits))).any())

    def numbers(self, cell: Cells, size: int, fmt: str) -> Real[Any]:
        """What cells hold, as reals of a format; raises Unsupported."""
        held = self.load_bytes(cell, 0, size, None)
        if isinstance(held, Real):
            if held.fmt != fmt:
                raise Unsupported("reinterpret", f"an atomic of {fmt} on {held.fmt}")
            return held
        if not isinstance(held, Int):
            raise Unsupported("reinterpret", f"an atomic of {fmt} on two halves")
        ids = self._ids(held.a, fmt)
        if held.u is not None:
            ids = np.where(held.u, UNDEF, ids).astype(np.int32)
        return self.reals.from_ids(ids)

    def add(self, cell: Cells, size: int, value: Real[Any], mask: Bool | None) -> None:
        """Atomically add reals of one format to cells; cells may repeat."""
        if mask is not None:
            cell = cell[mask]
        if not len(cell):
            return
        fmt = value.fmt
        value = self.reals.settled(written_lanes(self.reals, value, mask, len(cell)))
        old = self.reals.settled(self.numbers(cell, size, fmt))
        limit = MAGIC.get(fmt)
        if limit and (self.reals.large(old, limit) | self.reals.large(value, limit)).any():
            raise Unsupported("magic-rounding", "an atomic adds to, or of, a large constant")
        bad = self.reals.specials(old) | self.reals.specials(value)
        if self.reals.cased(old) or self.reals.cased(value):
            raise Unsupported("infinity", "an atomic adds what an input may make infinite")
        if bad.any():
            bad = np.broadcast_to(bad, cell.shape)
            ids = np.broadcast_to(self.reals.ids(self.reals.add(old, value), cell.shape), bad.shape)
            self._write_specials(cell[bad], size, ids[bad], fmt)
            good = ~np.isin(cell, cell[bad])
            cell = cell[good]
            old, value = self.reals.take(old, good), self.reals.take(value, good)
            if not len(cell):
                return
        start: Real[Any] = Real(self.reals.value(old), None, SYM, fmt)
        self._write(cell, size, start)
        self._cells().add(cell, self.reals.value(value))

    def _write_specials(self, cell: Cells, size: int, ids: Array, fmt: str) -> None:
        """Sums that are no numbers; of several at one cell the least id stands: undefined first."""
        cells, slot = np.unique(cell, return_inverse=True)
        least, most = np.full(cells.shape, NINF, np.int32), np.zeros(cells.shape, np.int32)
        np.minimum.at(least, slot, ids)
        np.maximum.at(most, slot, ids)
        least[(least == PINF) & (most == NINF)] = NAN
        total = self.reals.from_ids(least)
        total.fmt = fmt
        self._write(cells, size, total)

    def update(
        self,
        cell: Cells,
        size: int,
        value: Int,
        mask: Bool | None,
        apply: Callable[[Array, Array, Array], None],
        signed: bool,
    ) -> None:
        """Atomically update integers; cells may repeat. Undefined ones absorb.

        `apply` gets the numbers of the distinct cells, the place of each lane's cell among them,
        and the lanes' operands, and changes the numbers.
        """
        if mask is not None:
            cell = cell[mask]
        if not len(cell):
            return
        old = self.load_bytes(cell, 0, size, None)
        if not isinstance(old, Int):
            raise Unsupported("symbolic-int", "an integer atomic on a cell that is no integer")
        if old.p is not None or value.p is not None:
            raise Unsupported("pointer-bits", "an address is updated atomically")
        value = written_lanes(self.reals, value, mask, len(cell))
        gone = either(old.u, value.u)
        self._write(cell, size, Int(old.a))
        kind = np.dtype(f"{'i' if signed else 'u'}{size}")
        cells, first, index = np.unique(cell, return_index=True, return_inverse=True)
        numbers = np.broadcast_to(old.a, cell.shape)[first].view(kind)
        apply(numbers, index, value.a.view(kind))
        self._bits()[cells] = numbers.view(UNSIGNED[size]).astype(np.uint64)
        if gone is not None and self.meta is not None:
            self.meta[cell[gone]] = code(UNDEFINED, size)

    def contents(self, width: int, fmt: str, part: slice = slice(None)) -> tuple[Bool, Any]:
        """The elements of `width` bytes: which were never written, and the values as reals.

        Concrete bits are read as floats of `fmt`, or as signed or unsigned integers if it names
        an integer type. Undefined elements are constants `UNDEF`. Raises Unsupported if it holds
        reals of another format.
        """
        unwritten, whole = self.elements(width, part)
        if isinstance(whole, Real):
            if whole.fmt == fmt:
                return unwritten, whole
            if whole.fmt in FMT_BYTES or fmt in FMT_BYTES or real_width(whole.fmt) != width:
                raise Unsupported("reinterpret", f"a buffer of {fmt} holds {whole.fmt}")
            return unwritten, read_as(self.reals, whole, 8 * width, fmt[0] == "s")
        ids = self._ids(whole.a, fmt)
        if whole.u is not None:
            ids = np.where(whole.u, UNDEF, ids).astype(np.int32)
        return unwritten, self.reals.from_ids(ids)

    def elements(self, width: int, part: slice = slice(None)) -> tuple[Bool, Any]:
        """The elements of `width` bytes: which were never written, and one register of all."""
        step = max(width // self.granule, 1)
        start, stop, _ = part.indices(self.n // step)
        cell = np.arange(start, stop, dtype=np.int64) * step
        self._planes()
        assert self.meta is not None
        if self.regions is not None and (self.regions[cell] >= 0).any():
            raise Unsupported("pointer-bits", "an output holds an address")
        return self.meta[cell] & 15 == EMPTY, self.load_bytes(cell, 0, width, None)

    # planes

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

    def fill_bits(self, values: Array, width: int) -> None:
        """Initial contents: concrete units of `width` bytes from the start on."""
        self._planes()
        step = width // self.granule
        self._write(np.arange(len(values), dtype=np.int64) * step, width, Int(values))
