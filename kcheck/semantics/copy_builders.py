"""Builders of cp.async: the copy is done at once; what may read it when is a matter of races."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.ptx_frontend.tree import Imm, Instr
from kcheck.semantics.access import Address, address
from kcheck.semantics.copies import issue_read, issue_write
from kcheck.semantics.decode import Builder, Decoder, under
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory_builders import gather, narrowed, scatter
from kcheck.semantics.values import UNSIGNED, Int, Unsupported, either


def _cp_async(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    ops = instr.operands
    if not isinstance(ops[2], Imm):
        raise Unsupported("operand", "the size of cp.async must be a literal")
    size = ops[2].value
    if size not in ((16,) if slots["cop"] == "cg" else (4, 8, 16)):
        raise Unsupported("cp.async", f"a copy of {size} bytes")
    target, source = address(d, ops[0], slots["space"]), address(d, ops[1], "global")
    length = d.integer(ops[3], 4) if len(ops) > 3 else None

    def run(m: Machine) -> None:
        if length is None:
            _copy(m, target, source, size, size)
            return
        given = m.integer(m.regs[length], 4)
        n = np.broadcast_to(given.a, (m.lanes,))
        group = m.group()
        bad = either(given.u, n > size)
        if bad is not None and (bad & group).any():
            m.fault("undefined.size", bad & group, "the source size is undefined or too large")
            group = group & ~bad
        for nbytes in np.unique(n[group]):
            under(m, group & (n == nbytes), _part(target, source, size, int(nbytes)))

    return run


def _part(target: Address, source: Address, size: int, given: int) -> Step:
    return lambda m: _copy(m, target, source, size, given)


def _copy(m: Machine, target: Address, source: Address, size: int, given: int) -> None:
    """Copy `given` bytes and fill up to `size` with zeros, in the group's lanes."""
    unit = _unit(m, source)
    if given % unit:
        unit = 4
    if given % unit:
        raise Unsupported("cp.async", f"a source size of {given} bytes")
    values: list[Any] = []
    if given:
        read = gather(m, source, unit, given // unit, size, watch=issue_read)
        values = [narrowed(m, x, unit) for x in read]
    zero = Int(np.zeros(1, UNSIGNED[unit]))
    values += [zero] * ((size - given) // unit)
    scatter(m, target, unit, size // unit, values, watch=issue_write)


def _unit(m: Machine, source: Address) -> int:
    """Bytes that are moved as one: at least 4, or the elements of the buffer if they are wider."""
    x = m.regs[source.slot]
    if type(x) is Int and isinstance(x.p, int):
        return max(4, m.regions.items[x.p].memory.granule)
    return 4


def _commit(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    def run(m: Machine) -> None:
        if m.races is not None:
            m.races.copies.commit()

    return run


def _wait(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    left: int | None = None
    if instr.operands:
        if not isinstance(instr.operands[0], Imm):
            raise Unsupported("operand", "the groups of cp.async.wait_group must be a literal")
        left = instr.operands[0].value

    def run(m: Machine) -> None:
        if m.races is not None:
            m.races.copies.wait(left)

    return run


COPY_BUILDERS: dict[str, Builder] = {
    "cp.async": _cp_async,
    "cp.async.commit": _commit,
    "cp.async.wait": _wait,
}
