"""PTX text -> tokens (PTX ISA 9.0, 4.2 to 4.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from kcheck import limits
from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.source import Source, Span

# tokens between two looks at the limits of a question
OFTEN = 1 << 10
# Kinds of tokens: the groups of _TOKEN, in order.
WORD, DOT, FLOAT, INT, STRING, PUNCT, COMMENT, END, BAD = range(1, 10)

# The last two alternatives take whatever is left, so that a match never backtracks.
_TOKEN = re.compile(
    r"""[ \t\r\n\f\v]*(?:
      ((?:[A-Za-z_$][\w$]*|%[\w$]+)(?:(?:\.|::)[\w$]+)*)            # ld.global, %tid.x, $L__BB0_1
    | (\.(?:reg|shared|local|global|const|param)(?=\.)              # .reg.b32 is two tokens
        |\.[A-Za-z_][\w$]*(?:(?:\.|::)[\w$]+)*)                     # .reg, .L2::cache_hint
    | ((?:0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}
        |\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w$]))
    | ((?:0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)U?(?![\w$]))
    | ("(?:[^"\\\n]|\\.)*")
    | (<<|>>|<=|>=|==|!=|&&|\|\||/(?![/*])|[{}()\[\],;:@!|<>+\-*%~&^?=])
    | (//[^\n]*|/\*[\s\S]*?\*/)
    | (\Z)
    | ([\s\S])
    )""",
    re.ASCII | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Kind, text and first offset of each token; the last one is END, with an empty text."""

    kinds: list[int]
    texts: list[str]
    starts: list[int]


def tokenize(source: Source) -> Tokens:
    """The tokens of a source without blanks and comments. PtxError at what is none."""
    tokens = Tokens([], [], [])
    kind_of, text_of, start_of = tokens.kinds.append, tokens.texts.append, tokens.starts.append
    for match in _TOKEN.finditer(source.text):
        kind = match.lastindex
        if kind == COMMENT:
            continue
        if not len(tokens.kinds) % OFTEN:
            limits.check()
        if kind == BAD or kind is None:
            _refuse(source, match.start(BAD))
        kind_of(kind)
        text_of(match[kind])
        start_of(match.start(kind))
        if kind == END:
            break
    return tokens


# what a bad token starts with -> what it is, how to mend it
_MALFORMED = (
    (r"\0", "a NUL byte: this is a binary file", "give PTX text (`cuobjdump -ptx` extracts it)"),
    (r"/\*", "this comment is never closed", "add `*/`"),
    (r'"', "this string is not closed on its line", 'add `"`'),
    (
        r"\d[\w$.]*",
        "this is no number",
        "numbers look like 12, 0x1F, 0b101, 017, 12U, 1.5, 0f3F800000, 0d3FF0000000000000",
    ),
)


def _refuse(source: Source, start: int) -> NoReturn:
    for pattern, message, mend in _MALFORMED:
        found = re.compile(pattern).match(source.text, start)
        if found:
            raise PtxError(Span(source, start, found.end()), message, mend)
    bad = source.text[start]
    raise PtxError(Span(source, start, start + 1), f"{bad!r} has no meaning in PTX")
