"""Kernels to programs: the blocks of the machine, decoded once per kernel and launch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.idioms import NOTHING
from kcheck.ptx_frontend.tree import Instr, Target
from kcheck.semantics.block_ends import (
    BARRIERS,
    EXITS,
    End,
    arrival,
    at_once,
    branch,
    exits,
    indexed,
    where_guarded,
)
from kcheck.semantics.branching import only_computes
from kcheck.semantics.cas_updates import going_on
from kcheck.semantics.decode import Builder, Decoder, GuardBuilder, step, unguarded
from kcheck.semantics.extremes import in_run, sign_test
from kcheck.semantics.gates import gate, judged
from kcheck.semantics.machine import Block, Machine, Outcome, Program, Step
from kcheck.semantics.values import Unsupported


def decode(machine: Machine, builders: Mapping[str, Builder], guarded: GuardBuilder) -> Program:
    """Decode all reachable blocks. `guarded` builds what a symbolic guard does."""
    decoder = Decoder(machine, builders, guarded)
    blocks = [_block(decoder, index) for index in range(len(machine.blocks))]
    if machine.plan.flow is not None:
        for index, block in enumerate(blocks):
            block.gate = gate(decoder, index)
    return Program(blocks, decoder.registers, decoder.specials)


def _step_at(decoder: Decoder, at: int) -> Step:
    decoder.at = at
    run = step(decoder, decoder.kernel.code[at])
    pairs, choosing = decoder.pairs, decoder.machine.plan.choosing
    if at in choosing:
        return going_on(decoder, decoder.kernel.code[at], *choosing[at])
    if at in pairs.signs:
        return sign_test(decoder, at, pairs.signs[at], run)
    if at in pairs.runs:
        atomics = sorted(half.at for pair in pairs.runs[at] for half in pair)
        steps = [(pc, step(decoder, decoder.kernel.code[pc])) for pc in atomics]
        return in_run(decoder, pairs.runs[at], steps)
    if at in pairs.members or at in decoder.machine.plan.idle:
        return lambda m: None  # done with another one
    return judged(decoder, at, run) if at in decoder.machine.plan.compares else run


def refusal(decoder: Decoder, instr: Instr) -> Unsupported | None:
    """Why an instruction is refused wherever it is reached, or None."""
    found = match(instr.opcode)
    name = found.form.name if found else ""
    if name in ("bra", "brx.idx", *EXITS):
        return None
    decoder.at = next(at for at, other in enumerate(decoder.kernel.code) if other is instr)
    try:
        if name in BARRIERS:
            arrival(decoder, instr, name, 0)
        else:
            unguarded(decoder, instr)
    except Unsupported as error:
        return error
    return None


def _block(decoder: Decoder, index: int) -> Block:
    kernel, all_blocks = decoder.kernel, decoder.machine.blocks
    block = all_blocks[index]
    last = kernel.code[block.end - 1]
    found = match(last.opcode)
    name = found.form.name if found else ""
    starts = {b.start: i for i, b in enumerate(all_blocks)}
    stop = block.end
    follow = starts.get(block.end, -1)
    end: End = lambda m: follow  # noqa: E731
    if name == "bra":
        assert isinstance(last.operands[0], Target)
        stop, end = stop - 1, branch(decoder, last, index, starts[last.operands[0].index], follow)
        end = at_once(decoder, stop, starts, end)
    elif name == "brx.idx":
        jump = partial(indexed, decoder, last, starts)
        stop, end = stop - 1, where_guarded(decoder, last, follow, jump)
    elif name in EXITS:
        stop, end = stop - 1, exits(decoder, last, name, index, follow)
    elif name in BARRIERS:
        arrive = partial(arrival, decoder, last, name, follow)
        stop, end = stop - 1, where_guarded(decoder, last, follow, arrive, index)
    code = kernel.code
    needed = [at for at in range(block.start, stop) if code[at].opcode[0] != NOTHING]
    steps = [(at, _step_at(decoder, at)) for at in needed]
    inside = range(block.start, block.end)
    barred = next((at for at in inside if not only_computes(code[at])), -1)
    here = block.end - 1

    def finish(m: Machine) -> Outcome:
        m.at = here
        return end(m)

    return Block(steps, finish if stop != block.end else end, barred=barred)
