"""Loops that wait for what hangs on the schedule: undecided by name, at the place; or stuck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcheck.check import equivalent, safe
from tests.semantics.litmus import MESSAGES, Litmus

# thread 0 of each CTA; the last CTA waits, the others tell it something
ROLES = """
setp.ne.u32 p, i, 0; @p bra E;
setp.eq.u32 p, c, {last}; @p bra C;
st.global.u32 [x], 7;
{tell}
bra E;
C:
mov.u32 w, 0;
{wait}
E:
"""
ONCE = "st.release.gpu.global.u32 [O+1000], 1;"
LOAD = "ld.acquire.gpu.global.u32 r, [O+1000]; // A\n"
LOOP = "W:\n" + LOAD + "setp.{until}.u32 q, r, {number};\n@q bra W;\n"
READ = "ld.global.u32 v, [O]; st.global.u32 [x], v;\n"

CASES = [
    ("a value that never comes", ONCE, LOOP.format(until="ne", number=2), 2, "deadlock.spin"),
    (
        "a value that may be missed",
        ONCE + "\nst.release.gpu.global.u32 [O+1000], 2; // A",
        LOOP.format(until="ne", number=1).replace(" // A", ""),
        2,
        "unsupported.unstable",
    ),
    (
        "a count that two ways lead to",
        "add.u32 v, c, 1; red.release.gpu.global.add.u32 [O+1000], v;",
        LOOP.format(until="lt", number=2) + READ,
        3,
        "unsupported.unstable",
    ),
    (
        "the first of two, whichever it is",
        "red.release.gpu.global.add.u32 [O+1000], 1; // A",
        LOOP.format(until="lt", number=1).replace(" // A", "") + READ,
        3,
        "unsupported.unstable",
    ),
    (
        "how often a loop went round",
        ONCE,
        "W:\nadd.u32 w, w, 1;\n"
        + LOAD
        + "setp.ne.u32 q, r, 1;\n@q bra W;\nst.global.u32 [x], w;\n",
        2,
        "unsupported.spin",
    ),
    (
        "a loop that gives up",
        ONCE,
        "W:\nadd.u32 w, w, 1;\n"
        + LOAD
        + "setp.ne.u32 q, r, 1; setp.lt.u32 p, w, 9; and.pred q, p, q;\n@q bra W;\n"
        + READ,
        2,
        "unsupported.spin",
    ),
    (
        "what a loop saw",
        ONCE,
        LOOP.format(until="lt", number=1).replace(" // A", "") + "st.global.u32 [x], r; // A",
        2,
        "unsupported.unstable",
    ),
    (
        "a weak load of what nobody writes",
        "",
        LOOP.format(until="ne", number=1).replace("ld.acquire.gpu.global", "ld.global"),
        2,
        "unsupported.spin",
    ),
    (
        "an atomic that reads",
        ONCE,
        "W:\natom.global.or.b32 r, [O+1000], 0; // A\nsetp.ne.u32 q, r, 1;\n@q bra W;\n",
        2,
        "unsupported.spin",
    ),
    (
        "two flags in one loop",
        ONCE,
        "W:\n"
        + LOAD
        + "ld.acquire.gpu.global.u32 v, [O+1004];\nadd.u32 w, v, r; setp.ne.u32 q, w, 1;\n"
        + "@q bra W;\n",
        2,
        "unsupported.spin",
    ),
]

FIRST = "ld.acquire.gpu.global.u32 u, [O+1000]; // A\nsetp.eq.u32 p, u, 1;\n@p bra D;\n"
AGAIN = LOOP.format(until="ne", number=1)
DONE = "D:\n" + READ
COUNTED = "red.release.gpu.global.add.u32 [O+1000], 1;"
# a loop whose first round stands before it: (name, tell, first, again, CTAs)
PEELED = [
    ("once", ONCE, FIRST, AGAIN, 2),
    ("twice", ONCE, FIRST + FIRST, AGAIN, 2),
    (
        "the other way round",
        ONCE,
        FIRST.replace("eq.u32 p, u, 1;\n@p bra D", "eq.u32 p, 1, u;\n@!p bra W;\nbra D"),
        AGAIN,
        2,
    ),
    (
        "relaxed, and a fence after all",
        ONCE,
        FIRST.replace("acquire", "relaxed"),
        AGAIN.replace("acquire", "relaxed") + "D: fence.acq_rel.gpu;\nbra F;\nF:\n",
        2,
    ),
    (
        "some bits of it",
        ONCE,
        FIRST.replace("setp.eq.u32 p, u", "and.b32 v, u, 3; setp.eq.u32 p, v"),
        AGAIN.replace("setp.ne.u32 q, r", "and.b32 s, r, 3; setp.ne.u32 q, s"),
        2,
    ),
    (
        "a count",
        COUNTED,
        FIRST.replace("eq.u32 p, u, 1", "ge.u32 p, u, 2"),
        LOOP.format(until="lt", number=2),
        3,
    ),
]
# such loads that kcheck can't tell from others, by the same shape
POLLS = [
    ("another test", ONCE, FIRST.replace("u, 1", "u, 2"), AGAIN, 2),
    ("a lower count", COUNTED, FIRST.replace("eq", "ge"), LOOP.format(until="lt", number=2), 3),
    ("the first orders nothing", ONCE, FIRST.replace("acquire", "relaxed"), AGAIN, 2),
    ("only the first orders", ONCE, FIRST, AGAIN.replace("acquire", "relaxed"), 2),
    (
        "only the loop has a fence",
        ONCE,
        FIRST.replace("acquire", "relaxed"),
        AGAIN.replace("acquire", "relaxed").replace("setp", "fence.acq_rel.gpu; setp"),
        2,
    ),
    ("two rounds in one", ONCE, "W:\n" + FIRST, AGAIN.replace("W:\n", ""), 2),
    ("no loop", ONCE, FIRST, "bra E;\n", 2),
    ("its value is stored", ONCE, FIRST, AGAIN + "D: st.global.u32 [x], u;\nbra F;\nF:\n", 2),
    ("through shared memory", ONCE, FIRST.replace("@p bra D;", "selp.u32 r, 1, 0, p;\n"
     "st.shared.u32 [f], r;\nld.shared.u32 r, [f];\nsetp.ne.u32 p, r, 0; @!p bra E;"), "", 2),
]  # fmt: skip


def test_two_threads_of_the_last_cta_reset_its_counter_to_different_values() -> None:
    """A race of two threads, whichever CTA is the last: that one is told, not the refusal."""
    (case,) = [litmus for litmus in MESSAGES if litmus.name == "two threads reset a counter"]
    body = case.body.replace("@q st.global.u32 [O+1000], 0;", "@q st.global.u32 [O+1000], 7;")
    assert body != case.body
    other = replace(case, body=body)
    verdict = safe(other.text, launch=other.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.write-write")
    finding = verdict.findings[0]
    assert finding.confirmed in ("schedules", "definition")
    assert {(finding.reason, tuple(p.line for p in finding.locations))} == case.wanted


def polled(tell: str, first: str, again: str, ctas: int, done: str = DONE) -> Litmus:
    done = done.replace("D:\n", "") if "D:" in again else done
    return Litmus("", ROLES.format(last=ctas - 1, tell=tell, wait=first + again + done), ctas=ctas)


@pytest.mark.parametrize("case", PEELED, ids=[c[0] for c in PEELED])
def test_first_rounds_before_a_loop(case: tuple[str, str, str, str, int]) -> None:
    _, tell, first, again, ctas = case
    litmus = polled(tell, first, again, ctas)
    assert safe(litmus.text, launch=litmus.launch, seed=1).verdict == "proved"
    # but what is told without a release is not ordered
    litmus = polled(tell.replace("release", "relaxed"), first, again, ctas)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    lines = [litmus.text.splitlines()[p.line - 1] for p in verdict.findings[0].locations]
    assert lines == ["st.global.u32 [x], 7;", READ.strip()]


@pytest.mark.parametrize("case", POLLS, ids=[c[0] for c in POLLS])
def test_polls_are_no_races(case: tuple[str, str, str, str, int]) -> None:
    _, tell, first, again, ctas = case
    litmus = polled(tell, first, again, ctas)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert verdict.verdict == "undecided"
    assert verdict.reason in ("unsupported.unstable", "unsupported.spin")
    lines = [litmus.text.splitlines()[p.line - 1] for p in verdict.findings[0].locations]
    assert [line.endswith("// A") for line in lines] == [True]


def test_a_first_round_that_nothing_ends() -> None:
    """A deadlock is placed at the load in the loop."""
    litmus = polled("", FIRST.replace(" // A", ""), AGAIN, 2)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("refuted", "deadlock.spin")
    (place,) = verdict.findings[0].locations
    assert litmus.text.splitlines()[place.line - 1].endswith("// A")


def test_a_fence_between_the_load_of_a_loop_and_its_end() -> None:
    again = AGAIN.replace("acquire", "relaxed").replace("setp", "fence.acq_rel.gpu; setp")
    litmus = polled(ONCE, "", again, 2)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.spin")


@pytest.mark.parametrize(("tell", "wait", "ctas", "reason"), [c[1:] for c in CASES],
                         ids=[c[0] for c in CASES])  # fmt: skip
def test_what_hangs_on_the_schedule(tell: str, wait: str, ctas: int, reason: str) -> None:
    litmus = Litmus("", ROLES.format(last=ctas - 1, tell=tell, wait=wait), ctas=ctas)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    refuted = reason.startswith("deadlock")
    assert (verdict.verdict, verdict.reason) == ("refuted" if refuted else "undecided", reason)
    lines = litmus.text.splitlines()
    assert [lines[p.line - 1].endswith("// A") for p in verdict.findings[0].locations] == [True]


def test_a_barrier_whose_last_arrival_sends_on_the_others() -> None:
    """Those that are not the last wait for the last: both sides count (kcheck can't tell)."""
    body = """
    setp.ne.u32 p, i, 0; @p bra E;
    st.global.u32 [x], 7;
    membar.gl;
    atom.global.add.u32 r, [O+1000], 1; // A
    setp.ne.u32 q, r, 1;
    @q bra W;
    st.release.gpu.global.u32 [O+1004], 1;
    bra E;
    W: ld.acquire.gpu.global.u32 v, [O+1004]; setp.ne.u32 p, v, 1; @p bra W;
    E:
    """
    litmus = Litmus("", body, ctas=2)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.unstable")
    (place,) = verdict.findings[0].locations
    assert litmus.text.splitlines()[place.line - 1].endswith("// A")


AGGREGATED = """
setp.ge.u32 p, i, 40; @p bra E;
activemask.b32 r;
brev.b32 u, r; bfind.shiftamt.u32 u, u;
setp.ne.u32 q, l, u;
{skip}
popc.b32 v, r;
{update} // A
E:
"""
RED = "red.global.add.u32 [O], v;"


@pytest.mark.parametrize(
    ("skip", "update", "reason"),
    [
        ("@q bra E;", RED, None),
        ("", f"@!q {RED}", None),
        # every lane adds, only those that are not elected do, another operation
        ("", RED, "unsupported.unstable"),
        ("@!q bra E;", RED, "unsupported.unstable"),
        ("@q bra E;", "red.global.max.u32 [O], v;", "unsupported.unstable"),
        # the elected lane need not get there: it leaves before or after the election
        ("setp.eq.u32 p, l, 0; @p bra E; @q bra E;", RED, "unsupported.unstable"),
        ("setp.ge.u32 p, l, 16; @p bra E; @q bra E;", RED, "unsupported.unstable"),
        ("setp.ge.u32 p, l, 16; @p exit; @q bra E;", RED, "unsupported.unstable"),
        ("@q bra E; setp.eq.u32 p, l, 0; @p bra E;", RED, "unsupported.unstable"),
        ("@q bra E; setp.ne.u32 p, l, 0;", f"@p {RED}", "unsupported.unstable"),
        # another comparison in the same register, or the number under a guard
        ("setp.eq.u32 q, l, 3; @q bra E;", RED, "unsupported.unstable"),
        ("@q bra E; setp.eq.u32 p, l, 0; @p mov.u32 r, 0;", RED, "unsupported.unstable"),
        # each lane has a cell of its own
        (
            "@q bra E;",
            "mad.wide.u32 a, l, 4, O; red.global.add.u32 [a], v;",
            "unsupported.unstable",
        ),
    ],
)
def test_one_lane_adds_for_its_warp(skip: str, update: str, reason: str | None) -> None:
    litmus = Litmus("", AGGREGATED.format(skip=skip, update=update), ctas=2)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided" if reason else "proved", reason)
    plain = Litmus("", f"setp.lt.u32 p, i, 40; mov.u32 v, 1; @p {RED}", ctas=2)
    if reason is None:
        equal = equivalent(plain.text, litmus.text, launch=litmus.launch, seed=1)
        assert equal.verdict == "proved"


# each pair of CTAs draws from a counter of its own; the last one adds both words up
TICKETS = """
.reg .b32 n, m; .reg .b64 y; .reg .pred z;
.shared .b32 last;
and.b32 n, c, 1; shr.u32 m, c, 1; mad.wide.u32 y, m, 4, O;
st.global.u32 [x], c;
membar.gl;
bar.sync 0;
setp.ne.u32 p, i, 0;
@p bra B;
atom.global.add.u32 r, [y+1000], 1; // D
setp.eq.u32 z, r, {wanted};
selp.u32 v, 1, 0, z;
st.shared.u32 [last], v;
B:
bar.sync 0;
{between}
ld.shared.u32 w, [last];
setp.eq.u32 q, w, 0;
@q bra E;
and.b32 n, c, 2; mad.lo.u32 n, n, 32, i; mad.wide.u32 a, n, 4, O;
ld.global.u32 r, [a]; ld.global.u32 v, [a+128];
add.u32 v, v, r;
{store}
E:
"""


@pytest.mark.parametrize(
    ("wanted", "between", "store", "reason"),
    [
        ("1", "", "st.global.u32 [a], v;", None),
        # who is the last shows in where it stores
        ("1", "", "st.global.u32 [x], v;", "unsupported.unstable"),
        # what another tail stored is copied
        (
            "1",
            "",
            "st.global.u32 [a], v; cp.async.ca.shared.global [s], [a], 4; cp.async.wait_all;",
            "unsupported.unstable",
        ),
        # another than the last, at least of the first pair
        ("0", "", "st.global.u32 [a], v;", "race.global"),
        ("m", "", "st.global.u32 [a], v;", "race.global"),
        ("n", "", "st.global.u32 [a], v;", "unsupported.unstable"),
        # what every CTA does after its draw
        ("1", "st.global.u32 [x], 5;", "st.global.u32 [a], v;", "unsupported.unstable"),
        ("1", "st.shared.u32 [last], 1;", "st.global.u32 [a], v;", "unsupported.unstable"),
    ],
)
def test_a_ticket_for_each_pair(wanted: str, between: str, store: str, reason: str | None) -> None:
    text = TICKETS.format(wanted=wanted, between=between, store=store)
    litmus = Litmus("", text, ctas=4, threads=32)
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert verdict.reason == reason
