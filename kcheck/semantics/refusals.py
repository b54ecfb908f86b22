"""Which instructions of a kernel the executor refuses, whatever their operands hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcheck.canon.domain import Domain
from kcheck.canon.real import Reals
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.builders import BUILDERS
from kcheck.semantics.decode import Decoder
from kcheck.semantics.machine import Machine
from kcheck.semantics.program import refusal
from kcheck.semantics.symbolic import guarded_symbolically
from kcheck.semantics.values import Unsupported


def refusals(kernel: Kernel, launch: Launch, domain: Domain[Any]) -> list[tuple[Instr, str]]:
    """The instructions of reachable blocks without a form or a builder, and why, in order."""
    # decoding asks for the place of a buffer, never for its elements
    params = tuple(
        replace(p, shape=(1,), strides=None, values=None) if isinstance(p, Tensor) else p
        for p in launch.params
    )
    try:
        machine = Machine(kernel, replace(launch, params=params), Reals(domain))
    except Unsupported:
        return []
    decoder = Decoder(machine, BUILDERS, guarded_symbolically)
    reached = sorted(at for block in kernel.blocks for at in range(block.start, block.end))
    found = ((kernel.code[at], refusal(decoder, kernel.code[at])) for at in reached)
    return [(instr, why.message) for instr, why in found if why is not None]
