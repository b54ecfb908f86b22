"""Branches on tensor values: both arms run, and join as selects; the slow evaluator branches."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kcheck.canon.domain import Collision
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.canon.field import FieldDomain
from kcheck.launch import Param
from tests.semantics import harness
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol
from tests.semantics.test_symbolic_predicates import Undecided

N = 64
RNG = np.random.default_rng(7)
INPUTS = {"X": RNG.normal(size=N), "Y": RNG.normal(size=N)}
PARAMS: list[Param] = [
    symbol("X", "f32", N),
    symbol("Y", "f32", N),
    known("I", "u32", RNG.integers(0, 4, N)),
    out("P", "f32", 4, N, init="zero"),
    out("Q", "u32", 4, N, init="zero"),
]
START = """
    .shared .align 8 .b8 s[1024]; .reg .b64 %s; mov.u64 %s, s; mad.lo.u64 %s, %wide, 16, %s;
    ld.global.f32 %f1, [%X]; ld.global.f32 %f2, [%Y]; mov.f32 %f3, 0f3F000000; mov.f32 %f4, %f2;
    ld.global.u32 %r1, [%I]; mov.u32 %r2, 3; mov.u32 %r3, %gid; mov.u32 %r4, -1;
    st.shared.v2.f32 [%s], {0f3F800000, 0f40000000}; st.shared.v2.f32 [%s+8], {%f1, %f2};
    setp.gt.f32 %p1, %f1, 0f00000000; setp.lt.f32 %p2, %f1, %f2; setp.lt.u32 %p3, %r1, 2;
"""
END = "\n".join(
    f"st.global.f32 [%P+{4 * N * i}], %f{i + 1}; st.global.u32 [%Q+{4 * N * i}], %r{i + 1};"
    for i in range(4)
)


def check(body: str, *, end: str = END) -> harness.Outcome:
    """The outcome of a body on the fast machine, the same as the slow one's."""
    kernel, launch = (
        kernel_of(entry(f"{START}\n{body}\n{end}\nret;", PARAMS)),
        launch_of(PARAMS, 1, N),
    )
    expected = harness.slow(kernel, launch, INPUTS)
    for domain in (Undecided(INPUTS), EnclosureDomain(INPUTS)):
        outcome = harness.fast(kernel, launch, domain)[0]
        assert outcome.stopped is None, outcome.stopped
        lines = harness.disagreements(outcome, expected)
        assert not lines, "\n".join([body, *lines[:9]])
    assert harness.fast(kernel, launch, FieldDomain(3, 2, 1))[0].stopped is None
    return expected


CASES = {
    "one arm": "@%p1 bra L; mov.f32 %f3, %f1; L:",
    "both arms": "@%p1 bra L; mov.f32 %f3, %f1; bra M; L: neg.f32 %f3, %f2; M:",
    "negated": "@!%p1 bra L; mov.f32 %f3, %f1; L:",
    "nested": "@%p1 bra L; mov.f32 %f3, %f1; bra M; L: @%p2 bra M; add.f32 %f3, %f1, %f2; M:",
    "short circuit": "@!%p1 bra L; @!%p2 bra L; mov.f32 %f3, 0f40000000; bra M; "
    "L: mul.f32 %f3, %f1, %f2; M:",
    "empty arms": "@%p1 bra L; bra L; L:",
    "concrete around": "@%p3 bra L; @%p1 bra M; mov.f32 %f3, %f1; bra M; L: mov.f32 %f3, %f2; M:",
    "concrete inside": "@%p1 bra M; @%p3 bra L; mov.f32 %f3, %f1; bra M; L: mov.f32 %f3, %f2; M:",
    "concrete in some lanes": "and.pred %p4, %p1, %p3; @%p4 bra L; mov.f32 %f3, %f1; L:",
    "a loop inside": "mov.u32 %r5, 0; @%p1 bra M; L: add.f32 %f3, %f3, %f1; add.u32 %r5, %r5, 1; "
    "setp.lt.u32 %p4, %r5, %r1; @%p4 bra L; M:",
    "in a loop": "mov.u32 %r5, 0; L: @%p2 bra M; mul.f32 %f3, %f3, %f1; M: sub.f32 %f1, %f2, %f1; "
    "setp.lt.f32 %p2, %f1, %f3; add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 3; @%p4 bra L;",
    "a loop that ends early": "mov.u32 %r5, 0; L: add.f32 %f3, %f3, %f1; "
    "setp.gt.f32 %p1, %f3, %f2; @%p1 bra M; add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 5; "
    "@%p4 bra L; M: mov.u32 %r2, %r5;",
    "leaving in a loop": "mov.u32 %r5, 0; L: add.f32 %f3, %f3, %f1; st.global.f32 [%P], %f3; "
    "setp.gt.f32 %p1, %f3, %f2; @%p1 exit; add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 5; "
    "@%p4 bra L;",
    "the join is the head of the loop": "mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; "
    "setp.gt.u32 %p4, %r5, 3; @%p4 bra M; add.f32 %f3, %f3, %f3; setp.lt.f32 %p1, %f3, %f1; "
    "@%p1 bra L; mov.f32 %f3, %f2; bra L; M:",
    "a predicate": "@%p1 bra L; setp.lt.f32 %p2, %f2, 0f00000000; L: selp.f32 %f3, %f1, %f2, %p2;",
    "integers": "@%p1 bra L; mov.u32 %r2, 5; L: add.s32 %r3, %r2, %r3; mul.lo.s32 %r2, %r2, %r1;",
    "integers of both signs": "@%p1 bra L; mov.u32 %r4, 9; L: shr.s32 %r2, %r4, 1;",
    "integers twice": "@%p1 bra L; mov.u32 %r2, 5; L: @%p2 bra M; add.u32 %r2, %r2, 1; M:",
    "a comparison of integers": "@%p1 bra L; mov.u32 %r2, 5; L: setp.gt.s32 %p2, %r2, %r1; "
    "selp.f32 %f3, %f1, %f2, %p2;",
    "an integer becomes a float": "selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 1, 0, %p2; "
    "sub.s32 %r2, %r2, %r3; cvt.rn.f32.s32 %f3, %r2;",
    "an integer in memory": "@%p1 bra L; mov.u32 %r4, 7; L: st.shared.u32 [%s], %r4; "
    "ld.shared.u32 %r3, [%s];",
    "integers of other lanes": "selp.u32 %r2, %r1, %r3, %p1; selp.u32 %r4, 7, %r2, %p2; "
    "shfl.sync.bfly.b32 %r3, %r4, 3, 31, -1; add.u32 %r3, %r3, %r2;",
    "the greatest of a warp": " ".join(
        f"shfl.sync.bfly.b32 %f5, %f1, {n}, 31, -1; shfl.sync.bfly.b32 %r5, %r3, {n}, 31, -1; "
        f"setp.gt.f32 %p1, %f5, %f1; @!%p1 bra L{n}; mov.f32 %f1, %f5; mov.u32 %r3, %r5; L{n}:"
        for n in (16, 8, 4)
    ),
    "set": "set.lt.s32.f32 %r2, %f1, %f2; neg.s32 %r3, %r2;",
    "a register of one arm": "@%p1 bra L; mul.f32 %f9, %f1, %f1; add.f32 %f3, %f9, %f2; "
    "L: mov.f32 %f9, %f3; mov.f32 %f4, %f9;",
    "guards inside": "@%p1 bra L; @%p2 mov.f32 %f3, %f1; @!%p3 add.u32 %r2, %r2, 1; "
    "@%p2 st.shared.f32 [%s], %f2; ld.shared.f32 %f4, [%s]; L:",
    "a guarded load": "@%p1 ld.shared.f32 %f3, [%s+4];",
    "stores in one arm": "@%p1 bra L; st.shared.f32 [%s], %f1; L: ld.shared.f32 %f3, [%s];",
    "stores in both arms": "@%p1 bra L; st.shared.v2.f32 [%s], {%f1, %f2}; bra M; "
    "L: st.shared.f32 [%s+4], %f1; ld.shared.f32 %f4, [%s+4]; st.shared.f32 [%s+4], %f3; "
    "M: ld.shared.v2.f32 {%f3, %f2}, [%s];",
    "stores in nested arms": "@%p1 bra L; st.shared.f32 [%s], %f1; @%p2 bra M; "
    "st.shared.f32 [%s+8], %f3; L: st.shared.f32 [%s+4], %f2; M: ld.shared.v2.f32 {%f3, %f4}, [%s];"
    "ld.shared.f32 %f2, [%s+8];",
    "stores by some lanes": "@%p1 bra L; @%p3 bra L; st.shared.f32 [%s], %f1; "
    "L: ld.shared.f32 %f3, [%s];",
    "fresh memory in both arms": "@%p1 bra L; st.global.f32 [%P], %f2; bra M; "
    "L: st.global.f32 [%P], %f3; M: ld.global.f32 %f1, [%P];",
    "other offsets in an arm": "mov.u32 %r5, 4; mov.u32 %r6, 0; @%p1 bra L; "
    "cvt.u64.u32 %d1, %r5; add.u64 %d1, %d1, %s; ld.shared.f32 %f3, [%d1]; L:",
    "leaving early": "@%p1 exit;",
    "leaving in an arm": "@%p2 bra L; st.global.f32 [%P], %f2; ret; L: neg.f32 %f3, %f1;",
}


@pytest.mark.parametrize("name", CASES)
def test_arms_join_as_selects(name: str) -> None:
    assert not check(CASES[name]).findings


REFUSED = {
    # text -> (reason, the instruction)
    "@%p1 bra L; bar.sync 0; L:": ("predicated", "bar.sync 0"),
    "@%p1 bra L; shfl.sync.idx.b32 %r3, %r1, 0, 31, -1; L:": ("predicated", "shfl.sync"),
    "@%p1 bra L; red.release.gpu.global.add.f32 [%P], %f1; L:": ("predicated", "red.release"),
    "@%p1 bra L; ld.volatile.shared.f32 %f3, [%s]; L:": ("predicated", "ld.volatile"),
    "@%p1 bra L; st.shared.f32 [s], %f1; L:": ("predicated", "st.shared.f32 [s]"),
    "@%p1 exit; bar.sync 0;": ("branch", "@%p1 exit"),
    "@%p1 bra L; @%p2 bra M; L: bar.sync 0; ret; M:": ("branch", "@%p1 bra L"),
    "L: add.f32 %f1, %f1, %f2; setp.lt.f32 %p1, %f1, %f3; @%p1 bra L;": ("branch", "@%p1 bra L"),
    "@%p1 bra L; mov.u32 %r2, 8; L: cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %s; "
    "ld.shared.f32 %f3, [%d1];": ("symbolic-int", "ld.shared.f32 %f3, [%d1]"),
    "selp.u32 %r2, 1, 0, %p1; bfe.u32 %r2, %r2, 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 trap;": (
        "trap",
        "@%p1 trap",
    ),
}


@pytest.mark.parametrize("body", REFUSED)
def test_arms_that_do_more_than_compute_are_refused(body: str) -> None:
    kernel = kernel_of(entry(f"{START}\n{body}\n{END}\nret;", PARAMS))
    outcome = harness.fast(kernel, launch_of(PARAMS, 1, N), Undecided(INPUTS))[0]
    assert outcome.stopped is not None
    reason, place = REFUSED[body]
    assert outcome.stopped[0] == reason
    assert place in outcome.stopped[1]


def test_faults_in_an_arm_are_conditional() -> None:
    text = f"{START} @%p1 bra L; ld.global.f32 %f3, [%pX+4096]; L: {END} ret;"
    kernel, launch = kernel_of(entry(text, PARAMS)), launch_of(PARAMS, 1, N)
    run = harness.fast(kernel, launch, Undecided(INPUTS))[1]
    assert run is not None
    (fault,) = [f for f in run.faults if f.reason.startswith("bounds")]
    assert fault.conditional
    assert "4096" in kernel.code[fault.at].span.text


def test_a_register_of_one_arm_is_undefined_after_the_join() -> None:
    text = f"{START} @%p1 bra L; mov.f32 %f9, %f1; L: st.global.f32 [%P], %f9; ret;"
    outcome = harness.fast(
        kernel_of(entry(text, PARAMS)), launch_of(PARAMS, 1, N), Undecided(INPUTS)
    )[0]
    assert outcome.stopped is None
    assert set(outcome.outputs["P"][:N]) == {"undef"}


# random structured programs

LINES = """
add.f32 F, F, F; sub.f32 F, F, F; mul.f32 F, F, 0f3F000000; max.f32 F, F, F; neg.f32 F, F;
fma.rn.f32 F, F, 0f3E800000, F; mov.f32 F, F; abs.f32 F, F; mov.f32 F, 0f3F800000;
selp.f32 F, F, F, P; setp.lt.f32 P, F, F; setp.ge.f32 P, F, 0f00000000; and.pred P, P, P;
not.pred P, P; add.u32 R, R, R; sub.u32 R, R, 5; mov.u32 R, R; selp.b32 R, R, R, P;
setp.lt.s32 P, R, R; min.s32 R, R, R; cvt.rn.f32.s32 F, R; st.shared.f32 [%s+W], F;
ld.shared.f32 F, [%s+W]; @P add.f32 F, F, F; @!P mov.u32 R, R; @P st.shared.f32 [%s+W], F;
xor.b32 R, R, R; shl.b32 R, R, 1
"""
NAMES = {
    "F": [f"%f{i}" for i in range(1, 5)],
    "R": [f"%r{i}" for i in range(1, 5)],
    "P": ["%p1", "%p2", "%p3"],
    "W": ["0", "4", "8", "12"],
}


class Program:
    """A random program of ifs, loops of a known length, and straight lines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.labels = 0

    def line(self) -> str:
        text = self.random.choice(LINES.split(";")).strip()
        words = text.replace("[%s+W]", "[%s+{W}]").split(" ")
        for i, word in enumerate(words):
            for kind, names in NAMES.items():
                bare = word.strip("@!,")
                name = self.random.choice(names)
                if bare == kind:
                    words[i] = word.replace(kind, name)
                words[i] = words[i].replace("{W}", name) if kind == "W" else words[i]
        return " ".join(words) + ";"

    def block(self, depth: int) -> str:
        lines = [self.line() for _ in range(self.random.randint(1, 4))]
        if depth < 3:
            for _ in range(self.random.randint(0, 2)):
                lines.append(self.random.choice([self.branch, self.branch, self.loop])(depth + 1))
                lines.append(self.line())
        return "\n".join(lines)

    def branch(self, depth: int) -> str:
        self.labels += 1
        one, other = f"A{self.labels}", f"B{self.labels}"
        guard = self.random.choice(["", "!"]) + self.random.choice(NAMES["P"])
        leave = "exit;" if self.random.random() < 0.06 else f"bra {other};"
        return (
            f"@{guard} bra {one};\n{self.block(depth)}\n{leave}\n{one}:\n"
            f"{self.block(depth) if self.random.random() < 0.6 else ''}\n{other}:"
        )

    def loop(self, depth: int) -> str:
        self.labels += 1
        counter, label = f"%r{20 + self.labels}", f"C{self.labels}"
        return (
            f"mov.u32 {counter}, 0; {label}:\n{self.block(depth)}\nadd.u32 {counter}, {counter}, 1;"
            f" setp.lt.u32 %p9, {counter}, 2; @%p9 bra {label};"
        )


def tolerant(outcome: harness.Outcome, expected: harness.Outcome) -> None:
    """Take over what wide enclosures leave open (a comparison of equals, say)."""
    for name, elements in outcome.outputs.items():
        for i, x in enumerate(elements):
            y = expected.outputs[name][i]
            if isinstance(x, tuple) and not isinstance(y, str):
                low, high = y if isinstance(y, tuple) else (y, y)
                elements[i] = y if x[0] <= high and low <= x[1] else x


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_programs(start: int) -> None:
    compared = 0
    for seed in range(start, start + 20):
        body = Program(seed).block(0)
        kernel = kernel_of(entry(f"{START}\n{body}\n{END}\nret;", PARAMS))
        launch = launch_of(PARAMS, 1, N)
        expected = harness.slow(kernel, launch, INPUTS)
        for domain in (Undecided(INPUTS), EnclosureDomain(INPUTS)):
            outcome = harness.fast(kernel, launch, domain)[0]
            if outcome.stopped or expected.stopped:
                continue
            tolerant(outcome, expected)
            lines = harness.disagreements(outcome, expected)
            assert not lines, (seed, body, lines[:5])
            compared += 1
        try:
            harness.fast(kernel, launch, FieldDomain(seed, 2, 1))
        except Collision:
            continue
    assert compared > 30, "most programs were refused"
