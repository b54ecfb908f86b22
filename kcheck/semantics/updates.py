"""What all read-modify-writes have in common: their places, and with which others they commute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcheck.semantics.access import Address, Place, resolve
from kcheck.semantics.same_value import same_instruction
from kcheck.semantics.shadow import MIXED
from kcheck.semantics.values import Bool, Int, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

# the kind of operations on parts of a cell; read-modify-writes that commute with themselves
PART = 3
# scopes that reach other CTAs; none means .gpu (PTX ISA 9.7.13.5 atom)
_WIDE = ("", "gpu", "sys")
_COMMUTE = ("add", "min", "max", "and", "or", "xor")
# numbers from here on stand for updates with given operands; unlike ones of a group that are told
# apart
_GIVEN, _FEW = 1 + len(_COMMUTE) * 3 * (PART + 1), 64


def atomic_code(op: str, type_name: str, scope: str, part: bool = False) -> int:
    """A number for operation, type and reach; 0 for one that does not commute with itself.

    `part`: of floats that are less than the cell, whose width `type_name` has then.

    Odd: it reaches other CTAs.
    """
    if op not in _COMMUTE:
        return 0
    width = {"16": 0, "32": 1, "64": 2}[type_name.removesuffix("x2")[-2:]]
    kind = PART if part else _kind(op, type_name)
    number = 1 + _COMMUTE.index(op) + len(_COMMUTE) * (width + 3 * kind)
    return 2 * number + (scope in _WIDE)


def _kind(op: str, type_name: str) -> int:
    """Floats, integers, signed integers where the sign counts: unlike kinds do not commute."""
    kind = {"f": 0, "b": 0}.get(type_name[0], 1)
    return 2 if op in ("min", "max") and type_name[0] == "s" else kind


def places(
    m: Machine, at: Address, size: int, code: int, given: Given | None = None
) -> list[Place]:
    """Where the group's lanes point; the access is noted with an atomic's `code`.

    `given`: what an update that does not commute does.
    """
    found = resolve(m, at, size, size, write=True)
    for place in found:
        if size < place.region.memory.granule:
            raise Unsupported("reinterpret", f"an atomic of {size} bytes in wider elements")
        note_writers(m, place, size)
        _refuse_tail(m, place)
        if m.races is not None:
            if given is None:
                m.races.write(place, size, code)
            else:
                _write_given(m, place, size, given)
    return found


@dataclass(frozen=True)
class Given:
    """An update that commutes with itself only where its operands are the same.

    Several lanes of one instruction that do unlike ones to a cell race, as several stores do.
    """

    op: str
    scope: str
    operands: tuple[Int, ...]

    def codes(self, m: Machine) -> list[tuple[Bool, int]]:
        """Numbers for what the lanes do, if that is one of few things, and which lanes do it.

        Exchanges commute with those of this instruction only (DESIGN.md 5).
        """
        assert m.races is not None
        group, known = m.group(), m.races.given
        if m.tail or any(x.u is not None or x.p is not None for x in self.operands):
            return [(group, 0)]
        held = np.stack([np.broadcast_to(x.a, group.shape) for x in self.operands])
        found = []
        for these in np.unique(held[:, group], axis=1).T[: _FEW + 1]:
            key = self.op if self.op in ("inc", "dec") else m.at, *these.tolist()
            number = _GIVEN + known.setdefault(key, len(known))
            lanes = group & (held == these[:, None]).all(axis=0)
            found.append((lanes, 2 * number + (self.scope in _WIDE)))
        if len(found) > _FEW or any(code >= MIXED for _, code in found):
            return [(group, 0)]
        return found


def _write_given(m: Machine, place: Place, size: int, given: Given) -> None:
    assert m.races is not None
    counted = m.flags is not None and m.flags.watches(place)
    for lanes, code in given.codes(m):
        here = replace(place, mask=lanes if place.mask is None else lanes & place.mask)
        clash = m.races.write(here, size, code)
        if clash is not None and not counted:
            narrow, values = given.scope not in _WIDE, [given.operands]
            same_instruction(m, here, size, values, clash, updates=True, narrow=narrow)


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
