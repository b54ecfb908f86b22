"""Random small programs whose CTAs tell one another by flags and tickets.

All CTAs go through the same steps; a wait at a step is for what other CTAs do in it, so that no
program deadlocks. Which accesses meet does not hang on the schedule.
"""

from __future__ import annotations

from hypothesis import strategies as st

from kcheck.launch import Launch, Tensor
from tests.semantics.programs import Program

HEAD = """.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_G, .param .u64 p_F, .param .u64 p_O)
{
.reg .b64 G, F, O, g;
.reg .b32 i, w, c, n, m, j, r, v, e, t, u;
.reg .pred p, q, x, y, z;
.shared .align 4 .b32 last;
.shared .align 4 .b32 s;
ld.param.u64 G, [p_G]; ld.param.u64 F, [p_F]; ld.param.u64 O, [p_O];
mov.u32 i, %tid.x; shr.u32 w, i, 5; mov.u32 c, %ctaid.x; mov.u32 n, %ntid.x;
mov.u32 m, %nctaid.x; mov.u32 r, i;
"""
TAIL = """END:
ret;
}
"""
SUM = "mad.lo.u32 j, c, n, i; mad.wide.u32 g, j, 4, O; st.global.u32 [g], r;\n"
# the word of G that a thread accesses, into j
INDICES = (
    "mad.lo.u32 j, c, n, i;",
    "add.u32 j, c, 1; rem.u32 j, j, m; mad.lo.u32 j, j, n, i;",
    "mov.u32 j, i;",
    "mov.u32 j, 5;",
    "mov.u32 j, c;",
    "xor.b32 j, i, 32; mad.lo.u32 j, c, n, j;",
)
ACCESSES = (
    "st.global.u32 [g], i;",
    "ld.global.u32 e, [g]; add.u32 r, r, e;",
    "ld.global.u32 e, [g]; add.u32 r, r, e;",
    "red.global.add.u32 [g], 1;",
    "st.volatile.global.u32 [g], c;",
)
FENCES = ("", "", "membar.gl;", "membar.gl;", "membar.cta;", "fence.acq_rel.gpu;")
BARRIERS = ("", "bar.sync 0;", "bar.sync 0;", "bar.warp.sync -1;")
STORES = ("st.volatile.global.u32 [F+{f}], 1;", "st.release.gpu.global.u32 [F+{f}], 1;",
          "st.relaxed.gpu.global.u32 [F+{f}], 1;", "st.release.cta.global.u32 [F+{f}], 1;",
          "red.release.gpu.global.add.u32 [F+{f}], 1;")  # fmt: skip
COUNTS = ("red.release.gpu.global.add.u32 [F+{f}], 1;",
          "red.relaxed.gpu.global.add.u32 [F+{f}], 1;",
          "red.global.add.u32 [F+{f}], 1;")  # fmt: skip
LOADS = ("ld.volatile.global.u32 v, [F+{f}];", "ld.acquire.gpu.global.u32 v, [F+{f}];",
         "ld.relaxed.gpu.global.u32 v, [F+{f}];", "ld.acquire.cta.global.u32 v, [F+{f}];",
         "ld.acquire.gpu.global.u32 v, [F+{f}];")  # fmt: skip
UNTIL = ("ne", "lt")


def _access() -> st.SearchStrategy[str]:
    def join(index: str, access: str, who: str) -> str:
        return f"{who.split('|')[0]}{index} mad.wide.u32 g, j, 4, G;\n{who.split('|')[1]}{access}"

    whos = st.sampled_from(["|", "|", "setp.eq.u32 p, c, 0;|@p ", "setp.eq.u32 p, i, 0;|@p "])
    # what follows a load is under no guard: it adds what the register held before
    return st.builds(join, st.sampled_from(INDICES), st.sampled_from(ACCESSES), whos)


@st.composite
def _message(draw: st.DrawFn, step: int, ctas: int) -> str:
    """Some CTAs tell one that waits."""
    waiter = draw(st.integers(0, ctas - 1))
    counted = draw(st.booleans())
    teller = (waiter + 1) % ctas
    one = draw(st.booleans())  # one thread of each CTA, or all of the first warp in turn
    flag = 4 * step
    tell = draw(st.sampled_from(COUNTS if counted else STORES)).format(f=flag)
    load = draw(st.sampled_from(LOADS)).format(f=flag)
    fences = [draw(st.sampled_from(FENCES)) for _ in range(2)]
    barriers = [draw(st.sampled_from(BARRIERS)) for _ in range(2)]
    number = ctas - 1 if counted else 1
    who = f"setp.ne.u32 q, c, {teller};" if not counted else f"setp.eq.u32 q, c, {waiter};"
    until = draw(st.sampled_from(UNTIL))
    polls = "setp.ne.u32 x, i, 0;" if one else "setp.ge.u32 x, i, 32;"
    return f"""setp.eq.u32 p, c, {waiter};
@p bra W{step};
{who}
@q bra E{step};
{barriers[0]}
setp.ne.u32 x, i, 0;
{fences[0]}
@x bra E{step};
{tell}
bra E{step};
W{step}:
{polls}
@x bra D{step};
L{step}:
{load}
setp.{until}.u32 y, v, {number};
@y bra L{step};
{fences[1]}
D{step}:
{barriers[1]}
E{step}:"""


@st.composite
def messages(draw: st.DrawFn) -> Program:
    """Accesses, and messages between CTAs."""
    warps, ctas = draw(st.integers(1, 2)), draw(st.integers(2, 3))
    lines: list[str] = []
    steps = draw(st.integers(1, 3))
    for step in range(steps):
        lines += draw(st.lists(_access(), min_size=1, max_size=2))
        lines.append(draw(st.sampled_from(BARRIERS)))
        lines.append(draw(_message(step, ctas)))
    lines += draw(st.lists(_access(), min_size=1, max_size=2))
    return _program("\n".join(lines) + "\n" + SUM, warps, ctas)


def _program(body: str, warps: int, ctas: int) -> Program:
    threads = 32 * warps
    params = (
        Tensor("G", "u32", (256,), "inout"),
        Tensor("F", "u32", (8,), "out", init="zero"),
        Tensor("O", "u32", (256,), "out", init="zero"),
    )
    inputs = {"G": [1000 + i for i in range(256)]}
    launch = Launch("k", (ctas, 1, 1), (threads, 1, 1), params)
    return Program(HEAD + body + TAIL, launch, inputs)


DRAWS = (
    ("atom.global.inc.u32 t, [F], u;", 1),
    ("atom.global.add.u32 t, [F], 1;", 1),
    ("atom.acq_rel.gpu.global.add.u32 t, [F], 1;", 1),
    ("atom.relaxed.cta.global.add.u32 t, [F], 1;", 1),
)
# what the last CTA does
TAILS = (
    "mad.lo.u32 j, c, n, i; mad.wide.u32 g, j, 4, G; ld.global.u32 e, [g]; add.u32 r, r, e;",
    "mad.lo.u32 j, 0, n, i; mad.wide.u32 g, j, 4, G; ld.global.u32 e, [g]; add.u32 r, r, e;",
    "mad.lo.u32 j, 1, n, i; mad.wide.u32 g, j, 4, G; ld.global.u32 e, [g]; add.u32 r, r, e;",
    "mad.wide.u32 g, i, 4, O; st.global.u32 [g], r;",
    "mad.wide.u32 g, i, 4, O; st.global.u32 [g], r;",
    "mad.wide.u32 g, c, 4, O; st.global.u32 [g], 3;",
    "mad.wide.u32 g, i, 4, O; ld.global.u32 e, [g]; add.u32 r, r, e;",
    "st.global.u32 [F], 0;",
    "red.global.add.u32 [O], 1;",
    "bar.sync 0;",
)


@st.composite
def tickets(draw: st.DrawFn) -> Program:
    """Accesses, then the last CTA goes on alone."""
    warps, ctas = draw(st.integers(1, 2)), draw(st.integers(2, 3))
    lines = draw(st.lists(_access(), min_size=1, max_size=2))
    lines.append(draw(st.sampled_from(BARRIERS)))
    fences = [draw(st.sampled_from(FENCES)) for _ in range(2)]
    take, _ = draw(st.sampled_from(DRAWS))
    wanted = draw(st.sampled_from((1, 1, 1, 1, 2, 0)))
    early = draw(st.sampled_from((False, False, True)))
    lines.append(f"""{fences[0] if early else ""}
{draw(st.sampled_from(BARRIERS))}
setp.ne.u32 x, i, 0;
@x bra B;
{"" if early else fences[0]}
sub.u32 u, m, 1;
{take}
sub.u32 u, m, {wanted};
setp.eq.u32 z, t, u;
selp.u32 v, 1, 0, z;
st.shared.u32 [last], v;
B:
bar.sync 0;
ld.shared.u32 v, [last];
setp.eq.u32 y, v, 0;
@y bra END;
{fences[1]}""")
    lines += draw(st.lists(st.sampled_from(TAILS), min_size=1, max_size=4))
    return _program("\n".join(lines) + "\n", warps, ctas)
