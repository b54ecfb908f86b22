"""A kernel equals itself with registers renamed, blocks reordered and branches inverted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.check import equivalent
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse, parse_file
from kcheck.ptx_frontend.printer import print_module
from kcheck.ptx_frontend.tree import Module
from kcheck.verdict import Verdict
from tests.corpus import CASES, TILELANG, TRITON
from tests.ptx_transform import invert_branches, rename_registers, reorder_blocks

Rewrite = Callable[[Module], Module]

# its accesses are out of bounds, so that not even it equals itself
OUTSIDE = TILELANG / "kernels/add/sm_80_float32_tail_nosafe.ptx"
KERNELS = sorted(set(TILELANG.rglob("*.ptx")) - {OUTSIDE})
RIGHT = sorted(path for path in TRITON.rglob("*.ptx") if "BAD" not in path.stem)
SMALL = [
    TILELANG / "kernels/sum/sm_80_t32.ptx",
    TILELANG / "kernels/rmsnorm/sm_80_b4_smem.ptx",
    TILELANG / "kernels/gemm/sm_80_s3.ptx",
    TILELANG / "kernels/gemm_bias_relu/sm_80_s2.ptx",
    TILELANG / "kernels/softmax/sm_80_b4.ptx",
    CASES / "03-divergent-barrier-warp-aligned/fix.ptx",
    CASES / "07-tiled-matmul-missing-trailing-sync/fix.ptx",
    CASES / "39-k-tail-stale-smem/fix.ptx",
]


def all_at_once(module: Module) -> Module:
    return reorder_blocks(invert_branches(rename_registers(module)), seed=2)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def assert_same(verdict: Verdict) -> None:
    assert (verdict.verdict, verdict.reason, verdict.findings) == ("proved", None, ())
    equal, compared = verdict.outputs
    assert equal == compared > 0


def against_itself(path: Path, rewrite: Rewrite) -> Verdict:
    """The rewritten kernel as a parsed one."""
    module = parse_file(path)
    changed = rewrite(module)
    assert print_module(changed) != print_module(module)
    return equivalent(path, lower(changed), safety=False, seed=1)


@pytest.mark.parametrize("path", KERNELS, ids=name)
def test_tilelang_kernel_equals_itself_rewritten(path: Path) -> None:
    assert_same(against_itself(path, all_at_once))


@pytest.mark.parametrize("rewrite", [rename_registers, invert_branches, reorder_blocks])
@pytest.mark.parametrize("path", SMALL, ids=name)
def test_each_rewrite_alone(path: Path, rewrite: Rewrite) -> None:
    """The rewritten kernel as text."""
    text = print_module(rewrite(parse(path.read_text())))
    launch = load_launch(path.with_suffix(".launch.yaml"))
    assert_same(
        equivalent(path.read_text(), text, launch=launch, safety=False, seed=1),
    )


def test_kernel_out_of_bounds_does_not_equal_itself() -> None:
    verdict = against_itself(OUTSIDE, all_at_once)
    assert (verdict.verdict, verdict.reason) == ("refuted", "bounds.global")
    assert {f.side for f in verdict.findings} == {"reference", "subject"}
    assert {f.locations[0].text.split()[0] for f in verdict.findings} == {
        "ld.global.nc.v4.f32",
        "st.global.v4.f32",
    }


@pytest.mark.nightly
@pytest.mark.parametrize("path", RIGHT, ids=name)
def test_triton_kernel_equals_itself_rewritten(path: Path) -> None:
    assert_same(against_itself(path, all_at_once))
