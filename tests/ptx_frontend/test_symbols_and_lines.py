"""notes: `$` in symbols, names that differ from run to run, .section, .loc and .file."""

from kcheck.ptx_frontend.tree import Directive, Loc, Mem, Sym
from tests.ptx_frontend.snippets import HEAD, checked, entry, kernel

HASHED = "_INTERNAL_0a1b2c3d_4_k_cu_12345678_9999"
ANONYMOUS = "_ZN63_GLOBAL__N__00000000_9_x_cu_8f1c2a6e4tableE"


def test_symbols_with_dollars_and_hashes() -> None:
    lowered = kernel(
        entry(
            f"ld.global.b8 %rs1, [_$_str+1]; ld.global.b32 %r1, [{HASHED}];"
            f"ld.const.b32 %r1, [{ANONYMOUS}]; bra.uni $L__BB0_1;\n$L__BB0_1: ret;",
            head=f".global .align 1 .b8 _$_str[3] = {{95, 95}};\n.global .b32 {HASHED};\n"
            f".const .align 4 .b32 {ANONYMOUS}[2] = {{1, 2}};\n.global .b32 unused;",
        )
    )
    assert list(lowered.variables) == ["_$_str", HASHED, ANONYMOUS]
    assert lowered.code[0].operands[1] == Mem(Sym("_$_str"), 1)


def test_locations_and_files_declared_later() -> None:
    lowered = kernel(
        entry(
            "mov.b32 %r1, 0;\n.loc\t1 342 0   // kernels.py:342:0\nmov.b32 %r1, 1;\n"
            "{ .loc 2 7 3, function_name $L__info_string0+5, inlined_at 1 350 5\n"
            "mov.b32 %r1, 2; }\nmov.b32 %r1, 3;"
        )
        + '.file\t1 "kernels.py"\n.file 2 "/src/a b.cu", 1700000000, 123\n'
    )
    inlined = Loc("/src/a b.cu", 7)
    assert [i.loc for i in lowered.code] == [
        None,
        Loc("kernels.py", 342),
        inlined,
        inlined,
        inlined,
    ]


def test_sections_are_kept_as_text() -> None:
    raw = "{\n.b8 95,0 // a } here is none\ninfo0:\n.b64 $L__tmp1\n.b32 .debug_str\n}"
    module = checked(entry("ret;") + f".section\t.debug_str\n{raw}\n.section .debug_loc {{ }}\n")
    sections = [i for i in module.items if isinstance(i, Directive)]
    assert [(s.name, s.text) for s in sections] == [
        ("section", f".debug_str {raw}"),
        ("section", ".debug_loc { }"),
    ]


def test_header() -> None:
    module = checked(".version 8.7\n.target sm_80, debug\n.target texmode_independent\n")
    assert (module.version, module.target) == ("8.7", ("sm_80", "debug", "texmode_independent"))
    assert module.address_size == 32
    assert checked(HEAD).address_size == 64


def test_pragmas_and_alias() -> None:
    module = checked(
        HEAD + '.pragma "a", "b;c";\n.visible .func f() { ret; }\n.weak .func g();\n.alias g, f;\n'
    )
    kept = [i for i in module.items if isinstance(i, Directive)]
    assert [(d.name, d.text) for d in kept] == [("pragma", '"a", "b;c"'), ("alias", "g, f")]


def test_comments_and_line_ends() -> None:
    plain = entry("mov.b32 %r1, 1;\nret;", "\n.param .u64 a\n")
    noisy = plain.replace("\n", " /* over\n two ; } lines */ // and { this\n")
    assert checked(noisy) == checked(plain)
    crlf = checked(plain.replace("\n", "\r\n"))
    assert crlf == checked(plain)
    body = crlf.entries[0].body
    assert body is not None
    assert body.body[-1].span.line == checked(plain).entries[0].body.body[-1].span.line  # type: ignore[union-attr]
