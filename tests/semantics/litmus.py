"""Litmus programs: small kernels with the races that each has, by instruction (DESIGN.md 5).

An instruction of interest ends in `// <letter>`. Thread `i` of CTA `c` has its word of shared
memory at [s] and its element of O at [x]; A and O hold 256 words, A known ones and O zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcheck.launch import Launch, Tensor
from tests.semantics.slow.harness import module

SETUP = """
.reg .b32 i, w, l, c, r, s, u, v; .reg .b64 x, a; .reg .pred p, q;
.shared .align 16 .b32 t[256]; .shared .b32 f;
mov.u32 i, %tid.x; shr.u32 w, i, 5; and.b32 l, i, 31; mov.u32 c, %ctaid.x; mov.u32 s, t;
mad.lo.u32 s, i, 4, s; mov.u32 u, %ntid.x; mad.lo.u32 u, c, u, i; mad.wide.u32 x, u, 4, O;
mad.wide.u32 a, i, 4, A;
"""


@dataclass(frozen=True)
class Litmus:
    """`found`: what is wrong, as `reason` and the letters of two instructions (or of one)."""

    name: str
    body: str
    found: tuple[str, ...] = ()
    threads: int = 64
    ctas: int = 1

    @property
    def text(self) -> str:
        """The module; the kernel is `k`."""
        return module(["A", "O"], SETUP + self.body + "\nret;")

    @property
    def launch(self) -> Launch:
        """Its launch."""
        known = Tensor("A", "u32", (256,), "in", values=np.arange(256))
        cleared = Tensor("O", "u32", (256,), "out", init="zero")
        return Launch("k", (self.ctas, 1, 1), (self.threads, 1, 1), (known, cleared))

    @property
    def wanted(self) -> set[tuple[str, tuple[int, ...]]]:
        """The reasons with the lines of both instructions."""
        lines = {
            line.rpartition("// ")[2]: number
            for number, line in enumerate(self.text.splitlines(), 1)
            if "// " in line
        }
        wanted = set()
        for entry in self.found:
            reason, letters = entry.split()
            wanted.add((reason, tuple(sorted(lines[letter] for letter in letters))))
        return wanted


# the load of the word of the thread at a distance, kept in the thread's element
OTHER = """
xor.b32 r, i, {0}; mov.u32 s, t; mad.lo.u32 s, r, 4, s;
ld.shared.u32 r, [s]; // B
st.global.u32 [x], r;
"""
STORE = "st.shared.u32 [s], i; // A\n"
HALVES = """
setp.lt.u32 p, l, 16;
@p bra L;
bar.warp.sync 0xffff0000;
bra M;
L:
bar.warp.sync 0xffff;
M:
"""
APART = """
setp.eq.u32 p, w, 0;
@p bra L;
bar.sync 1, 32;
bra M;
L:
bar.sync 2, 32;
M:
"""
LOADED = "race.read-write AB"


def _exchange(name: str, between: str, distance: int, racy: bool, threads: int = 64) -> Litmus:
    """A thread stores a word, and one at a distance loads it."""
    body = STORE + between + "\n" + OTHER.format(distance)
    return Litmus(name, body, (LOADED,) if racy else (), threads)


# warp 1 stores, arrives at barrier 1 and leaves; all others meet; warp 0 waits at barrier 1
_PLEDGE = """
setp.eq.u32 p, w, 1;
@p st.shared.u32 [s], i; // A
@p bar.arrive 1, 64;
{0}
@p ret;
bar.sync 0;
setp.eq.u32 p, w, 0;
@p bar.sync 1, 64;
setp.eq.u32 q, w, 0;
@!q ret;
mov.u32 s, t; add.u32 r, l, 32; mad.lo.u32 s, r, 4, s;
ld.shared.u32 r, [s]; // B
st.global.u32 [x], r;
"""
BARRIERS = [
    _exchange("nothing between", "", 1, True),
    _exchange("full barrier", "bar.sync 0;", 33, False),
    _exchange("full barrier by count", "bar.sync 3, 64;", 33, False),
    _exchange("full barrier with a reduction", "barrier.red.popc.u32 r, 2, 64, 1;", 33, False),
    _exchange("warp barrier within a warp", "bar.warp.sync -1;", 1, False),
    _exchange("warp barrier across warps", "bar.warp.sync -1;", 32, True),
    _exchange("a shuffle orders nothing", "shfl.sync.bfly.b32 r, i, 1, 31, -1;", 1, True),
    _exchange("a vote orders nothing", "vote.sync.any.pred p, 1, -1;", 1, True),
    _exchange("a fence alone orders nothing", "membar.gl;", 1, True),
    _exchange("halves of a warp, within", HALVES, 1, False),
    _exchange("halves of a warp, across", HALVES, 16, True),
    _exchange("a barrier of each warp, within", APART, 1, False),
    _exchange("a barrier of each warp, across", APART, 32, True),
    _exchange(
        "halves, then the whole warp", HALVES + "bar.warp.sync -1;", 16, False
    ),
    _exchange(
        "through a third warp",
        """
        setp.eq.u32 p, w, 0; @p bra P;
        setp.eq.u32 p, w, 1; @p bra Q;
        bar.sync 1, 64;
        bar.arrive 2, 64;
        bra E;
        P: bar.arrive 1, 64;
        bra E;
        Q: bar.sync 2, 64;
        E: setp.ne.u32 p, w, 1; @p ret;
        """,
        32,
        False,
        96,
    ),
    Litmus(
        "early return after the store",
        "setp.ge.u32 p, i, 32;\n" + STORE + "@p ret;\nbar.sync 0;\n" + OTHER.format(32),
        (LOADED,),
    ),
    Litmus(
        "early return after the store, and more barriers",
        "setp.ge.u32 p, i, 32;\n" + STORE + "@p ret;\nbar.sync 0; bar.sync 0;\n"
        + OTHER.format(32),
        (LOADED,),
    ),
    Litmus(
        "early return after the barrier",
        "setp.ge.u32 p, i, 32;\n" + STORE + "bar.sync 0;\n@p ret;\n" + OTHER.format(32),
    ),
    Litmus(
        "early return before the store",
        "setp.ge.u32 p, i, 32;\n@p ret;\n" + STORE + "bar.warp.sync -1;\n" + OTHER.format(1),
    ),
    Litmus("left behind a barrier that it came to", _PLEDGE.format(""), (), 96),
    Litmus(
        "left behind a barrier that it came to, before the store",
        _PLEDGE.format("@p st.shared.u32 [s], 5; // C"),
        ("race.read-write BC",),
        96,
    ),
    Litmus(
        "left behind a barrier that it came to, others do not wait",
        _PLEDGE.format("").replace("setp.eq.u32 p, w, 0;", "setp.eq.u32 p, w, 2;"),
        (LOADED,),
        96,
    ),
    Litmus(
        "left behind a barrier that it came to, passed on by the next",
        _PLEDGE.format("").replace("setp.eq.u32 q, w, 0;", "bar.sync 0;\nsetp.eq.u32 q, w, 2;"),
        (),
        96,
    ),
    Litmus(
        "left behind a barrier that it came to, not passed on",
        _PLEDGE.format("").replace("setp.eq.u32 q, w, 0;", "setp.eq.u32 q, w, 2;"),
        (LOADED,),
        96,
    ),
    Litmus(
        "left behind a barrier that it came to, two barriers ago",
        _PLEDGE.format("").replace("bar.sync 0;", "bar.sync 0;\nbar.sync 0;\n"),
        (),
        96,
    ),
    Litmus(
        "updates by threads that left",
        """
        setp.ge.u32 p, i, 32;
        red.global.add.u32 [O], 1;
        @p ret;
        bar.sync 0;
        red.global.add.u32 [O], 1;
        """,
    ),
]  # fmt: skip

_PRODUCER = """
mov.u32 v, 0; setp.lt.u32 p, i, 32; @p bra C;
P:
{empty_wait}
st.shared.u32 [s+-128], v; // A
bar.arrive 1, 64; // C
add.u32 v, v, 1; setp.lt.u32 p, v, 3; @p bra P;
ret;
C:
bar.sync 1, 64; // D
ld.shared.u32 r, [s]; // B
{empty_arrive}
add.u32 v, v, 1; setp.lt.u32 p, v, 3; @p bra C;
st.global.u32 [x], r;
"""
_ROLES = (
    STORE
    + """
setp.lt.u32 p, i, 32; @p bra C;
bar.arrive 1, 64;
{producer}
C:
bar.sync 1, 64;
{consumer}
E:
"""
)
NAMED = [
    Litmus(
        "a producer and a consumer",
        _ROLES.format(producer="ret;", consumer=OTHER.format(32)),
    ),
    Litmus(
        "arriving does not acquire",
        _ROLES.format(producer=OTHER.format(32) + "bra E;", consumer=""),
        (LOADED,),
    ),
    Litmus(
        "a store after the arrival",
        _ROLES.format(producer="st.shared.u32 [s], 5; // C\nret;", consumer=OTHER.format(32)),
        ("race.read-write BC",),
    ),
    Litmus(
        "a producer that laps its consumer",
        # the load may see any round; which one is a matter of the pairing
        _PRODUCER.format(empty_wait="", empty_arrive=""),
        ("race.barrier-pairing CC",),
    ),
    Litmus(
        "a producer that waits for its consumer",
        _PRODUCER.format(
            empty_wait="setp.eq.u32 q, v, 0; @!q bar.sync 2, 64;",
            empty_arrive="setp.eq.u32 q, v, 2; @!q bar.arrive 2, 64;",
        ),
    ),
    Litmus(
        "arriving twice",
        """
        setp.lt.u32 p, i, 32; @p bra C;
        bar.arrive 1, 64; // A
        bar.arrive 1, 64; // B
        ret;
        C:
        bar.sync 1, 64;
        """,
        ("race.barrier-pairing AB",),
    ),
    Litmus(
        "two pairs of warps at one barrier",
        """
        setp.lt.u32 p, i, 64;
        @p bar.sync 1, 64; // A
        @!p bar.sync 1, 64; // B
        """,
        ("race.barrier-pairing AB",),
        128,
    ),
    Litmus(
        "arriving, then waiting at the same barrier",
        """
        setp.eq.u32 p, w, 0; @p bra P;
        bar.sync 1, 64; // A
        bra E;
        P: bar.arrive 1, 64;
        E: bar.sync 1, 64; // B
        """,
        ("race.barrier-pairing AB",),
    ),
    Litmus(
        "a warp twice at a barrier, then another",
        """
        setp.eq.u32 p, w, 1;
        @p bar.sync 1, 32;
        @p bar.sync 1, 32; // A
        @!p bar.sync 1, 32; // B
        """,
        ("race.barrier-pairing AB",),
    ),
    Litmus(
        "two pairs of warps at one barrier, in turns",
        "setp.lt.u32 p, i, 64;\n@p bar.sync 1, 64;\nbar.sync 0;\n@!p bar.sync 1, 64;\n",
        (),
        128,
    ),
    Litmus(
        "an elected lane comes to the barrier without its warp",
        STORE
        + """
        setp.lt.u32 p, i, 32; @p bra C;
        setp.eq.u32 q, l, 0;
        @q barrier.sync 1, 64;
        bra E;
        C: bar.sync 1, 64;
        """
        + OTHER.format(32)
        + "E:\n",
        (LOADED,),
    ),
    Litmus(
        "an elected lane comes to the barrier after its warp",
        STORE
        + """
        setp.lt.u32 p, i, 32; @p bra C;
        bar.warp.sync -1;
        setp.eq.u32 q, l, 0;
        @q barrier.sync 1, 64;
        bra E;
        C: bar.sync 1, 64;
        """
        + OTHER.format(32)
        + "E:\n",
    ),
    Litmus(
        "halves of two warps at one barrier",
        """
        setp.lt.u32 p, l, 16; @!p bra E;
        st.shared.u32 [s], i; // A
        barrier.sync 1, 32; // C
        E:
        @!p ret;
        """
        + OTHER.format(32),
        (LOADED, "race.barrier-pairing CC"),
    ),
]

_COPY = "cp.async.ca.shared.global [s], [a], 4; // A\n"
_COMMIT, _WAIT = "cp.async.commit_group;\n", "cp.async.wait_group 0;\n"
_FULL = "bar.sync 0;\n"
_OWN = "ld.shared.u32 r, [s]; // B\nst.global.u32 [x], r;\n"
_ASYNC = "race.async AB"
COPIES = [
    Litmus("own read before the wait", _COPY + _COMMIT + _OWN, (_ASYNC,)),
    Litmus("own read after the wait", _COPY + _COMMIT + _WAIT + _OWN),
    Litmus("own read after wait_all", _COPY + "cp.async.wait_all;\n" + _OWN),
    Litmus("a wait before the commit", _COPY + _WAIT + _COMMIT + _OWN, (_ASYNC,)),
    Litmus("one group may be open", _COPY + _COMMIT + "cp.async.wait_group 1;\n" + _OWN, (_ASYNC,)),
    Litmus("an older group", _COPY + _COMMIT * 2 + "cp.async.wait_group 1;\n" + _OWN),
    Litmus("own store", _COPY + _COMMIT + "st.shared.u32 [s], 1; // B\n", (_ASYNC,)),
    Litmus("own store before", "st.shared.u32 [s], 1;\n" + _COPY + _COMMIT),
    Litmus("across a barrier", _COPY + _COMMIT + "bar.sync 0;\n" + OTHER.format(32), (_ASYNC,)),
    Litmus(
        "the wait after the barrier",
        _COPY + _COMMIT + "bar.sync 0;\n" + _WAIT + OTHER.format(32),
        (LOADED,),
    ),
    Litmus("the wait, then the barrier", _COPY + _COMMIT + _WAIT + _FULL + OTHER.format(32)),
    Litmus("the wait without a barrier", _COPY + _COMMIT + _WAIT + OTHER.format(1), (LOADED,)),
    Litmus(
        "two copies to one place",
        _COPY + _COMMIT + _COPY.replace("A\n", "B\n") + _COMMIT,
        (_ASYNC,),
    ),
    Litmus(
        "lanes of one copy to one place",
        "cp.async.ca.shared.global [t], [a], 4; // A\n" + _COMMIT + _WAIT,
        ("race.async AA",),
    ),
    Litmus(
        "the source of a copy is overwritten",
        "cp.async.ca.shared.global [s], [x], 4; // A\n" + _COMMIT
        + "st.global.u32 [x], 1; // B\n",
        (_ASYNC,),
    ),
    Litmus(
        "the source of a copy is overwritten after the wait",
        "cp.async.ca.shared.global [s], [x], 4;\n" + _COMMIT + _WAIT + "st.global.u32 [x], 1;\n",
    ),
    Litmus(
        "the source of another thread's copy is overwritten after the wait",
        "cp.async.ca.shared.global [s], [O], 4; // A\n" + _COMMIT + _WAIT
        + "setp.eq.u32 p, i, 5;\n@p st.global.u32 [O], 1; // B\n",
        (LOADED,),
    ),
]  # fmt: skip

_ONE = """
setp.eq.u32 p, i, 0; @p st.shared.v2.u32 [t], {{0, 0}};
bar.sync 0;
setp.eq.u32 p, i, 0; setp.eq.u32 q, i, 32;
@p {0} // A
@q {1} // B
"""


def _at_one_cell(first: str, second: str, reason: str) -> Litmus:
    """Two threads of different warps at one word."""
    found = (f"{reason} AB",) if reason else ()
    return Litmus(f"{first} {second}", _ONE.format(first, second), found)


CELLS = [
    _at_one_cell(first, second, reason)
    for first, second, reason in [
        ("st.volatile.shared.u32 [t], i;", "st.volatile.shared.u32 [t], i;", "race.unordered"),
        ("ld.volatile.shared.u32 r, [t];", "st.volatile.shared.u32 [t], i;", "race.unordered"),
        ("ld.shared.u32 r, [t];", "st.volatile.shared.u32 [t], i;", "race.read-write"),
        ("ld.shared.u16 r, [t+2];", "st.shared.u8 [t+3], i;", "race.read-write"),
        ("ld.shared.u8 r, [t+2];", "st.shared.u8 [t+3], i;", ""),
        ("st.shared.u32 [t], i;", "st.shared.u32 [t], i;", "race.write-write"),
        ("st.shared.u32 [t], 5;", "st.shared.u32 [t], 5;", "race.write-write"),
        ("st.shared.u32 [t], i;", "atom.shared.add.u32 r, [t], 1;", "race.write-write"),
        ("red.shared.add.u32 [t], 1;", "red.shared.max.u32 [t], 1;", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "red.shared.add.u64 [t], 1;", "race.unordered"),
        ("atom.shared.exch.b32 r, [t], 1;", "atom.shared.exch.b32 r, [t], 1;", "race.unordered"),
        ("atom.shared.cas.b32 r, [t], 1, 2;", "red.shared.add.u32 [t], 1;", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "ld.relaxed.gpu.shared.u32 r, [t];", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "atom.shared.add.u32 r, [t], 1;", ""),
        ("red.shared.add.u32 [t], 1;", "red.shared.add.s32 [t], 1;", ""),
        ("red.shared.or.b32 [t], 1;", "red.shared.or.b32 [t], 2;", ""),
    ]
]
_SAME = "mad.wide.u32 x, i, 4, O;\n"
LANES = [
    Litmus("equal values", "st.shared.u32 [t], 5;"),
    Litmus("equal values, volatile", "st.volatile.shared.u32 [t], 5;"),
    Litmus("other values", "st.shared.u32 [t], i; // A", ("race.write-write AA",)),
    Litmus("other values, volatile", "st.volatile.shared.u32 [t], i; // A", ("race.unordered AA",)),
    Litmus(
        "equal values twice",
        "st.shared.u32 [t], 5; // A\nst.shared.u32 [t], 5; // B",
        ("race.write-write AB",),
    ),
    Litmus("parts of words", "mov.u32 s, t; mad.lo.u32 s, i, 2, s; st.shared.u16 [s], i;"),
    Litmus("equal values of two CTAs", "st.global.u32 [O], 5; // A", ("race.global AA",), ctas=2),
    Litmus(
        "a store, an update by the same thread, an update by another",
        """
        setp.eq.u32 p, i, 0; setp.eq.u32 q, i, 32;
        @p st.shared.u32 [t], 0; // A
        @p red.shared.add.u32 [t], 1;
        @q red.shared.add.u32 [t], 1; // B
        """,
        ("race.write-write AB",),
    ),
    Litmus(
        "a copy's read and a store after another thread's load",
        """
        setp.eq.u32 p, i, 0; setp.eq.u32 q, i, 32;
        @p ld.global.u32 r, [O]; // A
        @q cp.async.ca.shared.global [t], [O], 4;
        cp.async.wait_all;
        @q st.global.u32 [O], 7; // B
        """,
        ("race.read-write AB",),
    ),
]
# p: thread 0 of CTA 0, q: thread 0 of any other CTA
_OF_CTA_0 = """
setp.eq.u32 p, i, 0; setp.eq.u32 q, c, 0; and.pred p, p, q;
setp.ne.u32 q, c, 0; @q setp.eq.u32 q, i, 0;
"""
GRID = [
    Litmus("own elements", "st.global.u32 [x], i;", ctas=3),
    Litmus("one element of all CTAs", _SAME + "st.global.u32 [x], c; // A", ("race.global AA",),
           ctas=2),
    Litmus("sums", _SAME + "red.global.add.u32 [x], 1;", ctas=2),
    Litmus("sums in a CTA's scope", _SAME + "red.relaxed.cta.global.add.u32 [x], 1; // A",
           ("race.global AA",), ctas=2),
    Litmus("sums in the scope of the only CTA", _SAME + "red.relaxed.cta.global.add.u32 [x], 1;"),
    Litmus(
        "a sum is read",
        _SAME + "red.global.add.u32 [x], 1; // A\nbar.sync 0;\nld.global.u32 r, [x]; // B",
        ("race.global AB",),
        ctas=2,
    ),
    Litmus(
        "the first CTA clears what all sum up",
        """
        setp.ne.u32 p, c, 0; setp.ne.u32 q, i, 0; or.pred p, p, q;
        @!p st.global.u32 [O], 0; // A
        bar.sync 0;
        @!q red.global.add.u32 [O], 1; // B
        """,
        ("race.global AB",),
        ctas=2,
    ),
    Litmus(
        "two operations of one CTA, the second of another",
        _OF_CTA_0 + "@p red.global.add.u32 [O], 1; // A\n@p red.global.max.u32 [O], 1; // B\n"
        "@q red.global.max.u32 [O], 2; // C",
        ("race.global AC",),
        ctas=2,
    ),
    Litmus(
        "two operations of one CTA, the first of another",
        _OF_CTA_0 + "@p red.global.add.u32 [O], 1; // A\n@p red.global.max.u32 [O], 1; // B\n"
        "@q red.global.add.u32 [O], 2; // C",
        ("race.global BC",),
        ctas=2,
    ),
    Litmus(
        "a store, sums of another CTA, and then of the first",
        _OF_CTA_0 + "@p st.global.u32 [O], 1; // A\n@q red.global.add.u32 [O], 1; // B\n"
        "@p red.global.add.u32 [O], 2;",
        ("race.global AB",),
        ctas=3,
    ),
    Litmus(
        "two operations of two CTAs, and the second of the first CTA",
        _OF_CTA_0 + "@p red.global.add.u32 [O], 1; // A\n@q red.global.max.u32 [O], 1; // B\n"
        "@p red.global.max.u32 [O], 2;",
        ("race.global AB",),
        ctas=2,
    ),
    Litmus(
        "one operation twice in one CTA's scope after another CTA's",
        _OF_CTA_0 + "@p red.global.add.u32 [O], 1; // A\nsetp.ne.u32 q, c, 0;\n"
        "@q red.relaxed.cta.global.add.u32 [O], 1; // B",
        ("race.global AB",),
        ctas=2,
    ),
    Litmus(
        "a byte read by ld.global.nc",
        "st.global.u32 [x], 1; // A\nbar.sync 0;\nld.global.nc.u32 r, [O+12]; // B",
        ("race.nc AB",),
    ),
    Litmus(
        "a byte written after ld.global.nc",
        "ld.global.nc.u32 r, [x]; // A\nst.global.u32 [x], 1; // B",
        ("race.nc AB",),
    ),
    Litmus("another byte by ld.global.nc", "ld.global.nc.u32 r, [O+1000]; st.global.u32 [x], 1;"),
]  # fmt: skip

# each thread of CTA 0 tells its partner in CTA 1, by a flag of their own, that it stored its word
_MESSAGE = """
setp.ne.u32 p, c, 0; @p bra C;
st.global.u32 [x], 7; // A
{tell} // C
bra E;
C:
W:
{see} // D
setp.ne.u32 q, r, 1;
{again}
{after}
ld.global.u32 v, [x+-256]; // B
E:
"""


def _message(
    name: str, tell: str, see: str, after: str = "", found: str = "", again: str = "@q bra W;"
) -> Litmus:
    tell = tell.replace("F", "[x+512], 1")
    body = _MESSAGE.format(tell=tell, see=see.replace("F", "[x+256]"), after=after, again=again)
    return Litmus(name, body, tuple(found.split(", ")) if found else (), ctas=2)


_LOST = "race.global AB"
_SEEN = "race.global CD"
# warp 0 tells warp 1 by a flag in shared memory that it stored its words
_WITHIN = """
setp.eq.u32 p, i, 0; @p st.shared.u32 [f], 0;
bar.sync 0;
setp.ge.u32 p, i, 32; @p bra C;
st.shared.u32 [s], i; // A
{tell}
bra E;
C:
W:
ld.volatile.shared.u32 r, [f];
setp.ne.u32 q, r, 32;
@q bra W;
{see}
xor.b32 r, i, 32; mov.u32 s, t; mad.lo.u32 s, r, 4, s;
ld.shared.u32 v, [s]; // B
E:
"""
# CTA 0 stores, and one of its threads tells; then what CTA 1 does
_TOLD = """
setp.ne.u32 p, c, 0; @p bra C;
st.global.u32 [x], 7; // A
bar.sync 0;
setp.ne.u32 p, i, 0; @p bra E;
st.release.gpu.global.u32 [O+1000], 1;
bra E;
C:
"""
# warp 0 waits, and arrives at a barrier where warp 1 waits, which reads
_BY_ARRIVAL = (
    _TOLD
    + """setp.ge.u32 p, i, 32; @p bra D;
W:
ld.acquire.gpu.global.u32 r, [O+1000];
setp.ne.u32 q, r, 1;
@q bra W;
{meet}
bra E;
D:
bar.sync 1, 64;
ld.global.u32 v, [x-256]; // B
E:
"""
)
# one lane waits, and a warp barrier lets the others of its warp know
_BY_ONE_LANE = (
    _TOLD
    + """setp.ne.u32 p, l, 0; @p bra D;
W:
ld.acquire.gpu.global.u32 r, [O+1000];
setp.ne.u32 q, r, 1;
@q bra W;
D:
{meet}
ld.global.u32 v, [x+-{back}]; // B
E:
"""
)
# two CTAs count up, and a third waits for both
_COUNTED = """
setp.eq.u32 p, c, 2; @p bra C;
st.global.u32 [x], 7; // A
bar.sync 0;
setp.ne.u32 p, i, 0; @p bra E;
{tell}
bra E;
C:
setp.ne.u32 p, i, 0; @p bra D;
W:
ld.acquire.gpu.global.u32 r, [O+1000];
setp.{until}.u32 q, r, 2;
@q bra W;
D:
bar.sync 0;
ld.global.u32 v, [x+-{back}]; // B
E:
"""
# the CTA that draws the last ticket goes on
_LAST = """
setp.ne.u32 p, i, 0; @p bra B;
membar.gl;
mov.u32 u, %nctaid.x; sub.u32 u, u, 1;
atom.global.inc.u32 r, [O+1000], u;
setp.eq.u32 q, r, u; selp.u32 v, 1, 0, q; st.shared.u32 [f], v;
B:
bar.sync 0;
ld.shared.u32 v, [f]; setp.eq.u32 q, v, 0; @q bra E;
{}
E:
"""
_RESET = "st.global.u32 [O+1000], 0;"
_COUNT = "red.release.gpu.global.add.u32 [O+1000], 1;"
MESSAGES = [
    _message("release and acquire", "st.release.gpu.global.u32 F;",
             "ld.acquire.gpu.global.u32 r, F;"),
    _message("system scope", "st.release.sys.global.u32 F;", "ld.acquire.sys.global.u32 r, F;"),
    _message("fences", "membar.gl; st.volatile.global.u32 F;", "ld.volatile.global.u32 r, F;",
             "membar.gl;"),
    _message("a fence and a release", "st.release.gpu.global.u32 F;",
             "ld.relaxed.gpu.global.u32 r, F;", "fence.acq_rel.gpu;"),
    _message("release by an atomic", "red.release.gpu.global.add.u32 F;",
             "ld.acquire.gpu.global.u32 r, F;"),
    _message("the flag is not waited for", "st.release.gpu.global.u32 F;",
             "ld.acquire.gpu.global.u32 r, F;", "", f"{_LOST}, {_SEEN}", again=""),
    _message("a CTA's scope at the writer", "st.release.cta.global.u32 F;",
             "ld.acquire.gpu.global.u32 r, F;", "", f"{_LOST}, {_SEEN}"),
    _message("a CTA's scope at the reader", "st.release.gpu.global.u32 F;",
             "ld.acquire.cta.global.u32 r, F;", "", f"{_LOST}, {_SEEN}"),
    _message("no fence at the writer", "st.volatile.global.u32 F;",
             "ld.volatile.global.u32 r, F;", "membar.gl;", _LOST),
    _message("no fence at the reader", "membar.gl; st.volatile.global.u32 F;",
             "ld.volatile.global.u32 r, F;", "", _LOST),
    _message("the fence after the flag", "st.volatile.global.u32 F; membar.gl;",
             "ld.volatile.global.u32 r, F;", "membar.gl;", _LOST),
    _message("fences of a CTA's scope", "membar.cta; st.volatile.global.u32 F;",
             "ld.volatile.global.u32 r, F;", "membar.cta;", _LOST),
    _message("a relaxed flag", "st.relaxed.gpu.global.u32 F;",
             "ld.relaxed.gpu.global.u32 r, F;", "", _LOST),
    _message("a weak flag", "st.global.u32 F;", "ld.acquire.gpu.global.u32 r, F;", "",
             f"{_LOST}, {_SEEN}"),
    Litmus(
        "another CTA's load does not hide one of the same CTA",
        """
        setp.eq.u32 p, c, 1; @p bra C;
        setp.eq.u32 p, i, 0;
        @p ld.global.u32 r, [O+800]; // A
        setp.ne.u32 p, i, 32; @p bra E;
        W: ld.acquire.gpu.global.u32 v, [O+1000]; setp.ne.u32 q, v, 1; @q bra W;
        st.global.u32 [O+800], 3; // B
        bra E;
        C: setp.ne.u32 p, i, 0; @p bra E;
        ld.global.u32 r, [O+800];
        st.release.gpu.global.u32 [O+1000], 1;
        E:
        """,
        (LOADED,),
        ctas=2,
    ),
    Litmus("all lanes reset a counter at once", _LAST.format(_RESET), ctas=2),
    Litmus("all lanes reset a counter twice",
           _LAST.format(f"{_RESET} // A\n{_RESET} // B"), ("race.write-write AB",), ctas=2),
    Litmus("all lanes reset a counter, and again after a barrier",
           _LAST.format(f"{_RESET}\nbar.sync 0;\n{_RESET}"), ctas=2),
    Litmus("two threads reset a counter",
           _LAST.format(f"setp.eq.u32 p, i, 0; setp.eq.u32 q, i, 33;\n@p {_RESET} // A\n"
                        f"@q {_RESET} // B"),
           ("race.write-write AB",), ctas=2),
    Litmus("all lanes tell at once, and again", """
        setp.ne.u32 p, c, 0; @p bra C;
        st.release.gpu.global.u32 [O+1000], 1; // A
        setp.eq.u32 p, i, 63;
        @p st.release.gpu.global.u32 [O+1000], 1; // B
        bra E;
        C: W: ld.acquire.gpu.global.u32 v, [O+1000]; setp.ne.u32 q, v, 1; @q bra W;
        E:
        """, ("race.unordered AB",), ctas=2),
    Litmus("within a CTA", _WITHIN.format(
        tell="membar.cta; red.relaxed.cta.shared.add.u32 [f], 1;", see="membar.cta;")),
    Litmus("within a CTA, no fence at the writers", _WITHIN.format(
        tell="red.relaxed.cta.shared.add.u32 [f], 1;", see="membar.cta;"), (LOADED,)),
    Litmus("within a CTA, no fence at the readers", _WITHIN.format(
        tell="membar.cta; red.relaxed.cta.shared.add.u32 [f], 1;", see=""), (LOADED,)),
    Litmus("by a lane of each warp",
           _BY_ONE_LANE.format(meet="bar.warp.sync -1;", back=256), ctas=2),
    Litmus("by a lane of each warp that tells nobody", _BY_ONE_LANE.format(meet="", back=256),
           (_LOST,), ctas=2),
    Litmus("by an arrival", _BY_ARRIVAL.format(meet="bar.arrive 1, 64;"), ctas=2),
    Litmus("by an arrival before it is known", _BY_ARRIVAL.replace("W:", "bar.arrive 1, 64;\nW:")
           .format(meet=""), (_LOST,), ctas=2),
    Litmus("counted", _COUNTED.format(tell=_COUNT, until="ne", back=512), ctas=3),
    Litmus("counted, at least", _COUNTED.format(tell=_COUNT, until="lt", back=256), ctas=3),
    Litmus("counted by one without a release", _COUNTED.format(
        tell="setp.eq.u32 q, c, 0; @q red.release.gpu.global.add.u32 [O+1000], 1;"
        "@!q red.relaxed.gpu.global.add.u32 [O+1000], 1;", until="ne", back=256),
        (_LOST,), ctas=3),
    Litmus("counted by another without a release", _COUNTED.format(
        tell="setp.eq.u32 q, c, 0; @q red.release.gpu.global.add.u32 [O+1000], 1;"
        "@!q red.relaxed.gpu.global.add.u32 [O+1000], 1;", until="ne", back=512),
        (), ctas=3),
]  # fmt: skip

# updates that do not commute, by several lanes of one instruction
TURNS = [
    Litmus("exchanges of unlike values in a warp", "atom.shared.exch.b32 r, [f], i; // A",
           ("race.unordered AA",), threads=32),
    Litmus("exchanges by two warps",
           "setp.eq.u32 p, l, 0;\n@p atom.shared.exch.b32 r, [f], w; // A",
           ("race.unordered AA",)),
    Litmus("exchanges by two CTAs", "setp.eq.u32 p, i, 0;\n@p atom.global.exch.b32 r, [O], c; // A",
           ("race.global AA",), ctas=2),
    Litmus("exchanges of one value", "atom.shared.exch.b32 r, [f], 7;"),
    Litmus("swaps where the first wins",
           "st.shared.u32 [s], 0; bar.sync 0;\natom.shared.cas.b32 r, [t], 0, u; // A",
           ("race.unordered AA",)),
    Litmus("swaps of one kind", "atom.shared.cas.b32 r, [f], 0, 1;"),
    Litmus("counts with unlike bounds", "atom.shared.inc.u32 r, [f], i; // A",
           ("race.unordered AA",)),
    Litmus("counts with one bound", "atom.shared.dec.u32 r, [f], 63;"),
    *(Litmus(f"{op} of one operand, whose scope is the {scope}, by two CTAs",
             f"setp.eq.u32 p, i, 0;\n@p atom.relaxed.{scope}.global.{op} r, [O], 7; // A",
             ("race.global AA",), ctas=2)
      for op in ("exch.b32", "inc.u32", "dec.u32") for scope in ("cta", "cluster")),
    Litmus("exchanges of many values, whose scope is the cluster, by many CTAs",
           "setp.eq.u32 p, i, 0; and.b32 u, c, 127; mad.wide.u32 x, u, 4, O;\n"
           "@p atom.relaxed.cluster.global.exch.b32 r, [x], u; // A",
           ("race.global AA",), ctas=200),
    Litmus("exchanges of eight values, each in its word, by turns",
           "mov.u32 v, 0;\nL: and.b32 u, v, 7; mad.wide.u32 x, u, 4, O;\n"
           "setp.eq.u32 p, i, 0;\n@p atom.global.exch.b32 r, [x], u;\n"
           "add.u32 v, v, 1; setp.lt.u32 q, v, 8; @q bra L;", ctas=200),
    Litmus("exchanges of two values in two words, and a store",
           "setp.ne.u32 p, i, 0; @p ret;\n"
           "and.b32 u, c, 1; mad.wide.u32 x, u, 4, O;\natom.global.exch.b32 r, [x], u; // A\n"
           "setp.eq.u32 q, c, 150;\n@q st.global.u32 [O], 9; // B", ("race.global AB",), ctas=200),
    *(Litmus(f"{op} of one operand by {ctas} CTAs",
             f"setp.eq.u32 p, i, 0;\n@p atom.global.{op} r, [O], 7;", ctas=ctas)
      for op in ("exch.b32", "inc.u32", "dec.u32") for ctas in (2, 200)),
    *(Litmus(f"{op} of one operand by 200 CTAs, but for one of them",
             f"setp.eq.u32 p, i, 0;\nsetp.eq.u32 q, c, 150; selp.u32 u, 8, 7, q;\n"
             f"@p atom.global.{op} r, [O], u; // A", ("race.global AA",), ctas=200)
      for op in ("exch.b32", "inc.u32", "dec.u32")),
    Litmus("exchanges of two values in a warp",
           "and.b32 u, l, 1;\natom.shared.exch.b32 r, [f], u; // A",
           ("race.unordered AA",), threads=32),
    Litmus("swaps of one kind by 200 CTAs",
           "setp.eq.u32 p, i, 0;\n@p atom.global.cas.b32 r, [O], 0, 1;", ctas=200),
    Litmus("exchanges of one value in two places, and of others elsewhere",
           "setp.ne.u32 p, i, 0; @p ret;\n"
           "setp.lt.u32 q, c, 140; selp.u32 u, 7, 8, q; mad.wide.u32 x, u, 4, O;\n"
           "atom.global.exch.b32 r, [x], u; // A\n"
           "setp.eq.u32 q, c, 190; @q atom.global.exch.b32 r, [O+28], 8; // B",
           ("race.global AB",), ctas=200),
    Litmus("exchanges by each in its own word", "atom.shared.exch.b32 r, [s], i;"),
]  # fmt: skip

LITMUS = [*TURNS, *BARRIERS, *NAMED, *COPIES, *CELLS, *LANES, *GRID, *MESSAGES]
