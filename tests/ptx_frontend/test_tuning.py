"""notes: `.maxntid` and its kin are kept with their numbers; the launch decides."""

import pytest

from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.tree import Directive
from tests.ptx_frontend.snippets import HEAD, checked, kernel


def test_directives_between_head_and_body() -> None:
    text = (
        HEAD + ".visible .entry k()\n.maxntid 256, 1, 1\n.minnctapersm 1\n.maxnreg 128\n"
        '.explicitcluster\n.pragma "nounroll";\n.reqnctapercluster 2, 1, 1\n{ ret; }'
    )
    lowered = kernel(text)
    assert lowered.tuning == {
        "maxntid": (256, 1, 1),
        "minnctapersm": (1,),
        "maxnreg": (128,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
    }
    body = checked(text).entries[0].body
    assert body is not None
    assert body.body[0] == Directive("pragma", '"nounroll"', body.span)


def test_one_number_and_noreturn() -> None:
    module = checked(
        HEAD + ".entry k .reqntid 128 { trap; }\n.extern .func __assertfail(.param .b64 a)\n"
        ".noreturn;\n"
    )
    assert module.entries[0].tuning == (("reqntid", (128,)),)
    assert module.functions[1].tuning == (("noreturn", ()),)
    assert module.functions[1].body is None


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (".maxntyd 256", "unknown directive `.maxntyd`"),
        (".maxntid", "expected a number"),
        (".maxntid 1, 2, 3, 4", "expected `{` or `;`"),
        (".reqntid -1", "can't be negative"),
    ],
)
def test_malformed(head: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(f"{HEAD}.entry k() {head} {{ ret; }}")
