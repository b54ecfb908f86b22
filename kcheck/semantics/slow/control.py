"""Branches, exits and CTA barriers (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from kcheck.ptx_frontend.tree import Instr, Operand, Target, Vec
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


class _Site:
    """A barrier instruction: whom it waits for, and how."""

    def __init__(self, decoder: Decoder, instr: Instr, operands: Sequence[Operand]) -> None:
        self.instr = instr
        self.barrier = decoder.load(operands[0], "u32")
        self.counts = [decoder.load(op, "u32") for op in operands[1:]]
        self.aligned = instr.opcode[0] == "bar" or "aligned" in instr.opcode

    def arrival(self, t: Thread, waits: bool) -> AtBarrier:
        index = self.barrier(t)
        count = self.counts[0](t) if self.counts else None
        if index is ABSORB or count is ABSORB:
            message = "the barrier's id or count is undefined"
            t.cta.find("undefined.barrier", message, self.instr, t)
            raise Stop
        if index > 15 or (count is not None and (count == 0 or count % WARP)):
            raise Unsupported("unsupported.barrier-count")
        return AtBarrier(self.instr, t.pc - 1, index, count, self.aligned, waits)


@handles("bar.sync", "bar.arrive")
def _bar(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    site = _Site(decoder, instr, instr.operands)
    waits = "sync" in instr.opcode
    return lambda t: site.arrival(t, waits)


_REDUCTIONS: dict[str, Callable[[list[bool]], int | bool]] = {"popc": sum, "and": all, "or": any}


@handles("bar.red")
def _bar_red(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, *where, source = instr.operands
    site, op = _Site(decoder, instr, where), slots["op"]
    put = decoder.store(target, "u32" if op == "popc" else "pred")
    predicate = decoder.load(source, "pred")

    def step(t: Thread) -> AtBarrier:
        vote = predicate(t)
        if vote is ABSORB:
            message = f"the predicate of {instr.name} is undefined"
            t.cta.find("undefined.predicate", message, instr, t)
            raise Stop
        arrival = site.arrival(t, True)
        return replace(arrival, vote=vote, reduce=_REDUCTIONS[op], take=put)

    return step
