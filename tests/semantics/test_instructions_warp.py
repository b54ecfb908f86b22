"""Shuffles, votes, ldmatrix, mma."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.launch import Tensor
from kcheck.ptx_frontend.forms import match
from tests.semantics import sheets
from tests.semantics.harness import (
    Outcome,
    body_same,
    entry,
    fast,
    kernel_of,
    known,
    launch_of,
    out,
    symbol,
)

RNG = np.random.default_rng(8)
WORDS = sheets.integers(RNG, 4, 64)
LANE_OPERANDS = (0, 1, 2, 5, 16, 31, 32, 40, 0xFFFFFFFF)
CLAMPS = (0x1F, 0x0, 0x7, 0x181F, 0x1C1F, 0x1C03, 0x0F, 0x1000, 0x1803, 0x1E1F, 0x1F1F)


def stores(registers: list[str], start: int = 0, n: int = 64) -> str:
    """Stores of words, one row of `n` each."""
    return "".join(
        f"st.global.u32 [%O+{(start + i) * n * 4}], {r};" for i, r in enumerate(registers)
    )


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shfl(mode: str) -> None:
    """All clamps and segments, lane by lane offsets too; the predicate tells what was in range."""
    lines, results = ["ld.global.u32 %r1, [%A]; and.b32 %r5, %r1, 63; mov.u32 %r6, 0xffffffff;"], 0
    for b, c in itertools.product((*LANE_OPERANDS, "%r5"), (*CLAMPS, "%r1")):
        lines.append(f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, %r6; selp.u32 %r3, 1, 0, %p1;")
        lines.append(stores(["%r2", "%r3"], results))
        results += 2
    lines.append(
        f"shfl.sync.{mode}.b32 %r2, 77, 3, 31, -1; shfl.sync.{mode}.b32 _|%p2, %r1, 1, 31, -1;"
    )
    lines.append("selp.u32 %r3, 1, 0, %p2;" + stores(["%r2", "%r3"], results))
    params = [known("A", "u32", WORDS), out("O", "u32", results + 2, 64)]
    body_same("\n".join([*lines, "ret;"]), params, block=64)


@pytest.mark.parametrize("block", [32, 48, 64])
def test_shfl_under_a_mask(block: int) -> None:
    """Lanes outside give nothing: who reads them is undefined."""
    body = f"""
    ld.global.u32 %r1, [%A]; and.b32 %r9, %tid.x, 31; setp.lt.u32 %p1, %r9, 12;
    mov.u32 %r2, 5; mov.u32 %r3, 6;
    @%p1 shfl.sync.down.b32 %r2, %r1, 2, 31, 0xfff;
    @!%p1 shfl.sync.bfly.b32 %r3, %r1, 4, 31, 0xfffff000;
    {stores(["%r2", "%r3"], 0, block)}
    @%p1 bra L; shfl.sync.idx.b32 %r2, %r1, 14, 31, 0xfffff000; bra M;
    L: shfl.sync.idx.b32 %r2, %r1, %gid, 31, 0xfff; M: {stores(["%r2"], 2, block)} ret;"""
    outcome = body_same(
        body, [known("A", "u32", WORDS[:block]), out("O", "u32", 3, block)], block=block
    )
    assert not outcome.findings
    assert "undef" in outcome.outputs["O"]


def test_shfl_of_floats_and_pairs() -> None:
    body = """
    ld.global.f32 %f1, [%A]; mov.b32 %r1, %f1; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
    mov.b32 %f2, %r2; add.f32 %f1, %f1, %f2; shfl.sync.down.b32 %f3, %f1, 8, 31, -1;
    max.f32 %f3, %f3, %f1; st.global.f32 [%P], %f3;
    mad.lo.u64 %d1, %wide, 4, %pB; ld.global.b32 %r3, [%d1]; shfl.sync.up.b32 %r4, %r3, 3, 0, -1;
    add.f16x2 %r5, %r4, %r3; mad.lo.u64 %d2, %wide, 4, %pQ; st.global.b32 [%d2], %r5; ret;"""
    params = [
        symbol("A", "f32", 32),
        symbol("B", "f16", 64),
        out("P", "f32", 32),
        out("Q", "f16", 64),
    ]
    body_same(body, params, {"A": RNG.normal(size=32), "B": RNG.normal(size=64)})


def test_lanes_of_the_mask_that_are_elsewhere() -> None:
    """The slow machine lets them meet; the fast one refuses what it can't pair."""
    body = """setp.lt.u32 %p1, %gid, 12; @%p1 bra L;
    shfl.sync.idx.b32 %r2, %gid, 0, 31, -1; bra M; L: shfl.sync.idx.b32 %r2, %gid, 0, 31, -1;
    M: st.global.u32 [%O], %r2; ret;"""
    params = [out("O", "u32", 32)]
    outcome, _ = fast(kernel_of(entry(body, params)), launch_of(params), EnclosureDomain({}))
    assert outcome.stopped is not None
    assert outcome.stopped[0] == "convergence"


def test_a_lane_outside_its_own_mask() -> None:
    body = "shfl.sync.idx.b32 %r2, %gid, 0, 31, 0xffff; ret;"
    outcome = body_same(body, [out("O", "u32", 32)])
    assert outcome.reasons == {"undefined.convergence"}


@pytest.mark.parametrize("block", [32, 48])
def test_votes(block: int) -> None:
    lines, results = ["ld.global.u32 %r1, [%A];"], 0
    tests = (
        "lt.u32 %p1, %r1, 40",
        "lt.u32 %p1, %gid, 40",
        "ge.u32 %p1, %gid, 0",
        "eq.u32 %p1, %gid, 99",
    )
    for test in tests:
        for negated in ("", "!"):
            lines.append(f"setp.{test};")
            for mode in ("all", "any", "uni"):
                lines.append(f"vote.sync.{mode}.pred %p2, {negated}%p1, -1;")
                lines.append("selp.u32 %r2, 1, 0, %p2;" + stores(["%r2"], results, block))
                results += 1
            lines.append(
                f"vote.sync.ballot.b32 %r2, {negated}%p1, -1;" + stores(["%r2"], results, block)
            )
            lines.append("and.b32 %r4, %tid.x, 31; setp.lt.u32 %p3, %r4, 9; mov.u32 %r2, 3;")
            lines.append(f"@%p3 vote.sync.ballot.b32 %r2, {negated}%p1, 0x1ff;")
            lines.append(stores(["%r2"], results + 1, block))
            results += 2
    params = [known("A", "u32", WORDS[:block]), out("O", "u32", results, block)]
    body_same("\n".join([*lines, "ret;"]), params, block=block)


# ldmatrix ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "trans"),
    [("f16", ""), ("f16", ".trans"), ("u32", ""), ("u32", ".trans"), ("f32", "")],
)
@pytest.mark.parametrize("num", ["x1", "x2", "x4"])
def test_ldmatrix(kind: str, num: str, trans: str) -> None:
    """Rows in permuted places; the modifiers in both orders."""
    count = int(num[1])
    order = f"{num}{trans}" if kind == "f16" else f"{trans[1:] + '.' if trans else ''}{num}"
    opcode = f"ldmatrix.sync.aligned.m8n8.{order}.shared.b16"
    assert match(tuple(opcode.split(".")))
    width = sheets.WIDTHS[kind]
    n = 64 * 16 // width
    registers = ", ".join(f"%r{i + 1}" for i in range(count))
    body = f"""
    .shared .align 16 .b8 s[1024]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 16, %s;
    mad.lo.u64 %d1, %wide, 16, %pA; ld.global.v4.b32 {{%r11, %r12, %r13, %r14}}, [%d1];
    st.shared.v4.b32 [%s], {{%r11, %r12, %r13, %r14}}; bar.sync 0;
    mul.lo.u32 %r1, %gid, 13; add.u32 %r1, %r1, 5; and.b32 %r1, %r1, 63; shl.b32 %r1, %r1, 4;
    mov.u32 %r2, s; add.u32 %r1, %r1, %r2;
    {opcode} {{{registers}}}, [%r1];
    mad.lo.u64 %d2, %wide, 4, %pO;
    """
    body += "".join(f"st.global.b32 [%d2+{256 * i}], %r{i + 1};" for i in range(count))
    outputs = out("O", "f16" if kind == "f16" else kind, count * 64 * 4 // width)
    if kind == "u32":
        body_same(body + "ret;", [known("A", kind, sheets.integers(RNG, 4, n)), outputs], block=64)
    else:
        tensor = symbol("A", kind, n)
        body_same(body + "ret;", [tensor, outputs], {"A": RNG.normal(size=n)}, block=64)


def test_ldmatrix_tears_no_float() -> None:
    body = """
    .shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %gid, 4; add.u32 %r1, %r1, %r2;
    ld.global.f32 %f1, [%A]; st.shared.v4.f32 [%r1], {%f1, %f1, %f1, %f1};
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%r1]; st.global.b32 [%O], %r3; ret;"""
    params = [symbol("A", "f32", 32), out("O", "f32", 32)]
    outcome, _ = fast(
        kernel_of(entry(body, params)), launch_of(params), EnclosureDomain({"A": np.ones(32)})
    )
    assert outcome.stopped is not None
    assert outcome.stopped[0] == "reinterpret"


def test_ldmatrix_of_rows_out_of_bounds() -> None:
    body = """
    .shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %gid, 4; add.u32 %r1, %r1, %r2;
    st.shared.v4.u32 [%r1], {1, 2, 3, %gid}; bar.sync 0; setp.eq.u32 %p1, %gid, 3;
    @%p1 add.u32 %r1, %r1, 512; setp.eq.u32 %p1, %gid, 20; @%p1 add.u32 %r1, %r1, 512;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, [%r1];
    st.global.b32 [%O], %r3; st.global.b32 [%O+128], %r4; ret;"""
    outcome = body_same(body, [out("O", "u32", 2, 32)])
    assert outcome.reasons == {"bounds.shared"}
    assert outcome.outputs["O"].count("undef") == 4


# mma ---------------------------------------------------------------------------------------------

MMAS = [
    (shape, d, a)
    for a, shapes in (
        ("f16", ("m16n8k16", "m16n8k8")),
        ("bf16", ("m16n8k16", "m16n8k8")),
        ("tf32", ("m16n8k8", "m16n8k4")),
    )
    for shape in shapes
    for d in (("f16", "f32") if a == "f16" else ("f32",))
]


def fragments(per: int, registers: int, operand: str) -> list[list[tuple[int, int]]]:
    """(row, column) of each element of each lane (PTX ISA 9.7.14.5, figures of the fragments).

    A: register r holds rows g + 8 (r mod 2), columns from 4 per (r div 2) on; B: column g, rows
    from 4 per r on; C: rows g + 8 (element div 2). `per`: elements in a register.
    """
    cells = []
    for lane in range(32):
        g, i = divmod(lane, 4)
        own = []
        for r in range(registers):
            for k in range(per):
                if operand == "a":
                    own.append((g + 8 * (r % 2), 4 * per * (r // 2) + per * i + k))
                elif operand == "b":
                    own.append((4 * per * r + per * i + k, g))
                else:
                    e = per * r + k
                    own.append((g + 8 * (e // 2), 2 * i + e % 2))
        cells.append(own)
    return cells


def matrix(
    values: np.ndarray, cells: list[list[tuple[int, int]]], shape: tuple[int, int]
) -> np.ndarray:
    """The matrix of a warp's fragments; `values`: (lanes, elements)."""
    found = np.full(shape, np.nan)
    for lane, own in enumerate(cells):
        for e, cell in enumerate(own):
            found[cell] = values[lane, e]
    assert not np.isnan(found).any()
    return found


def mma_kernel(shape: str, d: str, a: str) -> tuple[str, list[Tensor], dict[str, tuple[int, int]]]:
    """A kernel that loads fragments lane by lane, and (elements, registers) of each operand."""
    k = int(shape.rpartition("k")[2])
    per = 1 if a == "tf32" else 2
    counts = {"A": 16 * k // 32, "B": 8 * k // 32, "C": 4}
    pers = {"A": per, "B": per, "C": 1 if d == "f32" else 2}
    registers = {name: counts[name] // pers[name] for name in counts}
    lines, names = [], {}
    at = 10
    for name in "ABC":
        own = [f"%r{at + i}" for i in range(registers[name])]
        at += 8
        names[name] = "{" + ", ".join(own) + "}"
        lines.append(f"mad.lo.u64 %d1, %wide, {4 * registers[name]}, %p{name};")
        lines += [f"ld.global.b32 {r}, [%d1+{4 * i}];" for i, r in enumerate(own)]
    result = [f"%r{at + i}" for i in range(registers["C"])]
    opcode = f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{a}.{d}"
    assert match(tuple(opcode.split(".")))
    lines.append(f"{opcode} {{{', '.join(result)}}}, {names['A']}, {names['B']}, {names['C']};")
    lines.append(f"mad.lo.u64 %d1, %wide, {4 * registers['C']}, %pO;")
    lines += [f"st.global.b32 [%d1+{4 * i}], {r};" for i, r in enumerate(result)]
    fmt = "f32" if a == "tf32" else a
    tensors = [
        symbol("A", fmt, 64 * counts["A"]),
        symbol("B", fmt, 64 * counts["B"]),
        symbol("C", d, 64 * counts["C"]),
        out("O", d, 64 * counts["C"]),
    ]
    return "\n".join([*lines, "ret;"]), tensors, {n: (pers[n], registers[n]) for n in "ABC"}


@pytest.mark.parametrize(("shape", "d", "a"), MMAS)
def test_mma(shape: str, d: str, a: str) -> None:
    """Against the slow evaluator, and against the product of the matrices in the fragments."""
    body, tensors, layout = mma_kernel(shape, d, a)
    inputs = {t.name: RNG.integers(-8, 9, t.elements) / 4 for t in tensors[:3]}
    outcome = body_same(body, tensors, inputs, block=64)
    check_product(shape, outcome, inputs, layout)
    given = {"A": inputs["A"], "B": RNG.normal(size=inputs["B"].size), "C": inputs["C"]}
    body_same(body, tensors, given, block=64)
    residues, _ = fast(
        kernel_of(entry(body, tensors)), launch_of(tensors, 1, 64), FieldDomain(1, 2)
    )
    assert residues.stopped is None


def check_product(
    shape: str,
    outcome: Outcome,
    inputs: dict[str, np.ndarray],
    layout: dict[str, tuple[int, int]],
) -> None:
    k = int(shape.rpartition("k")[2])
    sizes = {"A": (16, k), "B": (k, 8), "C": (16, 8)}
    ends = [e for e in outcome.outputs["O"] if isinstance(e, tuple)]
    assert len(ends) == len(outcome.outputs["O"])
    results = np.array([low + high for low, high in ends]) / 2
    for warp in range(2):
        own = {}
        for name, size in sizes.items():
            cells = fragments(*layout[name], name.lower())
            values = inputs[name].reshape(2, 32, -1)[warp]
            own[name] = matrix(values, cells, size)
        product = np.einsum("ik,kj->ij", own["A"], own["B"]) + own["C"]
        got = matrix(results.reshape(2, 32, -1)[warp], fragments(*layout["C"], "c"), (16, 8))
        assert np.allclose(got, product, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("shape", "d", "a"), MMAS[::2])
def test_mma_of_known_bits(shape: str, d: str, a: str) -> None:
    """Zeros, ones and exact constants in some lanes."""
    body, tensors, _ = mma_kernel(shape, d, a)
    inputs = {}
    for i, t in enumerate(tensors[:3]):
        width = sheets.WIDTHS[t.dtype]
        bits = sheets.floats(RNG, t.dtype, t.elements, specials="none")
        if i != 1:
            tensors[i] = known(t.name, f"u{8 * width}", bits)
        else:
            inputs[t.name] = RNG.normal(size=t.elements)
    body_same(body, tensors, inputs, block=64)


def test_mma_with_undefined_elements() -> None:
    body, tensors, _ = mma_kernel("m16n8k16", "f32", "f16")
    inputs = {t.name: RNG.normal(size=t.elements) for t in tensors[:3]}
    skip = "setp.eq.u32 %p1, %gid, 5; mov.b32 %r50, {%h1, %h2}; @%p1 mov.b32 %r11, %r50;"
    outcome = body_same(body.replace("mma.sync", f"{skip} mma.sync"), tensors, inputs, block=64)
    assert outcome.outputs["O"].count("undef") == 8
    skip = "setp.eq.u32 %p1, %gid, 40; @%p1 mov.b32 %r18, %r50;"
    outcome = body_same(body.replace("mma.sync", f"{skip} mma.sync"), tensors, inputs, block=64)
    assert outcome.outputs["O"].count("undef") == 16


def test_aligned_instructions_of_a_part_of_a_warp() -> None:
    body, tensors, _ = mma_kernel("m16n8k8", "f32", "tf32")
    body = "setp.gt.u32 %p1, %gid, 8; @%p1 bra E;" + body.replace("ret;", "E: ret;")
    inputs = {t.name: RNG.normal(size=t.elements) for t in tensors[:3]}
    kernel = kernel_of(entry(body, tensors))
    outcome, _ = fast(kernel, launch_of(tensors, 1, 64), EnclosureDomain(inputs))
    assert "undefined.convergence" in outcome.reasons


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.down.b32 %r2, %r1, 3, {clamp}, %r5;",
        "shfl.sync.bfly.b32 %r2, %r1, 4, 31, %r5;",
        "vote.sync.ballot.b32 %r2, %p1, %r5;",
        "redux.sync.add.u32 %r2, %r1, %r5;",
        "and.b32 %r1, %r1, 3; match.any.sync.b32 %r2, %r1, %r5;",
    ],
)
@pytest.mark.parametrize("lanes", [8, 16])
def test_tiles_of_a_warp(text: str, lanes: int) -> None:
    """Each tile names itself, as cooperative groups do."""
    head = f"""
        mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 9; and.b32 %r4, %r1, {32 - lanes};
        mov.u32 %r5, {(1 << lanes) - 1}; shl.b32 %r5, %r5, %r4;
    """
    body = head + text.format(clamp=(32 - lanes) << 8 | 31) + "st.global.u32 [%O], %r2; ret;"
    outcome = body_same(body, [out("O", "u32", 64)], block=64)
    assert outcome.stopped is None
    assert outcome.findings == set()
