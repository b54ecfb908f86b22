"""Atomics on words, and reductions and matches of a warp: both evaluators agree on every row."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.launch import Tensor
from tests.semantics import sheets
from tests.semantics.harness import body_same, known, out

RNG = np.random.default_rng(7)
LANES = 64
HEAD = """
    .shared .align 8 .b64 s[64]; .reg .b64 %s, %x; mov.u64 %s, s; mad.lo.u64 %s, %wide, 8, %s;
    cvta.shared.u64 %x, %s;
"""
LOAD = """
    ld.global.u64 %d1, [%A]; ld.global.u64 %d2, [%B];
    cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2;
    mov.u64 %d5, %wide; cvt.u32.u64 %r5, %d5; cvt.u16.u64 %h5, %d5;
"""
REGISTER = {"16": "%h", "32": "%r", "64": "%d"}


def _operands() -> list[Tensor]:
    a, b = (sheets.integers(RNG, 8, LANES) for _ in range(2))
    half = RNG.integers(0, 2, LANES) == 0
    return [known("A", "u64", a), known("B", "u64", np.where(half, a, b))]


@pytest.mark.parametrize("name", ["atom.op", "red.op", "atom.cas", "atom.exch"])
def test_on_a_word_of_each_lane(name: str) -> None:
    """The memory holds A; the operand is B (cas: B equals A in half of the lanes, which then
    store their number). What an atomic returns depends on the schedule and is `unstable`; what
    it leaves in a word of one lane is not.
    """
    body, stores = [HEAD, LOAD], 0
    for form in sheets.forms(name):
        for opcode, slots in sheets.opcodes(form, 30):
            if slots["space"] == "global":
                continue
            width = slots["type"][1:]
            r = REGISTER[width]
            where = "%x" if slots["space"] == "" else "%s"
            result = "" if name == "red.op" else f"{r}3, "
            extra = f", {r}5" if name == "atom.cas" else ""
            body.append(f"st.shared.u64 [%s], %d1; {opcode} {result}[{where}], {r}2{extra};")
            body.append(f"ld.shared.u64 %d4, [%s]; st.global.u64 [%O+{8 * LANES * stores}], %d4;")
            stores += 1
    assert stores > 9
    params = [*_operands(), out("O", "u64", stores, LANES)]
    outcome = body_same(" ".join([*body, "ret;"]), params, block=LANES)
    assert outcome.stopped is None
    assert outcome.findings == set()
    assert len(set(outcome.outputs["O"])) > 9


@pytest.mark.parametrize("name", ["redux", "match.any", "match.all"])
def test_of_a_warp(name: str) -> None:
    """Of many different values, of a few, and of one."""
    body, stores = [HEAD], 0
    for mask in (0, 1, 3):
        body.append(f"and.b64 %d1, %wide, {mask}; cvt.u32.u64 %r1, %d1;" if mask < 3 else LOAD)
        for form in sheets.forms(name):
            for opcode, slots in sheets.opcodes(form):
                source = REGISTER[slots["type"][1:]] + "1"
                target = "%r3|%p1" if name == "match.all" else "%r3"
                body.append(f"{opcode} {target}, {source}, -1;")
                body.append(
                    "selp.u32 %r4, 1, 0, %p1; shl.b32 %r4, %r4, 7;" if "all" in name else ""
                )
                body.append("xor.b32 %r3, %r3, %r4;" if "all" in name else "")
                body.append(f"st.global.u32 [%O+{4 * LANES * stores}], %r3;")
                stores += 1
    params = [*_operands(), out("O", "u32", stores, LANES)]
    outcome = body_same(" ".join([*body, "ret;"]), params, block=LANES)
    assert outcome.stopped is None
    assert outcome.findings == set()
    assert len(set(outcome.outputs["O"])) > 1
