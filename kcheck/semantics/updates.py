"""What all read-modify-writes have in common: their places, and with which others they commute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.semantics.access import Address, Place, resolve
from kcheck.semantics.same_value import same_instruction
from kcheck.semantics.values import Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# the kind of operations on parts of a cell; read-modify-writes that commute with themselves
PART = 3
_COMMUTE = ("add", "min", "max", "and", "or", "xor")


def atomic_code(op: str, type_name: str, scope: str, part: bool = False) -> int:
    """A number for operation, type and reach; 0 for one that does not commute with itself.

    `part`: of floats that are less than the cell, whose width `type_name` has then.

    Odd: it reaches other CTAs (no scope means .gpu, PTX ISA 9.7.13.5 atom).
    """
    if op not in _COMMUTE:
        return 0
    width = {"16": 0, "32": 1, "64": 2}[type_name.removesuffix("x2")[-2:]]
    kind = PART if part else _kind(op, type_name)
    number = 1 + _COMMUTE.index(op) + len(_COMMUTE) * (width + 3 * kind)
    return 2 * number + (scope in ("", "gpu", "sys"))


def _kind(op: str, type_name: str) -> int:
    """Floats, integers, signed integers where the sign counts: unlike kinds do not commute."""
    kind = {"f": 0, "b": 0}.get(type_name[0], 1)
    return 2 if op in ("min", "max") and type_name[0] == "s" else kind


def places(
    m: Machine,
    at: Address,
    size: int,
    code: int,
    operands: tuple[Any, ...] = (),
    *,
    narrow: bool = False,
) -> list[Place]:
    """Where the group's lanes point; the access is noted with an atomic's `code`.

    `operands`: the registers that say what an update that does not commute does: several lanes of
    one instruction that do unlike ones to a cell race, as several stores do. `narrow`: its scope is
    the CTA.
    """
    found = resolve(m, at, size, size, write=True)
    for place in found:
        if size < place.region.memory.granule:
            raise Unsupported("reinterpret", f"an atomic of {size} bytes in wider elements")
        note_writers(m, place, size)
        _refuse_tail(m, place)
        if m.races is not None:
            clash = m.races.write(place, size, code)
            counted = m.flags is not None and m.flags.watches(place)
            if clash is not None and operands and not counted:
                same_instruction(m, place, size, [operands], clash, updates=True, narrow=narrow)
    return found


def untracked(m: Machine, place: Place, size: int) -> None:
    """An update that leaves in a cell what no loop may wait for."""
    if m.flags is not None and m.flags.watches(place):
        found = m.flags.histories(place, size)
        m.flags.write(found, [None] * len(found))


def _refuse_tail(m: Machine, place: Place) -> None:
    if m.tail and place.region.space == "global":
        raise Unsupported("unstable", "the last CTA updates what it may have updated already")


def note_writers(m: Machine, place: Place, nbytes: int) -> None:
    """Remember the CTAs that write the watched cell."""
    memory = place.region.memory
    if memory.watched is None:
        return
    cells = max(nbytes // memory.granule, 1)
    hit = (place.cell <= memory.watched) & (memory.watched < place.cell + cells)
    hit = hit if place.mask is None else hit & place.mask
    for lane in np.flatnonzero(hit):
        memory.writers[int(m.ctas[m.cta_of[lane]])] = (m.at, m.thread(int(lane)))
