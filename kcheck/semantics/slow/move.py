"""mov, cvta, isspacep (PTX ISA 9.7.9)."""

from __future__ import annotations

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.decode import Pure, handles, pure
from kcheck.semantics.slow.integer import Numbers
from kcheck.semantics.slow.layout import WINDOWS
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import Pointer

_WINDOW_BITS = 56


@handles("mov")
def _mov(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """Also packs and unpacks: the vector's elements are as wide as they divide the type."""
    target, source = instr.operands
    kind = slots["type"]
    if kind == "pred":
        put, load = decoder.store(target, kind), decoder.load(source, kind)
        return lambda t: put(t, load(t))
    raw = f"b{kind_bits(kind)}"
    get, put = decoder.raw(source, kind_bits(kind)), decoder.store(target, raw)
    return lambda t: put(t, get(t))


def window_of(space: str) -> int:
    """What cvta adds for a state space."""
    return WINDOWS.get(space.partition("::")[0], 0)


@handles("cvta")
def _cvta(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    window = -window_of(slots["space"]) if slots["to"] else window_of(slots["space"])
    put, get = decoder.store(target, slots["size"]), decoder.raw(source, kind_bits(slots["size"]))
    load = decoder.load(source, slots["size"])

    def step(t: Thread) -> None:
        unit, value = get(t), load(t)
        if value is ABSORB or not window:
            put(t, value if value is ABSORB else unit)
        else:
            home = unit.home if isinstance(unit, Pointer) else None
            moved = value + window
            put(t, Pointer(moved, home) if isinstance(unit, Pointer) else moved)

    return step


@pure("isspacep")
def _isspacep(slots: Slots, numbers: Numbers) -> Pure:
    window = window_of(slots["space"]) >> _WINDOW_BITS

    def function(address: int) -> bool:
        found = address >> _WINDOW_BITS
        return found == window if window else found not in (1, 2, 3)

    return Pure("pred", ("u64",), function)
