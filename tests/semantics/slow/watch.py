"""Runs a body under the race monitor."""

from __future__ import annotations

from typing import Any

from kcheck.launch import Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.slow import Double, Race, SlowMachine, SlowResult
from tests.semantics.slow.harness import launch_of, module

SETUP = """
    .reg .b32 i, w, l, n, c, r, s, u, v; .reg .b64 x; .reg .pred p, q;
    .shared .align 16 .b32 t[256]; .shared .b32 f;
    mov.u32 i, %tid.x; shr.u32 w, i, 5; and.b32 l, i, 31; mov.u32 c, %ctaid.x; mov.u32 s, t;
    mad.lo.u32 s, i, 4, s; mov.u32 n, %ntid.x; mad.lo.u32 u, c, n, i; mad.wide.u32 x, u, 4, O;
"""


def watch(
    body: str,
    threads: int = 64,
    ctas: int = 1,
    seed: int | None = None,
    init: str = "zero",
    inputs: Any = None,
    **more: Any,
) -> SlowResult:
    """Run a body whose thread's own output element is [x]; A and O hold 256 words, O zeros."""
    tensors = [Tensor("A", "u32", (256,), "in"), Tensor("O", "u32", (256,), "out", init=init)]
    text = module(["A", "O"], SETUP + body + "\nret;")
    launch = launch_of(text, tensors, threads, grid=(ctas, 1, 1), **more)
    kernel = lower(parse(text))
    values = {"A": list(range(256))}
    return SlowMachine(kernel, launch, values, Double, seed=seed, races=True).run()


def reasons(result: SlowResult) -> set[str]:
    """The reasons of the races."""
    return {race.reason for race in result.races}


def names(race: Race) -> set[str]:
    """The opcodes of both sides."""
    return {race.first.instr.name, race.second.instr.name}
