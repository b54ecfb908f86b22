import random

import pytest

from kcheck.ptx_frontend.kernel import Kernel
from tests.ptx_frontend.snippets import lowered


def order(kernel: Kernel) -> list[str]:
    """The blocks by the number that their first `mov` writes, in order."""
    return [
        "/".join(str(i.operands[1].value) for i in kernel.code[b.start : b.end] if i.name == "m")  # type: ignore[union-attr]
        for b in kernel.blocks
    ]


def blocks(body: str) -> list[str]:
    """`m %r1, N` marks a block."""
    return order(lowered(body))


def test_if_else_joins_after_both_arms() -> None:
    assert blocks(
        "m %r1, 0; @%p1 bra ELSE; m %r1, 1; bra JOIN; ELSE: m %r1, 2; JOIN: m %r1, 3;"
    ) == ["0", "1", "2", "3"]
    # arms that the compiler put behind the join
    assert blocks(
        "m %r1, 0; @%p1 bra ELSE; bra THEN; JOIN: m %r1, 3; ret;"
        "ELSE: m %r1, 2; bra JOIN; THEN: m %r1, 1; bra JOIN;"
    ) == ["0", "", "1", "2", "3"]


def test_an_if_without_else() -> None:
    assert blocks("m %r1, 0; @%p1 bra JOIN; m %r1, 1; JOIN: m %r1, 2;") == ["0", "1", "2"]


def test_a_loop_whose_header_branches_comes_before_its_exit() -> None:
    # the exit stands before the body in the text, and is the fall-through of the header
    assert blocks(
        "m %r1, 0; HEAD: m %r1, 1; @%p1 bra BODY; EXIT: m %r1, 3; ret;BODY: m %r1, 2; bra HEAD;"
    ) == ["0", "1", "2", "3"]
    assert blocks(
        "m %r1, 0; HEAD: m %r1, 1; @%p1 bra EXIT; m %r1, 2; bra HEAD; EXIT: m %r1, 3;"
    ) == ["0", "1", "2", "3"]


NESTED = {
    # marks: 0 before, 1 outer head, 2 inner head, 3 inner body, 4 outer tail, 5 after
    "PRE": "m %r1, 0; bra OUTER;",
    "OUTER": "m %r1, 1; @%p1 bra AFTER; bra INNER;",
    "INNER": "m %r1, 2; @%p2 bra TAIL; bra BODY;",
    "BODY": "m %r1, 3; bra INNER;",
    "TAIL": "m %r1, 4; bra OUTER;",
    "AFTER": "m %r1, 5; ret;",
}
LEAVING = {
    # while (1) { head; if (a) continue; body; if (b) { work; break; } tail; } after
    "PRE": "m %r1, 0; bra HEAD;",
    "HEAD": "m %r1, 1; @%p1 bra CONTINUE; bra BODY;",
    "BODY": "m %r1, 2; @%p2 bra BREAK; bra TAIL;",
    "TAIL": "m %r1, 3; bra CONTINUE;",
    "CONTINUE": "m %r1, 4; @%p3 bra HEAD; bra AFTER;",
    "BREAK": "m %r1, 5; bra AFTER;",
    "AFTER": "m %r1, 6; ret;",
}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("graph", [NESTED, LEAVING])
def test_loops_stand_together_wherever_the_text_puts_them(graph: dict[str, str], seed: int) -> None:
    first, *rest = graph
    random.Random(seed).shuffle(rest)
    body = " ".join(f"{name}: {graph[name]}" for name in (first, *rest))
    marks = [mark for mark in blocks(body) if mark]
    # nothing after a loop comes before anything in it: 5 and 6 last, in this order
    assert marks == sorted(marks)


def test_break_out_of_two_loops() -> None:
    marks = blocks(
        "m %r1, 0; OUTER: m %r1, 1; INNER: m %r1, 2; @%p1 bra OUT; m %r1, 3; @%p2 bra INNER;"
        "m %r1, 4; @%p3 bra OUTER; m %r1, 5; OUT: m %r1, 6;"
    )
    assert marks == ["0", "1", "2", "3", "4", "5", "6"]


def test_only_back_edges_of_loops_go_back() -> None:
    kernel = lowered(" ".join(f"{name}: {text}" for name, text in LEAVING.items()))
    back = [(i, s) for i, b in enumerate(kernel.blocks) for s in b.successors if s <= i]
    assert [(order(kernel)[i], order(kernel)[s]) for i, s in back] == [("4", "1")]


def test_successors_and_ends() -> None:
    kernel = lowered("m %r1, 0; @%p1 ret; m %r1, 1; @%p2 exit; @%p3 bra L; L: trap; m %r1, 9;")
    assert [(b.start, b.end, b.successors) for b in kernel.blocks] == [
        (0, 2, (1,)),
        (2, 4, (2,)),
        (4, 5, (3,)),
        (5, 6, ()),
    ]


def test_unreachable_code_is_in_no_block() -> None:
    assert blocks("m %r1, 0; bra L; m %r1, 1; DEAD: m %r1, 2; bra L; L: m %r1, 3;") == ["0", "3"]


def test_dead_code_that_enters_a_loop_does_not_move_its_head() -> None:
    assert blocks(
        "m %r1, 0; bra HEAD; BODY: m %r1, 2; bra HEAD; bra BODY; HEAD: m %r1, 1; @%p1 bra BODY;"
        "m %r1, 3;"
    ) == ["0", "1", "2", "3"]


def test_a_loop_at_the_entry_and_one_without_end() -> None:
    assert blocks("A: m %r1, 0; @%p1 bra A; B: m %r1, 1; bra B;") == ["0", "1"]


def test_a_long_chain_of_blocks() -> None:
    many = 3000
    kernel = lowered("".join(f"L{i}: @%p1 bra L{i}; " for i in range(many)))
    assert len(kernel.blocks) == many + 1
