"""Memory: cells of one granule, each the start of a value unit, its continuation, or nothing.

A unit has a width and is concrete bits or a real; two f16 units read as b32 are `Packed`, half of
an f32 unit can't be read (`unsupported.reinterpret`), half of concrete bits can (DESIGN.md 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.canon.constants import NAN, NINF, PINF, UNDEF
from kcheck.canon.lanes import SYM, Real
from kcheck.semantics.planes import Planes
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
    Rows,
    Unstable,
    Unsupported,
    either,
)
from kcheck.semantics.words import Source, number, read_as, whole


class Memory(Planes):
    """Registers read from and written to cells; see `Planes`."""

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
        if isinstance(value, Rows):
            step = value.width // self.granule
            parts = [
                self._split(cell + i * step, value.width, x, mask)
                for i, x in enumerate(value.units)
            ]
            return [unit for part in parts for unit in part]
        if value is None:
            value = undefined(size)
        if isinstance(value, Unstable):
            raise Unsupported("unstable", f"{value.what} is stored")
        if isinstance(value, Real) and real_width(value.fmt) != size:
            raise Unsupported("reinterpret", f"an {value.fmt} is stored as {size} bytes")
        return [(cell, size, written_lanes(self.reals, value, mask, len(cell)))]

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
