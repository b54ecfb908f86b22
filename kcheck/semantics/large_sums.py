"""Sums of data and a large constant, which floats round to few digits, or to the constant.

Where the constant is taken away again the rounding was the point ("magic rounding"), and over the
reals the result is no sum. But a mask of -1e9 is itself (DESIGN.md 6), and what a softmax makes of
it, a difference times a factor as the argument of an exponential, is 0 in floats and next to that
over the reals. Such sums count as they are written: nothing else is made of them.
"""

from __future__ import annotations

from kcheck.ptx_frontend.dataflow import DataFlow
from kcheck.ptx_frontend.idioms import LIBRARY
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr

# what may lie between the sum and the exponential: no addition, which might undo it
_THROUGH = frozenset({"mul", "neg"})
_FLOATS = frozenset({"f64", "f32", "f16", "bf16"})
_MOVES = frozenset({"mov", "selp"})
_EXPONENTIALS = frozenset({"expf", "exp10f"})


class LargeSums:
    """Which sums of one kernel are arguments of exponentials, and nothing else."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._flow: DataFlow | None = None
        self._known: dict[int, bool] = {}

    @property
    def made(self) -> list[int]:
        """Those that were asked for and are."""
        return [at for at, only in self._known.items() if only]

    def only_exponents(self, at: int) -> bool:
        """Is an instruction's result used, and all that is made of it through an exponential?"""
        if at not in self._known:
            self._known[at] = self._search(at)
        return self._known[at]

    def _search(self, at: int) -> bool:
        if self._flow is None:
            self._flow = DataFlow(self.kernel)
        seen, pending, ends = {at}, [at], set[int]()
        while pending:
            readers = set(self._flow.readers(pending.pop())) - seen
            ends |= {r for r in readers if _is_exponential(self.kernel.code[r])}
            readers -= ends
            if not all(_goes_through(self.kernel.code[r]) for r in readers):
                return False
            seen |= readers
            pending += readers
        return bool(ends)


def _is_exponential(instr: Instr) -> bool:
    if instr.opcode[0] == LIBRARY:
        return instr.opcode[1] in _EXPONENTIALS
    return instr.opcode[0] == "ex2"


def _goes_through(instr: Instr) -> bool:
    word = instr.opcode[0]
    return word in _MOVES or (word in _THROUGH and instr.opcode[-1] in _FLOATS)
