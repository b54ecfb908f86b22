"""The rewrites that identity tests use keep a kernel's meaning."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.printer import print_instr, print_module
from kcheck.ptx_frontend.tree import Module, Target, Variable
from tests.ptx_frontend.snippets import FILES, entry, lowered
from tests.ptx_transform import invert_branches, rename_registers, reorder_blocks

LOOP = """
    mov.b32 %r1, 0;
LOOP:
    add.s32 %r1, %r1, 1;
    { .reg .pred p; WAIT: setp.lt.s32 p, %r2, %r1; @p bra WAIT; @!p bra NEXT; mov.b32 %r2, 5; }
NEXT:
    setp.gt.s32 %p1, %r1, 9;
    @%p1 bra DONE;
    bra.uni LOOP;
DONE:
    st.global.b32 [%rd1], %r1;
"""


def trace(kernel: Kernel, choices: int) -> list[str]:
    """The first 60 instructions met on one way through a kernel.

    While n instructions were met, all predicates are bit n % 16 of `choices`.
    """
    met: list[str] = []
    at = jumps = 0
    while len(met) < 60 and jumps < 200:
        instr = kernel.code[at]
        taken = True
        if instr.guard:
            taken = bool(choices >> (len(met) % 16) & 1) != instr.guard.negated
        if instr.opcode[0] == "ret":
            return met
        if instr.opcode[0] == "bra":
            jumps += 1
            (target,) = instr.operands
            assert isinstance(target, Target)
            at = target.index if taken else at + 1
        else:
            met.append(f"{print_instr(instr)} {taken}")
            at += 1
    return met


REWRITES = [invert_branches, reorder_blocks, lambda m: reorder_blocks(invert_branches(m), 7)]


@pytest.mark.parametrize("rewrite", REWRITES)
def test_ways_through_the_kernel_stay(rewrite: Callable[[Module], Module]) -> None:
    module = parse(entry(LOOP))
    changed = lower(rewrite(module))
    original = lower(module)
    assert [print_instr(i) for i in changed.code] != [print_instr(i) for i in original.code]
    for choices in range(0, 1 << 16, 37):
        assert trace(original, choices) == trace(changed, choices)


def test_renaming_changes_names_and_nothing_else() -> None:
    module = parse(entry(LOOP + "{ .reg .b32 x; mov.b32 x, %tid.x; } mov.b32 {%rs1, _}, %r1;"))
    before, after = lower(module), lower(rename_registers(module))
    assert not set(before.registers) & set(after.registers)
    assert len(set(after.registers)) == len(before.registers)
    assert list(after.registers.values()) == list(before.registers.values())
    assert after.blocks == before.blocks
    assert [print_instr(i).replace("%new_", "%").replace("old_", "") for i in after.code] == [
        print_instr(i) for i in before.code
    ]


@pytest.mark.parametrize("rewrite", [rename_registers, *REWRITES])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_real_files(path: Path, rewrite: Callable[[Module], Module]) -> None:
    module = parse(path.read_text())
    changed = rewrite(module)
    assert parse(print_module(changed)) == changed
    for chosen in module.entries:
        before, after = lower(module, chosen.name), lower(changed, chosen.name)
        assert work(before) == work(after)
        assert layout(before) == layout(after)


def work(kernel: Kernel) -> Counter[str]:
    """The reachable instructions but branches and returns."""
    reached = (kernel.code[i] for b in kernel.blocks for i in range(b.start, b.end))
    return Counter(i.name for i in reached if i.opcode[0] not in ("bra", "ret"))


def layout(kernel: Kernel) -> Counter[Variable]:
    """The variables without the numbers that the order of calls gives them."""
    return Counter(replace(v, name=v.name.split("@")[0]) for v in kernel.variables.values())


def test_trace_tells_kernels_apart() -> None:
    swapped = LOOP.replace("@%p1 bra DONE", "@!%p1 bra DONE")
    one, other = lowered(LOOP), lowered(swapped)
    assert any(trace(one, c) != trace(other, c) for c in range(0, 1 << 16, 37))
