"""Findings that need more than one thread to see."""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.state import AtBarrier, AtMeeting, Cta, Thread


def deadlock(cta: Cta, stuck: list[Thread]) -> None:
    """Report that no thread can run: `deadlock.divergent` if lanes of one warp wait apart."""
    lost = next((t for t in stuck if _apart(t, stuck)), None)
    reason = "deadlock.barrier" if lost is None else "deadlock.divergent"
    t = stuck[0] if lost is None else lost
    cta.find(reason, "; ".join(_who(stuck)), _instr(t), t)


def _instr(t: Thread) -> Instr:
    assert isinstance(t.wait, (AtBarrier, AtMeeting))
    return t.wait.instr


def _apart(t: Thread, stuck: list[Thread]) -> bool:
    """Does t wait for lanes of its own warp that wait elsewhere?"""
    others = [u for u in stuck if u.warp == t.warp]
    if isinstance(t.wait, AtMeeting):
        return True
    return any(not isinstance(u.wait, AtBarrier) or _site(u) != _site(t) for u in others)


def _site(t: Thread) -> tuple[object, ...]:
    assert isinstance(t.wait, AtBarrier)
    return t.wait.barrier, t.wait.count, t.wait.waits, t.wait.pc if t.wait.aligned else None


def _who(stuck: list[Thread]) -> list[str]:
    places: dict[int, list[Thread]] = {}
    for t in stuck:
        places.setdefault(id(_instr(t)), []).append(t)
    lines = []
    for threads in places.values():
        span = _instr(threads[0]).span
        lines.append(f"threads {_ranges(t.linear for t in threads)} wait at {span.text} ({span})")
    return lines


def _ranges(numbers: Iterable[int]) -> str:
    """`0-31, 64` of sorted numbers."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
