"""Integer, bit, comparison, selection, move and conversion rows on known bits."""

from __future__ import annotations

import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.ptx_frontend.forms import FORMS
from kcheck.semantics.slow import Exact
from tests.semantics import harness, sheets

INTEGER = sorted(
    {f.name for f in FORMS if f.name.startswith(("int.", "bit.", "cvt.int", "cvt.pack"))}
    - {"cvt.int.float", "cvt.integral"}
)


def check(sheet: sheets.Sheet, grid: int = 2, batch: int = 4096) -> None:
    text = sheet.text()
    kernel = harness.kernel_of(text)
    launch = harness.launch_of(sheet.all_params, grid, sheet.n // grid)
    outcome, _ = harness.fast(kernel, launch, EnclosureDomain({}), batch)
    expected = harness.slow(kernel, launch, {}, Exact)
    lines = harness.disagreements(outcome, expected)
    lines = [sheet.label(line) if line[:2] == "o_" else line for line in lines]
    for name, elements in outcome.outputs.items():
        assert elements.count("undef") < len(elements) * 0.7, f"{name} shows nothing"
    assert not lines, "\n".join(lines[:30])


TABLES = (0x00, 0x96, 0xE8, 0xCA, 0xFF, 0x1B)
VARIANTS = {"": 400, "guarded": 60, "literal": 60, "literals": 30}


@pytest.mark.parametrize("name", INTEGER)
def test_row(name: str) -> None:
    for variant, most in VARIANTS.items():
        sheet = sheets.Sheet(n=128, seed=1)
        for form in sheets.forms(name):
            for opcode, slots in sheets.thinned(sheets.opcodes(form), most):
                for lut in TABLES if name.startswith("bit.lop3") else (None,):
                    sheets.add(sheet, form, opcode, slots, lut, variant)
        check(sheet)


@pytest.mark.parametrize("register", ["%h", "%r", "%d"])
def test_conversions_into_wider_registers(register: str) -> None:
    """The source is cut to its type, the result extended by its own (PTX ISA 9.4.1)."""
    sheet = sheets.Sheet(n=128, seed=2)
    width = {"%h": 2, "%r": 4, "%d": 8}[register]
    (form,) = sheets.forms("cvt.int")
    for opcode, slots in sheets.opcodes(form):
        if sheets.WIDTHS[slots["d"]] <= width:
            for source in ("b32", "b64"):
                if sheets.WIDTHS[slots["s"]] <= sheets.WIDTHS[source]:
                    sheet.body.append(f"{opcode} {register}1, {sheet.operand(0, source)};")
                    sheet.store(f"b{8 * width}", f"{register}1", f"{opcode} from {source}")
    check(sheet)


def test_narrow_operands_of_wide_registers() -> None:
    """A register wider than the instruction's type gives its low bits (PTX ISA 9.4.1)."""
    sheet = sheets.Sheet(n=128, seed=3)
    wide = [sheet.operand(i, "b64") for i in range(3)]
    for opcode in ("add.u32", "shr.s32", "mul.hi.s32", "min.s32", "shl.b32", "div.s32", "xor.b32"):
        sheet.body.append(f"{opcode} %r1, {wide[0]}, {wide[1]};")
        sheet.store("b32", "%r1", opcode)
    for opcode in ("setp.lt.s32", "setp.hi.u16", "setp.eq.b32"):
        sheet.body.append(f"{opcode} %p1|%p2, {wide[0]}, {wide[2]};")
        sheet.store("pred", "%p1", opcode)
    check(sheet)


def test_selections() -> None:
    for variant, most in VARIANTS.items():
        sheet = sheets.Sheet(n=128, seed=4)
        for name in ("selp", "slct.int", "slct.float", "mov"):
            for form in sheets.forms(name):
                for opcode, slots in sheets.thinned(sheets.opcodes(form), most):
                    sheets.add(sheet, form, opcode, slots, None, variant)
        check(sheet)


def test_mov_packs_and_unpacks() -> None:
    sheet = sheets.Sheet(n=64, seed=5)
    h = [sheet.operand(i, "b16") for i in range(4)]
    r = [sheet.operand(i, "b32") for i in range(2)]
    d = sheet.operand(0, "b64")
    for target, source in (
        ("%r1", f"{{{h[0]}, {h[1]}}}"),
        ("%r1", f"{{{h[2]}, 7}}"),
        ("%d1", f"{{{r[0]}, {r[1]}}}"),
        ("%d1", f"{{{h[0]}, {h[1]}, {h[2]}, {h[3]}}}"),
        ("{%h1, %h2}", r[0]),
        ("{_, %h2}", r[1]),
        ("{%r1, %r3}", d),
        ("{%h1, %h2, %h3, %h4}", d),
    ):
        width = 64 if "d" in target + source else 32
        sheet.body.append(f"mov.b{width} {target}, {source};")
        for register in target.strip("{}").split(", "):
            if register != "_":
                bits = {"h": 16, "r": 32, "d": 64}[register[1]]
                sheet.store(f"b{bits}", register, f"mov {target}, {source}")
    check(sheet)


PINNED = {
    "add.u16x2 %r1, 0xFFFF0001, 0x0001FFFF;": 0,  # no carry from half to half
    "min.u16x2 %r1, 0x8000FFFF, 0x00017FFF;": 0x00017FFF,
    "max.s16x2 %r1, 0x80007FFF, 0x00010002;": 0x00017FFF,
    "min.s16x2.relu %r1, 0x80000005, 0x00010007;": 0x00000005,
    "max.relu.s32 %r1, -5, -7;": 0,
    "min.relu.s32 %r1, 5, 7;": 5,
    "lop3.or.b32 _|%p1, 5, 6, -1, 0x80, !%p0; selp.u32 %r1, 3, 4, %p1;": 3,
    "lop3.and.b32 %r2|%p1, 5, 2, -1, 0x80, %p0; selp.u32 %r1, 3, 4, %p1;": 4,
}


@pytest.mark.parametrize("line", PINNED)
def test_results_of_the_isa(line: str) -> None:
    body = f"setp.eq.u32 %p0, 1, 1; {line} st.global.u32 [%O], %r1; ret;"
    outcome = harness.body_same(body, [harness.out("O", "u32", 32)])
    assert outcome.outputs["O"] == [PINNED[line]] * 32
