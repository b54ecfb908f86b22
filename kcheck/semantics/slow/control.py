"""Branches, exits and CTA barriers (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from typing import NoReturn

from kcheck.ptx_frontend.tree import Instr, Target, Vec
from kcheck.semantics.slow.decode import handles
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots
from kcheck.semantics.slow.state import DONE, WARP, AtBarrier, Step, Stop, Thread


@handles("bra")
def _bra(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    (target,) = instr.operands
    if not isinstance(target, Target):
        raise Unsupported("unsupported.operand")
    index = target.index

    def step(t: Thread) -> None:
        t.pc = index

    return step


@handles("brx.idx")
def _brx(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    index, table = decoder.load(instr.operands[0], "u32"), instr.operands[1]
    if not isinstance(table, Vec):
        raise Unsupported("unsupported.operand")
    places = [item.index for item in table.items if isinstance(item, Target)]

    def step(t: Thread) -> None:
        number = index(t)
        if number is ABSORB:
            t.cta.find("undefined.branch", "the index of a branch is undefined", instr, t)
            raise Stop
        if number >= len(places):
            raise Unsupported("unsupported.brx")
        t.pc = places[number]

    return step


@handles("ret", "exit")
def _exit(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    return lambda t: DONE


@handles("call", "trap")
def _refused(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    def step(t: Thread) -> NoReturn:
        raise Unsupported(f"unsupported.{instr.opcode[0]}")

    return step


@handles("bar.sync", "bar.arrive")
def _bar(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    barrier = decoder.load(instr.operands[0], "u32")
    counts = [decoder.load(op, "u32") for op in instr.operands[1:]]
    aligned = instr.opcode[0] == "bar" or "aligned" in instr.opcode
    waits = "sync" in instr.opcode

    def step(t: Thread) -> AtBarrier:
        index = barrier(t)
        count = counts[0](t) if counts else None
        if index is ABSORB or count is ABSORB:
            t.cta.find("undefined.barrier", "the barrier's id or count is undefined", instr, t)
            raise Stop
        if index > 15 or (count is not None and (count == 0 or count % WARP)):
            raise Unsupported("unsupported.barrier-count")
        return AtBarrier(instr, t.pc - 1, index, count, aligned, waits)

    return step
