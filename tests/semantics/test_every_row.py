"""Every row of the table of forms has a test; the rows that only order or hint do nothing."""

from __future__ import annotations

import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import Launch
from kcheck.ptx_frontend.forms import FORMS
from tests.semantics import harness, sheets
from tests.semantics.harness import body_same, entry, known, out
from tests.semantics.test_instructions_float import CONVERT, FLOAT
from tests.semantics.test_instructions_int import INTEGER

QUIET = ("prefetch", "fence", "cp.async.commit", "nanosleep")
# the other rows, and the file of their test
ELSEWHERE = {
    "test_instructions_int": ("selp", "slct.int", "slct.float", "mov"),
    "test_instructions_memory": ("ld", "st", "cvta", "isspacep", "cp.async", "cp.async.wait"),
    "test_instructions_warp": ("shfl", "vote", "vote.ballot", "ldmatrix", "mma"),
    "test_instructions_atomic": (
        *("atom.op", "red.op", "atom.cas", "atom.exch"),
        *("redux", "match.any", "match.all"),
    ),
    "test_integer_mma": ("mma.int",),
    "test_votes": ("bar.red",),
    "test_instructions_control": (
        "bar.sync",
        "bar.arrive",
        "bar.warp",
        "bra",
        "brx.idx",
        "call",
        "ret",
    ),
    "test_faults": ("trap", "exit"),
    "test_every_row": (*QUIET, "activemask", "atom.add", "red.add"),
}
PARAMS = [known("A", "u32", range(32)), out("O", "u32", 32, init="zero")]


def test_every_row_has_a_test() -> None:
    named = {*INTEGER, *FLOAT, *CONVERT, *(n for names in ELSEWHERE.values() for n in names)}
    assert named == {form.name for form in FORMS}


@pytest.mark.parametrize("name", QUIET)
def test_rows_without_effect_on_values(name: str) -> None:
    operands = {"prefetch": " [%A]", "nanosleep": " 20"}.get(name, "")
    lines = [".local .align 8 .b8 l[64]; .reg .b64 %l; mov.u64 %l, l;"]
    for form in sheets.forms(name):
        for opcode, slots in sheets.opcodes(form):
            local = slots.get("space") == "local"
            lines.append(f"{opcode}{operands.replace('%A', '%l') if local else operands};")
    assert len(lines) > 1
    body = " ".join([*lines, "st.global.u32 [%O], %gid; ret;"])
    assert body_same(body, PARAMS).outputs["O"] == list(range(32))


@pytest.mark.parametrize("name", ["atom.add", "red.add"])
def test_orders_and_scopes_of_atomics(name: str) -> None:
    lines = [".shared .u32 s[32]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 4, %s;"]
    lines += ["st.shared.u32 [%s], 5; cvta.global.u64 %d1, %O;"]
    for form in sheets.forms(name):
        for opcode, slots in sheets.opcodes(form, 2000):
            if slots["type"] not in ("u32", "s32") or slots["noftz"]:
                continue
            where = {"": "%d1", "global": "%O"}.get(slots["space"], "%s")
            result = "%r1, " if name == "atom.add" else ""
            lines.append(f"{opcode} {result}[{where}], 3;")
    assert len(lines) > 9
    lines.append("ld.shared.u32 %r2, [%s]; red.global.add.u32 [%O], %r2; ret;")
    body_same(" ".join(lines), PARAMS)


def test_activemask_is_unstable() -> None:
    kernel = harness.kernel_of(entry("activemask.b32 %r1; st.global.u32 [%O], %r1; ret;", PARAMS))
    launch = harness.launch_of(PARAMS)
    for outcome in (
        harness.fast(kernel, launch, EnclosureDomain({}))[0],
        harness.slow(kernel, launch, {}),
    ):
        assert outcome.stopped is not None
        assert outcome.stopped[0] == "unstable"
    body_same("activemask.b32 %r1; mov.u32 %r1, 3; st.global.u32 [%O], %r1; ret;", PARAMS)


SPECIALS = [f"%{base}.{axis}" for base in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
SPECIALS += ["%laneid", "%dynamic_smem_size"]
SPECIALS += [f"%lanemask_{which}" for which in ("eq", "lt", "le", "gt", "ge")]


def test_special_registers() -> None:
    """In three dimensions, in several batches."""
    grid, block, n = (3, 2, 2), (5, 4, 2), 12 * 40
    tensor = out("O", "u32", len(SPECIALS), n)
    lines = [
        "mad.lo.u32 %r1, %ctaid.z, 2, %ctaid.y; mad.lo.u32 %r1, %r1, 3, %ctaid.x;",
        "mad.lo.u32 %r2, %tid.z, 4, %tid.y; mad.lo.u32 %r2, %r2, 5, %tid.x;",
        "mad.lo.u32 %r1, %r1, 40, %r2; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %pO;",
        ".shared .u32 s[5];",
    ]
    for i, special in enumerate(SPECIALS):
        lines.append(f"mov.u32 %r3, {special}; st.global.u32 [%d1+{4 * n * i}], %r3;")
    launch = Launch("k", grid, block, (tensor,), dynamic_shared=64)
    for batch in (64, 4096):
        outcome = harness.same(entry(" ".join([*lines, "ret;"]), [tensor]), launch, batch=batch)
        assert not outcome.findings
        assert outcome.outputs["O"].count("unwritten") == 0
