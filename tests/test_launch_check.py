"""A launch against its kernel, and two launches against one another."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kcheck.launch import Launch, LaunchError, Param, Scalar, Tensor, TensorMap
from kcheck.launch_check import check_launch, match_buffers, match_ledger
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.source import Source, Span
from kcheck.ptx_frontend.tree import Module, Variable
from kcheck.verdict import UsageError

SPAN = Span(Source("k.ptx", ""), 0, 0)
A = Tensor("A", "f16", (4, 4), "in")
C = Tensor("C", "f32", (4,), "out")


def parameter(type_name: str, shape: tuple[int, ...] = ()) -> Variable:
    return Variable("param", type_name, "p", shape, None, None, (), SPAN)


def kernel(*params: Variable, **tuning: tuple[int, ...]) -> Kernel:
    module = Module("8.0", ("sm_80",), 64, (), SPAN)
    return Kernel("k", module, params, {}, {}, (), (), tuning)


def launch(*params: Param, **changes: object) -> Launch:
    base = Launch("k", (4, 1, 1), (64, 2, 1), params, path="k.launch.yaml")
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def refusal(what: Launch, of: Kernel) -> str:
    with pytest.raises(LaunchError) as caught:
        check_launch(what, of)
    message = str(caught.value)
    assert message.startswith("k.launch.yaml: ")
    assert "\n" not in message
    return message


def test_fitting() -> None:
    tensormap = TensorMap("T", {}, Tensor("B", "f16", (4,), "in"))
    fitting = launch(A, Scalar("n", "s32", 1), Scalar("x", "f16", None), tensormap)
    params = (parameter("u64"), parameter("u32"), parameter("b16"), parameter("b8", (128,)))
    check_launch(fitting, kernel(*params))


def test_another_kernel() -> None:
    assert "kernel: found `other`; expected the PTX's entry, `k`" in refusal(
        launch(kernel="other"), kernel()
    )


def test_parameter_count() -> None:
    assert "params: found 1 parameters; expected 2" in refusal(
        launch(A), kernel(parameter("u64"), parameter("u64"))
    )


@pytest.mark.parametrize(
    ("param", "variable", "message"),
    [
        (A, parameter("u32"), "params[0] (`A`): found a buffer (64-bit pointer); expected what"),
        (A, parameter("b8", (128,)), "expected what fits .param .b8 p[128]"),
        (A, parameter("b8", (8,)), "expected what fits .param .b8 p[8]"),
        (Scalar("n", "s64", 1), parameter("u32"), "found a scalar s64 (64 bits)"),
        (Scalar("n", "s32", 1), parameter("u64"), "found a scalar s32 (32 bits)"),
        (TensorMap("T", {}, A), parameter("u64"), "found a tensormap (128-byte array)"),
    ],
)
def test_parameter_width(param: Param, variable: Variable, message: str) -> None:
    assert message in refusal(launch(param), kernel(variable))


def test_block() -> None:
    # .maxntid bounds the product only; .reqntid every dimension
    check_launch(launch(), kernel(maxntid=(128,)))
    check_launch(launch(), kernel(maxntid=(32, 4, 1)))
    assert "block: found [64, 2, 1], 128 threads; expected at most 127" in refusal(
        launch(), kernel(maxntid=(127, 1, 1))
    )
    check_launch(launch(), kernel(reqntid=(64, 2)))
    assert "block: found [64, 2, 1]; expected [128, 1, 1] (.reqntid)" in refusal(
        launch(), kernel(reqntid=(128,))
    )


def test_cluster() -> None:
    check_launch(launch(cluster=(2, 1, 1)), kernel(reqnctapercluster=(2,), maxclusterrank=(2,)))
    assert "cluster: found [1, 1, 1]; expected [2, 1, 1]" in refusal(
        launch(), kernel(reqnctapercluster=(2, 1, 1))
    )
    assert "cluster: found [4, 1, 1]; expected at most 2 CTAs" in refusal(
        launch(cluster=(4, 1, 1)), kernel(maxclusterrank=(2,))
    )


def mismatch(reference: Launch, subject: Launch, **mapping: str) -> str:
    with pytest.raises(UsageError) as caught:
        match_buffers(reference, subject, mapping)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_match_by_name() -> None:
    pairs = match_buffers(launch(A, C), launch(C, A))
    assert [(a.name, b.name) for a, b in pairs] == [("A", "A"), ("C", "C")]
    assert match_ledger(launch(A, C), launch(C, A), pairs) == []


def test_match_by_map() -> None:
    x = dataclasses.replace(A, name="x")
    pairs = match_buffers(launch(A, C), launch(x, C), {"A": "x"})
    assert [(a.name, b.name) for a, b in pairs] == [("A", "x"), ("C", "C")]
    assert match_ledger(launch(A, C), launch(x, C), pairs) == ["`A` is the subject's `x` (--map)"]


def test_map_swaps() -> None:
    b = dataclasses.replace(A, name="B")
    pairs = match_buffers(launch(A, b), launch(A, b), {"A": "B", "B": "A"})
    assert [(a.name, b.name) for a, b in pairs] == [("A", "B"), ("B", "A")]


def test_a_mapped_name_is_taken() -> None:
    b = dataclasses.replace(A, name="B")
    pairs = match_buffers(launch(A, b), launch(A, b), {"A": "B"})
    assert [(a.name, b.name) for a, b in pairs] == [("A", "B")]


def test_bad_maps() -> None:
    assert "the reference has no parameter `Q`; it has A" in mismatch(launch(A), launch(A), Q="A")
    assert "the subject has no parameter `Q`; it has A" in mismatch(launch(A), launch(A), A="Q")
    assert "two reference names" in mismatch(launch(A, C), launch(A, C), A="A", C="A")


def test_tensormap_matches_pointer() -> None:
    tensormap = TensorMap("A_desc", {}, A)
    assert match_buffers(launch(A), launch(tensormap)) == [(A, A)]


def test_input_on_one_side() -> None:
    pairs = match_buffers(launch(A, C), launch(C))
    assert match_ledger(launch(A, C), launch(C), pairs) == ["in `A` only in the reference"]


@pytest.mark.parametrize("role", ["out", "inout"])
def test_output_on_one_side(role: str) -> None:
    d = Tensor("D", "f32", (4,), role)
    assert "only the subject has an output `D`" in mismatch(launch(C), launch(C, d))
    quiet = launch(C, dataclasses.replace(d, compare=False))
    pairs = match_buffers(launch(C), quiet)
    assert match_ledger(launch(C), quiet, pairs) == [f"{role} `D` only in the subject"]


def test_empty_buffers_are_absent() -> None:
    scratch = Tensor("scratch", "u8", (0,), "inout")
    larger = dataclasses.replace(scratch, shape=(8,), compare=False)
    assert match_buffers(launch(scratch), launch(larger)) == []
    assert match_ledger(launch(scratch), launch(scratch), []) == []


def test_float_formats_may_differ() -> None:
    wide = dataclasses.replace(A, dtype="f32")
    pairs = match_buffers(launch(A), launch(wide))
    assert match_ledger(launch(A), launch(wide), pairs) == [
        "`A` is f16 in the reference, f32 in the subject"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (16,)}, "`A`: shape [4, 4] in the reference, [16] in the subject"),
        ({"role": "inout"}, "`A`: role in in the reference, inout in the subject"),
        ({"dtype": "s16"}, "`A`: dtype f16 in the reference, s16 in the subject"),
        ({"strides": (1, 4)}, "`A`: strides None in the reference, (1, 4) in the subject"),
        ({"values": np.zeros(16)}, "`A`: values: must be the same on both sides"),
    ],
)
def test_properties_must_agree(change: dict[str, object], message: str) -> None:
    other = dataclasses.replace(A, **change)  # type: ignore[arg-type]
    assert message in mismatch(launch(A), launch(other))


def test_equal_values() -> None:
    a, b = (dataclasses.replace(A, values=np.arange(16)) for _ in range(2))
    assert len(match_buffers(launch(a), launch(b))) == 1
    c = dataclasses.replace(A, values=np.zeros(16))
    assert "values: must be the same" in mismatch(launch(a), launch(c))


def test_compare_false() -> None:
    quiet = dataclasses.replace(C, compare=False)
    pairs = match_buffers(launch(C), launch(quiet))
    assert match_ledger(launch(C), launch(quiet), pairs) == ["`C` not compared (compare: false)"]


def test_scalars() -> None:
    n = Scalar("n", "s32", 4)
    assert match_buffers(launch(n), launch()) == []
    other = launch(Scalar("n", "s32", 5))  # a launch is free to differ: a ledger entry
    assert match_buffers(launch(n), other) == []
    assert match_ledger(launch(n), other, []) == ["`n` is 4, in the subject 5"]
    assert "value 4 in the reference, symbolic in the subject" in mismatch(
        launch(n), launch(Scalar("n", "s32", None))
    )
    assert "`n`: dtype s32 in the reference, s64 in the subject" in mismatch(
        launch(n), launch(Scalar("n", "s64", 4))
    )
    assert "`n` = `m`: dtype s32 in the reference, s64" in mismatch(
        launch(n), launch(Scalar("m", "s64", 4)), n="m"
    )
