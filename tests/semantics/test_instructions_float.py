"""Float rows on known bits, on inputs, and on both at once; the enclosures must overlap."""

from __future__ import annotations

import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.ptx_frontend.forms import FORMS
from kcheck.semantics.slow import Enclosure, Exact, Number
from tests.semantics import harness, sheets

FLOAT = sorted({f.name for f in FORMS if f.name.startswith(("float.", "half"))})
CONVERT = sorted({f.name for f in FORMS if f.name.startswith("cvt.")} - {"cvt.int"})
CONVERT = [name for name in CONVERT if not name.startswith("cvt.pack")]
# results that are no rational numbers, even of rational arguments
IRRATIONAL = {
    f"{kind}.{op}"
    for kind in ("float", "half")
    for op in ("sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
}
POSITIVE = {"float.sqrt", "float.rsqrt", "float.lg2"}  # inputs: elsewhere it is no number
# what refuses a tensor value where it would need its bits
CONCRETE = {"cvt.float.int", "float.copysign"}
# what makes a predicate or an integer of tensor values: see test_symbolic_predicates.py
COMPARE = {n for n in FLOAT if "set" in n}
MOST = 120


def filled(name: str, mode: str, variant: str = "", most: int = MOST) -> sheets.Sheet:
    sheet = sheets.Sheet(n=64, seed=11, mode=mode, positive=name in POSITIVE)
    for form in sheets.forms(name):
        for opcode, slots in sheets.thinned(sheets.opcodes(form), most):
            sheets.add(sheet, form, opcode, slots, None, variant)
    return sheet


def check(sheet: sheets.Sheet, numbers: type[Number]) -> None:
    text = sheet.text()
    kernel = harness.kernel_of(text)
    launch = harness.launch_of(sheet.all_params, 2, sheet.n // 2)
    outcome, _ = harness.fast(kernel, launch, EnclosureDomain(sheet.inputs))
    expected = harness.slow(kernel, launch, sheet.inputs, numbers)
    lines = harness.disagreements(outcome, expected)
    lines = [sheet.label(line) if line[:2] == "o_" else line for line in lines]
    assert not lines, "\n".join(lines[:30])
    assert outcome.stopped is None


@pytest.mark.parametrize("name", FLOAT + CONVERT)
def test_known_bits(name: str) -> None:
    numbers = Enclosure if name in IRRATIONAL else Exact
    check(filled(name, "bits"), numbers)
    check(filled(name, "bits", "guarded", 40), numbers)


@pytest.mark.parametrize("name", [n for n in FLOAT + CONVERT if n not in CONCRETE])
def test_inputs(name: str) -> None:
    check(filled(name, "symbols"), Enclosure)


@pytest.mark.parametrize("name", [n for n in FLOAT + CONVERT if n not in CONCRETE])
def test_inputs_in_some_lanes(name: str) -> None:
    check(filled(name, "mixed"), Enclosure)
    check(filled(name, "mixed", "guarded", 40), Enclosure)


ARITHMETIC = [
    f"{kind}.{op}"
    for kind, ops in (
        ("float", "add sub mul fma div min max setp setp.bool"),
        ("half", "add sub mul fma min max"),
    )
    for op in ops.split()
]


@pytest.mark.parametrize("name", [*ARITHMETIC, "half2.setp", "cvt.half2", "slct.float", "selp"])
@pytest.mark.parametrize("parity", [0, 1])
def test_inputs_against_infinities(name: str, parity: int) -> None:
    """Zeros, ones, infinities and nans on one side, an input on the other.

    Where the sign of an input decides, the fast machine may say that it does not know.
    """
    sheet = sheets.Sheet(n=64, seed=12, mode="crossed", specials="infinite", parity=parity)
    for form in sheets.forms(name):
        for opcode, slots in sheets.thinned(sheets.opcodes(form), 30):
            if name not in ("selp", "slct.float") or slots.get("dtype", slots.get("type")) == "f32":
                sheets.add(sheet, form, opcode, slots)
    kernel = harness.kernel_of(sheet.text())
    launch = harness.launch_of(sheet.all_params, 1, sheet.n)
    outcome, _ = harness.fast(kernel, launch, EnclosureDomain(sheet.inputs))
    expected = harness.slow(kernel, launch, sheet.inputs)
    unknown = 0
    for output, elements in outcome.outputs.items():
        for i, x in enumerate(elements):
            if x == "unknown" and name.rpartition(".")[2] in ("mul", "fma", "div"):
                elements[i] = expected.outputs[output][i]
                unknown += 1
    lines = harness.disagreements(outcome, expected)
    lines = [sheet.label(line) if line[:2] == "o_" else line for line in lines]
    assert not lines, "\n".join(lines[:30])
    assert unknown < sum(map(len, outcome.outputs.values())) / 4


@pytest.mark.parametrize("name", [n for n in FLOAT + CONVERT if n not in CONCRETE | COMPARE])
def test_identity_testing_keeps_constants(name: str) -> None:
    """The same kernel over residues: nothing raises, constant lanes are the same."""
    sheet = filled(name, "mixed", "", 20)
    kernel = harness.kernel_of(sheet.text())
    launch = harness.launch_of(sheet.all_params, 1, sheet.n)
    known, _ = harness.fast(kernel, launch, EnclosureDomain(sheet.inputs))
    residues, _ = harness.fast(kernel, launch, FieldDomain(7, 2, 2))
    assert residues.stopped is None
    for output, elements in residues.outputs.items():
        for x, y in zip(elements, known.outputs[output], strict=True):
            assert x == y or (x == "symbol" and not isinstance(y, str)), (name, output, x, y)
