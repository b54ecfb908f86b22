"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable

from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.state import WARP, Thread
from kcheck.semantics.slow.units import Unit, Unstable

Get = Callable[[Thread], Unit]

_AXES = "xyz"
_FULL = (1 << WARP) - 1

_PLAIN: dict[str, Callable[[Thread], int]] = {
    "laneid": lambda t: t.lane,
    "warpid": lambda t: t.warp,
    "nwarpid": lambda t: -(-t.cta.context.launch.threads // WARP),
    "lanemask_eq": lambda t: 1 << t.lane,
    "lanemask_lt": lambda t: (1 << t.lane) - 1,
    "lanemask_le": lambda t: (2 << t.lane) - 1,
    "lanemask_gt": lambda t: _FULL & ~((2 << t.lane) - 1),
    "lanemask_ge": lambda t: _FULL & ~((1 << t.lane) - 1),
    "dynamic_smem_size": lambda t: t.cta.context.launch.dynamic_shared,
}

_TRIPLES: dict[str, Callable[[Thread], tuple[int, int, int]]] = {
    "tid": lambda t: t.tid,
    "ntid": lambda t: t.cta.context.launch.block,
    "ctaid": lambda t: t.cta.index,
    "nctaid": lambda t: t.cta.context.launch.grid,
}

_TIMERS = {f"globaltimer{part}" for part in ("", "_lo", "_hi")}
_UNSTABLE = {"clock", "clock_hi", "clock64", "smid", "nsmid", "gridid"} | _TIMERS


def special(name: str) -> Get:
    """Reads the special register `%name`; Unsupported if it is not known."""
    base, _, axis = name.lstrip("%").partition(".")
    if base in _TRIPLES and axis in _AXES and axis:
        read, i = _TRIPLES[base], _AXES.index(axis)
        return lambda t: read(t)[i]
    if base in _PLAIN and not axis:
        return _PLAIN[base]
    if base in _UNSTABLE:
        unstable = Unstable(name)
        return lambda t: unstable
    raise Unsupported(f"unsupported.{name}")
