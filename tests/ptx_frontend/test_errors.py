"""What is no PTX is refused with a caret, a message and a mend; never anything but PtxError."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse, parse_file
from tests.ptx_frontend.snippets import FILES, HEAD, checked, entry

GOOD = entry("mov.b32 %r1, 1;\nadd.s32 %r1, %r1, 2;\nret;")


def refusal(text: str) -> PtxError:
    with pytest.raises(PtxError) as caught:
        parse(text, "k.ptx")
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "line", "caret", "message", "mend"),
    [
        ("1;\nadd", "1\nadd", 8, "1", "`;` is missing after this instruction", "`;`"),
        ("ret;", "ret", 10, "ret", "`;` is missing", "`;`"),
        ("ret;", "ret\nadd.s32 %r1, %r1, 2;", 10, "ret", "`;` is missing", "`;`"),
        ("ret;", "ret\n.loc 1 2 3\nret;", 10, "ret", "`;` is missing", "`;`"),
        ("%r1, 1;", "%r1 1;", 8, "1", "unexpected `1`", "`,`"),
        ("%r1, 1;", "%r1, 1\\;", 8, "\\", "has no meaning", ""),
        ("%r1, 1;", "%r1, 1x;", 8, "1x", "no number", "0x1F"),
        ("%r1, 1;", '%r1, "x;', 8, '"', "not closed", '"'),
        ("%r1, 1;", "%r1, /* 1;", 8, "/*", "never closed", "*/"),
        ("%r1, 1;", "%r1, \0;", 8, "\0", "NUL", "cuobjdump"),
        ("%r1, 1;", "%r1, [%r2 %r3];", 8, "%r3", "expected `]`", "[base+constant]"),
        ("mov", ".regs .b32 x;\nmov", 8, ".regs", "unknown directive `.regs`", "`.reg`"),
        ("mov", ".entry x\nmov", 8, ".entry", "inside a function", "`}`"),
        ("mov", "%r1 mov", 8, "%r1", "no instruction", ""),
        ("mov", "@%p1; mov", 8, ";", "expected an instruction", ""),
        ("mov", "@5 mov", 8, "5", "expected a predicate", ""),
        ("mov", ".pragma nounroll;\nmov", 8, "nounroll", "expected a string", ""),
        ("mov", ".loc 1;\nmov", 8, ";", "expected a number in `.loc`", ""),
        ("mov", ".file 1 2\nmov", 8, "2", "expected a string in `.file`", ""),
        ("ret;\n}", "ret;", 10, ";", "inside the `{` of line 6", "cut off"),
        ("ret;\n}", "ret;\n}\n}", 12, "}", "closes nothing", ""),
        ("ret;\n}", "}\nret;", 11, "ret", "outside a function", "closed too early"),
        (".version 9.0", ".version nine", 1, "nine", "expected a number", ""),
        (".version 9.0", "int main()", 1, "int", "expected `.version`", "begins with"),
        (".target sm_90a", "", 11, "}", "`.target` is missing", "sm_80"),
        (".address_size 64", ".address_size 48", 3, "48", "32 or 64", ""),
        (".visible .entry", ".visible entry", 5, "entry", "expected a function", ""),
        ("k()", "k(.param .u64)", 5, ")", "expected a name of a parameter", ""),
    ],
)
def test_refusal(old: str, new: str, line: int, caret: str, message: str, mend: str) -> None:
    assert old in GOOD
    error = refusal(GOOD.replace(old, new, 1))
    assert (error.span.line, error.span.text) == (line, caret)
    assert message in error.message
    assert mend in error.mend


def test_the_message_shows_the_line_with_a_caret() -> None:
    error = refusal(GOOD.replace("add.s32 %r1,", "\tadd.s32 %r1 ?"))
    assert str(error).splitlines() == [
        "k.ptx:9:14: unexpected `?` in this instruction",
        "        add.s32 %r1 ? %r1, 2;",
        "                    ^",
        "  is a `,` or a `;` missing here?",
    ]


@pytest.mark.parametrize("text", ["", " \n", "// nothing\n", "\n\n\f"])
def test_no_text(text: str) -> None:
    assert "there is nothing" in refusal(text).message


def test_every_truncation_is_refused_until_a_function_begins() -> None:
    begin = GOOD.index(".visible")
    for n in range(begin + 1, GOOD.rindex("}")):
        assert refusal(GOOD[:n]).render()


def test_scopes_too_deep() -> None:
    assert "deep" in refusal(entry("{" * 2000)).message
    assert "deep" in refusal(entry(f"any.op {'{' * 2000}")).message
    assert "deep" in refusal(entry(f"any.op {'1?' * 2000}1;")).message
    checked(entry(f"any.op {'-~' * 2000}1;"))


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        parse_file(tmp_path / "none.ptx")
    with pytest.raises(OSError, match="directory"):
        parse_file(tmp_path)
    path = tmp_path / "k.ptx"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert parse_file(path) == parse(GOOD)
    assert parse_file(str(path)).span.source.name == str(path)
    for binary in (b"\x7fELF\x02\x01\x01\x00", GOOD.encode() + b"\n\xff\xfe", b"\xef\xbb\xbf\xff"):
        path.write_bytes(binary)
        with pytest.raises(PtxError, match=r"binary|byte \d+ is 0xff|no meaning"):
            parse_file(path)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_real_files(path: Path) -> None:
    module = checked(path.read_text())
    assert module.entries
    for chosen in module.entries:
        kernel = lower(module, chosen.name)
        assert kernel.blocks
        assert "@" not in "".join(v.name for v in module.variables)


TEXTS = [path.read_text() for path in FILES] + [GOOD]
PIECES = [";", "{", "}", "(", ")", "[", "]", ",", "@", "!", "%", "|", "<", ">", ".", ":", '"', "/*"]
PIECES += ["//", "\0", "\r", "\u00e9", "_", "-", "+", "0x", "1e999", "99999999999999999999", "0f1"]
PIECES += [".reg .b32 %r<9>;", ".align", ".loc", ".entry", "call", "bra X;", "X:", "@%p1", "%p1|"]


def read(text: str) -> None:
    """Parse and lower; lets nothing pass but the errors that are promised."""
    with contextlib.suppress(PtxError, KernelChoiceError):
        module = parse(text)
        for chosen in module.entries:
            lower(module, chosen.name)


@settings(max_examples=250, deadline=2000)
@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.integers(0, 40),
            st.one_of(st.sampled_from(PIECES), st.text(max_size=3), st.integers(0, 10**6)),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_mutants_of_real_files(text: str, edits: list[tuple[int, int, str | int]]) -> None:
    """Replace, delete and copy pieces."""
    for at, length, new in edits:
        at %= len(text) + 1
        if isinstance(new, int):  # a piece of the text itself
            new %= len(text) + 1
            new = text[new : new + 25]
        text = text[:at] + new + text[at + length :]
    read(text)


@settings(max_examples=100, deadline=2000)
@given(st.lists(st.sampled_from([*PIECES, *GOOD.split()]), max_size=30))
def test_nonsense(words: list[str]) -> None:
    read(entry(" ".join(words)))
    read(HEAD + " ".join(words))
