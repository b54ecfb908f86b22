"""A place in the tokens of a source, and what the parser says when it is stuck there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lexer import END, WORD, tokenize
from kcheck.ptx_frontend.source import Source, Span
from kcheck.ptx_frontend.tree import Reg

# Scopes inside scopes, and parentheses inside parentheses: far above what compilers emit, far
# below what Python's stack bears.
MAX_DEPTH = 50


class Cursor:
    """Reads tokens from left to right. `at` is the index of the next one."""

    def __init__(self, source: Source) -> None:
        tokens = tokenize(source)
        self.source = source
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.at = 0
        self.depth = 0
        self.registers: dict[str, Reg] = {}
        self.opcodes: dict[str, tuple[str, ...]] = {}

    @property
    def text(self) -> str:
        """The next token's text ("" at the end)."""
        return self.texts[self.at]

    @property
    def kind(self) -> int:
        """The next token's kind."""
        return self.kinds[self.at]

    def take(self) -> str:
        """The next token's text; moves past it."""
        text = self.texts[self.at]
        if self.kinds[self.at] == END:
            raise self.error("the text ends here", "is the file cut off?")
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Moves past the next token if it is `text`."""
        if self.texts[self.at] != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str, where: str) -> None:
        """Moves past `text`, or PtxError."""
        if not self.accept(text):
            raise self.expected(f"`{text}`", where)

    def name(self, what: str) -> str:
        """Moves past an identifier."""
        text = self.texts[self.at]
        if self.kinds[self.at] != WORD or text == "_" or "." in text or ":" in text:
            raise self.expected("a name", what)
        self.at += 1
        return text

    def end(self) -> int:
        """The offset behind the token before the next one."""
        last = self.at - 1
        return self.starts[last] + len(self.texts[last]) if last >= 0 else 0

    def since(self, first: int) -> Span:
        """The span from token `first` to the one before the next."""
        return Span(self.source, self.starts[first], max(self.end(), self.starts[first]))

    def here(self) -> Span:
        """The span of the next token; at the end of the text, of the last one."""
        at = self.at
        if self.kinds[at] == END and at:
            at -= 1
        start = self.starts[at]
        return Span(self.source, start, start + len(self.texts[at]))

    def error(self, message: str, mend: str = "") -> PtxError:
        """An error at the next token."""
        return PtxError(self.here(), message, mend)

    def expected(self, what: str, where: str) -> PtxError:
        """An error that says what should stand here."""
        if self.kinds[self.at] == END:
            return self.error(f"the text ends where {what} should follow {where}", "is it cut off?")
        return self.error(f"expected {what} {where}, found `{self.text}`")

    def unknown(self, what: str, known: Iterable[str]) -> PtxError:
        """An error at a word (without its dot) that is in no table."""
        near = get_close_matches(self.text.lstrip("."), [k.lstrip(".") for k in known], n=1)
        mend = f"did you mean `.{near[0]}`?" if near else ""
        return self.error(f"unknown {what} `{self.text}`", mend)

    def unfinished(self, after: str) -> PtxError:
        """An error where a `;` is missing."""
        last = max(self.at - 1, 0)
        between = self.source.text[self.end() : self.starts[self.at]]
        if self.kind == END or "\n" in between or self.text == "}":
            start = self.starts[last]
            span = Span(self.source, start, start + len(self.texts[last]))
            return PtxError(span, f"`;` is missing after {after}", "end it with `;`")
        return self.error(f"unexpected `{self.text}` in {after}", "is a `,` or a `;` missing here?")

    def nest(self) -> None:
        """Enters a scope or a parenthesis; `self.depth -= 1` leaves it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep")
