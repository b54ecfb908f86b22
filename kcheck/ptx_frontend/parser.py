"""PTX tokens -> the syntax tree (PTX ISA 9.0, chapters 4, 5 and 11)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from kcheck import limits
from kcheck.ptx_frontend.constants import extent, is_short_decimal
from kcheck.ptx_frontend.cursor import Cursor
from kcheck.ptx_frontend.declarations import SPACES, declaration, parameters
from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.lexer import DOT, END, FLOAT, INT, STRING, WORD
from kcheck.ptx_frontend.names import Names
from kcheck.ptx_frontend.operands import operand, register, symbol
from kcheck.ptx_frontend.source import Source, Span
from kcheck.ptx_frontend.tree import (
    Block,
    Directive,
    Function,
    Guard,
    Instr,
    Label,
    Module,
    Operand,
    Registers,
    Statement,
    Variable,
)

LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
# performance and cluster directives of a function -> the most numbers they take
TUNING = {
    ".maxntid": 3,
    ".reqntid": 3,
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".explicitcluster": 0,
    ".reqnctapercluster": 3,
    ".maxclusterrank": 1,
    ".blocksareclusters": 0,
    ".noreturn": 0,
    ".abi_preserve": 1,
    ".abi_preserve_control": 1,
}
LINES = frozenset({".loc", ".file"})  # these end with their line, not with `;`
# directives that are kept as text, at module scope and in a body
MODULE = frozenset({".section", ".file", ".pragma", ".alias"})
BODY = frozenset(
    {".section", ".file", ".pragma", ".loc", ".branchtargets", ".calltargets", ".callprototype"}
)
HEAD = frozenset({".version", ".target", ".address_size", ".entry", ".func"})
DIRECTIVES = LINKAGE | SPACES | TUNING.keys() | MODULE | BODY | HEAD


def parse(text: str, name: str = "<text>") -> Module:
    """The syntax tree of a PTX text; `name` is what errors call it. PtxError if it has none."""
    return Parser(Source(name, text)).module()


def parse_file(path: str | PathLike[str]) -> Module:
    """The syntax tree of a PTX file. OSError if it can't be read, PtxError if it isn't PTX."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source = Source(str(path), data[: error.start].decode("utf-8-sig") + "\ufffd")
        at = len(source.text) - 1
        message = f"this is no PTX text: byte {error.start} is 0x{data[error.start]:02x}"
        mend = "give PTX text (`cuobjdump -ptx` extracts it from a binary)"
        raise PtxError(Span(source, at, at + 1), message, mend) from None
    return parse(text, str(path))


class Parser:
    """Recursive descent, one token ahead."""

    def __init__(self, source: Source) -> None:
        self.cursor = Cursor(source)
        self.names = Names()

    def module(self) -> Module:
        """The whole text."""
        cursor = self.cursor
        version = self._version()
        target: list[str] = []
        address_size = 32  # the ISA's default (11.1.3)
        items: list[Function | Variable | Directive] = []
        while cursor.kind != END:
            if cursor.text == ".target":
                target += [word for word in self._target() if word not in target]
            elif cursor.accept(".address_size"):
                address_size = extent(cursor, "an address size")
                if address_size not in (32, 64):
                    cursor.at -= 1
                    raise cursor.error(f"an address has 32 or 64 bits, not {address_size}")
            else:
                items += self._item()
        if not target:
            raise cursor.error("`.target` is missing", "add for example `.target sm_80`")
        whole = Span(cursor.source, 0, len(cursor.source.text))
        return Module(version, tuple(target), address_size, tuple(items), whole)

    def _version(self) -> str:
        cursor = self.cursor
        if not cursor.accept(".version"):
            found = f"found `{cursor.text}`" if cursor.text else "there is nothing"
            mend = "is this PTX? It begins with `.version`, `.target` and `.address_size`"
            raise cursor.error(f"expected `.version` at the beginning, {found}", mend)
        if cursor.kind != FLOAT:
            raise cursor.expected("a number such as `8.0`", "after `.version`")
        return cursor.take()

    def _target(self) -> list[str]:
        cursor = self.cursor
        cursor.at += 1
        words = [cursor.name("after `.target`")]
        while cursor.accept(","):
            words.append(cursor.name("after `.target`"))
        return words

    def _item(self) -> list[Function | Variable | Directive]:
        cursor = self.cursor
        first = cursor.at
        linkage: list[str] = []
        while cursor.text in LINKAGE:
            linkage.append(cursor.take()[1:])
        word = cursor.text
        if word in (".entry", ".func"):
            return [self._function(first, tuple(linkage))]
        if word in SPACES and word not in (".reg", ".param"):
            declared = declaration(cursor, self.names, tuple(linkage))
            return [item for item in declared if isinstance(item, Variable)]
        if linkage:
            raise cursor.expected("a function or variable", f"after `.{linkage[-1]}`")
        if word in MODULE:
            return [self._directive()]
        if word == "}":
            raise cursor.error("this `}` closes nothing")
        if word in DIRECTIVES:
            raise cursor.error(f"`{word}` can't stand outside a function")
        if cursor.kind == DOT:
            raise cursor.unknown("directive", DIRECTIVES)
        raise cursor.error(
            f"`{word}` can't stand outside a function", "was a function closed too early?"
        )

    def _function(self, first: int, linkage: tuple[str, ...]) -> Function:
        cursor = self.cursor
        self.names.open()
        entry = cursor.take() == ".entry"
        results = parameters(cursor, self.names) if cursor.text == "(" and not entry else ()
        name = cursor.name("of a function")
        params = parameters(cursor, self.names) if cursor.text == "(" else ()
        tuning, pragmas = self._tuning()
        body = None
        header = cursor.since(first)
        if cursor.text == "{":
            body = self._block(tuple(pragmas))
        elif not cursor.accept(";"):
            raise cursor.expected("`{` or `;`", f"after the head of `{name}`")
        self.names.close()
        return Function(name, entry, params, results, linkage, tuple(tuning), body, header)

    def _tuning(self) -> tuple[list[tuple[str, tuple[int, ...]]], list[Directive]]:
        cursor = self.cursor
        tuning: list[tuple[str, tuple[int, ...]]] = []
        pragmas: list[Directive] = []
        while cursor.kind == DOT:
            if cursor.text == ".pragma":
                pragmas.append(self._directive())
                continue
            if cursor.text not in TUNING:
                raise cursor.unknown("directive", TUNING)
            word = cursor.take()
            numbers: list[int] = []
            for i in range(TUNING[word]):
                if i == 0 or cursor.accept(","):
                    numbers.append(extent(cursor, f"a number of `{word}`"))
            tuning.append((word[1:], tuple(numbers)))
        return tuning, pragmas

    def _block(self, head: tuple[Statement, ...] = ()) -> Block:
        """`{ ... }`, with the cursor at the brace; `head` goes before its statements."""
        cursor = self.cursor
        first = cursor.at
        cursor.nest()
        self.names.open()
        cursor.at += 1
        body: list[Statement] = list(head)
        texts, kinds = cursor.texts, cursor.kinds
        while texts[cursor.at] != "}":
            limits.check()
            kind = kinds[cursor.at]
            if kind == WORD:
                if texts[cursor.at + 1] == ":":
                    body.append(self._label())
                else:
                    body.append(self._instruction(None, cursor.at))
            elif kind == DOT:
                body += self._statement()
            elif kind == END:
                raise self._unclosed(first)
            elif texts[cursor.at] == "@":
                body.append(self._guarded())
            elif texts[cursor.at] == "{":
                body.append(self._block())
            elif not cursor.accept(";"):  # an empty statement
                raise cursor.error(f"`{cursor.text}` begins no statement")
        cursor.at += 1
        self.names.close()
        cursor.depth -= 1
        return Block(tuple(body), cursor.since(first))

    def _unclosed(self, first: int) -> PtxError:
        line = self.cursor.since(first).line
        return self.cursor.error(
            f"the text ends inside the `{{` of line {line}",
            "is the file cut off, or a `}` missing?",
        )

    def _statement(self) -> list[Registers | Variable] | list[Directive]:
        cursor = self.cursor
        word = cursor.text
        if word in SPACES:
            return declaration(cursor, self.names, ())
        if word in BODY:
            return [self._directive()]
        if word in DIRECTIVES:
            raise cursor.error(f"`{word}` can't stand inside a function", "is a `}` missing above?")
        raise cursor.unknown("directive", DIRECTIVES)

    def _label(self) -> Label:
        cursor = self.cursor
        first = cursor.at
        name = cursor.name("of a label")
        cursor.at += 1
        return Label(name, cursor.since(first))

    def _guarded(self) -> Instr:
        cursor = self.cursor
        first = cursor.at
        cursor.at += 1
        negated = cursor.accept("!")
        if cursor.kind != WORD:
            raise cursor.expected("a predicate", "after `@`")
        guard = Guard(register(cursor, cursor.take()), negated)
        if cursor.kind != WORD:
            raise cursor.expected("an instruction", "after its predicate")
        return self._instruction(guard, first)

    def _instruction(self, guard: Guard | None, first: int) -> Instr:
        cursor = self.cursor
        texts = cursor.texts
        opcode = self._opcode()
        operands: list[Operand] = []
        if texts[cursor.at] != ";":
            call = opcode[0] == "call"
            operands.append(operand(cursor, self.names, call))
            while texts[cursor.at] == ",":
                cursor.at += 1
                operands.append(operand(cursor, self.names, call))
            if texts[cursor.at] != ";":
                raise cursor.unfinished("this instruction")
        span = Span(cursor.source, cursor.starts[first], cursor.end())
        cursor.at += 1
        return Instr(opcode, tuple(operands), guard, span)

    def _opcode(self) -> tuple[str, ...]:
        """An opcode; compilers put blanks before its suffixes (`... .L2::cache_hint`)."""
        cursor = self.cursor
        text = cursor.texts[cursor.at]
        if text[0] in "%$_":
            raise cursor.error(f"`{text}` is no instruction", "a label ends with `:`")
        cursor.at += 1
        while cursor.kinds[cursor.at] == DOT and cursor.texts[cursor.at] not in DIRECTIVES:
            text += cursor.take()
        opcode = cursor.opcodes.get(text)
        if opcode is None:
            opcode = cursor.opcodes[text] = tuple(text.split("."))
        return opcode

    def _directive(self) -> Directive:
        """A directive that is kept as text."""
        cursor = self.cursor
        first = cursor.at
        word = cursor.take()
        begin = cursor.at
        if word == ".section":
            return Directive("section", self._section(), cursor.since(first))
        if word in LINES:
            self._line(word)
        elif word == ".callprototype":
            self._prototype()
        else:
            self._listed(word)
        text = _join(cursor.texts[begin : cursor.at])
        if word not in LINES and not cursor.accept(";"):
            raise cursor.unfinished(f"this `{word}`")
        return Directive(word[1:], text, cursor.since(first))

    def _line(self, word: str) -> None:
        """`1 2 3, function_name $L__info_string0, inlined_at 1 4 5` or `1 "x.cu", 7, 9`."""
        cursor = self.cursor
        for what in ("a number", "a number" if word == ".loc" else "a string"):
            good = cursor.kind == STRING if what == "a string" else is_short_decimal(cursor.text)
            if not good:
                raise cursor.expected(what, f"in `{word}`")
            cursor.at += 1
        while cursor.kind == INT or cursor.accept(","):
            if cursor.accept("function_name"):
                symbol(cursor, cursor.name("of a function"))
            elif not cursor.accept("inlined_at") and cursor.kind == INT:
                cursor.at += 1

    def _listed(self, word: str) -> None:
        """Strings (`.pragma`) or names with commas between them."""
        cursor = self.cursor
        kind = STRING if word == ".pragma" else WORD
        while True:
            if cursor.kind != kind:
                raise cursor.expected("a string" if kind == STRING else "a name", f"after `{word}`")
            cursor.at += 1
            if not cursor.accept(","):
                return

    def _prototype(self) -> None:
        """`(.param .b32 _) _ (.param .b64 _)`."""
        cursor = self.cursor
        if cursor.text == "(":
            parameters(cursor, Names())
        cursor.expect("_", "in a prototype")
        if cursor.text == "(":
            parameters(cursor, Names())
        self._tuning()

    def _section(self) -> str:
        """The name and the raw text in the braces (DWARF data)."""
        cursor = self.cursor
        name = cursor.take()
        begin = cursor.at
        cursor.expect("{", f"after `.section {name}`")
        while not cursor.accept("}"):
            if cursor.text == "{" or cursor.kind == END:
                raise cursor.expected("`}`", f"at the end of section `{name}`")
            cursor.at += 1
        return f"{name} {cursor.since(begin).source.text[cursor.starts[begin] : cursor.end()]}"


def _join(texts: list[str]) -> str:
    """Tokens with a blank between them, none before a comma."""
    return " ".join(texts).replace(" ,", ",")
