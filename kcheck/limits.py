"""Limits of time and memory on one question, looked at in cheap places of all engines.

They hold for whatever runs `within` them, so that no engine has to hand them on: a deadline in
the middle of a normal form stops the question, not only that proof.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

MEGABYTE = 1 << 20
# seconds between two looks at the memory, which cost more than one at the clock
APART = 0.01
# the part of the time, and the most seconds of it, that are kept to confirm what was seen
KEPT, MOST_KEPT = 0.2, 60.0


class LimitReached(Exception):
    """The user's limit; `what` (time or memory) completes `budget.<what>`."""

    def __init__(self, what: str, message: str) -> None:
        self.what = what
        super().__init__(message)


@dataclass
class _Limits:
    seconds: float
    deadline: float
    nbytes: float
    looked: float = 0.0
    kept: float = 0.0


_limits: ContextVar[_Limits | None] = ContextVar("limits", default=None)


def problem(seconds: float | None, megabytes: float | None) -> str | None:
    """Why these can't be limits, or None."""
    for name, value in (("time", seconds), ("memory", megabytes)):
        if value is not None and not 0 < value < math.inf:
            return f"{name} limit {value}: expected a positive number"
    if megabytes is not None and resident() is None:
        return "memory limit: this system does not tell how large a process is"
    return None


@contextmanager
def within(seconds: float | None, megabytes: float | None) -> Iterator[None]:
    """Let `check` raise LimitReached `seconds` from now, or where the process is larger.

    `megabytes`: 2^20 bytes of resident memory, of the whole process. None: no limit.
    """
    limits = _Limits(
        seconds or math.inf,
        time.monotonic() + (seconds or math.inf),
        (megabytes or math.inf) * MEGABYTE,
    )
    before = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(before)


def check() -> None:
    """LimitReached if a limit in force is passed. Costs a fraction of a microsecond."""
    limits = _limits.get()
    if limits is None:
        return
    now = time.monotonic()
    if now > limits.deadline - limits.kept:
        rest = f" but for {limits.kept:g} s for confirming what was seen" if limits.kept else ""
        raise LimitReached("time", f"the time limit of {limits.seconds:g} s is reached{rest}")
    if limits.nbytes < math.inf and now - limits.looked > APART:
        limits.looked = now
        used = resident() or 0
        if used > limits.nbytes:
            sizes = f"{used // MEGABYTE} MB used, {limits.nbytes / MEGABYTE:g} allowed"
            raise LimitReached("memory", f"the memory limit is reached ({sizes})")


def keep(some: bool) -> None:
    """Keep a part of the time from now on, since something is seen; or use it to confirm that."""
    limits = _limits.get()
    if limits is not None and limits.seconds < math.inf:
        limits.kept = min(KEPT * limits.seconds, MOST_KEPT) if some else 0.0


def some_left() -> bool:
    """Is there time, of that which is kept, after a limit was reached?"""
    keep(False)
    try:
        check()
    except LimitReached:
        return False
    return True


def resident() -> int | None:
    """Bytes of memory that the process holds (where no system tells that: held at most)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
