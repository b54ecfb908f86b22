"""notes: ld.param narrower than its parameter, tensor maps as parameters."""

from kcheck.ptx_frontend.tree import Mem, Reg, Sym
from tests.ptx_frontend.snippets import checked, entry, kernel

PARAMS = """
    .param .u64 k_param_0,
    .param .align 128 .b8 k_param_1[128],
    .param .u64 .ptr .global .align 1 k_param_2,
    .param .f32 k_param_3
"""


def test_parameters() -> None:
    params = checked(entry("ret;", PARAMS)).entries[0].params
    assert [(p.type, p.name, p.shape, p.align) for p in params] == [
        ("u64", "k_param_0", (), None),
        ("b8", "k_param_1", (128,), 128),
        ("u64", "k_param_2", (), None),
        ("f32", "k_param_3", (), None),
    ]
    assert params[2].attributes == ("ptr", "global", "align 1")
    assert [p.nbytes for p in params] == [8, 128, 8, 4]


def test_uses_keep_the_width_they_are_written_with() -> None:
    lowered = kernel(
        entry(
            "ld.param.u32 %r1, [k_param_0]; ld.param.u32 %r2, [k_param_0+4];"
            "mov.b64 %rd1, k_param_1; cvta.param.u64 %rd2, %rd1; ld.b64 %rd3, [%rd2+16];",
            PARAMS,
        )
    )
    assert lowered.code[0].opcode == ("ld", "param", "u32")
    assert lowered.code[0].operands == (Reg("%r1"), Mem(Sym("k_param_0")))
    assert lowered.code[1].operands == (Reg("%r2"), Mem(Sym("k_param_0"), 4))
    assert lowered.code[2].operands == (Reg("%rd1"), Sym("k_param_1"))
    assert [p.name for p in lowered.params] == [f"k_param_{i}" for i in range(4)]
    assert lowered.variables == {}


def test_no_parameters() -> None:
    assert kernel(entry("ret;").replace("k()", "k")).params == ()
