"""Shuffles, votes, ldmatrix, mma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kcheck.launch import Tensor
from kcheck.semantics.slow import UNDEF, Double, Exact, Unsupported
from tests.semantics.slow.harness import evaluate, module, plain, run

LANES = list(range(32))


def shuffle(mode: str, b: int, c: int) -> tuple[list[Any], list[Any]]:
    code = f"shfl.sync.{mode}.b32 d|p, a, {b}, {c}, -1; selp.u32 e, 1, 0, p;"
    out = evaluate(code, {"a": ("u32", [100 + i for i in LANES])}, {"d": "u32", "e": "u32"})
    return out["d"], out["e"]


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize("delta", [0, 1, 5, 8, 31])
def test_shuffles_as_cuda_defines_them(width: int, delta: int) -> None:
    """__shfl_*_sync(value, delta, width): out of the segment a lane keeps its own value."""
    segment = (32 - width) << 8
    sources: dict[str, tuple[Callable[[int], int], Callable[[int, int], bool]]] = {
        "up": (lambda i: i - delta, lambda i, j: j >= i - i % width),
        "down": (lambda i: i + delta, lambda i, j: j < i - i % width + width),
        "bfly": (lambda i: i ^ delta, lambda i, j: j < i - i % width + width),
        "idx": (lambda i: i - i % width + delta % width, lambda i, j: True),
    }
    for mode, (source, valid) in sources.items():
        values, flags = shuffle(mode, delta, segment | (0 if mode == "up" else 31))
        for i in LANES:
            j = source(i)
            assert flags[i] == int(valid(i, j)), (mode, i)
            assert values[i] == 100 + (j if valid(i, j) else i), (mode, i)


def test_clamp_below_the_segment() -> None:
    values, flags = shuffle("idx", 20, 10)
    assert values == [100 + i for i in LANES]
    assert flags == [0] * 32


def test_a_lane_outside_the_mask_gives_undef() -> None:
    code = """
        setp.lt.u32 p, idx, 8; mov.u32 d, 0;
        @p shfl.sync.down.b32 d, a, 4, 31, 0xff;
    """
    out = evaluate(code, {"a": ("u32", LANES)}, {"d": "u32"})["d"]
    assert out == [4, 5, 6, 7, *[UNDEF] * 4, *[0] * 24]


def test_an_exited_lane_gives_undef_and_is_not_waited_for() -> None:
    out = Tensor("O", "u32", (32,), "out")
    body = """
        .reg .b32 i, r; .reg .b64 x; .reg .pred p; mov.u32 i, %tid.x; setp.ge.u32 p, i, 2; @p ret;
        shfl.sync.idx.b32 r, i, 5, 31, -1; mad.wide.u32 x, i, 4, O; st.global.u32 [x], r; ret;
    """
    result = run(module(["O"], body), [out], {}, 32)
    assert result.outputs["O"][:2] == [UNDEF, UNDEF]
    assert {f.reason for f in result.findings} == {"undefined.output"}


def test_lanes_meet_at_different_shuffles_of_one_form() -> None:
    code = """
        setp.lt.u32 p, idx, 16;
        @p bra L; shfl.sync.bfly.b32 d, a, 16, 31, -1; bra M;
        L: shfl.sync.bfly.b32 d, a, 16, 31, -1; M:
    """
    out = evaluate(code, {"a": ("u32", LANES)}, {"d": "u32"})["d"]
    assert out == [i ^ 16 for i in LANES]


def test_votes() -> None:
    code = """
        setp.lt.u32 p, a, 40; vote.sync.all.pred q, p, -1; selp.u32 d, 1, 0, q;
        vote.sync.any.pred q, !p, -1; selp.u32 e, 1, 0, q;
        setp.eq.u32 p, a, 3; vote.sync.uni.pred q, p, -1; selp.u32 g, 1, 0, q;
        vote.sync.ballot.b32 h, p, -1;
    """
    out = evaluate(code, {"a": ("u32", LANES)}, dict.fromkeys("degh", "u32"))
    assert [set(out[n]) for n in "degh"] == [{1}, {0}, {0}, {8}]


def test_activemask_is_unstable() -> None:
    evaluate("activemask.b32 d; mov.u32 d, 0;", {"a": ("u32", LANES)}, {"d": "u32"})
    with pytest.raises(Unsupported, match="unstable"):
        evaluate("activemask.b32 d;", {"a": ("u32", LANES)}, {"d": "u32"})


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix(count: int, trans: str) -> None:
    """Lane i gets elements (i/4, 2(i%4) + {0, 1}) of each matrix, or of its transpose."""
    names = [f"d{m}" for m in range(count)]
    code = f"""
        .shared .align 16 .b8 t[512]; .reg .b32 r, s;
        mad.lo.u32 r, idx, 16, 0; mov.u32 s, t; add.u32 r, r, s;
        st.shared.v4.b32 [r], {{a, b, c, e}}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{", ".join(names)}}}, [r];
    """
    memory = np.random.default_rng(count).integers(0, 2**16, (32, 8))
    words = memory[:, 0::2] + memory[:, 1::2] * 2**16
    inputs = {n: ("u32", words[:, i].tolist()) for i, n in enumerate("abce")}
    out = evaluate(code, inputs, dict.fromkeys(names, "u32"))
    for m, name in enumerate(names):
        matrix = memory[8 * m : 8 * m + 8]
        matrix = matrix.T if trans else matrix
        wanted = [
            int(matrix[i // 4, 2 * (i % 4)] + matrix[i // 4, 2 * (i % 4) + 1] * 2**16)
            for i in LANES
        ]
        assert out[name] == wanted


# (shape, types, elements of A per lane, of B per lane): element e of lane (g, i) -> (row, column)
def a16(g: int, i: int, e: int) -> tuple[int, int]:
    return g + 8 * (e // 2 % 2), 2 * i + e % 2 + 8 * (e // 4)


def b16(g: int, i: int, e: int) -> tuple[int, int]:
    return 2 * i + e % 2 + 8 * (e // 2), g


def a32(g: int, i: int, e: int) -> tuple[int, int]:
    return g + 8 * (e % 2), i + 4 * (e // 2)


def b32(g: int, i: int, e: int) -> tuple[int, int]:
    return i + 4 * e, g


def c32(g: int, i: int, e: int) -> tuple[int, int]:
    return g + 8 * (e // 2), 2 * i + e % 2


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ("m16n8k16", "f32.f16.f16.f32"),
        ("m16n8k8", "f32.f16.f16.f32"),
        ("m16n8k16", "f32.bf16.bf16.f32"),
        ("m16n8k8", "f32.bf16.bf16.f32"),
        ("m16n8k16", "f16.f16.f16.f16"),
        ("m16n8k8", "f16.f16.f16.f16"),
        ("m16n8k8", "f32.tf32.tf32.f32"),
        ("m16n8k4", "f32.tf32.tf32.f32"),
    ],
)
def test_mma(shape: str, kinds: str) -> None:
    depth, element, result = int(shape[6:]), kinds.split(".")[1], kinds.split(".")[0]
    word = element == "tf32"
    random = np.random.default_rng(7)
    a, b, c = (random.integers(-9, 9, size) for size in ((16, depth), (depth, 8), (16, 8)))
    fragments = {
        "a": (a, a32 if word else a16, depth // 2, "f32" if word else element),
        "b": (b, b32 if word else b16, depth // 4, "f32" if word else element),
        "c": (c, c32, 4, result),
    }
    inputs, lists, setup = {}, {}, ""
    for name, (matrix, place, count, kind) in fragments.items():
        for e in range(count):
            column = [int(matrix[place(i // 4, i % 4, e)]) for i in LANES]
            inputs[f"{name}{e}"] = (kind, column)
        registers = [f"{name}{e}" for e in range(count)]
        if kind != "f32":
            for r in range(count // 2):
                pair = f"{name}{2 * r}, {name}{2 * r + 1}"
                setup += f".reg .b32 {name}_{r}; mov.b32 {name}_{r}, {{{pair}}};"
            registers = [f"{name}_{r}" for r in range(count // 2)]
        lists[name] = "{" + ", ".join(registers) + "}"
    outputs = {f"d{e}": result for e in range(4)}
    target = "{d0, d1, d2, d3}" if result == "f32" else "{u, v}"
    after = "" if result == "f32" else "mov.b32 {d0, d1}, u; mov.b32 {d2, d3}, v;"
    code = f".reg .b32 u, v; {setup} mma.sync.aligned.{shape}.row.col.{kinds} {target}, "
    code += f"{lists['a']}, {lists['b']}, {lists['c']}; {after}"
    out = evaluate(code, inputs, outputs, Exact)
    product = a @ b + c
    for e in range(4):
        assert out[f"d{e}"] == [int(product[c32(i // 4, i % 4, e)]) for i in LANES]


def test_undef_spoils_its_row_only() -> None:
    """Lane 4 holds parts of row 1 of A: without them row 1 of D is undefined."""
    out = Tensor("O", "f32", (32,), "out")
    body = """
        .reg .b32 i, a, z; .reg .b64 x; .reg .pred p; .reg .f32 d<4>;
        mov.u32 i, %tid.x; mov.b32 z, 0; setp.ne.u32 p, i, 4; @p mov.b32 a, 0;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {a, z}, {z},
            {0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000};
        mad.wide.u32 x, i, 4, O; st.global.f32 [x], d0; ret;
    """
    result = run(module(["O"], body), [out], {}, 32, Double)
    got = [plain(x) for x in result.outputs["O"]]
    assert got == [UNDEF if i // 4 == 1 else 1 for i in LANES]
