"""The skeleton of a launch file: what is guessed, what is left to fill in."""

from __future__ import annotations

import pytest

from kcheck.launch import LaunchError
from kcheck.launch_check import check_launch
from kcheck.launch_file import parse_launch
from kcheck.launch_init import launch_skeleton
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse


def kernel(params: str, body: str = "", head: str = "", tuning: str = "") -> Kernel:
    text = f"""
.version 8.0
.target sm_80
.address_size 64
{head}
.visible .entry k({params})
{tuning}
{{
	.reg .pred %p<4>;
	.reg .b16 %h<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .f32 %f<9>;
	.reg .f64 %fd<9>;
{body}
	ret;
}}
"""
    return lower(parse(text))


def line_of(name: str, skeleton: str) -> str:
    (line,) = [line for line in skeleton.splitlines() if f"{{name: {name}," in line]
    return line


def one_pointer(body: str) -> str:
    load = "\tld.param.u64 %rd1, [k_0];\n"
    return line_of("p0", launch_skeleton(kernel(".param .u64 k_0", load + body)))


@pytest.mark.parametrize(
    ("body", "dtype", "role", "sure"),
    [
        ("ld.global.f32 %f1, [%rd1];", "f32", "in", True),
        ("ld.global.nc.v2.f64 {%fd1, %fd2}, [%rd1];", "f64", "in", True),
        ("st.global.f32 [%rd1+4], %f1;", "f32", "out", True),
        ("ld.global.s32 %r1, [%rd1]; st.global.s32 [%rd1], %r1;", "s32", "inout", True),
        ("red.global.add.f32 [%rd1], %f1;", "f32", "inout", True),
        ("atom.global.add.f32 %f1, [%rd1], %f2;", "f32", "inout", True),
        ("ld.f32 %f1, [%rd1];", "f32", "in", True),
        ("ld.global.u16 %h1, [%rd1]; cvt.f32.f16 %f1, %h1;", "f16", "in", False),
        ("ld.global.b32 %r1, [%rd1]; fma.rn.bf16x2 %r2, %r1, %r1, %r1;", "bf16", "in", False),
        ("ld.global.u32 %r1, [%rd1]; add.f32 %f1, %f1, %f1;", "f32", "in", False),
        ("ld.global.u32 %r1, [%rd1];", "s32", "in", False),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16; add.f16 %h1, %h1, %h1;", "f16", "in", False),
    ],
)
def test_dtype_and_role(body: str, dtype: str, role: str, sure: bool) -> None:
    line = one_pointer(body)
    assert line.startswith(f"- {{name: p0, dtype: {dtype}, shape: [FILL], role: {role}}}")
    assert ("CHANGE" in line) is not sure


@pytest.mark.parametrize(
    "way",
    [
        "cvta.to.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, %rd5;",
        "mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd2, %rd1;",
        "mad.wide.s32 %rd3, %r1, 4, %rd1;",
        "mov.u64 %rd4, %rd1; selp.b64 %rd3, %rd4, %rd5, %p1;",
    ],
)
def test_pointers_are_followed(way: str) -> None:
    assert "dtype: f32, shape: [FILL], role: out}" in one_pointer(
        f"{way} st.global.f32 [%rd3], %f1;"
    )


def test_scaled_offsets_are_no_pointers() -> None:
    body = """
	ld.param.u64 %rd1, [k_0];
	ld.param.u64 %rd2, [k_1];
	shl.b64 %rd3, %rd2, 2;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
"""
    text = launch_skeleton(kernel(".param .u64 k_0, .param .u64 k_1", body))
    assert "role: in}" in line_of("p0", text)
    assert line_of("p1", text) == "- {name: p1, dtype: s64, role: scalar, value: FILL}"


def test_scalars() -> None:
    text = launch_skeleton(
        kernel(
            ".param .u32 k_0, .param .f32 k_1, .param .u64 k_2",
            "ld.param.u32 %r1, [k_0]; ld.param.f32 %f1, [k_1];",
        )
    )
    assert "dtype: s32, role: scalar, value: FILL" in line_of("p0", text)
    assert "dtype: f32, role: scalar, value: symbolic" in line_of("p1", text)
    # never read: nearly always a scratch pointer that the compiler appended
    assert "role: inout, compare: false}  # CHANGE" in line_of("p2", text)


def test_block_and_shared_memory() -> None:
    assert "block: [64, 2, 1]\n" in launch_skeleton(kernel("", tuning=".reqntid 64, 2"))
    assert "block: [128, 1, 1]  # CHANGE" in launch_skeleton(kernel("", tuning=".maxntid 128"))
    assert "block: [FILL, 1, 1]" in launch_skeleton(kernel(""))
    shared = ".extern .shared .align 16 .b8 buf[];"
    body = "mov.u32 %r1, buf;"
    assert "dynamic_shared: 0  # CHANGE" in launch_skeleton(kernel("", body, head=shared))
    assert "dynamic_shared: 0\n" in launch_skeleton(kernel(""))


def test_a_filled_skeleton_loads_and_fits() -> None:
    of = kernel(
        ".param .u64 k_0, .param .u32 k_1, .param .align 64 .b8 k_2[128]",
        "ld.param.u64 %rd1, [k_0]; st.global.f32 [%rd1], %f1; ld.param.u32 %r1, [k_1];",
    )
    text = launch_skeleton(of)
    with pytest.raises(LaunchError, match=r"still to fill in .*params\[2\]\.buffer\.shape\[0\]"):
        parse_launch(text)
    check_launch(parse_launch(text.replace("FILL", "1")), of)
