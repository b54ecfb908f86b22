"""A PTX text and the places in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Source:
    """One PTX text: `name` is what reports call it (a path, or `<text>`)."""

    name: str
    text: str
    starts: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        object.__setattr__(self, "starts", starts)

    def locate(self, offset: int) -> tuple[int, int]:
        """The 1-based (line, column) of a character offset."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its end."""
        start = self.starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range `start:end` of characters of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """1-based."""
        return self.source.locate(self.start)[0]

    @property
    def column(self) -> int:
        """1-based."""
        return self.source.locate(self.start)[1]

    @property
    def text(self) -> str:
        """The text of the span on one line, blanks collapsed."""
        return " ".join(self.source.text[self.start : self.end].split())

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}"

    def caret(self) -> str:
        """The source line with a caret under the start of the span."""
        line, column = self.source.locate(self.start)
        text = self.source.line(line)
        shown = text.expandtabs(8)
        at = len(text[: column - 1].expandtabs(8))
        width = max(1, min(self.end - self.start, len(text) - column + 1))
        return f"{shown}\n{' ' * at}^{'~' * (width - 1)}"
