"""Builders of synchronization that does not end a block."""

from __future__ import annotations

import numpy as np

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.decode import Builder, Decoder
from kcheck.semantics.machine import Machine, Step


def _arrive(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    ident, count = (d.integer(op, 4) for op in instr.operands)

    def run(m: Machine) -> None:
        i, n = m.integer(m.regs[ident], 4), m.integer(m.regs[count], 4)
        for x in (i, n):
            if x.u is not None:
                m.fault("undefined.barrier", m.group() & x.u, "a barrier's operand is undefined")
        m.barriers.arrive(i.a.astype(np.int64), n.a.astype(np.int64))

    return run


SYNC_BUILDERS: dict[str, Builder] = {"bar.arrive": _arrive}
