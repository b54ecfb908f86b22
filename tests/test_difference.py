"""The first value that differs, with its lines; nothing where none can be named."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kcheck.check import equivalent
from kcheck.verdict import Difference, Verdict
from tests.corpus import CASES, verdict_of
from tests.semantics.harness import entry, launch_of, out, symbol

PARAMS = (symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32))
LOADS = "ld.global.f32 %f1, [%x];\nld.global.f32 %f2, [%y];\n"
STORE = "\nst.global.f32 [%z], %f3;"


def first(verdict: Verdict) -> Difference:
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    found = verdict.findings[0].first_difference
    assert found is not None
    return found


def lines(found: Difference) -> tuple[int | None, int | None]:
    return tuple(p and p.line for p in (found.subject_at, found.reference_at))  # type: ignore[return-value]


# case -> lines of the subject and of the reference, and what they make
KNOWN = {
    # the last step of a tree that leaves elements out; where the reference adds one of them
    "09-tree-reduce-non-pow2": (92, 39, "a sum of 32 values", "... + in[2]"),
    # the masked keys take part in the maximum
    "13-masked-softmax-finite-mask": (
        45, 72, "max(..., -10000)", "the maximum of 20 values",
    ),
    # the second split adds the bias again
    "14-splitk-bias-per-split": (144, 105, "... + b[0]", "a sum of 66 values"),
    # copies: what is stored is another input
    "16-swizzle-wrong-on-read": (None, None, "in[1,1]", "in[1,0]"),
    "24-index-overflow-u32": (None, None, "in[8]", "in[304]"),
    # B is read as it lies, not transposed
    "19-ldmatrix-trans-omitted": (81, 83, "A[0,2] * B[1,2]", "A[0,2] * B[2,1]"),
    "36-vector-atomic-invariant-target": (39, 35, "... + in[3]", "... + in[5]"),
    # what the tile before left in shared memory
    "39-k-tail-stale-smem": (298, 157, "... + A[0,24] * B[24,5]", "a sum of 40 values"),
}  # fmt: skip


@pytest.mark.parametrize("case", KNOWN)
def test_cases(case: str) -> None:
    verdict = verdict_of(CASES / case, "ref", "bug")
    found = first(verdict)
    subject, reference, made, wanted = KNOWN[case]
    assert lines(found) == (subject, reference)
    assert (found.subject, found.reference) == (made, wanted)
    for place, name in ((found.subject_at, "bug.ptx"), (found.reference_at, "ref.ptx")):
        assert place is None or place.file.endswith(name)


def of(reference: str, subject: str) -> tuple[Difference | None, list[str]]:
    """The first difference, with the element of the witness called `i`."""
    texts = [entry(LOADS + body + STORE, PARAMS) for body in (reference, subject)]
    verdict = equivalent(*texts, launch=launch_of(PARAMS), safety=False, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")
    assert verdict.witness is not None
    found = verdict.findings[0].first_difference
    if found is None:
        return None, texts
    at = f"[{verdict.witness.index[0]}]"
    made, wanted = (text.replace(at, "[i]") for text in (found.subject, found.reference))
    return replace(found, subject=made, reference=wanted), texts


def line_of(text: str, instruction: str) -> int:
    (line,) = (i for i, row in enumerate(text.splitlines(), 1) if instruction in row)
    return line


def test_the_innermost_of_several() -> None:
    """exp2(3x) y against exp2(2x) y: the products are named, not what is made of them."""
    body = "mul.f32 %f4, %f1, {};\nex2.approx.f32 %f5, %f4;\nmul.f32 %f3, %f5, %f2;"
    found, texts = of(body.format("0f40400000"), body.format("0f40000000"))
    assert found is not None
    assert (found.subject, found.reference) == ("x[i] * 2", "x[i] * 3")
    wanted = tuple(line_of(text, "mul.f32 %f4") for text in reversed(texts))
    assert lines(found) == wanted


def test_order_is_no_difference() -> None:
    """(x + y) + 1 - x y against 1 + (y + x): sums are compared as wholes."""
    found, texts = of(
        "add.f32 %f4, %f1, %f2;\nadd.f32 %f5, %f4, 0f3F800000;\nmul.f32 %f6, %f1, %f2;\n"
        "sub.f32 %f3, %f5, %f6;",
        "add.f32 %f4, %f2, 0f3F800000;\nadd.f32 %f3, %f4, %f1;",
    )
    assert found is not None
    assert found.reference == "... - x[i] * y[i]"
    assert lines(found) == (line_of(texts[1], "add.f32 %f3"), line_of(texts[0], "sub.f32 %f3"))


def test_another_function() -> None:
    found, _ = of("sin.approx.f32 %f4, %f1;\nadd.f32 %f3, %f4, %f2;",
                  "cos.approx.f32 %f4, %f1;\nadd.f32 %f3, %f4, %f2;")  # fmt: skip
    assert found is not None
    assert (found.subject, found.reference) == ("cos(x[i])", "sin(x[i])")
    assert found.subject_at is not None
    assert re.match(r"cos\.approx", found.subject_at.text)


def test_nothing_is_named_that_does_not_account_for_it() -> None:
    """Nothing in one kernel stands for anything in the other."""
    found, _ = of(
        "ex2.approx.f32 %f4, %f1;\nex2.approx.f32 %f5, %f2;\nsin.approx.f32 %f6, %f4;\n"
        "cos.approx.f32 %f7, %f5;\nmul.f32 %f3, %f6, %f7;",
        "sin.approx.f32 %f4, %f1;\ncos.approx.f32 %f5, %f2;\nex2.approx.f32 %f6, %f4;\n"
        "ex2.approx.f32 %f7, %f5;\nadd.f32 %f3, %f6, %f7;",
    )
    assert found is None
