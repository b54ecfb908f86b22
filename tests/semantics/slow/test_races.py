"""Litmus programs: what is a race, and what is none (DESIGN.md 5)."""

from __future__ import annotations

import pytest

from kcheck.semantics.slow import UNDEF, grid
from tests.semantics.slow.watch import names, reasons, watch

STORE = "st.shared.u32 [s], i;"
OTHER = "xor.b32 r, i, {0}; mov.u32 s, t; mad.lo.u32 s, r, 4, s; ld.shared.u32 r, [s];"
KEEP = "st.global.u32 [x], r;"


def exchange(between: str, distance: int) -> str:
    """Each thread stores a word, then reads that of the thread at a distance."""
    return STORE + between + OTHER.format(distance) + KEEP


@pytest.mark.parametrize(
    ("between", "distance", "found"),
    [
        ("", 1, {"race.read-write"}),
        ("bar.sync 0;", 33, set()),
        ("bar.warp.sync -1;", 1, set()),
        ("bar.warp.sync -1;", 32, {"race.read-write"}),
        ("shfl.sync.bfly.b32 r, i, 1, 31, -1;", 1, {"race.read-write"}),
        ("vote.sync.any.pred p, 1, -1;", 1, {"race.read-write"}),
        ("membar.gl;", 1, {"race.read-write"}),
        ("bar.sync 3, 64;", 33, set()),
        ("barrier.red.popc.u32 r, 2, 64, 1;", 33, set()),
        (
            "setp.lt.u32 p, l, 16; @p bra L; bar.warp.sync 0xffff0000; bra M;"
            "L: bar.warp.sync 0xffff; M:",
            1,
            set(),
        ),
        (
            "setp.lt.u32 p, l, 16; @p bra L; bar.warp.sync 0xffff0000; bra M;"
            "L: bar.warp.sync 0xffff; M:",
            16,
            {"race.read-write"},
        ),
        (
            "mov.u32 v, 1; setp.eq.u32 p, w, 0; @p bra L; bar.sync 1, 32; bra M;"
            "L: bar.sync 2, 32; M:",
            1,
            set(),
        ),
        (
            "mov.u32 v, 1; setp.eq.u32 p, w, 0; @p bra L; bar.sync 1, 32; bra M;"
            "L: bar.sync 2, 32; M:",
            32,
            {"race.read-write"},
        ),
    ],
)
@pytest.mark.parametrize("seed", [None, 1])
def test_what_orders_a_store_and_a_load(
    between: str, distance: int, found: set[str], seed: int | None
) -> None:
    result = watch(exchange(between, distance), seed=seed)
    assert reasons(result) == found
    for race in result.races:
        assert names(race) == {"st.shared.u32", "ld.shared.u32"}
        assert race.buffer == "t"
        assert race.count == 64


def test_a_race_names_both_sides() -> None:
    body = "setp.eq.u32 p, i, 40; @p st.shared.u32 [t+20], 1; bar.sync 0;"
    body += "setp.eq.u32 p, i, 3; @p st.shared.u32 [t+20], 1; setp.eq.u32 p, i, 7;"
    (race,) = watch(body + "@p ld.shared.u8 r, [t+22];").races
    assert (race.reason, race.buffer, race.byte, race.count) == ("race.read-write", "t", 22, 1)
    assert {race.first.thread, race.second.thread} == {(3, 0, 0), (7, 0, 0)}
    assert race.first.last is not None
    assert race.first.last.name == "bar.sync"


def test_bytes_are_told_apart() -> None:
    body = "mov.u32 s, t; add.u32 s, s, i; st.shared.u8 [s], i; "
    assert reasons(watch(body + "ld.shared.u8 r, [s];")) == set()
    assert reasons(watch(body + "and.b32 s, s, -2; ld.shared.u16 r, [s];")) == {"race.read-write"}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("st.volatile.shared.u32 [t], i;", "st.volatile.shared.u32 [t], i;", "race.unordered"),
        ("ld.volatile.shared.u32 r, [t];", "st.volatile.shared.u32 [t], i;", "race.unordered"),
        ("ld.shared.u32 r, [t];", "st.volatile.shared.u32 [t], i;", "race.read-write"),
        ("st.shared.u32 [t], i;", "atom.shared.add.u32 r, [t], 1;", "race.write-write"),
        ("red.shared.add.u32 [t], 1;", "atom.shared.max.u32 r, [t], 1;", "race.unordered"),
        ("red.shared.inc.u32 [t], 5;", "red.shared.inc.u32 [t], 6;", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "red.shared.add.u64 [t], 1;", "race.unordered"),
        ("atom.shared.exch.b32 r, [t], 1;", "atom.shared.exch.b32 r, [t], 1;", "race.unordered"),
        ("atom.shared.cas.b32 r, [t], 1, 2;", "red.shared.add.u32 [t], 1;", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "ld.relaxed.gpu.shared.u32 r, [t];", "race.unordered"),
        ("red.shared.add.u32 [t], 1;", "atom.shared.add.u32 r, [t], 1;", ""),
        ("red.shared.add.u32 [t], 1;", "red.shared.add.s32 [t], 1;", ""),
        ("red.shared.inc.u32 [t], 5;", "red.shared.inc.u32 [t], 5;", ""),
        ("red.shared.or.b32 [t], 1;", "red.shared.or.b32 [t], 2;", ""),
        ("red.shared.max.s32 [t], 4;", "red.shared.min.u32 [t], -3;", ""),
        ("red.shared.max.s32 [t], 4;", "red.shared.min.u32 [t], 3;", "race.unordered"),
    ],
)
def test_two_threads_at_one_cell(first: str, second: str, reason: str) -> None:
    body = f"setp.eq.u32 p, i, 0; setp.eq.u32 q, i, 32; @p {first} @q {second}"
    body = "@p st.shared.v2.u32 [t], {0, 0};".replace("@p", "setp.eq.u32 p, i, 0; @p") + (
        "bar.sync 0;" + body
    )
    assert reasons(watch(body)) == ({reason} if reason else set())


def test_an_old_value_that_lives_is_no_plain_sum() -> None:
    """Otherwise nothing would tell that what each thread gets hangs on the order."""
    body = "atom.global.add.u32 r, [O], 1; setp.gt.u32 p, r, 7; @p st.global.u32 [O+8], 1;"
    with pytest.raises(Exception, match="unstable"):
        watch(body)


def test_lanes_of_one_instruction() -> None:
    """Equal values are no race, but noted."""
    assert reasons(watch("st.shared.u32 [t], i;")) == {"race.write-write"}
    result = watch("st.shared.u32 [t], 5;")
    assert (result.races, list(result.same.values())) == ([], [64 * 63 // 2])
    assert reasons(watch("st.shared.u32 [t], 5; st.shared.u32 [t], 5;")) == {"race.write-write"}
    shifted = "mov.u32 s, t; mad.lo.u32 s, i, 2, s; st.shared.{0} [s], {1};"
    assert reasons(watch(shifted.format("u16", "i"))) == set()
    assert reasons(watch("st.global.u32 [O], 5;", ctas=2)) == {"race.global"}


def test_lanes_of_one_instruction_in_different_rounds() -> None:
    """The second round of one thread is not the first of another."""
    body = """
        mov.u32 r, 0; L: setp.ne.u32 p, r, i; @p bra M; st.shared.u32 [t], 1; M:
        add.u32 r, r, 1; setp.lt.u32 p, r, 2; @p bra L;
    """
    result = watch(body)
    assert (result.races, sum(result.same.values())) == ([], 1)  # each stores once
    assert reasons(
        watch(
            "mov.u32 r, 0; L: st.shared.u32 [t], r;add.u32 r, r, 1; setp.lt.u32 p, r, 2; @p bra L;"
        )
    ) == {"race.write-write"}


# exits and barriers -------------------------------------------------------------------------------


def test_an_early_return_releases_nothing() -> None:
    gone = "setp.ge.u32 p, i, 32; st.shared.u32 [s], i; @p ret; bar.sync 0;"
    assert reasons(watch(gone + OTHER.format(32) + KEEP)) == {"race.read-write"}
    stayed = "setp.ge.u32 p, i, 32; st.shared.u32 [s], i; bar.sync 0; @p ret;"
    assert reasons(watch(stayed + OTHER.format(32) + KEEP)) == set()
    twice = gone + "bar.sync 0; bar.sync 0;" + OTHER.format(32) + KEEP
    assert reasons(watch(twice)) == {"race.read-write"}


PRODUCER = """
    mov.u32 v, 0; setp.lt.u32 p, i, 32; @p bra C;
    P: {empty_wait} st.shared.u32 [s+-128], v; bar.arrive 1, 64;
    add.u32 v, v, 1; setp.lt.u32 p, v, 3; @p bra P; ret;
    C: bar.sync 1, 64; ld.shared.u32 r, [s]; {empty_arrive}
    add.u32 v, v, 1; setp.lt.u32 p, v, 3; @p bra C; st.global.u32 [x], r;
"""


def test_a_producer_must_not_lap_its_consumer() -> None:
    lapping = watch(PRODUCER.format(empty_wait="", empty_arrive=""))
    assert reasons(lapping) == {"race.read-write", "race.barrier-pairing"}
    waiting = "setp.eq.u32 q, v, 0; @!q bar.sync 2, 64;"
    telling = "setp.eq.u32 q, v, 2; @!q bar.arrive 2, 64;"
    for seed in (None, 1, 2):
        result = watch(PRODUCER.format(empty_wait=waiting, empty_arrive=telling), seed=seed)
        assert (result.races, result.findings) == ([], [])
        assert result.outputs["O"][:32] == [2] * 32


def test_arriving_twice() -> None:
    """In one schedule the consumer waits for ever, in another it does not."""
    body = "setp.{0}.u32 p, i, 32; @p bra C; bar.arrive 1, 64; bar.arrive 1, 64; ret;"
    body += "C: bar.sync 1, 64;"
    early, late = watch(body.format("lt")), watch(body.format("ge"))
    assert reasons(early) == reasons(late) == {"race.barrier-pairing"}
    assert early.findings == []
    assert [f.reason for f in late.findings] == ["deadlock.barrier"]


def test_two_pairs_of_warps_at_one_barrier() -> None:
    """Whoever comes first pairs up; with a barrier between them all is clear."""
    body = "setp.lt.u32 p, i, 64; @p bar.sync 1, 64; {0} @!p bar.sync 1, 64;"
    assert reasons(watch(body.format(""), 128)) == {"race.barrier-pairing"}
    assert reasons(watch(body.format("bar.sync 0;"), 128)) == set()


def test_arriving_does_not_acquire() -> None:
    body = "st.shared.u32 [s], i; setp.lt.u32 p, i, 32; @p bra C; bar.arrive 1, 64; {0}"
    body += "bra E; C: bar.sync 1, 64; E:"
    other = OTHER.format(32)
    assert reasons(watch(body.format(other))) == {"race.read-write"}
    assert reasons(watch(body.format("") + "@p bra F; ret; F:" + other)) == set()


def test_halves_of_two_warps_at_one_barrier() -> None:
    """A barrier counts warps: each half passes alone, or waits for the rest of its warp."""
    body = "setp.lt.u32 p, l, 16; @!p bra E; st.shared.u32 [s], i; barrier.sync 1, 32; E: {0}"
    gone = body.format("@!p ret;") + OTHER.format(32)
    assert reasons(watch(gone)) == {"race.read-write", "race.barrier-pairing"}
    (finding,) = watch(body.format("bar.sync 0;")).findings
    assert finding.reason == "deadlock.divergent"


def test_an_elected_lane_that_arrives_for_its_warp() -> None:
    body = """
        setp.lt.u32 p, i, 32; @p bra C; st.shared.u32 [s+-128], i; setp.eq.u32 q, l, 0;
        @q barrier.arrive 1, 64; bar.warp.sync -1; ret;
        C: barrier.sync 1, 64; ld.shared.u32 r, [s]; st.global.u32 [x], r;
    """
    (finding,) = watch(body).findings
    assert finding.reason == "deadlock.divergent"


# asynchronous copies ------------------------------------------------------------------------------

COPY = ".reg .b64 a; mad.wide.u32 a, i, 4, A; cp.async.ca.shared.global [s], [a], 4;"
COMMIT = "cp.async.commit_group;"
WAIT = "cp.async.wait_group 0;"


@pytest.mark.parametrize(
    ("body", "racy"),
    [
        (COPY + COMMIT + "ld.shared.u32 r, [s];", True),
        (COPY + COMMIT + WAIT + "ld.shared.u32 r, [s];", False),
        (COPY + "cp.async.wait_all; ld.shared.u32 r, [s];", False),
        (COPY + WAIT + "ld.shared.u32 r, [s];", True),  # in no group yet
        (COPY + COMMIT + "st.shared.u32 [s], 1;", True),
        ("st.shared.u32 [s], 1;" + COPY + COMMIT, False),
        (COPY + COMMIT + "bar.sync 0;" + OTHER.format(32), True),
        (COPY + COMMIT + "bar.sync 0;" + WAIT + OTHER.format(32), True),
        (COPY + COMMIT + WAIT + "bar.sync 0;" + OTHER.format(32), False),
        (COPY + COMMIT + WAIT + OTHER.format(1), True),
        (COPY + COMMIT + COMMIT + "cp.async.wait_group 1; ld.shared.u32 r, [s];", False),
        (COPY + COMMIT + "cp.async.wait_group 1; ld.shared.u32 r, [s];", True),
        (COPY + COMMIT + COPY.partition(";")[2] + COMMIT, True),
        (COPY + COMMIT + "bar.sync 0; bar.sync 0; bar.sync 0; st.shared.u32 [s], 0;", True),
    ],
)
def test_copies(body: str, racy: bool) -> None:
    for seed in (None, 1):
        assert reasons(watch(body + KEEP, seed=seed)) == ({"race.async"} if racy else set())


def test_the_source_of_a_copy_must_stay() -> None:
    body = "cp.async.ca.shared.global [s], [x], 4; cp.async.commit_group; {0} st.global.u32 [x], 1;"
    assert reasons(watch(body.format(""))) == {"race.async"}
    assert reasons(watch(body.format(WAIT))) == set()


def test_a_copy_may_come_early_or_late() -> None:
    body = "st.shared.u32 [s], 1000;" + COPY + COMMIT + "ld.shared.u32 r, [s];" + WAIT + KEEP
    results = {tuple(watch(body, 2, seed=seed).outputs["O"][:2]) for seed in range(30)}
    assert results == {(0, 1), (0, 1000), (1000, 1), (1000, 1000)}
    assert watch(body, 2).outputs["O"][:2] == [0, 1]


# across CTAs --------------------------------------------------------------------------------------


def test_global_memory_across_ctas() -> None:
    assert reasons(watch("st.global.u32 [x], i;", ctas=3)) == set()
    same = "mad.wide.u32 x, i, 4, O; {0}.global{1}.u32 {2};"
    assert reasons(watch(same.format("st", "", "[x], c"), ctas=2)) == {"race.global"}
    assert reasons(watch(same.format("red", ".add", "[x], 1"), ctas=2)) == set()
    narrow = same.format("red.relaxed.cta", ".add", "[x], 1")
    assert reasons(watch(narrow, ctas=2)) == {"race.global"}
    assert reasons(watch(narrow, ctas=1)) == set()


def test_the_non_coherent_path() -> None:
    body = "st.global.u32 [x], 1; bar.sync 0; ld.global{0}.u32 r, [O+12];"
    assert reasons(watch(body.format(""))) == set()
    assert reasons(watch(body.format(".nc"))) == {"race.nc"}
    assert reasons(watch("ld.global.nc.u32 r, [O+1000]; st.global.u32 [x], 1;")) == set()
    assert reasons(watch("ld.global.nc.u32 r, [x]; st.global.u32 [x], 1;")) == {"race.nc"}


MESSAGE = """
    setp.ne.u32 p, c, 0; @p bra C; setp.ne.u32 p, i, 0; @p ret;
    st.global.u32 [O+64], 7; {release} ret;
    C: setp.ne.u32 p, i, 0; @p ret; {acquire} ld.global.u32 r, [O+64]; st.global.u32 [O+128], r;
"""
RELEASE = "st.release.gpu.global.u32 [O], 1;"
FENCED = "membar.gl; st.volatile.global.u32 [O], 1;"
BARE = "st.volatile.global.u32 [O], 1;"
SPIN = "L: ld.{0}.global.u32 r, [O]; setp.ne.u32 p, r, 1; @p bra L; {1}"
ACQUIRE = SPIN.format("acquire.gpu", "")


@pytest.mark.parametrize(
    ("release", "acquire", "ordered"),
    [
        (RELEASE, ACQUIRE, True),
        (FENCED, ACQUIRE, True),
        ("red.release.gpu.global.add.u32 [O], 1;", ACQUIRE, True),
        ("membar.gl; red.global.add.u32 [O], 1;", ACQUIRE, True),
        (RELEASE, SPIN.format("volatile", "fence.acq_rel.gpu;"), True),
        (FENCED, SPIN.format("relaxed.gpu", "membar.gl;"), True),
        (BARE, ACQUIRE, False),
        (RELEASE, SPIN.format("volatile", ""), False),
        (RELEASE, SPIN.format("volatile", "membar.cta;"), False),
        ("membar.cta; st.volatile.global.u32 [O], 1;", ACQUIRE, False),
        ("st.volatile.global.u32 [O], 1; membar.gl;", ACQUIRE, False),
    ],
)
def test_messages(release: str, acquire: str, ordered: bool) -> None:
    for seed in (None, 1, 2):
        result = watch(MESSAGE.format(release=release, acquire=acquire), 32, 2, seed)
        assert [r for r in result.findings if r.reason.startswith("deadlock")] == []
        wanted = set() if ordered else {"race.global"}
        assert reasons(result) == wanted
        assert all(race.byte == 64 for race in result.races)
        if seed is None or ordered:
            assert result.outputs["O"][32] == 7


@pytest.mark.parametrize("release", [RELEASE, FENCED])
def test_a_flag_that_is_not_waited_for(release: str) -> None:
    """Reading it once orders nothing: control passes whatever it holds."""
    read = "ld.acquire.gpu.global.u32 r, [O]; "
    result = watch(MESSAGE.format(release=release, acquire=read), 32, 2)
    assert {race.byte for race in result.races} == {0, 64}
    branch = read + "setp.ne.u32 p, r, 1; @p ret;"
    result = watch(MESSAGE.format(release=release, acquire=branch), 32, 2)
    assert 0 in {race.byte for race in result.races}


def test_a_cta_scope_does_not_reach_the_next_cta() -> None:
    release, acquire = RELEASE.replace("gpu", "cta"), SPIN.format("acquire.cta", "")
    result = watch(MESSAGE.format(release=release, acquire=acquire), 32, 2)
    assert {race.byte for race in result.races} == {0, 64}


def test_a_wait_for_what_nobody_writes() -> None:
    (finding,) = watch("L: ld.volatile.global.u32 r, [O]; setp.ne.u32 p, r, 1; @p bra L;").findings
    assert finding.reason == "deadlock.spin"


def test_spinning_within_a_cta() -> None:
    """The thread that waits lets the others run, in whatever order they come."""
    body = """
        setp.eq.u32 p, i, 0; @p st.volatile.shared.u32 [f], 0; bar.sync 0;
        setp.ne.u32 p, i, 63; @!p st.release.cta.shared.u32 [f], 1; @!p bra E;
        L: ld.acquire.cta.shared.u32 r, [f]; setp.ne.u32 q, r, 1; @q bra L; E:
    """
    for seed in (None, 1):
        result = watch(body + "st.global.u32 [x], i;", seed=seed)
        assert (result.findings, result.races) == ([], [])


LONG_PHASE = """
    mov.u32 u, 0;
    M: ld.global.u32 r, [A+4]; add.u32 u, u, r; setp.lt.u32 p, u, {0}; @p bra M;
"""
FLAG = """
    setp.eq.u32 p, i, 0; @p st.volatile.shared.u32 [f], 0; bar.sync 0;
    mov.u32 r, 1; setp.gt.u32 p, i, 1; @p bra E; setp.eq.u32 p, i, 0; @!p bra W;
"""
WAIT_FOR_IT = """
    st.release.cta.shared.u32 [f], 1; bra E;
    W: ld.acquire.cta.shared.u32 v, [f]; setp.ne.u32 q, v, 1; @q bra W; E:
"""


@pytest.mark.parametrize(
    "body", [LONG_PHASE.format(32), FLAG + LONG_PHASE.format(900) + WAIT_FOR_IT]
)
def test_a_long_phase_without_stores_is_no_spin(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random turns: CTAs that only load for many turns, alone or while others wait for them."""
    monkeypatch.setattr(grid, "PATIENCE", 2)
    for seed in range(8):
        result = watch(body + KEEP, ctas=2, seed=seed)
        assert (result.findings, result.races) == ([], [])
        assert result.outputs["O"][:128] == [1] * 128


def test_undefined_shared_memory_is_still_seen() -> None:
    result = watch("ld.shared.u32 r, [s];" + KEEP)
    assert result.outputs["O"][0] is UNDEF
