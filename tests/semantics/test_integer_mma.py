"""mma on bytes: against the slow evaluator, the product of the matrices, and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.check import equivalent
from kcheck.launch import Tensor
from kcheck.running import run
from kcheck.semantics.execution import execute
from tests.semantics.harness import body_same, entry, kernel_of, known, launch_of, out, symbol
from tests.semantics.test_instructions_warp import fragments, matrix

RNG = np.random.default_rng(11)
SHAPES = [("m16n8k32", "s8", "s8"), ("m16n8k32", "u8", "s8"), ("m16n8k16", "s8", "u8")]


def body(shape: str, a: str, b: str, sat: bool = False) -> str:
    """Each lane loads its words of A, B and C (fragments in lane order) and stores those of O."""
    k = int(shape.rpartition("k")[2])
    counts = {"A": k // 8, "B": k // 16, "C": 4}
    lines, names, at = [], {}, 10
    for name, n in counts.items():
        own = [f"%r{at + i}" for i in range(n)]
        at += n
        names[name] = "{" + ", ".join(own) + "}"
        lines.append(f"mad.lo.u64 %d1, %wide, {4 * n}, %p{name};")
        lines += [f"ld.global.b32 {r}, [%d1+{4 * i}];" for i, r in enumerate(own)]
    more = ".satfinite" if sat else ""
    lines.append(
        f"mma.sync.aligned.{shape}.row.col{more}.s32.{a}.{b}.s32 {names['C']}, {names['A']}, "
        f"{names['B']}, {names['C']}; mad.lo.u64 %d1, %wide, 16, %pO;"
    )
    lines += [f"st.global.b32 [%d1+{4 * i}], %r{at - 4 + i};" for i in range(4)]
    return "\n".join(lines)


def operands(shape: str, a: str, b: str) -> dict[str, Any]:
    k = int(shape.rpartition("k")[2])
    counts = {"A": 16 * k, "B": 8 * k, "C": 128}
    kinds = {"A": a, "B": b, "C": "s32"}
    ends = {t: np.iinfo({"s": "int", "u": "uint"}[t[0]] + t[1:]) for t in ("s8", "u8", "s32")}
    found = {
        name: RNG.integers(ends[kinds[name]].min, ends[kinds[name]].max, n, endpoint=True)
        for name, n in counts.items()
    }
    found["C"][:32] = RNG.choice([ends["s32"].min, ends["s32"].max], 32)
    return found


def product(shape: str, given: dict[str, Any], sat: bool) -> Any:
    """O, fragment by fragment, by NumPy."""
    k = int(shape.rpartition("k")[2])
    sizes = {"A": (4, k // 8, (16, k)), "B": (4, k // 16, (k, 8)), "C": (1, 4, (16, 8))}
    whole = {
        name: matrix(given[name].reshape(32, -1), fragments(per, n, name.lower()), size)
        for name, (per, n, size) in sizes.items()
    }
    total = (whole["A"] @ whole["B"] + whole["C"]).astype(np.int64)
    if sat:
        total = np.clip(total, -(2**31), 2**31 - 1)
    cells = fragments(1, 4, "c")
    return np.array([total[cell] for own in cells for cell in own])


@pytest.mark.parametrize("sat", [False, True])
@pytest.mark.parametrize(("shape", "a", "b"), SHAPES)
def test_known_numbers(shape: str, a: str, b: str, sat: bool) -> None:
    given = operands(shape, a, b)
    params = [known("A", a, given["A"]), known("B", b, given["B"]), known("C", "s32", given["C"])]
    outcome = body_same(body(shape, a, b, sat), [*params, out("O", "s32", 128)])
    wanted = product(shape, given, sat)
    assert (np.array(outcome.outputs["O"]) % 2**32 == wanted % 2**32).all()
    if sat:
        assert set(outcome.outputs["O"]) & {2**31 - 1, 2**31}
    engine = run(
        entry(body(shape, a, b, sat), [*params, out("O", "s32", 128)]),
        launch=launch_of([*params, out("O", "s32", 128)]),
        engine="ieee",
    )
    assert (engine.outputs["O"].astype(np.int64) % 2**32 == wanted % 2**32).all()


def test_undefined_bytes_reach_a_row_or_a_column() -> None:
    text = body(*SHAPES[0])
    given = operands(*SHAPES[0])
    params = [known("A", "s8", given["A"]), known("B", "s8", given["B"])]
    params += [known("C", "s32", given["C"]), out("O", "s32", 128)]
    skip = "setp.eq.u32 %p1, %gid, 5; @%p1 mov.b32 %r{}, %r50;"
    for register, count in ((11, 8), (14, 16), (16, 1)):
        outcome = body_same(text.replace("mma.sync", skip.format(register) + " mma.sync"), params)
        assert outcome.outputs["O"].count("undef") == count


@pytest.mark.parametrize(("shape", "a", "b"), SHAPES)
def test_unknown_numbers(shape: str, a: str, b: str) -> None:
    given = operands(shape, a, b)
    params: list[Tensor] = [symbol("A", a, given["A"].size), symbol("B", b, given["B"].size)]
    params += [symbol("C", "s32", 128), out("O", "s32", 128)]
    launch, kernel = launch_of(params), kernel_of(entry(body(shape, a, b), params))
    made = execute(kernel, launch, EnclosureDomain({k: v.astype(float) for k, v in given.items()}))
    _, real = made.memories["O"].contents(4, "s32")
    low, high = made.reals.ends(real)
    assert (low == high).all()
    assert (low.astype(np.int64) % 2**32 == product(shape, given, False) % 2**32).all()


def test_a_tile_is_the_loop_over_its_bytes() -> None:
    """16 x 8 products of rows of 32 bytes, by mma and by multiplications."""
    params = [symbol("A", "s8", 512), symbol("B", "s8", 256), out("O", "s32", 128)]
    lane = "shr.u32 %r1, %tid.x, 2; and.b32 %r2, %tid.x, 3;"
    tile = f"{lane} mad.lo.u32 %r3, %r1, 8, %r2; cvt.u64.u32 %d1, %r3; shl.b64 %d1, %d1, 2;"
    tile += "add.u64 %d2, %pA, %d1; add.u64 %d3, %pB, %d1;"
    loads = [("%r10", "%d2", 0), ("%r11", "%d2", 256), ("%r12", "%d2", 16), ("%r13", "%d2", 272)]
    loads += [("%r14", "%d3", 0), ("%r15", "%d3", 16)]
    tile += "".join(f"ld.global.b32 {r}, [{d}+{at}];" for r, d, at in loads)
    tile += "".join(f"mov.b32 %r{20 + i}, 0;" for i in range(4))
    tile += "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r20,%r21,%r22,%r23},"
    tile += "{%r10,%r11,%r12,%r13},{%r14,%r15},{%r20,%r21,%r22,%r23};"
    tile += "mad.lo.u32 %r3, %r1, 8, %r2; add.u32 %r3, %r3, %r2; mul.wide.u32 %d1, %r3, 4;"
    tile += "add.u64 %d1, %d1, %pO; st.global.v2.b32 [%d1], {%r20,%r21};"
    tile += "st.global.v2.b32 [%d1+256], {%r22,%r23};"
    loop = "shr.u32 %r1, %tid.x, 3; and.b32 %r2, %tid.x, 7; mul.wide.u32 %d1, %r1, 32;"
    loop += "mul.wide.u32 %d2, %r2, 32; add.u64 %d1, %d1, %pA; add.u64 %d2, %d2, %pB;"
    loop += "mov.u32 %r5, 0; mov.u32 %r6, 0;"
    loop += "L: ld.global.s8 %r7, [%d1]; ld.global.s8 %r8, [%d2]; mad.lo.s32 %r5, %r7, %r8, %r5;"
    loop += "add.u64 %d1, %d1, 1; add.u64 %d2, %d2, 1; add.u32 %r6, %r6, 1;"
    loop += "setp.lt.u32 %p1, %r6, 32; @%p1 bra L; st.global.s32 [%O], %r5;"
    launches = launch_of(params, 1, 128), launch_of(params)
    for text, expected in (
        (tile, ("proved", "exact")),
        (tile.replace(".s8.s8", ".s8.u8"), ("refuted", "value.mismatch")),
        (tile.replace("%d2+256", "%d2+16"), ("refuted", "value.mismatch")),
    ):
        verdict = equivalent(
            entry(loop, params), entry(text, params), launch=launches[0],
            subject_launch=launches[1], seed=1,
        )  # fmt: skip
        assert (verdict.verdict, verdict.reason or verdict.method) == expected
