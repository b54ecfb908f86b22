"""Time per vector instruction of the lane executor, over the field domain."""

from __future__ import annotations

import time

from kcheck.canon.field import FieldDomain
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import execute

THREADS = 128
COPIES, ROUNDS = 20, 10

# name -> (instruction, least number of levels)
CLASSES: dict[str, tuple[str, int]] = {
    "integer add": ("add.s32 %r9, %r1, %r2;", 1),
    "f32 add": ("add.f32 %f9, %f1, %f2;", 1),
    "f32 mul": ("mul.f32 %f9, %f1, %f2;", 1),
    "f32 fma": ("fma.rn.f32 %f9, %f1, %f2, %f3;", 1),
    "exp2": ("ex2.approx.f32 %f9, %f1;", 2),
    "f32 div": ("div.rn.f32 %f9, %f1, %f2;", 1),
    "f32 max": ("max.f32 %f9, %f1, %f2;", 1),
    "store shared": ("st.shared.f32 [%r3], %f1;", 1),
    "load shared": ("ld.shared.f32 %f9, [%r3];", 1),
    "load global": ("ld.global.f32 %f9, [%rd3];", 1),
    "load global v4": ("ld.global.v4.f32 {%f9, %f10, %f11, %f12}, [%rd4];", 1),
    "shfl": ("shfl.sync.bfly.b32 %f9, %f1, 1, 31, -1;", 1),
    "mma m16n8k16": (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f9, %f10, %f11, %f12}, "
        "{%r4, %r5, %r6, %r7}, {%r4, %r5}, {%f1, %f2, %f3, %f1};",
        1,
    ),
}

_TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k (.param .u64 A, .param .u64 H, .param .u64 C)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<16>;
    .reg .f32 %f<16>;
    .reg .b64 %rd<16>;
    .shared .align 16 .b8 s[512];
    ld.param.u64 %rd1, [A];
    ld.param.u64 %rd2, [H];
    ld.param.u64 %rd5, [C];
    mov.u32 %r1, %tid.x;
    mov.u32 %r8, %ctaid.x;
    mad.lo.s32 %r2, %r8, 128, %r1;
    mul.wide.s32 %rd6, %r2, 4;
    add.s64 %rd3, %rd1, %rd6;
    mul.wide.s32 %rd7, %r2, 16;
    add.s64 %rd4, %rd1, %rd7;
    add.s64 %rd8, %rd2, %rd7;
    ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd4];
    ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd8];
    mov.u32 %r3, s;
    shl.b32 %r10, %r1, 2;
    add.s32 %r3, %r3, %r10;
    st.shared.f32 [%r3], %f2;
    mov.u32 %r11, 0;
loop:
    {body}
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, {rounds};
    @%p1 bra loop;
    add.s64 %rd9, %rd5, %rd6;
    st.global.f32 [%rd9], %f1;
    ret;
}}
"""


def _seconds(body: str, lanes: int, levels: int) -> float:
    """Processor time of the faster of two runs of the loop with this body."""
    kernel = lower(parse(_TEXT.format(body=body, rounds=ROUNDS)))
    launch = Launch(
        "k",
        (lanes // THREADS, 1, 1),
        (THREADS, 1, 1),
        (
            Tensor("A", "f32", (4 * lanes,), "in"),
            Tensor("H", "f16", (8 * lanes,), "in"),
            Tensor("C", "f32", (lanes,), "out"),
        ),
    )
    times = []
    for seed in range(2):
        domain = FieldDomain(seed, 4, levels)
        started = time.process_time()
        execute(kernel, launch, domain)
        times.append(time.process_time() - started)
    return min(times)


def per_instruction(name: str, lanes: int, levels: int) -> float | None:
    """Processor seconds for one instruction over all lanes; None if it needs more levels."""
    text, least = CLASSES[name]
    if levels < least:
        return None
    extra = _seconds("\n".join([text] * COPIES), lanes, levels) - _seconds("", lanes, levels)
    return max(extra, 0.0) / (COPIES * ROUNDS)
