"""Random small programs of barriers and memory accesses, for comparing evaluators.

Control flow and addresses hang on the thread's indices only, never on data; so which accesses
meet does not hang on the schedule. Every thread adds what it loads to a sum, which it stores into
its element of `O` at the end. Shared memory is initialized first.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from kcheck.launch import Launch, Tensor

WORDS = 64  # of shared memory, and of the global scratch buffer G
WARP = 32

HEAD = """.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_A, .param .u64 p_G, .param .u64 p_O)
{
.reg .b64 A, G, O, g, a;
.reg .b32 i, w, l, c, n, j, r, v, s, e, k;
.reg .pred p, q;
.shared .align 16 .b32 t[64];
ld.param.u64 A, [p_A]; ld.param.u64 G, [p_G]; ld.param.u64 O, [p_O];
mov.u32 i, %tid.x; shr.u32 w, i, 5; and.b32 l, i, 31; mov.u32 c, %ctaid.x; mov.u32 n, %ntid.x;
mov.u32 r, i; and.b32 j, i, 63; mov.u32 s, t; mad.lo.u32 s, j, 4, s; st.shared.u32 [s], 1;
bar.sync 0;
"""
TAIL = """mad.lo.u32 j, c, n, i; mad.wide.u32 g, j, 4, O; st.global.u32 [g], r;
ret;
}
"""

# the word that a thread accesses, into j
INDICES = {
    "own": "mov.u32 j, i;",
    "neighbour": "add.u32 j, i, 1;",
    "partner": "xor.b32 j, i, 1;",
    "half": "xor.b32 j, i, 16;",
    "across": "xor.b32 j, i, 32;",
    "shared by two": "shr.u32 j, i, 1;",
    "of the warp": "mov.u32 j, w;",
    "one": "mov.u32 j, 5;",
    "reversed": "sub.u32 j, 63, i;",
}
# accesses; {a} is the address, {v} the value that is stored
SHARED = (
    "st.shared.u32 [s], {v};",
    "ld.shared.u32 e, [s]; add.u32 r, r, e;",
    "st.volatile.shared.u32 [s], {v};",
    "ld.volatile.shared.u32 e, [s]; add.u32 r, r, e;",
    "red.shared.add.u32 [s], {v};",
    "red.shared.max.u32 [s], {v};",
    "st.shared.u8 [s+1], {v};",
    "ld.shared.u16 e, [s]; add.u32 r, r, e;",
)
GLOBAL = (
    "st.global.u32 [g], {v};",
    "ld.global.u32 e, [g]; add.u32 r, r, e;",
    "red.global.add.u32 [g], {v};",
    "ld.global.nc.u32 e, [g]; add.u32 r, r, e;",
)
# rarer: what may and what may not be exchanged across CTAs
ATOMICS = (
    "red.global.add.u32 [g], {v};",
    "red.global.max.u32 [g], {v};",
    "red.relaxed.cta.global.add.u32 [g], {v};",
    "atom.global.or.b32 e, [g], {v};",
    "st.volatile.global.u32 [g], {v};",
    "ld.volatile.global.u32 e, [g]; add.u32 r, r, e;",
)
COPIES = (
    "mad.wide.u32 a, i, 4, A; cp.async.ca.shared.global [s], [a], 4;",
    "mad.wide.u32 a, i, 4, G; cp.async.ca.shared.global [s], [a], 4;",
)
WAITS = (
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "cp.async.wait_group 1;",
    "cp.async.wait_all;",
)
CONDITIONS = (
    "setp.lt.u32 p, l, 16;",
    "setp.eq.u32 p, w, 0;",
    "and.b32 j, i, 1; setp.eq.u32 p, j, 0;",
    "setp.eq.u32 p, i, 3;",
)
VALUES = ("i", "r", "7", "w")


@dataclass(frozen=True)
class Program:
    """A module with one kernel `k`, its launch, and its inputs (ints by buffer).

    `splits`: some lanes leave a warp whose other lanes go on.
    """

    text: str
    launch: Launch
    inputs: dict[str, list[int]]
    splits: bool = False


class _Labels:
    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"L{self.count}"


def _access() -> st.SearchStrategy[str]:
    """One access by every thread that gets there."""

    def join(index: str, access: str, value: str, apart: bool) -> str:
        cta = "mad.lo.u32 j, c, 32, j;" if apart and "[g]" in access else ""
        place = "and.b32 j, j, 63; mad.lo.u32 s, j, 4, s; mad.wide.u32 g, j, 4, G;"
        return f"{INDICES[index]}{cta} mov.u32 s, t; {place}\n{access.format(v=value)}"

    accesses = st.sampled_from((*SHARED, *SHARED, *GLOBAL, *ATOMICS, *COPIES))
    values = st.sampled_from(VALUES)
    return st.builds(join, st.sampled_from(sorted(INDICES)), accesses, values, st.booleans())


def _plain() -> st.SearchStrategy[str]:
    return st.one_of(_access(), _access(), _access(), st.sampled_from(WAITS))


@st.composite
def _named(draw: st.DrawFn, labels: _Labels, warps: int) -> str:
    """A barrier of some warps: those of `first` arrive, or wait like the rest of them."""
    members = draw(st.integers(1, (1 << warps) - 1))
    arriving = draw(st.integers(0, members)) & members
    if arriving == members:
        arriving = 0
    waited_for = bin(members).count("1")
    # one count for one barrier: what mixed counts do is undefined
    ident, count = waited_for, waited_for * WARP
    skip, wait = labels.new(), labels.new()
    return f"""mov.u32 e, 1; shl.b32 e, e, w; and.b32 j, e, {members}; setp.eq.u32 p, j, 0;
@p bra {skip};
and.b32 j, e, {arriving}; setp.eq.u32 p, j, 0;
@p bra {wait};
bar.arrive {ident}, {count};
bra {skip};
{wait}:
bar.sync {ident}, {count};
{skip}:"""


def _pledge(ident: int, arriving: int) -> tuple[str, str]:
    """Warps that arrive at a barrier, and warp 0 that waits for them: to be set apart."""
    count = (1 + bin(arriving).count("1")) * WARP
    gone, stay = f"A{ident}", f"W{ident}"
    arrive = f"""mov.u32 e, 1; shl.b32 e, e, w; and.b32 j, e, {arriving}; setp.eq.u32 p, j, 0;
@p bra {gone};
bar.arrive {ident}, {count};
{gone}:"""
    wait = f"""setp.ne.u32 p, w, 0;
@p bra {stay};
bar.sync {ident}, {count};
{stay}:"""
    return arrive, wait


@st.composite
def _divergence(draw: st.DrawFn, labels: _Labels) -> str:
    """An if with accesses in both arms, and sometimes a warp barrier of each half."""
    other, join = labels.new(), labels.new()
    halves = draw(st.booleans())
    condition = CONDITIONS[0] if halves else draw(st.sampled_from(CONDITIONS))
    arms = []
    for mask in ("0xffff", "0xffff0000"):
        lines = draw(st.lists(_plain(), max_size=2))
        if halves and draw(st.booleans()):
            lines.insert(draw(st.integers(0, len(lines))), f"bar.warp.sync {mask};")
        arms.append("\n".join(lines))
    return f"{condition}\n@!p bra {other};\n{arms[0]}\nbra {join};\n{other}:\n{arms[1]}\n{join}:"


@st.composite
def _loop(draw: st.DrawFn, labels: _Labels) -> str:
    """Two rounds of a few statements."""
    head = labels.new()
    body = draw(st.lists(st.one_of(_plain(), st.just("bar.sync 0;")), min_size=1, max_size=3))
    lines = "\n".join(body)
    return f"mov.u32 k, 0;\n{head}:\n{lines}\nadd.u32 k, k, 1; setp.lt.u32 q, k, 2;\n@q bra {head};"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of 1 to 3 warps and 1 to 3 CTAs.

    Barriers are met by all that they wait for: a deadlock only comes of a `race.barrier-pairing`,
    or of lanes that left their warp for the store at the end, before its next barrier; an undefined
    value only of a shuffle from a lane that left.
    """
    warps, ctas = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 1, 2, 2, 3)))
    labels = _Labels()
    live, splits = warps, False
    lines: list[str] = []
    waits: list[tuple[int, str]] = []  # after so many lines, of what arrived before
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from("aaaaabbwnnpsdlx"))
        if kind == "a":
            lines.append(draw(_plain()))
        elif kind == "b":
            lines.append("bar.sync 0;")
        elif kind == "w":
            lines.append("bar.warp.sync -1;")
        elif kind == "n":
            lines += draw(st.lists(_named(labels, live), min_size=1, max_size=3))
        elif kind == "p":
            arriving = draw(st.integers(0, (1 << live) - 1)) & ~1
            if arriving:
                arrive, wait = _pledge(8 + len(waits), arriving)
                lines.append(arrive)
                waits.append((len(lines), wait))
        elif kind == "s":
            lines.append("shfl.sync.bfly.b32 e, i, 1, 31, -1; add.u32 r, r, e;")
        elif kind == "d":
            lines.append(draw(_divergence(labels)))
        elif kind == "l":
            lines.append(draw(_loop(labels)))
        elif live > 1:  # some threads leave: whole warps, or all but 8 lanes of the last one
            live = draw(st.integers(1, live - 1))
            gone = draw(st.sampled_from((0, 24)))
            splits |= gone > 0
            stay = WARP * live - gone
            lines.append(f"setp.ge.u32 p, i, {stay};\n@p bra END;")
    for after, wait in reversed(waits):
        if draw(st.integers(0, 3)):
            lines.insert(draw(st.integers(after, len(lines))), wait)
    text = HEAD + "\n".join(lines) + "\nEND:\n" + TAIL
    threads = warps * WARP
    params = (
        Tensor("A", "u32", (threads,), "in"),
        Tensor("G", "u32", (2 * WORDS,), "inout"),
        Tensor("O", "u32", (ctas * threads,), "out"),
    )
    inputs = {"A": [100 + i for i in range(threads)], "G": [1000 + i for i in range(2 * WORDS)]}
    return Program(text, Launch("k", (ctas, 1, 1), (threads, 1, 1), params), inputs, splits)
