"""Addresses to cells: which region, inside its bounds, aligned (DESIGN.md 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.ptx_frontend.tree import Imm, Mem, Operand, Reg, Sym
from kcheck.semantics.regions import LOCAL_WINDOW, SHARED_WINDOW, WINDOWS, Region
from kcheck.semantics.units import Cells
from kcheck.semantics.values import Array, Bool, Int, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.decode import Decoder
    from kcheck.semantics.machine import Machine

# the `.space` of an instruction -> the spaces a region may have
SPACES = {
    "": ("global", "const", "shared", "local"),
    "global": ("global",),
    "const": ("const",),
    "shared": ("shared",),
    "shared::cta": ("shared",),
    "local": ("local",),
    "param": ("local",),
    "param::func": ("local",),
}


@dataclass
class Place:
    """The cells of the lanes in `mask` (None: all of them are the whole batch) in one region.

    `rest`: bytes into the cell, 0 unless the access is narrower than a cell.
    """

    region: Region
    cell: Cells
    rest: Any
    mask: Bool | None


@dataclass(frozen=True)
class Address:
    """A decoded memory operand: the slot of its base, and a byte offset."""

    slot: int
    offset: int
    space: str


def address(d: Decoder, op: Operand, space: str) -> Address:
    """Decode `[base+offset]`."""
    if not isinstance(op, Mem) or op.coords:
        raise Unsupported("operand", f"an address is expected, not {op}")
    base = op.base
    if isinstance(base, Reg):
        return Address(d.reg(base), op.offset, space)
    size = 4 if space.startswith("shared") else 8
    if isinstance(base, (Sym, Imm)):
        return Address(d.integer(base, size), op.offset, space)
    raise Unsupported("operand", f"an address is expected, not {op}")


def resolve(m: Machine, at: Address, nbytes: int, align: int, write: bool) -> list[Place]:
    """The cells that the group's lanes access, one place a region; faulty lanes are left out."""
    x = m.regs[at.slot]
    if type(x) is not Int or x.u is not None:
        x = m.integer(x, 4 if type(x) is Int and x.a.itemsize == 4 else 8)
    numbers = x.a.astype(np.int64) + at.offset
    if at.offset and x.a.itemsize == 4:
        numbers &= 0xFFFFFFFF  # 32-bit address arithmetic wraps
    if len(numbers) != m.lanes:
        numbers = np.broadcast_to(numbers, (m.lanes,))
    mask = m.mask
    if x.u is not None:
        gone = np.broadcast_to(x.u, (m.lanes,)) & m.group()
        m.fault("undefined.address", gone, "the address is undefined")
        mask = m.group() & ~gone
    if isinstance(x.p, int):
        place = _place(m, at, x.p, numbers, mask, nbytes, align, write)
        return [place] if place is not None else []
    places = []
    group = m.group() if mask is None else mask
    origins = _origins(m, at, x.p, numbers, group)
    for ident in np.unique(origins[group]):
        lanes = group & (origins == ident)
        if ident < 0:
            m.fault(_space(at, "global"), lanes, _nowhere(numbers, lanes))
            continue
        place = _place(m, at, int(ident), numbers, lanes, nbytes, align, write)
        if place is not None:
            places.append(place)
    return places


def _space(at: Address, default: str) -> str:
    space = at.space.partition("::")[0] or default
    return f"bounds.{'local' if space == 'param' else space}"


def _nowhere(numbers: Array, lanes: Bool) -> str:
    return f"address {int(numbers[lanes][0]):#x} lies in no buffer"


def _origins(m: Machine, at: Address, p: Any, numbers: Array, group: Bool) -> Array:
    """The region of each lane: the one it carries, else the one the address lies in."""
    carried = np.full(m.lanes, -1) if p is None else np.broadcast_to(p, (m.lanes,)).copy()
    for lane_address in np.unique(numbers[group & (carried < 0)]):
        found = _find(m, at.space, int(lane_address))
        if found is not None:
            carried[(numbers == lane_address) & (carried < 0)] = found
    return carried


def _find(m: Machine, space: str, number: int) -> int | None:
    for one in SPACES[space]:
        offset = number if space else number - WINDOWS[one]
        found = m.regions.find(one, offset)
        if found is not None:
            return found
    return None


def _place(
    m: Machine,
    at: Address,
    ident: int,
    numbers: Array,
    mask: Bool | None,
    nbytes: int,
    align: int,
    write: bool,
) -> Place | None:
    region = m.regions.items[ident]
    if mask is not None and not mask.any():
        return None
    group = m.group() if mask is None else mask
    if region.space not in SPACES[at.space]:
        m.fault(_space(at, "global"), group, f"the address points into {region.space} memory")
        return None
    window = 0 if at.space else WINDOWS[region.space]
    offset = numbers - (region.base + window)
    inside = (offset >= 0) & (offset <= region.nbytes - nbytes)
    aligned = (offset + region.base) % align == 0
    good = inside & aligned
    if not (good if mask is None else good | ~mask).all():
        mask = _faulty(m, region, offset, group, inside, aligned, nbytes)
        if mask is None:
            return None
    if write and region.readonly:
        m.fault("bounds.readonly", group, f"a store into the input {region.name}")
        return None
    if mask is not None:
        offset = np.where(mask, offset, 0)
    granule = region.memory.granule
    cell, rest = offset // granule, offset % granule if nbytes < granule else 0
    if region.space == "shared":
        cell = (offset + region.base) // granule + m.cta_cells
        rest = (offset + region.base) % granule if nbytes < granule else 0
    elif region.space == "local":
        cell = (offset + region.base) // granule + m.lane_cells
        rest = (offset + region.base) % granule if nbytes < granule else 0
    return Place(region, cell, rest, mask)


def _faulty(
    m: Machine,
    region: Region,
    offset: Array,
    group: Bool,
    inside: Bool,
    aligned: Bool,
    nbytes: int,
) -> Bool | None:
    """Report lanes that are out of bounds or misaligned; the others, or None."""
    outside = group & ~inside
    if outside.any():
        at = int(offset[outside][0])
        m.fault(
            f"bounds.{region.space}",
            outside,
            f"{nbytes} bytes at byte {at} of {region.name}{element(region, at)}, "
            f"which has {region.nbytes} bytes",
        )
    crooked = group & inside & ~aligned
    if crooked.any():
        at = int(offset[crooked][0])
        m.fault(
            "bounds.misaligned",
            crooked,
            f"{nbytes} bytes at byte {at} of {region.name}{element(region, at)}: not aligned",
        )
    rest = group & inside & aligned
    return rest if rest.any() else None


def element(region: Region, offset: int) -> str:
    """` (A[3,17])` for a byte offset of a tensor, else nothing."""
    tensor = region.tensor
    if tensor is None or not 0 <= offset < region.nbytes:
        return ""
    size = max(region.nbytes // max(tensor.elements, 1), 1)
    index = tensor.index(offset // size)
    return f" ({region.name}[{','.join(map(str, index))}])"


def to_generic(m: Machine, x: Int, space: str, back: bool) -> Int:
    """`cvta`: between a space's own addresses and generic ones."""
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space.partition("::")[0], 0)
    if not window or x.a.itemsize == 4:
        return x
    shift = np.uint64(window)
    return Int(x.a - shift if back else x.a + shift, x.p, x.u)
