"""Functions in NumPy's words: what their kernels compute is what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kcheck.check import equivalent, safe
from kcheck.launch import Promise, Tensor
from kcheck.running import run
from kcheck.specification.function import specified
from kcheck.specification.program import literal
from kcheck.verdict import UsageError

Shape = tuple[int, ...]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(a: Any, b: Any) -> Any:
    scores = np.where(np.tri(4, 6, 1, dtype=bool), a @ b.T / 2, -np.inf)
    return softmax(scores) @ b


def layer_norm(a: Any) -> Any:
    return (a - a.mean(1, keepdims=True)) / np.sqrt(np.var(a, axis=1, keepdims=True) + 1e-5)


# name -> function, shapes of its arguments
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Shape, ...]]] = {
    "arithmetic": (lambda a, b: (a + 2 * b - 1) / (b * b + 1), ((3, 4), (3, 4))),
    "broadcast": (lambda a, b: a[:, None] - b, ((3,), (1, 5))),
    "matmul": (lambda a, b: a @ b, ((4, 5), (5, 3))),
    "batched": (lambda a, b: np.matmul(a, b), ((2, 3, 4), (4, 5))),
    "vectors": (lambda a, b: a @ b, ((5,), (5, 3))),
    "vector on the right": (lambda a, b: np.dot(a, b), ((4, 5), (5,))),
    "product of expressions": (lambda a, b: (a + 1) @ np.exp(b), ((2, 3), (3, 2))),
    "softmax": (softmax, ((3, 7),)),
    "attention": (attention, ((4, 8), (6, 8))),
    "layernorm": (layer_norm, ((3, 8),)),
    "einsum": (lambda a, b: np.einsum("bij,kj->bki", a, b), ((2, 3, 4), (5, 4))),
    "sum of all": (lambda a: np.sum(a) * np.ones(1), ((3, 4, 2),)),
    "sum over two axes": (lambda a: a.sum((0, 2)), ((3, 4, 2),)),
    "min and max": (lambda a: np.min(a, 1) + np.max(a, axis=1), ((4, 5),)),
    "reshape": (lambda a: (a + a).reshape(2, 6).T.reshape(-1), ((3, 4),)),
    "reverse and step": (lambda a: a[::-1, 1::2] * a[:, :2], ((3, 4),)),
    "permuted": (lambda a: a[np.array([2, 0, 1])], ((3, 4),)),
    "padded": (lambda a: np.pad(a, ((1, 0), (0, 2)), constant_values=3.0), ((2, 3),)),
    "triangles": (lambda a: np.tril(a) - np.triu(a, 1), ((4, 4),)),
    "where": (lambda a, b: np.where((a > b) & ~(b < 0), a, np.minimum(b, 0.5)), ((9,), (9,))),
    "flags as numbers": (lambda a, b: (a >= b).sum() + 0 * a, ((9,), (9,))),
    "powers": (lambda a: a**3 + (a * a + 1) ** -0.5 + a**0, ((7,),)),
    "functions": (
        lambda a: np.tanh(a) + np.log(a * a + 1) + np.exp2(a) * np.abs(a) + np.square(a),
        ((7,),),
    ),
    "clip": (lambda a: np.clip(a, -0.5, None), ((7,),)),
    "tiled and repeated": (lambda a: np.tile(a, (2, 1)) * np.repeat(a, 2, axis=0), ((3, 4),)),
    "rolled and flipped": (lambda a: np.roll(a, 1, axis=1) + np.flip(a, 0), ((3, 4),)),
    "joined": (lambda a, b: np.concatenate([a, b[:, 1:], a], axis=1), ((3, 4), (3, 2))),
    "stacked": (lambda a, b: np.stack([a, b * b], -1).reshape(3, -1), ((3, 4), (3, 4))),
    "running sums": (lambda a: np.cumsum(a, axis=0)[:, :2].sum() + np.cumsum(a), ((3, 4),)),
    "roundings": (
        lambda a: np.floor(4 * a) + 8 * np.ceil(4 * a) + 64 * np.rint(4 * a) + np.trunc(a),
        ((19,),),
    ),
    "division of integers": (lambda a: np.rint(8 * a) // 3 + np.rint(8 * a) % 5, ((19,),)),
    "conversions": (
        lambda a: (a * 300).astype(np.int64).astype(np.uint8) - (a * 64).astype(np.int32) * 3.0,
        ((19,),),
    ),
    "sine and cosine": (lambda a: np.sin(a) * np.cos(a), ((5,),)),
    "known array": (lambda a: a * np.arange(12.0).reshape(3, 4) + np.arange(4), ((3, 4),)),
    "an input itself": (lambda a, b: b, ((2,), (3,))),
    "more than one block": (lambda a: a * 2, ((1500,),)),
}


def tensors(function: Callable[..., Any], shapes: tuple[Shape, ...]) -> list[Tensor]:
    found = [Tensor("ab"[i], "f32", shape, "in") for i, shape in enumerate(shapes)]
    out = function(*(np.ones(shape) for shape in shapes))
    return [*found, Tensor("y", "f32", np.shape(out), "out")]


@pytest.mark.parametrize(("function", "shapes"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_numpy_has_it(function: Callable[..., Any], shapes: tuple[Shape, ...]) -> None:
    ptx, launch = specified(function, tensors(function, shapes))
    rng = np.random.default_rng(1)
    given = [rng.integers(-128, 128, shape) / 64 for shape in shapes]
    used = {p.name for p in launch.params}
    inputs = {name: value for name, value in zip("ab", given, strict=False) if name in used}
    result = run(ptx, launch=launch, inputs=inputs)
    assert not result.findings
    np.testing.assert_allclose(result.outputs["y"], function(*given), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["softmax", "attention", "padded", "sum over two axes"])
def test_the_kernels_are_safe(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    ptx, launch = specified(function, tensors(function, shapes))
    assert safe(ptx, launch=launch).verdict == "proved"


def test_two_ways_to_say_it_are_proved_equal_and_a_slip_is_not() -> None:
    shapes: tuple[Shape, ...] = ((4, 6),)

    def other(a: Any) -> Any:
        e = np.exp2((a - a.min(axis=1, keepdims=True)) * 1.4426950408889634)
        return e / np.einsum("ij->i", e)[:, None]

    one, launch = specified(softmax, tensors(softmax, shapes))
    two, second = specified(other, tensors(softmax, shapes))
    verdict = equivalent(one, two, launch=launch, subject_launch=second)
    assert (verdict.verdict, verdict.method) == ("proved", "exact")
    slip, third = specified(lambda a: softmax(a.T).T, tensors(softmax, shapes))
    verdict = equivalent(one, slip, launch=launch, subject_launch=third)
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.mismatch")


def test_strides_and_an_output_that_is_an_input() -> None:
    a = Tensor("a", "f16", (3, 4), "in", strides=(8, 1))
    c = Tensor("c", "f32", (4, 3), "inout")
    ptx, launch = specified(lambda a, c: c[::-1] + a.T, [a, c])
    first = np.arange(20.0)
    before = np.arange(12.0).reshape(4, 3) / 8
    found = run(ptx, launch=launch, inputs={"a": first, "c": before}).outputs["c"]
    rows = np.stack([first[0:4], first[8:12], first[16:20]])
    np.testing.assert_allclose(found, before[::-1] + rows.T)
    assert safe(ptx, launch=launch).verdict == "proved"


def test_arguments_by_name_or_in_order_and_several_outputs() -> None:
    every = [Tensor("B", "f32", (2,), "in"), Tensor("A", "f32", (2,), "in")]
    every += [Tensor(name, "f32", (2,), "out") for name in ("S", "D")]
    inputs = {"A": np.array([5.0, 6.0]), "B": np.array([1.0, 2.0])}
    for function in (
        lambda A, B: (A + B, A - B),  # noqa: N803
        lambda y, x: {"D": x - y, "S": x + y},
    ):
        ptx, launch = specified(function, every)
        outputs = run(ptx, launch=launch, inputs=inputs).outputs
        assert outputs["S"].tolist() == [6, 8]
        assert outputs["D"].tolist() == [4, 4]


def branches(a: Any) -> Any:
    return a if a[0] > 0 else -a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: np.sinh(a), "np.sinh is not known"),
        (lambda a: np.cumprod(a), "np.cumprod is not known"),
        (lambda a: a.astype(np.complex128), "is not known"),
        (lambda a: np.round(a, 2), "to decimals is not known"),
        (lambda a: (a + 1)[a.astype(int)], "an unknown index into what is no input"),
        (lambda a: a[None][a, a], "two arrays that are unknown"),
        (lambda a: a[a], "an unknown index of type float32"),
        (lambda a: a[a > 0], "an unknown index of type bool"),
        (lambda a: a << 1, "TypeError"),
        (lambda a: (a > 0) - (a > 1), "TypeError"),
        (lambda a: a.sum(1), "AxisError"),
        (lambda a: a.sum(-2), "AxisError"),
        (lambda a: a.sum((0, 0)), "ValueError"),
        (lambda a: a.mean(dtype=int), "mean and var of type int"),
        (lambda a: np.concatenate([a, a], dtype=int), "np.concatenate with dtype"),
        (lambda a: np.roll(a, a), "to an unknown place"),
        (lambda a: 1 // 0 * a, "ZeroDivisionError"),
        (lambda a: "text", "no array of numbers"),
        (lambda a: a.astype(np.int8) + 300, "OverflowError"),
        (branches, "value of an unknown element"),
        (lambda a: a * float(a[0]), "value of an unknown element"),
        (lambda a: np.asarray(a), "value of an unknown element"),
        (lambda a: a**a, "numbers as exponents"),
        (lambda a: a + 16777217, "no place in 32 bits"),
        (lambda a: a * 1e300, "no place in 32 bits"),
        (lambda a: a + np.nan, "no place in 32 bits"),
        (lambda a: a.sum(out=a), "out= is not known"),
        (lambda a: a[:2], r"`y` has shape \[4\], and the function gives \[2\]"),
        (lambda a: (a, a), "expected one array for each of y"),
        (lambda a, b: a, "takes a, b; the kernel's inputs are a"),
        (lambda a: a[7], "IndexError"),
        (lambda a: a.nothing, "AttributeError"),
    ],
)
def test_what_is_not_known_is_refused(function: Callable[..., Any], message: str) -> None:
    every = [Tensor("a", "f32", (4,), "in"), Tensor("y", "f32", (4,), "out")]
    with pytest.raises(UsageError, match=message):
        specified(function, every)


@pytest.mark.parametrize("value", [0.0, -0.5, 1e-5, 16777216.0, float("inf"), 0.1, -1e30])
def test_literals(value: float) -> None:
    assert literal(value).startswith("0f")
    assert len(literal(value)) == 10


KINDS = {"f32": "f8", "s8": "i1", "u8": "u1", "s16": "i2", "u16": "u2", "s32": "i4", "u32": "u4"}


def of_types(
    function: Callable[..., Any], types: tuple[str, ...], out: str, given: list[Any]
) -> Any:
    """What the kernel of a function makes of arrays of these types."""
    pairs = list(zip("abc", types, given, strict=False))
    every = [Tensor(name, t, x.shape, "in") for name, t, x in pairs]
    shape = np.shape(function(*given))
    ptx, launch = specified(function, [*every, Tensor("y", out, shape, "out")])
    used = {p.name for p in launch.params}
    inputs = {name: x for name, _, x in pairs if name in used}
    result = run(ptx, launch=launch, inputs=inputs)
    assert not result.findings
    return result.outputs["y"]


def integers(dtype: str, rng: Any) -> Any:
    """32 of a type, its ends among them; of those of 32 bits such as f32 holds."""
    info = np.iinfo(KINDS[dtype])
    a = rng.integers(info.min, info.max, 32, endpoint=True)
    a[:3] = info.min, info.max, 0
    return (a % 2**20 if dtype[1:] == "32" else a).astype(KINDS[dtype])


# functions of two arrays of integers of one type, with NumPy's types
OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "bits": lambda a, b: ((a >> 3) & 15) + (a ^ 6) * 2 + (a | 64) - ~b,
    "wrapped": lambda a, b: a + b * a - 3 * b,
    "shifted": lambda a, b: (a << 4) >> 2,
    "inverted": lambda a, b: np.where(~a > b, ~a, b),
    "negative": lambda a, b: np.abs(-a) * 1.0,
    "divided": lambda a, b: a // (b | 1) + a % (b | 1),
    "averaged": lambda a, b: a.mean() + (a + b) / 2,
    "summed": lambda a, b: a.sum() + np.cumsum(b) + b.sum(dtype=np.int16),
    "product of matrices": lambda a, b: a.reshape(4, 8) @ b.reshape(8, 4),
    "einsum": lambda a, b: np.einsum("i,i,j->j", a & 3, b & 1, b),
    "conversions": lambda a, b: a.astype(np.uint8).astype(np.int8) * 1.0 + b.astype(bool),
    "powers": lambda a, b: a**2 - b**3,
    "of two types": lambda a, b: a.astype(np.int16) + b.astype(np.uint8),
    "flags": lambda a, b: ~((a > b) | (a > 5)).reshape(4, 8) * 3 + ((a > 1) + (b > 1)).sum(),
    "flags by where": lambda a, b: np.where(~np.where(a > 0, b > 0, a < 0), a, b),
    "flags by max": lambda a, b: np.where(~(a > 0).max(keepdims=True), a, b),
    "flags joined": lambda a, b: ~np.concatenate([a > b, b > a]) + 0,
    "product of flags": lambda a, b: (a > 0).reshape(4, 8) @ (b > 0).reshape(8, 4),
    "moved": lambda a, b: np.tril(a.reshape(8, 4)) + np.pad(b[:28].reshape(7, 4), ((0, 1), (0, 0))),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u16", "s32", "u32"])
def test_integers(dtype: str, name: str) -> None:
    """As NumPy has it, with its types, which wrap."""
    rng = np.random.default_rng(3)
    a, b = integers(dtype, rng), integers(dtype, rng)
    long = name in ("wrapped", "powers", "product of matrices")
    if dtype[1:] == "32" or (dtype[1:] == "16" and long):
        a, b = a % 100, b % 100  # f32 holds the constants
        if dtype == "u32" and name in ("bits", "wrapped", "inverted", "negative", "powers"):
            return  # but these
    function = OF_INTEGERS[name]
    with np.errstate(all="ignore"):
        found, wanted = of_types(function, (dtype, dtype), "f32", [a, b]), function(a, b)
    np.testing.assert_array_equal(found, wanted)


def test_outputs_of_integers_wrap() -> None:
    a = integers("s16", np.random.default_rng(4))
    found = of_types(lambda a: a.astype(np.int32) * 3, ("s16",), "u8", [a])
    np.testing.assert_array_equal(found, (a.astype(np.int32) * 3).astype(np.uint8))


def test_an_unknown_index() -> None:
    """On any axis, among slices, with other arrays; what it picks out is what NumPy picks out."""
    table = np.arange(60.0).reshape(3, 4, 5)
    rng = np.random.default_rng(5)
    index = rng.integers(-3, 3, (2, 3), dtype=np.int32)
    rows = np.arange(3)
    for function in (
        lambda a, b: a[b] + 0.0,
        lambda a, b: a[:, b],
        lambda a, b: a[..., b] * 2,
        lambda a, b: a[rows, b],
        lambda a, b: a[1, ::-1].T[b, 1:],
        lambda a, b: a.transpose(2, 0, 1)[1][b, rows],
        lambda a, b: np.cumsum(a[b], axis=0),
    ):
        found = of_types(function, ("f32", "s32"), "f32", [table, index])
        np.testing.assert_array_equal(found, function(table, index))


@pytest.mark.parametrize(
    ("low", "high", "verdict", "reason"),
    [
        (0, 3, "proved", None),
        (-1, 4, "undecided", "unsupported.symbolic-address"),
        (0, 4, "undecided", "unsupported.symbolic-address"),
    ],
)
def test_an_unknown_index_stays_on_its_axis(
    low: int, high: int, verdict: str, reason: str | None
) -> None:
    """Beyond it lie other rows, which NumPy would not take."""
    index = Tensor("b", "s32", (5,), "in", promise=Promise(low, high))
    every = [Tensor("a", "f32", (9, 4), "in"), index, Tensor("y", "f32", (5,), "out")]
    ptx, launch = specified(lambda a, b: a[4, b], every)
    found = equivalent(ptx, ptx, launch=launch)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_an_index_that_is_known_is_numpys() -> None:
    known = Tensor("b", "s32", (3,), "in", values=np.array([0, -1, 2], np.int32))
    every = [Tensor("a", "f32", (9, 4), "in"), known, Tensor("y", "f32", (3,), "out")]
    ptx, launch = specified(lambda a, b: a[4, b], every)
    table = np.arange(36.0)
    assert run(ptx, launch=launch, inputs={"a": table}).outputs["y"].tolist() == [16, 19, 18]
    every[1] = replace(known, values=np.array([0, 4, 2], np.int32))
    with pytest.raises(UsageError, match=r"IndexError: index 4 is out of bounds"):
        specified(lambda a, b: a[4, b], every)


INDEX = Tensor("b", "s32", (4,), "in", promise=Promise(0, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a[np.array([0, 1, 4, 7])][b],
        lambda a, b: a[np.array([0, 2, 1, 3])][b],
        lambda a, b: np.repeat(a, 2)[b],
        lambda a, b: np.roll(a, 1)[b],
    ],
)
def test_an_unknown_index_needs_even_steps(function: Callable[..., Any]) -> None:
    every = [Tensor("a", "f32", (8,), "in"), INDEX, Tensor("y", "f32", (4,), "out")]
    with pytest.raises(UsageError, match="not evenly spaced"):
        specified(function, every)


def test_nothing_to_reduce() -> None:
    every = [Tensor("a", "f32", (3,), "in"), Tensor("y", "f32", (3,), "out")]
    ptx, launch = specified(lambda a: a[:0].sum() + a, every)
    found = run(ptx, launch=launch, inputs={"a": np.arange(3.0)})
    assert found.outputs["y"].tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="the max of no elements"):
        specified(lambda a: a + a[:0].max(), every)


def test_parameters_with_defaults_are_no_inputs() -> None:
    every = [Tensor(name, "f32", (3,), "in") for name in "pq"] + [Tensor("y", "f32", (3,), "out")]
    given = {"p": np.arange(3.0), "q": np.ones(3)}
    for function in (np.add, lambda a, b, eps=1.0: a + b * eps, lambda a, b, *more: a + b):
        ptx, launch = specified(function, every)
        assert run(ptx, launch=launch, inputs=given).outputs["y"].tolist() == [1, 2, 3]
