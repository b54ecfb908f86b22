"""Read-modify-writes, reductions over warps and barriers, match."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from kcheck.launch import Tensor
from kcheck.semantics.slow import Exact, Unsupported
from tests.semantics.slow.harness import evaluate, module, plain, run

WORDS = {"u32": 4, "s32": 4, "b32": 4, "u64": 8, "s64": 8, "b64": 8}


def cell(op: str, kind: str, start: int, operand: int) -> int:
    """What a cell holds after one red, seen through a load."""
    bits = 8 * WORDS[kind]
    code = f"""
        .shared .align 8 .b{bits} t[32]; .reg .b32 s; mov.u32 s, t;
        mad.lo.u32 s, idx, {bits // 8}, s;
        st.shared.b{bits} [s], a; red.shared.{op}.{kind} [s], b; ld.shared.b{bits} d, [s];
    """
    columns = {"a": (f"u{bits}", [start]), "b": (f"u{bits}", [operand])}
    (value,) = evaluate(code, columns, {"d": f"u{bits}"})["d"]
    return int(value)


MINUS = 2**32 - 3


@pytest.mark.parametrize(
    ("op", "kind", "start", "operand", "wanted"),
    [
        ("add", "u32", MINUS, 5, 2),
        ("min", "u32", MINUS, 5, 5),
        ("min", "s32", MINUS, 5, MINUS),
        ("max", "u32", MINUS, 5, MINUS),
        ("max", "s32", MINUS, 5, 5),
        ("min", "s64", 2**64 - 1, 0, 2**64 - 1),
        ("max", "u64", 2**63, 1, 2**63),
        ("and", "b32", 0b1100, 0b1010, 0b1000),
        ("or", "b64", 1 << 40, 1, (1 << 40) + 1),
        ("xor", "b32", 0b1100, 0b1010, 0b0110),
        ("inc", "u32", 4, 5, 5),
        ("inc", "u32", 5, 5, 0),
        ("inc", "u32", 9, 5, 0),
        ("dec", "u32", 4, 5, 3),
        ("dec", "u32", 0, 5, 5),
        ("dec", "u32", 6, 5, 5),
    ],
)
def test_operations(op: str, kind: str, start: int, operand: int, wanted: int) -> None:
    assert cell(op, kind, start, operand) == wanted


WORD = Tensor("O", "u32", (4,), "out", init="zero")


def final(body: str, threads: int = 1, **more: Any) -> list[Any]:
    text = module(["O"], f".reg .b32 r, i; .reg .pred p; mov.u32 i, %tid.x; {body} ret;")
    return [plain(x) for x in run(text, [WORD], {}, threads, Exact, **more).outputs["O"]]


def test_exchange_and_compare_and_swap() -> None:
    body = """
        atom.global.exch.b32 r, [O], 7; atom.global.cas.b32 r, [O], 7, 8;
        atom.acq_rel.gpu.global.cas.b32 r, [O], 7, 9; atom.global.cas.b64 w, [O+8], v, u;
        .reg .b64 w, v, u;
    """
    body = ".reg .b64 w, v, u; mov.u64 v, 0; mov.u64 u, 4294967297;" + body.rsplit(".reg", 1)[0]
    assert final(body) == [8, 0, 1, 1]


def test_compare_and_swap_of_halves() -> None:
    body = ".reg .b16 h; atom.global.cas.b16 h, [O+2], 0, 3; atom.global.cas.b16 h, [O+2], 1, 5;"
    assert final(body)[0] == 3 << 16


def test_a_loop_of_compare_and_swap_counts_every_thread() -> None:
    body = """
        .reg .b32 old, seen, new; .reg .f32 f; ld.global.u32 old, [O];
        L: mov.u32 seen, old; mov.b32 f, seen; add.f32 f, f, 0f3F800000; mov.b32 new, f;
        atom.global.cas.b32 old, [O], seen, new; setp.ne.u32 p, old, seen; @p bra L;
    """
    for seed in (None, 1, 2):
        assert final(body, 40, seed=seed)[0] == 0x42200000  # 40.0


def test_old_values_are_hidden() -> None:
    for op in ("exch.b32", "and.b32", "max.u32", "add.u32"):
        with pytest.raises(Unsupported, match="unstable"):
            final(f"atom.global.{op} r, [O], 1; st.global.u32 [O+4], r;")
    with pytest.raises(Unsupported, match="unstable"):
        final("atom.global.cas.b32 r, [O], 1, 2; setp.eq.u32 p, r, 1; @p trap;")


def test_float_bits_as_integers() -> None:
    out = Tensor("O", "f32", (1,), "out", init="zero")
    values = Tensor("A", "f32", (8,), "in")
    body = """
        .reg .f32 f; .reg .b32 r; .reg .b64 x; .reg .pred p;
        mad.wide.u32 x, %tid.x, 4, A; ld.global.f32 f, [x]; mov.b32 r, f;
        setp.ge.f32 p, f, 0f00000000; @p red.global.{0}.s32 [O], r; @!p red.global.{1}.u32 [O], r;
        ret;
    """
    numbers = [i / 3 - 1 for i in range(8)]
    for ops, wanted in ((("max", "min"), max(numbers)), (("min", "max"), min(numbers))):
        text = module(["A", "O"], body.format(*ops))
        (unit,) = run(text, [values, out], {"A": numbers}, 8, Exact).outputs["O"]
        assert float(plain(unit)) == wanted


LANES = list(range(32))


@pytest.mark.parametrize(
    ("op", "kind", "wanted"),
    [
        ("add", "u32", sum(LANES) - 32 * 9),
        ("min", "s32", -9),
        ("max", "s32", 22),
        ("max", "u32", 2**32 - 1),
        ("and", "b32", reduce(int.__and__, (i - 9 for i in LANES))),
        ("or", "b32", reduce(int.__or__, (i - 9 for i in LANES))),
        ("xor", "b32", reduce(int.__xor__, (i - 9 for i in LANES))),
    ],
)
def test_redux(op: str, kind: str, wanted: int) -> None:
    columns = {"a": ("u32", [(i - 9) % 2**32 for i in LANES])}
    out = evaluate(f"redux.sync.{op}.{kind} d, a, -1;", columns, {"d": "u32"})["d"]
    assert out == [wanted % 2**32] * 32


def test_redux_over_a_mask() -> None:
    code = """
        setp.lt.u32 p, idx, 4; @p bra L; redux.sync.add.u32 d, a, 0xfffffff0; bra M;
        L: redux.sync.add.u32 d, a, 0xf; M:
    """
    out = evaluate(code, {"a": ("u32", LANES)}, {"d": "u32"})["d"]
    assert out == [6] * 4 + [sum(LANES) - 6] * 28


def test_match() -> None:
    values = [i % 3 for i in LANES]
    code = "match.any.sync.b32 d, a, -1; match.all.sync.b32 e|p, a, -1; selp.u32 c, 1, 0, p;"
    names = dict.fromkeys("dec", "u32")
    out = evaluate(code, {"a": ("u32", values)}, names)
    assert out["d"] == [sum(1 << j for j in LANES if values[j] == values[i]) for i in LANES]
    assert (out["e"], out["c"]) == ([0] * 32, [0] * 32)
    out = evaluate(code, {"a": ("u32", [5] * 32)}, names)
    assert (out["e"], out["c"]) == ([2**32 - 1] * 32, [1] * 32)


def test_match_of_wide_values() -> None:
    code = "match.any.sync.b64 d, a, -1;"
    out = evaluate(code, {"a": ("u64", [i // 16 << 40 for i in LANES])}, {"d": "u32"})["d"]
    assert out == [0xFFFF] * 16 + [0xFFFF0000] * 16


@pytest.mark.parametrize("count", ["", "64, "])
def test_barrier_reductions(count: str) -> None:
    code = f"""
        setp.lt.u32 p, a, 3; bar.red.popc.u32 d, 1, {count}p; bar.red.and.pred q, 1, {count}p;
        selp.u32 e, 1, 0, q; bar.red.or.pred q, 1, {count}p; selp.u32 c, 1, 0, q;
        barrier.cta.red.popc.aligned.u32 f, 0, {count}!p;
    """
    threads = list(range(64))
    out = evaluate(code, {"a": ("u32", threads)}, dict.fromkeys("decf", "u32"))
    assert (out["d"], out["e"], out["c"], out["f"]) == ([3] * 64, [0] * 64, [1] * 64, [61] * 64)


def test_barriers_of_two_kinds_do_not_mix() -> None:
    body = "setp.lt.u32 p, i, 32; @p bar.sync 1, 64; @!p bar.red.popc.u32 r, 1, 64, p;"
    with pytest.raises(Unsupported, match="barrier-count"):
        final(body, 64)
