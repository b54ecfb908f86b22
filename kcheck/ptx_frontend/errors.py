"""What the front end raises."""

from __future__ import annotations

from kcheck.ptx_frontend.source import Span


class PtxError(Exception):
    """A PTX text that can't be read; the message names file and line and draws a caret."""

    def __init__(self, span: Span, message: str, mend: str = "") -> None:
        self.span = span
        self.message = message
        self.mend = mend
        super().__init__(self.render())

    def render(self) -> str:
        """`file:line:column: message`, the line, a caret, and the mend."""
        line, column = self.span.source.locate(self.span.start)
        head = f"{self.span.source.name}:{line}:{column}: {self.message}"
        tail = f"\n  {self.mend}" if self.mend else ""
        return f"{head}\n{self.span.caret()}{tail}"


class KernelChoiceError(Exception):
    """A module in which one kernel can't be picked; `names` are its entries."""

    def __init__(self, source: str, names: tuple[str, ...], wanted: str | None = None) -> None:
        self.names = names
        listed = ", ".join(names)
        if not names:
            message = "has no kernel (no `.entry` with a body)"
        elif wanted is None:
            message = f"has {len(names)} kernels, name one of them: {listed}"
        else:
            message = f"has no kernel `{wanted}`; it has: {listed}"
        super().__init__(f"{source} {message}")
