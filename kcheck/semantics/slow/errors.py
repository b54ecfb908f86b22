"""Why the slow evaluator stops without an answer."""

from __future__ import annotations

from kcheck.ptx_frontend.tree import Instr

Triple = tuple[int, int, int]


class Unevaluated(Exception):
    """The run can't go on; `reason` is dotted, `instr`, `thread`, `cta` say where (or None)."""

    def __init__(self, reason: str, instr: Instr | None = None) -> None:
        self.reason = reason
        self.instr = instr
        self.thread: Triple | None = None
        self.cta: Triple | None = None
        super().__init__(reason)

    def locate(self, instr: Instr, thread: Triple, cta: Triple) -> None:
        """Fill in the place, unless it is known."""
        self.instr = self.instr or instr
        self.thread = self.thread or thread
        self.cta = self.cta or cta

    def __str__(self) -> str:
        if self.instr is None:
            return self.reason
        return f"{self.reason}: {self.instr.span.text} ({self.instr.span})"


class Unsupported(Unevaluated):
    """An instruction, or a use of a value, that the evaluator does not understand."""


class Ambiguous(Unevaluated):
    """An enclosure is too wide to decide a comparison, a rounding or a sign."""

    def __init__(self, reason: str = "ambiguous") -> None:
        super().__init__(reason)


class Inexact(Unevaluated):
    """The result is not a rational number."""

    def __init__(self, reason: str = "inexact") -> None:
        super().__init__(reason)


class Enough(Exception):
    """Who watches the run has seen what it looked for."""


class BudgetExceeded(Unevaluated):
    """More instructions than the budget allows."""
