"""Integer, bit, comparison, selection, move and conversion rows on known bits."""

from __future__ import annotations

import numpy as np
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
    assert not lines, "\n".join(lines[:30])


@pytest.mark.parametrize("name", INTEGER)
def test_row(name: str) -> None:
    for form in sheets.forms(name):
        for chunk in sheets.split(sheets.opcodes(form), 400):
            sheet = sheets.Sheet(n=128, seed=1)
            for opcode, slots in chunk:
                for lut in (0x00, 0x96, 0xE8, 0xCA, 0xFF, 0x1B) if name == "bit.lop3" else (None,):
                    sheets.add(sheet, form, opcode, slots, lut)
            check(sheet)
