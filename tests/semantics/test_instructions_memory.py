"""Loads, stores, address arithmetic, atomics, copies: rows, widths, spaces, faults."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import Param, Scalar
from tests.semantics import sheets
from tests.semantics.harness import (
    Inputs,
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

N = 32
RNG = np.random.default_rng(5)
WORDS = sheets.integers(RNG, 4, 4 * N)
LONGS = sheets.integers(RNG, 8, 4 * N)
NUMBERS = RNG.normal(size=4 * N)
REGISTERS = {1: "h", 2: "h", 4: "r", 8: "d"}


def opcodes(name: str) -> list[tuple[str, sheets.Slots]]:
    """All rows of a name, one slot at a time, and all types with all vectors."""
    found: dict[str, sheets.Slots] = {}
    for form in sheets.forms(name):
        found.update(sheets.opcodes(form, 1))
    for space in ("", ".global", ".shared", ".shared::cta", ".local"):
        for vec in ("", ".v2", ".v4"):
            for t in sheets_types():
                opcode = f"{name}{space}{vec}.{t}"
                if not (vec == ".v4" and t.endswith("64")):
                    found[opcode] = {"space": space[1:], "vec": vec[1:], "type": t}
    return list(found.items())


def sheets_types() -> list[str]:
    """The types of ld and st."""
    return [f"{k}{w}" for k in "bus" for w in (8, 16, 32, 64)] + ["f32", "f64"]


def vector(letter: str, count: int) -> str:
    """`{%r1, ...}`, or one register."""
    names = [f"%{letter}{i + 1}" for i in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_load_rows(width: int) -> None:
    """Every ld of the table, of every width and vector, into registers as wide and wider."""
    body, params = [], [known("A", "u64", LONGS)]
    for space in ("shared", "local"):
        body.append(f".{space} .align 16 .b8 buf_{space}[{16 * N}]; .reg .b64 %at_{space};")
        body.append(f"mov.u64 %at_{space}, buf_{space};")
        body += ["ld.global.v2.u64 {%d1, %d2}, [%q];"]
        scale = f"mad.lo.u64 %at_{space}, %wide, 16, %at_{space};"
        body += [scale, f"st.{space}.v2.u64 [%at_{space}], {{%d1, %d2}};"]
    results = 0
    stores: list[str] = []
    for opcode, slots in opcodes("ld"):
        t, space = slots["type"], slots.get("space", "")
        if sheets.WIDTHS[t] != width or space.startswith(("param", "const")):
            continue
        count = int(slots.get("vec", "")[1:] or 1)
        if count * width > 16:
            continue
        base = {"local": "%at_local"}.get(space, "%q")
        base = "%at_shared" if space.startswith("shared") else base
        for letter in {REGISTERS[width], "d"} if t[0] in "us" else {REGISTERS[width]}:
            stores.append(f"{opcode} {vector(letter, count)}, [{base}];")
            for i in range(count):
                size = {"h": 2, "r": 4, "d": 8}[letter]
                at = results * N * 8
                stores.append(f"cvt.u64.u{8 * size} %d9, %{letter}{i + 1};")
                stores.append(f"st.global.u64 [%O+{at}], %d9;")
                results += 1
    params.append(out("O", "u64", results, N))
    head = [".reg .b64 %q; mad.lo.u64 %q, %wide, 16, %pA;"]
    body_same("\n".join([*head, *body, *stores, "ret;"]), params)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_store_rows(width: int) -> None:
    """Every st of the table; memory is read back in bytes through the widest type."""
    lines, results = [], 0
    for space in ("shared", "local"):
        lines.append(f".{space} .align 16 .b8 buf_{space}[{16 * N}]; .reg .b64 %at_{space};")
        lines.append(f"mov.u64 %at_{space}, buf_{space};")
        lines.append(f"mad.lo.u64 %at_{space}, %wide, 16, %at_{space};")
    lines.append(".reg .b64 %q; mad.lo.u64 %q, %wide, 16, %pG;")
    lines.append("ld.global.u64 %d1, [%A]; ld.global.u64 %d2, [%A+256];")
    lines += [f"mov.u64 %d{i}, %d{i - 2};" for i in (3, 4)]
    for i in range(1, 5):
        lines += [f"cvt.u32.u64 %r{i}, %d{i}; cvt.u16.u64 %h{i}, %d{i};"]
        lines += [f"mov.b32 %f{i}, %r{i}; mov.b64 %g{i}, %d{i};"]
    for opcode, slots in opcodes("st"):
        t, space = slots["type"], slots.get("space", "")
        if sheets.WIDTHS[t] != width or space.startswith(("param", "const")):
            continue
        count = int(slots.get("vec", "")[1:] or 1)
        if count * width > 16:
            continue
        where = "shared" if space.startswith("shared") else "local" if space == "local" else ""
        base = f"%at_{where}" if where else "%q"
        letters = {REGISTERS[width], "d"} if t[0] != "f" else {{4: "f", 8: "g"}[width]}
        for letter in letters:
            load = f"ld.{where or 'global'}"
            clear = f"st.{where or 'global'}.v2.u64 [{base}], {{0, 0}};"
            lines += [clear, f"{opcode} [{base}], {vector(letter, count)};"]
            lines += [f"{load}.v2.u64 {{%d8, %d9}}, [{base}];"]
            lines += [f"st.global.u64 [%O+{(results + i) * N * 8}], %d{8 + i};" for i in (0, 1)]
            results += 2
    g = out("G", f"u{8 * width}" if width < 8 else "u64", 16 * N // width)
    body_same(
        "\n".join([*lines, "ret;"]), [known("A", "u64", LONGS), out("O", "u64", results, N), g]
    )


def test_mixed_widths_of_integers() -> None:
    """Bytes of a stored word, words of stored bytes, overwritten in part (DESIGN.md 4)."""
    body = """
    .shared .align 16 .b8 s[512]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 16, %s;
    ld.global.u64 %d1, [%A]; ld.global.u32 %r1, [%B];
    st.shared.u64 [%s], %d1; st.shared.u64 [%s+8], %d1;
    st.shared.u32 [%s+4], %r1; st.shared.u16 [%s+8], 7; st.shared.u8 [%s+13], 255;
    ld.shared.u64 %d2, [%s]; ld.shared.u64 %d3, [%s+8];
    st.global.u64 [%O], %d2; st.global.u64 [%O+256], %d3;
    ld.shared.u8 %r2, [%s+5]; ld.shared.s8 %r3, [%s+3]; ld.shared.u16 %r4, [%s+6];
    ld.shared.v4.u8 {%h1, %h2, %h3, %h4}, [%s+4]; ld.shared.v2.u16 {%h5, %h6}, [%s+12];
    st.global.u32 [%P], %r2; st.global.u32 [%P+128], %r3; st.global.u32 [%P+256], %r4;
    cvt.u32.u16 %r5, %h3; cvt.u32.u16 %r6, %h6;
    st.global.u32 [%P+384], %r5; st.global.u32 [%P+512], %r6;
    ret;"""
    params = [known("A", "u64", LONGS[:N]), known("B", "u32", WORDS[:N])]
    body_same(body, [*params, out("O", "u64", 2, N), out("P", "u32", 5, N)])


def test_halves_of_words() -> None:
    """Two f16 stored apart and read as b32, and the other way round."""
    body = """
    .shared .align 16 .b8 s[512]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 8, %s;
    ld.global.b16 %h1, [%A]; ld.global.b16 %h2, [%A+64];
    st.shared.b16 [%s], %h1; st.shared.b16 [%s+2], %h2;
    ld.shared.b32 %r1, [%s]; add.f16x2 %r2, %r1, %r1;
    st.shared.b32 [%s+4], %r2; ld.shared.b16 %h3, [%s+4]; ld.shared.b16 %h4, [%s+6];
    st.global.b16 [%O], %h3; st.global.b16 [%O+64], %h4;
    ld.shared.v2.b32 {%r3, %r4}, [%s]; mov.b32 {%h5, %h6}, %r3;
    st.global.b16 [%O+128], %h5; st.global.b16 [%O+192], %h6;
    ld.shared.v4.b16 {%h1, %h2, %h3, %h4}, [%s];
    st.global.b16 [%O+256], %h1; st.global.b16 [%O+320], %h4;
    ret;"""
    numbers = {"A": NUMBERS[: 2 * N]}
    body_same(body, [symbol("A", "f16", 2 * N), out("O", "f16", 6, N)], numbers)


@pytest.mark.parametrize(
    "read",
    ["ld.shared.b16 %h1, [%s];", "ld.shared.b16 %h1, [%s+2];", "ld.shared.u8 %h1, [%s+3];"],
)
def test_a_part_of_a_float_is_refused(read: str) -> None:
    body = f"""
    .shared .align 16 .b8 s[512]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 4, %s;
    ld.global.f32 %f1, [%A]; st.shared.f32 [%s], %f1; {read}
    cvt.u32.u16 %r1, %h1; st.global.u32 [%O], %r1; ret;"""
    outcome = refused(body, [symbol("A", "f32", N), out("O", "u32", N)], {"A": NUMBERS[:N]})
    assert outcome.stopped is not None
    assert outcome.stopped[0] == "reinterpret"


def refused(body: str, params: Sequence[Param], inputs: Inputs | None = None) -> Outcome:
    """The fast outcome, which must be a refusal."""
    domain = EnclosureDomain(inputs or {})
    outcome, _ = fast(kernel_of(entry(body, params)), launch_of(params), domain)
    assert outcome.stopped is not None
    return outcome


def test_half_of_a_float_overwritten() -> None:
    """The other half is no number any more, the written one is."""
    body = """
    .shared .align 16 .b8 s[512]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 4, %s;
    ld.global.f32 %f1, [%A]; st.shared.f32 [%s], %f1; st.shared.u16 [%s+2], 16256;
    ld.shared.u16 %h1, [%s+2]; st.global.u16 [%O], %h1; st.shared.u16 [%s], 0;
    ld.shared.f32 %f2, [%s]; st.global.f32 [%P], %f2; ret;"""
    params = [symbol("A", "f32", N), out("O", "u16", N), out("P", "f32", N)]
    outcome = body_same(body, params, {"A": NUMBERS[:N]})
    assert set(outcome.outputs["P"]) == {1}


def test_generic_addresses() -> None:
    """cvta there and back, isspacep, generic loads and stores of all spaces at once."""
    body = """
    .shared .align 16 .b8 s[512]; .local .align 16 .b8 l[32]; .reg .b64 %s, %l, %any;
    mov.u64 %s, s; cvta.shared.u64 %s, %s; mad.lo.u64 %s, %wide, 4, %s;
    mov.u64 %l, l; cvta.local.u64 %l, %l; add.u64 %l, %l, 8;
    cvta.global.u64 %d1, %A;
    ld.f32 %f1, [%d1]; st.f32 [%s], %f1; st.f32 [%l+4], %f1; st.u32 [%l], 1065353216;
    and.b32 %r1, %gid, 3; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
    selp.u64 %any, %s, %d1, %p1; selp.u64 %any, %l, %any, %p2;
    ld.f32 %f2, [%any]; add.f32 %f2, %f2, %f2; st.global.f32 [%O], %f2;
    isspacep.shared %p3, %any; isspacep.local %p4, %any; isspacep.global %p5, %any;
    selp.u32 %r2, 1, 0, %p3; selp.u32 %r3, 2, %r2, %p4; selp.u32 %r4, 4, %r3, %p5;
    st.global.u32 [%P], %r4;
    cvta.to.shared.u64 %s, %s; ld.shared.f32 %f3, [%s]; st.global.f32 [%O+128], %f3;
    cvta.to.local.u64 %l, %l; ld.local.f32 %f4, [%l+4]; st.global.f32 [%O+256], %f4;
    cvta.to.global.u64 %d1, %d1; ld.global.f32 %f5, [%d1]; st.global.f32 [%O+384], %f5;
    ret;"""
    params = [symbol("A", "f32", N), out("O", "f32", 4, N), out("P", "u32", N)]
    body_same(body, params, {"A": NUMBERS[:N]})


def test_variables_with_initial_contents() -> None:
    head = """
    .const .align 4 .u32 table[8] = {1, 2, 3, 4, -5};
    .global .align 8 .f32 weights[4] = {0f3F800000, 0f40000000, 2.5};
    .global .align 8 .u64 big = 0x123456789abcdef0;
    .global .align 2 .u16 cells[32];"""
    body = """
    and.b32 %r1, %gid, 7; cvt.u64.u32 %d1, %r1; mov.u64 %d2, table; mad.lo.u64 %d2, %d1, 4, %d2;
    ld.const.u32 %r2, [%d2]; st.global.u32 [%O], %r2; ld.const.u32 %r3, [table+16];
    st.global.u32 [%O+128], %r3; and.b64 %d1, %d1, 3; mov.u64 %d3, weights;
    mad.lo.u64 %d3, %d1, 4, %d3; ld.global.f32 %f1, [%d3]; st.global.f32 [%P], %f1;
    ld.global.u64 %d4, [big]; ld.global.u32 %r4, [big+4]; st.global.u64 [%Q], %d4;
    st.global.u32 [%O+256], %r4; mov.u64 %d5, cells; mad.lo.u64 %d5, %wide, 2, %d5;
    cvt.u16.u32 %h1, %gid; st.global.u16 [%d5], %h1; ld.global.u16 %h2, [%d5];
    cvt.u32.u16 %r5, %h2; st.global.u32 [%O+384], %r5; ret;"""
    params = [out("O", "u32", 4, N), out("P", "f32", N), out("Q", "u64", N)]
    body_same(body, params, head=head)


def test_scalar_parameters() -> None:
    body = """
    ld.param.u32 %r1, [a]; ld.param.f32 %f1, [b]; ld.param.s16 %h1, [c]; ld.param.f64 %g1, [e];
    ld.param.u64 %d1, [d]; ld.param.u32 %r4, [d];
    cvt.s32.s16 %r2, %h1; add.u32 %r3, %r1, %r2; st.global.u32 [%O], %r3;
    st.global.u32 [%O+128], %r4; cvt.f64.f32 %g2, %f1; add.f64 %g1, %g1, %g2;
    st.global.f64 [%P], %g1; st.global.u64 [%Q], %d1; ret;"""
    scalars = [
        Scalar("a", "u32", 4000000000),
        Scalar("b", "f32", 1.5),
        Scalar("c", "s16", -3),
        Scalar("d", "u64", 1 << 40 | 77),
        Scalar("e", "f64", -0.25),
    ]
    params = [out("O", "u32", 2, N), out("P", "f64", N), out("Q", "u64", N)]
    body_same(body, [*params, *scalars])


# atomics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["u32", "s32", "u64"])
def test_integer_atomics_that_collide(t: str) -> None:
    w = int(t[1:]) // 8
    body = f"""
    .shared .align 16 .b8 s[64]; rem.u32 %r1, %gid, 5; cvt.u64.u32 %d1, %r1;
    mad.lo.u64 %d2, %d1, {w}, %pO; mov.u64 %d3, s; mad.lo.u64 %d3, %d1, {w}, %d3;
    setp.lt.u32 %p1, %tid.x, 5; @%p1 st.shared.u{8 * w} [%d3], 3; bar.sync 0;
    ld.global.{t} %d4, [%A]; cvt.u32.u64 %r4, %d4;
    red.global.add.{t} [%d2], {"%d4" if w == 8 else "%r4"};
    @%p1 red.relaxed.gpu.global.add.{t} [%d2], {"%d4" if w == 8 else "%r4"};
    atom.shared.add.{t} {"%d9" if w == 8 else "%r9"}, [%d3], {"%d4" if w == 8 else "%r4"};
    bar.sync 0; @%p1 ld.shared.u{8 * w} %d5, [%d3];
    mad.lo.u64 %d6, %wide, {w}, %pP; @%p1 st.global.u{8 * w} [%d6], %d5; ret;"""
    values = LONGS[:64] if w == 8 else WORDS[:64]
    params = [known("A", f"u{8 * w}", values), out("O", f"u{8 * w}", 5, init="zero")]
    for batch in (4096, 32):
        body_same(body, [*params, out("P", f"u{8 * w}", 64)], grid=2, batch=batch)


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
@pytest.mark.parametrize("inputs", [True, False])
def test_float_atomics_that_collide(t: str, inputs: bool) -> None:
    w, fmt = sheets.WIDTHS[t], t.removesuffix("x2")
    count = 32 * (2 if t.endswith("x2") else 1)
    noftz = "" if t in ("f32", "f64") else ".noftz"
    load = f"ld.global.b{8 * w}" if w != 8 else "ld.global.f64"
    register = REGISTERS[w]
    body = f"""
    rem.u32 %r1, %gid, 3; cvt.u64.u32 %d1, %r1; mad.lo.u64 %d2, %d1, {w}, %pO;
    mad.lo.u64 %d4, %wide, {w}, %pA; {load} %{register}5, [%d4];
    red.global.add{noftz}.{t} [%d2], %{register}5;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 atom.global.gpu.relaxed.add{noftz}.{t} %{register}6, [%d2], %{register}5; ret;"""
    tensor = symbol("A", fmt, count)
    given = {"A": NUMBERS[:count]}
    if not inputs:
        bits = sheets.bits_of(RNG, t, 32, specials="none")
        tensor, given = known("A", f"u{8 * w}", bits), {}
    body_same(body, [tensor, out("O", fmt, 3, count // 32, init="zero")], given)


def test_old_values_of_atomics_are_unstable() -> None:
    start = "atom.global.add.u32 %r1, [%pP], 1;"
    params = [out("O", "u32", N), out("P", "u32", 1, init="zero")]
    for use in (
        "st.global.u32 [%O], %r1;",
        "add.u32 %r2, %r1, 1; st.global.u32 [%O], %r2;",
        "setp.eq.u32 %p1, %r1, 3; @%p1 st.global.u32 [%O], 1;",
        "cvt.u64.u32 %d1, %r1; mad.lo.u64 %d1, %d1, 4, %pO; st.global.u32 [%d1], 1;",
        "setp.eq.u32 %p1, %r1, 3; @%p1 bra L; st.global.u32 [%O], 1; L:",
        "mov.u32 %r2, %r1; st.global.u32 [%O], %r2;",
    ):
        outcome = refused(f"{start} {use} ret;", params)
        assert outcome.stopped is not None
        assert outcome.stopped[0] == "unstable", use
    body_same(f"{start} mov.u32 %r1, 5; st.global.u32 [%O], %r1; ret;", params)


# cp.async ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "u32", "u64"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async(dtype: str, size: int) -> None:
    """Whole, and with a source size of 0, 4, 8, 16: the rest is zero."""
    width = sheets.WIDTHS[dtype]
    n = N * 16 // width
    tensor = symbol("A", dtype, n) if dtype[0] == "f" else known("A", dtype, LONGS[:n])
    fill = "st.shared.b64 [%s], 0; st.shared.b64 [%s+8], 0;"
    cops = ["ca", "cg"] if size == 16 else ["ca"]
    lines = [".shared .align 16 .b8 s[512]; .reg .b64 %s, %q; mov.u64 %s, s;"]
    lines += ["mad.lo.u64 %s, %wide, 16, %s; mad.lo.u64 %q, %wide, 16, %pA;"]
    results = 0
    move = {2: "b16", 4: "b32", 8: "b64"}[width]
    for cop in cops:
        for given in ("", ", 0", f", {size}", ", %r1"):
            lines += [
                "and.b32 %r1, %gid, 1; mul.lo.u32 %r1, %r1, 4;" if width <= 4 else "mov.u32 %r1, 0;"
            ]
            lines += [fill, f"cp.async.{cop}.shared.global [%s], [%q], {size}{given};"]
            lines += ["cp.async.commit_group; cp.async.wait_group 0;"]
            for at in range(0, size, width):
                lines += [f"ld.shared.{move} %{REGISTERS[width]}2, [%s+{at}];"]
                lines += [f"st.global.{move} [%O+{results * N * width}], %{REGISTERS[width]}2;"]
                results += 1
    inputs = {"A": np.resize(NUMBERS, n)} if dtype[0] == "f" else {}
    body_same("\n".join([*lines, "ret;"]), [tensor, out("O", dtype, results, N)], inputs)
