"""Builders of synchronization that does not end a block."""

from __future__ import annotations

import numpy as np

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.decode import Builder, Decoder, defined
from kcheck.semantics.machine import Machine, Step


def _arrive(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    operands = [d.integer(op, 4) for op in instr.operands]

    def run(m: Machine) -> None:
        ident, count = (n.astype(np.int64) for n in defined(m, operands, "undefined.barrier"))
        if m.group().any():
            m.barriers.arrive(ident, count)

    return run


SYNC_BUILDERS: dict[str, Builder] = {"bar.arrive": _arrive}
