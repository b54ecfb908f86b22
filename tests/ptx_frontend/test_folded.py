"""What nvcc folds into the expansion of a function is seen through, and nothing else."""

from __future__ import annotations

import pytest

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from tests.ptx_frontend.test_idioms import DATA, edited, names

# steps that nvcc moved into the last select of a logarithm


def of_context(name: str, *edits: tuple[str, str]) -> Kernel:
    """A kernel among the contexts after replacements that must apply."""
    text = (DATA / "contexts.ptx").read_text()
    start = text.index(f".visible .entry {name}(")
    stop = text.index("\n}\n", start)
    body = text[start:stop]
    for old, new in edits:
        assert body.count(old) == 1, (old, body.count(old))
        body = body.replace(old, new)
    return lower(parse(text[:start] + body + text[stop:], "edited.ptx"), name)


MULTIPLIED = "mul.f32 \t%f34, %f36, 0f3F000000;"
INFINITY = "0fFF800000, %f34, %p3"
STEPS_EDITED: dict[str, tuple[tuple[tuple[str, str], ...], bool]] = {
    "another factor": (((MULTIPLIED, "mul.f32 %f34, %f36, 0f3F000001;"),), True),
    "a negative factor": (((MULTIPLIED, "mul.f32 %f34, %f36, 0fBF000000;"),), False),
    "a negative factor and what it makes of -inf": (
        (
            (MULTIPLIED, "mul.f32 %f34, %f36, 0fBF000000;"),
            (INFINITY, "0f7F800000, %f34, %p3"),
        ),
        True,
    ),
    "a factor 0": (((MULTIPLIED, "mul.f32 %f34, %f36, 0f00000000;"),), False),
    "a factor that is no literal": (((MULTIPLIED, "mul.f32 %f34, %f36, %f5;"),), False),
    "a step that is none": (((MULTIPLIED, "max.f32 %f34, %f36, 0fC2C80000;"),), False),
    "another rounding": (((MULTIPLIED, "mul.rz.f32 %f34, %f36, 0f3F000000;"),), False),
    "a step under a guard": (((MULTIPLIED, f"@%p2 {MULTIPLIED}"),), False),
    "a finite number": (((INFINITY, "0fFF7FFFFF, %f34, %p3"),), False),
    "the other arm": (((INFINITY, "%f34, 0fFF800000, %p3"),), False),
    "its result is read elsewhere": (
        (("add.s64 \t%rd9", "st.global.f32 [%rd7], %f34;\n\tadd.s64 \t%rd9"),),
        False,
    ),
    "what it reads is read elsewhere": (
        (("add.s64 \t%rd9", "st.global.f32 [%rd7], %f36;\n\tadd.s64 \t%rd9"),),
        False,
    ),
    "what it reads is written on the way": (
        ((MULTIPLIED, f"{MULTIPLIED}\n\tmov.f32 %f36, %f5;"),),
        False,
    ),
    "one more step": (
        ((MULTIPLIED, "mul.f32 %f36, %f36, 0f3F000000;\n\tadd.f32 %f34, %f36, 0f3F000000;"),),
        True,
    ),
    "a step to +inf and one to 0": (
        (
            (MULTIPLIED, "neg.f32 %f36, %f36;\n\trcp.rn.f32 %f34, %f36;"),
            (INFINITY, "0f00000000, %f34, %p3"),
        ),
        True,
    ),
    "a step to a number": (
        (
            (MULTIPLIED, "rcp.rn.f32 %f36, %f36;\n\tadd.f32 %f34, %f36, 0f3F000000;"),
            (INFINITY, "0f3F000000, %f34, %p3"),
        ),
        True,
    ),
    "a step to a number that is rounded": (
        (
            (
                MULTIPLIED,
                "rcp.rn.f32 %f36, %f36;\n\tfma.rn.f32 %f34, 0f3F800001, 0f3F800001, %f36;",
            ),
            (INFINITY, "0f3F800002, %f34, %p3"),
        ),
        False,
    ),
    "a step beyond all numbers": (
        (
            (
                MULTIPLIED,
                "rcp.rn.f32 %f36, %f36;\n\tfma.rn.f32 %f34, 0f7149F2CA, 0f7149F2CA, %f36;",
            ),
            (INFINITY, "0f7F800000, %f34, %p3"),
        ),
        False,
    ),
    "a step to the wrong zero": (
        ((MULTIPLIED, "rcp.rn.f32 %f34, %f36;"), (INFINITY, "0f00000000, %f34, %p3")),
        False,
    ),
    "one over zero": (
        ((MULTIPLIED, "rcp.rn.f32 %f36, %f36;\n\trcp.rn.f32 %f34, %f36;"),),
        False,
    ),
}


@pytest.mark.parametrize("what", STEPS_EDITED)
def test_steps_behind_a_logarithm(what: str) -> None:
    edits, found = STEPS_EDITED[what]
    assert names(of_context("log_halved", *edits)) == (["logf"] if found else [])


# negatives that nvcc folded into the first steps

SQUARE = "mul.f32 \t%f13, %f1, %f1;"
NEGATION = "neg.f32 \t%f2, %f1;"
NEGATIVES_EDITED: dict[str, tuple[tuple[tuple[str, str], ...], bool]] = {
    "the negative comes later": (
        ((SQUARE, ""), (NEGATION, f"{SQUARE}\n\t{NEGATION}")),
        True,
    ),
    "the number changes on the way": (
        ((SQUARE, f"add.f32 %f1, %f1, %f1;\n\t{SQUARE}"),),
        False,
    ),
    "the negative changes on the way": (
        ((SQUARE, f"add.f32 %f2, %f2, %f2;\n\t{SQUARE}"),),
        False,
    ),
    "a negative under a guard": (
        ((NEGATION, f"@%p1 {NEGATION}"),),
        False,
    ),
    "another number's": (((NEGATION, "neg.f32 %f2, %f3;"),), False),
    "no negative": (((NEGATION, "add.f32 %f2, %f1, %f1;"),), False),
    "the square of another": (((SQUARE, "mul.f32 %f13, %f1, %f3;"),), False),
    "rounded otherwise": (((SQUARE, "mul.rp.f32 %f13, %f1, %f1;"),), False),
}


@pytest.mark.parametrize("what", NEGATIVES_EDITED)
def test_squares_of_a_negative(what: str) -> None:
    edits, found = NEGATIVES_EDITED[what]
    assert names(of_context("tanh_negative", *edits)) == (["tanhf"] if found else [])


def test_the_negative_of_the_turn_before() -> None:
    """-x is computed at the end of a loop, of what the next turn overwrites before its square."""
    head, tail = "tanh_negative", "add.s64 \t%rd7"
    start = "mov.f32 %f2, 0f3F800000;\nLOOP:\n\tabs.f32 \t%f3, %f2;"
    square = f"ld.global.nc.f32 %f1, [%rd6+4];\n\t{SQUARE}"
    back = f"{NEGATION}\n\tsetp.lt.f32 %p3, %f1, 0f00000000;\n\t@%p3 bra LOOP;\n\t{tail}"
    edits = ((NEGATION, ""), ("abs.f32 \t%f3, %f2;", start), (SQUARE, square), (tail, back))
    more = (".reg .pred \t%p<3>;", ".reg .pred %p<4>;")
    assert names(of_context(head, *edits, more)) == []


# powers of what is known to be at least 0

SQUARED = "mul.f32 \t%f1, %f8, %f8;"
RAISED: dict[str, bool] = {
    "fma.rn.f32 %f1, %f8, %f8, 0f3F000000;": True,
    "abs.f32 %f1, %f8;": True,
    "max.f32 %f1, %f8, 0f00000000;": True,
    "abs.f32 %f84, %f8;\n\tsqrt.rn.f32 %f83, %f8;\n\tdiv.rn.f32 %f1, %f84, %f83;": True,
    "mul.f32 %f1, %f8, 0f40000000;": False,
    "fma.rn.f32 %f1, %f8, %f8, 0fBF000000;": False,
    "fma.rn.f32 %f1, %f8, %f8, %f8;": False,
    "max.f32 %f1, %f8, 0fBF000000;": False,
    "min.f32 %f1, %f8, 0f3F000000;": False,
    "max.xorsign.abs.f32 %f1, %f8, 0f3F000000;": False,
    "mul.f32 %f84, %f8, %f8;\n\tsub.f32 %f1, %f84, %f8;": False,
    "mul.f32 %f1, %f8, %f8;\n\t@%p1 neg.f32 %f1, %f8;": False,
}


@pytest.mark.parametrize("base", RAISED)
def test_powers_of_numbers_that_are_at_least_0(base: str) -> None:
    assert edited("powf_positive_up") == ["powf"]
    expected = ["powf"] if RAISED[base] else []
    assert edited("powf_positive_up", (SQUARED, base)) == expected
