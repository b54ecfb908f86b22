"""The log of executed accesses, packed.

The CTAs of a batch, and the instructions of an unrolled loop, access memory in one pattern each,
shifted by some cells: patterns are kept once, and an entry is a few numbers. An access that
repeats one of the same instruction at the same clocks tells nothing new and is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kcheck.semantics.accesses import Access
from kcheck.semantics.regions import Region
from kcheck.semantics.shadow import Shadow
from kcheck.semantics.values import Array

# patterns that are kept beyond the entries that use them
POOL = 256


@dataclass(frozen=True)
class Pattern:
    """Cells or lanes relative to the first; `low` and `high` are the least and the greatest."""

    offsets: Array
    low: int
    high: int


class Packed:
    """An access whose first row of cells is `start` + `ctas` (a column) + `cells` (a row).

    `lanes`: those of one CTA, or, where the CTAs of the batch differ (`ctas` is one 0), of all.
    """

    __slots__ = (
        "at", "cells", "ctas", "epoch", "k", "kind", "lanes", "last", "op", "own", "region",
        "shadow", "start", "tail",
    )  # fmt: skip

    def __init__(
        self, access: Access, start: int, ctas: Pattern, cells: Pattern, lanes: Pattern
    ) -> None:
        self.at, self.kind, self.op, self.tail = access.at, access.kind, access.op, access.tail
        self.shadow: Shadow = access.shadow
        self.region: Region = access.region
        self.epoch, self.own, self.last = access.epoch, access.own, access.last
        self.k, self.start = len(access.cells), start
        self.ctas, self.cells, self.lanes = ctas, cells, lanes

    def repeats(self, other: Packed) -> bool:
        """Is it another access of the same lanes to the same cells at the same clocks?"""
        return (
            (self.start, self.kind, self.op, self.tail, self.k)
            == (other.start, other.kind, other.op, other.tail, other.k)
            and self.cells is other.cells
            and self.ctas is other.ctas
            and self.lanes is other.lanes
            and self.own is other.own
            and self.epoch is other.epoch
            and self.last is other.last
            and self.shadow is other.shadow
        )

    def near(self, low: int, high: int) -> bool:
        """Can it have a cell from `low` to `high`?"""
        first = self.start + self.ctas.low + self.cells.low
        last = self.start + self.ctas.high + self.cells.high + self.k - 1
        return first <= high and low <= last

    def unpack(self) -> Access:
        """The access as it was made."""
        ctas = self.ctas.offsets.astype(np.int64)[:, None] + self.start
        threads = len(self.own) // len(self.epoch)
        lanes = self.lanes.offsets + threads * np.arange(len(ctas), dtype=np.int64)[:, None]
        cells = (ctas + self.cells.offsets).reshape(-1) + np.arange(self.k)[:, None]
        return Access(
            self.at, self.shadow, self.region, cells, lanes.reshape(-1), self.kind, self.op,
            self.epoch, self.own, self.last, self.tail,
        )  # fmt: skip


class Log:
    """Accesses of `ctas` CTAs of `threads` lanes each, in the order in which they were made.

    `whole`: keep repeated ones too.
    """

    def __init__(self, ctas: int, threads: int, whole: bool = False) -> None:
        self.ctas, self.threads, self.whole = ctas, threads, whole
        self.entries: list[Packed] = []
        self._latest: dict[tuple[int, int], Packed] = {}
        self._pool: dict[bytes, Pattern] = {}
        self._first = threads * np.arange(ctas, dtype=np.int64)[:, None]

    def __len__(self) -> int:
        return len(self.entries)

    def clear(self) -> None:
        """Drop all entries."""
        self.entries.clear()
        self._latest.clear()
        if len(self._pool) > POOL:
            self._pool.clear()

    def keep(self, epoch: Array) -> None:
        """Drop the entries of which no CTA is in its epoch still."""
        self.entries = [entry for entry in self.entries if (entry.epoch == epoch).any()]
        self._latest.clear()

    def add(self, access: Access) -> None:
        """Append an access."""
        packed = self.pack(access)
        if not self.whole:
            key = packed.at, packed.start
            latest = self._latest.get(key)
            if latest is not None and packed.repeats(latest):
                return
            self._latest[key] = packed
        self.entries.append(packed)

    def pack(self, access: Access) -> Packed:
        """An access in little memory."""
        row, lanes = access.cells[0], access.lanes
        if len(row) % self.ctas == 0:
            theirs = lanes.reshape(self.ctas, -1)
            cells = row.reshape(self.ctas, -1)
            start = cells[:, :1]
            pattern = cells[0] - start[0]
            same = (theirs == theirs[0] + self._first).all()
            if same and (self.ctas == 1 or (cells == start + pattern).all()):
                ctas = start[:, 0] - start[0]
                parts = self._pattern(ctas), self._pattern(pattern), self._pattern(theirs[0])
                return Packed(access, int(row[0]), *parts)
        start = row[:1]
        parts = self._pattern(start - start), self._pattern(row - start), self._pattern(lanes)
        return Packed(access, int(row[0]), *parts)

    def _pattern(self, offsets: Array) -> Pattern:
        low, high = int(offsets.min()), int(offsets.max())
        if max(-low, high) < 1 << 15:
            narrow = offsets.astype(np.int16)
        else:
            wide = max(-low, high) >= 1 << 31
            narrow = offsets.astype(np.int64 if wide else np.int32)
        key = narrow.tobytes()
        known = self._pool.get(key)
        if known is None or known.offsets.dtype != narrow.dtype:
            known = self._pool[key] = Pattern(narrow, low, high)
        return known

    def against(self, access: Access, kind: int, cells: Array) -> Iterator[Packed]:
        """The entries of a kind that may conflict at (sorted) cells, the latest first: of the
        same memory, and not twice the same commutative update.
        """
        low, high = int(cells[0]), int(cells[-1])
        for entry in reversed(self.entries):
            if entry.kind == kind and entry.shadow is access.shadow and entry.near(low, high):
                if access.op and entry.op >> 1 == access.op >> 1:
                    continue
                yield entry
