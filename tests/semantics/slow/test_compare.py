"""set, setp, selp, slct."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import pytest

from tests.semantics.slow.harness import evaluate

RELATIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
WORDS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
FLOATS = [0, 1.5, -2, math.inf, -math.inf, math.nan]


def pairs(values: list[Any], kind: str) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    rows = list(itertools.product(values, values))
    return rows, {"a": (kind, [a for a, _ in rows]), "b": (kind, [b for _, b in rows])}


def signed(x: int) -> int:
    return x - 2**32 if x >> 31 else x


@pytest.mark.parametrize("name", [*RELATIONS, *UNSIGNED])
@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_integers(name: str, kind: str) -> None:
    rows, inputs = pairs(WORDS, "u32")
    code = f"setp.{name}.{kind} p|q, a, b; selp.u32 d, 1, 0, p; selp.u32 e, 1, 0, q;"
    code += f"set.{name}.u32.{kind} c, a, b; set.{name}.f32.{kind} g, a, b;"
    out = evaluate(code, inputs, {"d": "u32", "e": "u32", "c": "u32", "g": "f32"})
    relation = RELATIONS[UNSIGNED.get(name, name)]
    read = signed if kind == "s32" and name not in UNSIGNED else int
    for i, (a, b) in enumerate(rows):
        holds = int(relation(read(a), read(b)))
        assert (out["d"][i], out["e"][i]) == (holds, 1 - holds)
        assert (out["c"][i], out["g"][i]) == (holds * 0xFFFFFFFF, holds)


@pytest.mark.parametrize("name", RELATIONS)
def test_floats_and_nan(name: str) -> None:
    rows, inputs = pairs(FLOATS, "f32")
    code = f"setp.{name}.f32 p, a, b; selp.u32 d, 1, 0, p;"
    code += f"setp.{name}u.ftz.f32 p, a, b; selp.u32 e, 1, 0, p;"
    code += "setp.num.f32 p, a, b; selp.u32 c, 1, 0, p; setp.nan.f32 p, a, b; selp.u32 g, 1, 0, p;"
    out = evaluate(code, inputs, dict.fromkeys("decg", "u32"))
    for i, (a, b) in enumerate(rows):
        either = math.isnan(a) or math.isnan(b)
        holds = RELATIONS[name](a, b) and not either
        assert out["d"][i] == holds
        assert out["e"][i] == (holds or either)
        assert (out["c"][i], out["g"][i]) == (not either, either)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("and", operator.and_),
        ("or", operator.or_),
        ("xor", operator.xor),
    ],
)
def test_boolean_operator_applies_to_both_results(name: str, formula: Any) -> None:
    rows = list(itertools.product([0, 1], [0, 1]))
    code = f"""
        .reg .pred c, r; setp.ne.u32 c, b, 0;
        setp.ne.{name}.u32 p|q, a, 0, c; selp.u32 d, 1, 0, p; selp.u32 e, 1, 0, q;
        setp.ne.{name}.u32 r|_, a, 0, !c; selp.u32 g, 1, 0, r;
    """
    inputs = {"a": ("u32", [a for a, _ in rows]), "b": ("u32", [b for _, b in rows])}
    out = evaluate(code, inputs, dict.fromkeys("deg", "u32"))
    for i, (a, b) in enumerate(rows):
        assert out["d"][i] == formula(a, b)
        assert out["e"][i] == formula(1 - a, b)
        assert out["g"][i] == formula(a, 1 - b)


def test_halves() -> None:
    """p compares the lower halves, q the upper ones."""
    code = "setp.lt.f16x2 p|q, a, b; selp.u32 d, 1, 0, p; selp.u32 e, 1, 0, q;"
    one, two = 0x3C00, 0x4000
    inputs = {"a": ("u32", [one | two << 16, two | one << 16]), "b": ("u32", [two | one << 16] * 2)}
    out = evaluate(code, inputs, {"d": "u32", "e": "u32"})
    assert out == {"d": [1, 0], "e": [0, 0]}


def test_slct() -> None:
    code = "slct.u32.s32 d, 7, 9, a; .reg .f32 f; mov.b32 f, a; slct.u32.f32 e, 7, 9, f;"
    patterns = [0, 5, 0x80000000, 0xC0000000, 0x7FC00000, 0xFF800000]
    out = evaluate(code, {"a": ("u32", patterns)}, {"d": "u32", "e": "u32"})
    assert out["d"] == [7, 7, 9, 9, 7, 9]
    assert out["e"] == [7, 7, 7, 9, 9, 9]  # -0 is not below 0; a nan is not above


def test_predicates() -> None:
    rows = list(itertools.product([0, 1], [0, 1]))
    code = "setp.ne.u32 p, a, 0; setp.ne.u32 q, b, 0; .reg .pred r;"
    code += "".join(
        f"{name}.pred r, p, q; selp.u32 {d}, 1, 0, r;"
        for name, d in (("and", "d"), ("or", "e"), ("xor", "g"))
    )
    code += "not.pred r, p; @r mov.u32 h, 1; @!r mov.u32 h, 0;"
    inputs = {"a": ("u32", [a for a, _ in rows]), "b": ("u32", [b for _, b in rows])}
    out = evaluate(code, inputs, dict.fromkeys("degh", "u32"))
    assert out["d"] == [a & b for a, b in rows]
    assert out["e"] == [a | b for a, b in rows]
    assert out["g"] == [a ^ b for a, b in rows]
    assert out["h"] == [1 - a for a, _ in rows]
