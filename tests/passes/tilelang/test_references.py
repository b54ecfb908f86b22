"""Kernels against a specification: a function of arrays, another program, a PTX file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.passes.tilelang import references
from kcheck.passes.tilelang.ladder import Ladder
from kcheck.passes.tilelang.validate import side
from kcheck.passes.validation import Validate
from kcheck.verdict import UsageError
from tests.passes.tilelang import kernels
from tests.passes.tilelang.breaking import added_pass
from tests.passes.tilelang.support import COMPILE, asked, outcome_of


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(Q: Any, K: Any, V: Any) -> Any:  # noqa: N803
    return softmax(Q @ K.T / 8) @ V


def causal(Q: Any, K: Any, V: Any) -> Any:  # noqa: N803
    mask = np.tri(Q.shape[0], dtype=bool)
    return softmax(np.where(mask, Q @ K.T / 8, -np.inf)) @ V


def rms_norm(X: Any, W: Any) -> Any:  # noqa: N803
    return X / np.sqrt((X**2).mean(axis=-1, keepdims=True) + 1e-5) * W


def layer_norm(X: Any, W: Any, B: Any) -> Any:  # noqa: N803
    centred = X - X.mean(axis=1, keepdims=True)
    return centred / np.sqrt(X.var(axis=1, keepdims=True) + 1e-5) * W + B


def convolution(data: Any, weights: Any) -> Any:
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [(y, x) for y in range(3) for x in range(3)]
    return sum(
        padded[:, y : y + 8, x : x + 8].reshape(64, 32) @ weights[32 * i : 32 * i + 32]
        for i, (y, x) in enumerate(taps)
    )


def dequantized(A: Any, B: Any, S: Any) -> Any:  # noqa: N803
    weights = np.stack([B & 15, B >> 4], axis=-1).reshape(32, 64)
    return A @ (weights * S[:, None]).T


# program, what it is for
PROVED: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "elementwise": (kernels.add, lambda X, Y: X + Y),  # noqa: N803
    "row sum": (kernels.row_sum, lambda X: X.sum(axis=1)),  # noqa: N803
    "softmax": (lambda: kernels.softmax(4), softmax),
    "rmsnorm": (lambda: kernels.rms_norm(2), rms_norm),
    "gemm, bias and relu": (
        lambda: kernels.gemm(64, 64, 64, bias_relu=True),
        lambda A, B, bias: np.maximum(A @ B + bias, 0),  # noqa: N803
    ),
    "gemm, A transposed": (
        lambda: kernels.gemm(64, 64, 64, trans_a=True),
        lambda a, b: np.einsum("ki,kj->ij", a, b),
    ),
    "int8 gemm": (
        kernels.int8_gemm,
        lambda A, B: A.astype(np.int32) @ B.T.astype(np.int32),  # noqa: N803
    ),
    "gemm with 4-bit weights": (kernels.dequantized_gemm, dequantized),
    "split-K": (kernels.split_k, lambda A, B, C: C + A @ B),  # noqa: N803
}
SLOW: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "layernorm": (lambda: kernels.layer_norm(2), layer_norm),
    "conv2d": (kernels.conv2d, convolution),
    "attention": (kernels.flash, attention),
    "causal attention": (lambda: kernels.flash(causal=True), causal),
}


def proved(program: Any, function: Callable[..., Any], tmp_path: Path) -> None:
    outcome = outcome_of(program, tmp_path, {"reference": function})
    verdict = outcome.verdict
    assert (verdict.verdict, verdict.method) == ("proved", "exact"), outcome.report()
    equal, compared = verdict.outputs
    assert equal == compared > 0


@pytest.mark.parametrize(("program", "function"), PROVED.values(), ids=PROVED)
def test_proved_against_a_function(
    program: Callable[[], Any], function: Callable[..., Any], tmp_path: Path
) -> None:
    proved(program(), function, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(("program", "function"), SLOW.values(), ids=SLOW)
def test_slowly_proved_against_a_function(
    program: Callable[[], Any], function: Callable[..., Any], tmp_path: Path
) -> None:
    proved(program(), function, tmp_path)


def test_a_program_that_is_no_such_function(tmp_path: Path) -> None:
    """Optimizations are not to blame: the lowest rung differs already."""
    outcome = outcome_of(
        kernels.row_sum(),
        tmp_path,
        {"reference": lambda X: X.sum(axis=1) - X[:, 7]},  # noqa: N803
    )
    assert (outcome.verdict.verdict, outcome.verdict.reason) == ("refuted", "value.mismatch")
    assert outcome.rung == "none"
    assert ": Y[" in outcome.headline
    assert "kernels.py" in outcome.report()


def test_nibbles_in_the_wrong_order(tmp_path: Path) -> None:
    def swapped(A: Any, B: Any, S: Any) -> Any:  # noqa: N803
        return dequantized(A, B << 4 & 240 | B >> 4, S)

    outcome = outcome_of(kernels.dequantized_gemm(), tmp_path, {"reference": swapped})
    assert (outcome.verdict.verdict, outcome.verdict.reason) == ("refuted", "value.mismatch")
    assert outcome.rung == "none"


def test_a_product_of_bytes_that_wraps(tmp_path: Path) -> None:
    """NumPy's product of int8 arrays is of int8; the kernel's is not."""
    options = {"reference": lambda A, B: A @ B.T}  # noqa: N803
    outcome = outcome_of(kernels.int8_gemm(), tmp_path, options)
    assert (outcome.verdict.verdict, outcome.verdict.reason) == ("refuted", "value.mismatch")


def test_an_index_that_is_an_input(tmp_path: Path) -> None:
    def picked(X: Any, L: Any) -> Any:  # noqa: N803
        return X[np.arange(64), L]

    known = {"L": {"range": [0, 99]}}
    outcome = outcome_of(kernels.picked(), tmp_path, {"reference": picked}, inputs=known)
    assert (outcome.verdict.verdict, outcome.verdict.method) == ("proved", "exact")
    known = {"L": {"range": [-1, 100]}}
    outcome = outcome_of(kernels.picked(), tmp_path, {"reference": picked}, inputs=known)
    assert outcome.verdict.reason == "unsupported.symbolic-address"


def test_an_optimization_that_breaks_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with added_pass(monkeypatch, "wrong_sign"):
        outcome = outcome_of(kernels.add(), tmp_path, {"reference": lambda X, Y: X + Y})  # noqa: N803
    assert outcome.verdict.reason == "value.mismatch"
    assert outcome.rung == "test.wrong_sign"


def test_another_program_with_other_names(tmp_path: Path) -> None:
    """Buffers are matched in the order of the parameters."""
    outcome = outcome_of(kernels.add(), tmp_path, {"reference": kernels.sum_of_two()})
    assert (outcome.verdict.verdict, outcome.verdict.method) == ("proved", "exact")
    with pytest.raises(UsageError, match="the reference `row_sum` has 2 buffers, `add` has 3"):
        outcome_of(kernels.add(), tmp_path, {"reference": kernels.row_sum()})


def test_a_ptx_file(tmp_path: Path) -> None:
    first = Ladder(asked(kernels.add())).first
    side("reference", first).write(tmp_path)
    options = {"reference": str(tmp_path / "reference.ptx")}
    outcome = outcome_of(kernels.add(), tmp_path, options)
    assert outcome.verdict.verdict == "proved"
    with pytest.raises(UsageError, match="missing"):
        outcome_of(kernels.add(), tmp_path, {"reference": tmp_path / "missing.ptx"})
    with pytest.raises(UsageError, match="expected a prim_func, a path or a function"):
        outcome_of(kernels.add(), tmp_path, {"reference": 7})


def test_the_function_is_part_of_what_is_remembered(enabled: Any, fresh_cache: Path) -> None:
    func = kernels.add(1012)
    one = Validate(reference=lambda X, Y: X + Y, on_undecided="error")  # noqa: N803
    other = Validate(reference=lambda X, Y: Y - X)  # noqa: N803
    wrong = Validate(reference=lambda X, Y: X - Y, report=fresh_cache)  # noqa: N803
    keys = [references.key(o.reference, asked(func)) for o in (one, other, wrong)]
    assert None not in keys
    assert len(set(keys)) == 3
    assert enabled.compile(func, **COMPILE, validate=one) is not None
    with pytest.raises(Exception, match=r"value\.mismatch"):
        enabled.compile(func, **COMPILE, validate=wrong)
