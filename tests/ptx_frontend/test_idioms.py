"""Each library function is recognized as a whole, and not at all once one thing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kcheck.ptx_frontend.blocks import basic_blocks
from kcheck.ptx_frontend.hoisted import STEPS
from kcheck.ptx_frontend.idioms import LIBRARY, NOTHING, identify
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.library import SNIPPETS, pattern, plain, signatures
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.powers import HALVES, WHOLE
from kcheck.ptx_frontend.tree import Flt, Guard, Imm, Instr, Mem, Operand, Reg, Target

DATA = Path(__file__).parent.parent / "data" / "library"
FUNCTIONS = sorted(signatures())


@cache
def module_of(path: Path) -> dict[str, Kernel]:
    module = parse(path.read_text(), str(path))
    return {entry.name: lower(module, entry.name) for entry in module.entries}


def names(kernel: Kernel) -> list[str]:
    return [idiom.name for idiom in identify(kernel)[1]]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_recognized(function: str) -> None:
    kernel = module_of(SNIPPETS)[function]
    found, idioms = identify(kernel)
    literal = pattern(function).literal
    expected = literal.function(literal.given) if literal else function.partition("_")[0]
    assert [idiom.name for idiom in idioms] == [expected]
    kinds = [instr.opcode[0] for instr in found.code]
    assert kinds.count(LIBRARY) == 1
    assert len(found.code) == len(kernel.code)
    left = {at for block in found.blocks for at in range(block.start, block.end)}
    words = {found.code[at].opcode[0] for at in left} - {NOTHING, LIBRARY}
    # the addresses, the load, the store; a factor 1; the jump behind the branches
    assert words <= {"ld", "st", "cvta", "mov", "cvt", "mul", "add", "shl", "ret", "bra"}
    assert not any(
        "f32" in found.code[at].opcode and found.code[at].opcode[0] in ("cvt", "add") for at in left
    )


# code that nvcc made in other places and under other flags


@pytest.mark.parametrize("path", sorted(DATA.glob("flags_*.ptx")), ids=lambda p: p.stem)
def test_flags_of_the_compiler(path: Path) -> None:
    """-ftz=true, -fmad=false and sm_90 change words that mean nothing here."""
    for name, kernel in module_of(path).items():
        assert names(kernel) == [name]


CONTEXTS = {
    "sigmoid": ["expf"],
    "silu": ["expf"],
    "exp_of_a_difference": ["expf"],
    "exp_used_twice": ["expf"],
    "two_exps": ["expf", "expf"],
    "exp_scaled": ["expf"],
    "softplus": ["expf", "logf"],
    "softplus_log1p": ["expf", "log1pf"],
    "gelu_tanh": ["tanhf"],
    "gelu_of_powf": [WHOLE, "tanhf"],
    "squared_by_powf": [WHOLE],
    "norm_by_powf": [HALVES],
    "inverse_by_powf": [WHOLE],
    "three_halves_by_powf": [HALVES],
    "root_by_powf": [HALVES],
    "gelu_erf": ["erff"],
    "gauss": ["expf"],
    "log_sum": ["log2f"],
    "log_halved": ["logf"],
    "log_negative": ["log2f"],
    "log_negative_third": ["logf"],
    "log_one_more": ["logf"],
    "log_one_minus": ["logf"],
    "log_steps": ["logf", "log10f"],
    "log_divided": ["logf"],
    "log_inverse": ["logf"],
    "log_of_log": ["logf", "logf"],
    "log_root": ["logf", "logf", "expf"],
    "tanh_negative": ["tanhf"],
    "tanh_negative_abs": ["tanhf"],
    "erf_negative": ["erff"],
    "erfc_negative": ["erfcf"],
    "log1p_negative": ["log1pf", "log1pf"],
    "log1p_minus": ["log1pf"],
    "expm1_negative": ["expm1f"],
    "sine_negative": ["sinf"],
    "cosine_negative": ["cosf"],
    "powf_negative": ["powf"],
    "powf_base_negative": ["powf"],
    "powf_two_negative": ["powf"],
    "cube_negative": [WHOLE],
    "both_signs": ["erff", "erff", "tanhf", "tanhf"],
    "rotary": ["powf", "cosf"],
    "negatives_in_a_loop": ["tanhf", "sinf"],
    "powf_of_a_square": ["powf"],
    "powf_of_a_square_negative": ["powf"],
    "square_to_a_part": ["powf"],
    "square_to_a_half": [HALVES],
    "norm_of_two": [HALVES],
    "square_cubed": [WHOLE],
    "square_inverse": [WHOLE],
    "sinh_scaled": ["sinhf"],
    "cosh_of_negative": ["coshf"],
    "sinh_and_cosh": ["sinhf", "coshf"],
    "tan_scaled": ["tanf"],
    "atan_scaled": ["atanf"],
    "atan_of_negative": ["atanf"],
    "log_of_abs": ["logf"],
    "tanh_of_abs": ["tanhf"],
    "tanh_and_abs": ["tanhf"],
    "quantize": ["roundf"],
    "softmax": ["expf"] * 4,
    "log_sum_exp": ["expf"] * 5 + ["logf"],
    "one_minus_exp": ["expf"],
    "exp_of_exp": ["expf", "expf"],
    "sin_and_cos": ["sinf", "cosf"],
    "rotated": ["sinf", "cosf"],
    "rotated_apart": ["cosf", "sinf"],
    "sine_in_a_branch": ["cosf", "sinf"],
    "either_function": ["sinf", "cosf"],
    "rotated_in_a_loop": ["cosf", "sinf"],
    "turns": ["sinf", "cosf"] * 4,
}


@pytest.mark.parametrize("kernel", CONTEXTS)
def test_functions_among_other_code(kernel: str) -> None:
    assert names(module_of(DATA / "contexts.ptx")[kernel]) == CONTEXTS[kernel]


def test_lines() -> None:
    (idiom,) = identify(module_of(SNIPPETS)["expf"])[1]
    text = SNIPPETS.read_text().splitlines()
    first, last = idiom.lines
    assert "fma.rn.f32" in text[first - 1]
    assert "ex2.approx" in text[last - 1]


def test_a_kernel_without_functions_is_itself() -> None:
    kernel = module_of(DATA / "contexts.ptx")["plain"]
    assert kernel.identified == (kernel, ())


# one change


def operands_changed(kernel: Kernel, instr: Instr) -> Iterator[Instr]:
    """The instruction with each operand in turn changed."""
    registers = sorted({o.name for i in kernel.code for o in i.operands if isinstance(o, Reg)})
    types = kernel.registers
    for n, operand in enumerate(instr.operands):
        others: list[Operand] = []
        if isinstance(operand, Flt):
            others = [Flt(operand.bits ^ 1, operand.width)]
        elif isinstance(operand, Imm):
            others = [Imm(operand.value + 1)]
        elif isinstance(operand, Mem):
            others = [replace(operand, offset=operand.offset + 4)]
        elif isinstance(operand, Reg) and operand.name in types:
            # (`%SPL` and what is added to it by 0 are one address)
            alike = [r for r in registers if types.get(r) == types[operand.name] and r != "%SPL"]
            if operand.name not in alike or len(alike) == 1:
                continue
            at = alike.index(operand.name)
            others = [Reg(alike[at - 1])]
        elif isinstance(operand, Target):
            starts = [b.start for b in kernel.blocks if b.start != operand.index]
            others = [Target(starts[0])]
        for other in others:
            yield replace(instr, operands=(*instr.operands[:n], other, *instr.operands[n + 1 :]))


# a word of an opcode -> another that is legal there
WORDS = {
    "lt": "le",
    "gt": "ge",
    "ge": "gt",
    "eq": "ne",
    "ne": "eq",
    "ltu": "lt",
    "geu": "ge",
    "gtu": "gt",
    "neu": "ne",
    "rm": "rp",
    "rz": "rm",
    "rni": "rzi",
    "rzi": "rni",
    "rmi": "rpi",
    "sat": "",
    "shl": "shr",
    "and": "or",
    "or": "and",
    "xor": "and",
    "add": "sub",
    "mul": "add",
    "neg": "abs",
    "abs": "neg",
    "ex2": "lg2",
    "rcp": "sqrt",
    "copysign": "max",
    "sub": "add",
    "hi": "lo",
}


def words_changed(instr: Instr) -> Iterator[Instr]:
    for n, word in enumerate(instr.opcode):
        if word in WORDS:
            opcode = (*instr.opcode[:n], WORDS[word], *instr.opcode[n + 1 :])
            yield replace(instr, opcode=tuple(w for w in opcode if w))
    if instr.guard is not None:
        yield replace(instr, guard=Guard(instr.guard.reg, not instr.guard.negated))


def changed(kernel: Kernel) -> Iterator[tuple[int, Kernel]]:
    """Every kernel with one change in the function; the result may go to any register."""
    found = identify(kernel)[0]
    left = {at for block in found.blocks for at in range(block.start, block.end)}
    now = {instr.span: instr for instr in found.code}
    for at, instr in enumerate(kernel.code):
        literal = instr.opcode[0] == "mov" and isinstance(instr.operands[1], Flt)
        new = now[instr.span]
        # what was moved behind the function is none of its own
        step = new.opcode == instr.opcode and plain(instr.opcode) in STEPS
        if at in left and (new == instr or step) and not literal:
            continue
        for other in (*operands_changed(kernel, instr), *words_changed(instr)):
            elsewhere = other.operands[1:] == instr.operands[1:] and other.opcode == instr.opcode
            result = new.opcode[0] == LIBRARY and not joins(kernel, instr)
            if elsewhere and result:
                continue
            code = (*kernel.code[:at], other, *kernel.code[at + 1 :])
            yield at, replace(kernel, code=code, blocks=basic_blocks(code))


def joins(kernel: Kernel, instr: Instr) -> bool:
    """Whether another instruction writes the same register."""
    return sum(i.operands[:1] == instr.operands[:1] for i in kernel.code) > 1


TOGETHER = ("sin_and_cos", "sine_in_a_branch")
WITH_STEPS = ("log_sum", "log_halved", "log_negative", "log_negative_third", "log_one_more")

OF_NEGATIVES = (
    *("tanh_negative", "erf_negative", "erfc_negative", "log1p_minus", "expm1_negative"),
    *("cosine_negative", "powf_negative", "powf_two_negative"),
)


EVERY = [*FUNCTIONS, *TOGETHER, *WITH_STEPS, *OF_NEGATIVES]
# changes of one function that are tried in each run of the tests, spread over its code
MOST = 150


def assert_changes_unmatch(function: str, most: int | None) -> None:
    """Of two functions with a common part either, too: scratch memory is left to one only."""
    kernel = {**module_of(SNIPPETS), **module_of(DATA / "contexts.ptx")}[function]
    mutants = list(changed(kernel))
    assert len(mutants) > 10
    step = 1 if most is None else -(-len(mutants) // most)
    survivors = []
    for at, mutant in mutants[len(function) % step :: step]:
        # log10f with another factor is logf and a step
        factor = Flt(0x3EDE5BD9, 32) in kernel.code[at].operands
        if names(mutant) and not (factor and names(mutant) == ["logf"]):
            new = mutant.code[at]
            survivors.append(f"{new.span.text} -> {new.name} {new.operands} {new.guard}")
    assert not survivors, "\n".join(survivors)


@pytest.mark.parametrize("function", EVERY)
def test_one_change_unmatches(function: str) -> None:
    assert_changes_unmatch(function, MOST)


@pytest.mark.nightly
@pytest.mark.parametrize("function", EVERY)
def test_any_one_change_unmatches(function: str) -> None:
    assert_changes_unmatch(function, None)


# surroundings


def edited(function: str, *edits: tuple[str, str]) -> list[str]:
    """What is recognized in the text of a function after replacements that must apply."""
    head, text = SNIPPETS.read_text().split(f".visible .entry {function}(")
    body, end, rest = text.partition("\n}\n")
    for old, new in edits:
        assert body.count(old) == 1, (old, body.count(old))
        body = body.replace(old, new)
    whole = f"{head}.visible .entry {function}({body}{end}{rest}"
    return names(lower(parse(whole, "edited.ptx"), function))


# sinf's branches alone in a loop that comes back from behind them
BACK = (
    "cvta.to.global.u64 \t%rd25,",
    "setp.gt.f32 %p2, %f1, 0f40000000;\n\t@%p2 bra LOOP;\n\tcvta.to.global.u64 %rd25,",
)
BRANCH = "\t@%p1 bra \t$L__BB11_8;"
SCRATCH = "\tmov.u64 \t%rd28, %rd1;\n"
EX2 = "ex2.approx.ftz.f32 \t%f16, %f14;"
SURROUNDINGS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "the argument changes on the way": (
        "expf",
        (("cvt.sat.f32.f32", "add.f32 %f1, %f1, %f1;\n\tcvt.sat.f32.f32"),),
    ),
    "the argument changes before the result": (
        "expf",
        ((EX2, f"add.f32 %f1, %f1, %f1;\n\t{EX2}"),),
    ),
    "half of it in the turn before": (
        "expf",
        (
            ("mov.f32 \t%f2, 0f3F000000;", "mov.f32 %f2, 0f3F000000;\nLOOP:"),
            (EX2, f"{EX2}\n\tld.global.nc.f32 %f1, [%rd6+4];"),
            ("fma.rn.f32 \t%f4, %f1, %f3, %f2;", "mov.f32 %f4, %f9;"),
            (
                "mul.f32 \t%f17, %f16, %f15;",
                "fma.rn.f32 %f9, %f1, %f3, %f2;\n\tmul.f32 %f17, %f16, %f15;\n"
                "\tsetp.gt.f32 %p1, %f17, 0f3F800000;\n\t@%p1 bra LOOP;",
            ),
            (".reg .f32 \t%f<18>;", ".reg .f32 %f<18>;\n\t.reg .pred %p<2>;"),
        ),
    ),
    "a factor is used alone": (
        "expf",
        (("mul.f32 \t%f17, %f16, %f15;", "fma.rn.f32 %f17, %f16, %f15, %f16;"),),
    ),
    "a factor is squared": (
        "expf",
        (("mul.f32 \t%f17, %f16, %f15;", "mul.f32 %f17, %f16, %f16;"),),
    ),
    "the scale is an integer too": (
        "expf",
        (("mul.f32 \t%f17", "st.global.u32 [%rd3], %r3;\n\tmul.f32 \t%f17"),),
    ),
    "an instruction under a guard": (
        "tanhf",
        (("add.f32 \t%f5,", "@%p1 add.f32 \t%f5,"),),
    ),
    "another instruction in a branch": (
        "logf",
        (("mov.f32 \t%f33,", "add.f32 %f34, %f1, %f1;\n\tmov.f32 \t%f33,"),),
    ),
    "a jump into a branch": (
        "logf",
        (
            ("mov.f32 \t%f33,", "INSIDE:\n\tmov.f32 \t%f33,"),
            (
                "setp.lt.f32 \t%p1",
                "setp.gt.f32 %p3, %f5, 0f47C35000;\n\t@%p3 bra INSIDE;\n\tsetp.lt.f32 \t%p1",
            ),
        ),
    ),
    "what a branch leaves is read behind it": (
        "logf",
        (("selp.f32 \t%f34,", "add.f32 %f12, %f35, %f35;\n\tselp.f32 \t%f34,"),),
    ),
    "what a branch leaves is read behind a mapped instruction": (
        "log10f",
        (("selp.f32 \t%f35,", "add.f32 %f12, %f34, %f34;\n\tselp.f32 \t%f35,"),),
    ),
    "the result's register is read late": (
        "log1pf",
        (("@%p1 bra", "add.f32 %f7, %f39, %f7;\n\t@%p1 bra"),),
    ),
    "a joined result is read too early": (
        "erff",
        (("@%p1 bra", "add.f32 %f1, %f26, %f1;\n\t@%p1 bra"),),
    ),
    "a branch sets the argument of the next turn": (
        "erff",
        (
            ("abs.f32 \t%f5, %f1;", "mov.f32 %f2, 0f3F000000;\nTURN:\n\tabs.f32 %f5, %f1;"),
            (
                "copysign.f32 \t%f26, %f1, %f25;",
                "copysign.f32 %f26, %f1, %f25;\n\tmov.f32 %f1, %f2;",
            ),
            (
                "cvta.to.global.u64 \t%rd7,",
                "setp.gt.f32 %p1, %f26, %f2;\n\t@%p1 bra TURN;\n\tcvta.to.global.u64 %rd7,",
            ),
        ),
    ),
    "the scratch address goes on in the next turn": (
        "sinf",
        ((SCRATCH, ""), (BRANCH, f"{SCRATCH}LOOP:\n{BRANCH}"), BACK),
    ),
    "the scratch memory is read elsewhere": (
        "sinf",
        (
            (
                "cvta.to.global.u64 \t%rd25,",
                "ld.local.u32 %r1, [%rd1];\n\tcvta.to.global.u64 %rd25,",
            ),
        ),
    ),
}


@pytest.mark.parametrize("what", SURROUNDINGS)
def test_surroundings_that_unmatch(what: str) -> None:
    function, edits = SURROUNDINGS[what]
    assert edited(function) == [function]
    assert edited(function, *edits) == []


def test_another_table_of_two_over_pi() -> None:
    text = SNIPPETS.read_text().replace("{65, 144, 67,", "{65, 144, 66,")
    assert names(lower(parse(text, "edited.ptx"), "sinf")) == []


UNTOUCHED: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "what leads to the branches stands before a loop": (
        "sinf",
        ((BRANCH, f"LOOP:\n{BRANCH}"), BACK),
    ),
    "the scratch address is set before the branches": (
        "sinf",
        ((SCRATCH, ""), (BRANCH, f"{SCRATCH}{BRANCH}")),
    ),
    "the order of independent instructions": (
        "expf",
        (
            ("\tmov.b32 \t%r2, %f8;\n\tshl.b32 \t%r3, %r2, 23;\n\tmov.b32 \t%f15, %r3;\n", ""),
            (
                "\tneg.f32 ",
                "\tmov.b32 %r2, %f8;\n\tshl.b32 %r3, %r2, 23;\n\tmov.b32 %f15, %r3;\n\tneg.f32 ",
            ),
        ),
    ),
    "factors in the other order": (
        "expf",
        (("mul.f32 \t%f17, %f16, %f15;", "mul.f32 %f17, %f15, %f16;"),),
    ),
    "summands in the other order": (
        "tanhf",
        (("add.f32 \t%f5, %f4, 0f3F800000;", "add.f32 %f5, 0f3F800000, %f4;"),),
    ),
    "a literal instead of a move": (
        "expf",
        (("fma.rn.f32 \t%f4, %f1, %f3, %f2;", "fma.rn.f32 %f4, %f1, 0f3BBB989D, %f2;"),),
    ),
    "a copy on the way": (
        "tanhf",
        (("add.f32 \t%f5, %f4,", "mov.f32 %f20, %f4;\n\tadd.f32 %f5, %f20,"),),
    ),
    "an intermediate that is read elsewhere": (
        "tanhf",
        (("add.s64 \t%rd7", "st.global.f32 [%rd3+256], %f12;\n\tadd.s64 \t%rd7"),),
    ),
    "a negative factor": (
        "expf",
        (
            (
                "mul.f32 \t%f17, %f16, %f15;",
                "neg.f32 %f2, %f16;\n\tfma.rn.f32 %f17, %f2, %f15, %f1;",
            ),
        ),
    ),
}


@pytest.mark.parametrize("what", UNTOUCHED)
def test_changes_that_do_not_matter(what: str) -> None:
    function, edits = UNTOUCHED[what]
    assert edited(function, *edits) == [function]


def test_two_functions_of_one_argument_are_recognized_together_or_not_at_all() -> None:
    """sincosf: neither has the branches to itself, so what unmatches one unmatches both."""
    kernel = module_of(DATA / "contexts.ptx")["rotated"]
    assert names(kernel) == ["sinf", "cosf"]
    code = kernel.code
    for bits in (0x3D2AAABB, 0x3C0885E4, 0x3F22F983, 0xA7C234C5):
        (at,) = (i for i, x in enumerate(code) if Flt(bits, 32) in x.operands)
        operands = tuple(Flt(bits ^ 1, 32) if o == Flt(bits, 32) else o for o in code[at].operands)
        mutant = (*code[:at], replace(code[at], operands=operands), *code[at + 1 :])
        assert names(replace(kernel, code=mutant, blocks=basic_blocks(mutant))) == []
    # another reader of what the branches leave
    (shift,) = (i for i, x in enumerate(code) if x.opcode[0] == "shl" and x.opcode[1] == "b64")
    reduced = next(
        o for x in code if x.opcode[0] == "and" for o in x.operands[1:2] if Imm(2) in x.operands
    )
    assert isinstance(reduced, Reg)
    read = replace(code[shift], operands=(*code[shift].operands[:2], reduced))
    mutant = (*code[:shift], read, *code[shift + 1 :])
    assert names(replace(kernel, code=mutant, blocks=basic_blocks(mutant))) == []
