"""Launches, CUDA texts, lines and PTX of lowered programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.launch import Tensor
from kcheck.passes.tilelang import nvcc
from kcheck.passes.tilelang.lowering import lower
from kcheck.passes.tilelang.request import FLAGS, Unsupported, request
from kcheck.verdict import UsageError
from tests.passes.tilelang import kernels
from tests.passes.tilelang.support import asked


def tensors(func: Any, **options: Any) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    launch = lower(asked(func, **options), {}).launch
    return {p.name: (p.role, p.dtype, p.shape) for p in launch.params if isinstance(p, Tensor)}


def test_parameters_are_matched_by_the_name_of_their_data() -> None:
    """Device parameters come sorted by name: K, O, Q, V for attention."""
    found = tensors(kernels.flash())
    assert list(found) == ["K", "O", "Q", "V"]
    assert found["O"] == ("out", "f32", (128, 64))
    assert {found[name][:2] for name in "KQV"} == {("in", "f16")}


def test_grid_block_and_shared_memory() -> None:
    launch = lower(asked(kernels.gemm(128, 256, 64)), {}).launch
    assert launch.kernel == "gemm_kernel"
    assert (launch.grid, launch.block) == ((4, 2, 1), (128, 1, 1))
    assert launch.dynamic_shared == 2 * (64 * 32 + 32 * 64) * 2  # two stages


def test_what_atomics_add_to_is_an_input_too() -> None:
    assert tensors(kernels.split_k())["C"][0] == "inout"


def test_what_the_callee_allocates_is_never_an_input() -> None:
    assert tensors(kernels.split_k(), out_idx=[-1])["C"][0] == "out"


def test_the_users_prim_func_is_left_alone() -> None:
    """tilelang renames variables of what it lowers, and may do so in another thread."""
    func = kernels.gemm(64, 64, 64)
    before = func.script(show_meta=True)
    wanted = asked(func)
    first = lower(wanted, {})
    assert func.script(show_meta=True) == before
    assert lower(wanted, {}).source == first.source


def test_defaults_of_the_environment_are_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_LAYOUT_COST_MODEL", "io-aware")
    assert asked(kernels.add()).configs["tl.layout_cost_model"] == "io-aware"


def test_symbolic_extents_need_shapes() -> None:
    func = kernels.scale_rows()
    with pytest.raises(Unsupported, match="depends on m, which") as error:
        lower(asked(func), {})
    assert error.value.form == "dynamic-shape"
    assert 'Validate(shapes={"m": 128})' in error.value.mend
    launch = lower(asked(func, shapes={"m": 5}), {}).launch
    assert launch.grid == (5, 1, 1)
    assert launch.buffers["X"].shape == (5, 256)


def test_what_is_known_of_inputs() -> None:
    """In the words of a launch file, with its errors."""
    func = kernels.picked(4)
    launch = lower(asked(func, inputs={"L": {"range": [0, 99]}}), {}).launch
    assert (launch.buffers["L"].promise.low, launch.buffers["L"].promise.high) == (0, 99)
    launch = lower(asked(func, inputs={"L": {"values": [1, 2, 3, 4]}}), {}).launch
    assert np.array_equal(launch.buffers["L"].values, [1, 2, 3, 4])  # type: ignore[arg-type]
    for wrong, words in (
        ({"M": {"range": [0, 1]}}, "picked: inputs: `M` is no parameter; there are L, O, X"),
        ({"L": {"rang": [0, 1]}}, "inputs: L: rang: found an unknown key"),
        ({"L": {"values": [1]}}, "values: found 1 values"),
        ({"O": {"range": [0, 1]}}, "a range only for role in or inout"),
    ):
        with pytest.raises(UsageError, match=words):
            lower(asked(func, inputs=wrong), {})


def test_two_kernels_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"2 kernels \(\w+, \w+\)") as error:
        lower(asked(kernels.two_kernels()), {})
    assert "a prim_func for each T.Kernel" in error.value.mend


def test_a_target_without_an_architecture_is_refused() -> None:
    with pytest.raises(Unsupported, match="no CUDA target"):
        request(kernels.add(), "llvm")


def test_lines_of_the_program_do_not_change_the_text() -> None:
    lowered = lower(asked(kernels.add()), {})
    assert "#line" not in lowered.source
    lines = lowered.source.splitlines()
    assert len(lines) == len(lowered.lines)
    at = next(i for i, line in enumerate(lines) if "Z[" in line or "Z +" in line)
    file, line = lowered.lines[at] or ("", 0)
    assert file == kernels.__file__
    text = Path(file).read_text(encoding="utf-8").splitlines()[line - 1]
    assert "Z[bx * block + i] = X" in text


def test_compile_flags_come_from_all_places() -> None:
    func = kernels.add()
    found = request(
        func,
        {"kind": "cuda", "arch": "sm_80"},
        pass_configs={FLAGS: "-DA=1 -DB"},
        compile_flags=["-DC"],
    )
    assert found.configs[FLAGS] == ["-DA=1", "-DB", "-DC"]


def test_ptx_is_one_text_after_normalization() -> None:
    """Two calls differ in hashes of file names at least, and in line numbers if asked for."""
    wanted = asked(kernels.add())
    source = lower(wanted, {}).source
    first, second = nvcc.ptx(source, wanted), nvcc.ptx(f"\n{source}", wanted)
    assert first != second
    assert nvcc.normalized(first) == nvcc.normalized(second)
    assert ".loc" not in nvcc.normalized(first)
    other = nvcc.ptx(source.replace(" + ", " - ", 1), wanted)
    assert nvcc.normalized(first) != nvcc.normalized(other)


def test_ptx_lines_lead_to_the_cuda_text() -> None:
    wanted = asked(kernels.add())
    source = lower(wanted, {}).source
    ptx = nvcc.ptx(source, wanted)
    store = next(i for i, t in enumerate(ptx.splitlines(), 1) if "st.global" in t)
    assert "Z" in source.splitlines()[nvcc.loc_lines(ptx)[store] - 1]


def test_errors_of_nvcc_are_short() -> None:
    with pytest.raises(nvcc.CompileError, match="error") as error:
        nvcc.ptx("__global__ void f() { nothing(); }", asked(kernels.add()))
    assert "nothing" in str(error.value)
    assert len(str(error.value)) < 600
