"""What the memory model needs to know of an access (PTX ISA 8: strength, scope, order)."""

from __future__ import annotations

from dataclasses import dataclass

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.flow import ATOMICS
from kcheck.semantics.idioms import Idiom, Idioms, operation

# how far a scope reaches; 0: a weak access
SCOPES = {"": 0, "cta": 1, "cluster": 2, "gpu": 3, "gl": 3, "sys": 4}
_COMMUTE = frozenset({"add", "min", "max", "and", "or", "xor"})
_ACQUIRES = frozenset({"acquire", "acq_rel"})
_RELEASES = frozenset({"release", "acq_rel"})


@dataclass(frozen=True)
class Kind:
    """One instruction's way to access memory.

    `scope`: of SCOPES. `operation`: of a commutative read-modify-write, like `add.f32`; "" if
    it is none, or one whose old value counts. `given`: it commutes with itself only where operands
    are the same (exchanges with those of this instruction). `rmw`: any read-modify-write. `nc`: the
    non-coherent path. `copy`: cp.async. `concrete`: the old value may be used.
    """

    pc: int
    instr: Instr
    scope: int = 0
    acquire: bool = False
    release: bool = False
    rmw: bool = False
    operation: str = ""
    given: bool = False
    nc: bool = False
    copy: bool = False
    idiom: Idiom | None = None
    concrete: bool = False

    @property
    def strong(self) -> bool:
        """Atomic, volatile, relaxed, acquire or release."""
        return self.scope > 0

    def is_part_of(self, name: str) -> bool:
        """Is it part of an idiom?"""
        return self.idiom is not None and self.idiom.name == name


def kinds_of(kernel: Kernel, idioms: Idioms) -> dict[int, Kind]:
    """The kinds of all accesses by instruction index."""
    kinds = {}
    for pc, instr in enumerate(kernel.code):
        name = idioms.flow.names[pc]
        if name in ("ld", "st", "ldmatrix", "cp.async"):
            kinds[pc] = _plain(pc, instr, idioms.found.get(pc))
        elif name in ATOMICS:
            kinds[pc] = _atomic(pc, instr, idioms)
    return kinds


def _plain(pc: int, instr: Instr, idiom: Idiom | None) -> Kind:
    words = set(instr.opcode)
    found = match(instr.opcode)
    scope = SCOPES[found.slots.get("scope", "")] if found else 0
    if "volatile" in words:
        scope = SCOPES["sys"]  # PTX ISA 8.2.3: as relaxed.sys
    return Kind(
        pc,
        instr,
        scope,
        "acquire" in words,
        "release" in words,
        nc="nc" in words or instr.opcode[0] == "ldu",
        copy=instr.opcode[0] == "cp",
        idiom=idiom,
        operation=idiom.operation if idiom else "",
    )


def _atomic(pc: int, instr: Instr, idioms: Idioms) -> Kind:
    found = match(instr.opcode)
    assert found is not None
    slots, idiom = found.slots, idioms.found.get(pc)
    op = slots.get("op") or found.form.name.partition(".")[2]
    dead = not idioms.flow.live(pc)
    named, given = "", False
    if idiom is not None and idiom.name == "cas":
        named = idiom.operation
    elif op in _COMMUTE and (dead or idiom is not None):
        named = operation(op, slots["type"])
    elif op in ("inc", "dec") and (dead or idiom is not None):
        named, given = f"{op}.u32", True
    elif op in ("exch", "cas") and dead and idiom is None:
        named, given = f"{op}@{pc}", True
    sem = slots.get("sem", "")
    return Kind(
        pc,
        instr,
        SCOPES[slots["scope"] or "gpu"],
        sem in _ACQUIRES,
        sem in _RELEASES,
        rmw=True,
        operation=named,
        given=given,
        idiom=idiom,
        concrete=idiom is not None,
    )


def fence_of(instr: Instr) -> tuple[int, bool, bool]:
    """Scope of a fence, and whether it acquires and releases."""
    found = match(instr.opcode)
    assert found is not None
    slots = found.slots
    sem = slots.get("sem") or "sc"
    scope = SCOPES[slots.get("scope") or slots["level"]]
    return scope, sem != "release", sem != "acquire"
