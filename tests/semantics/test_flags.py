"""Loops that wait for what hangs on the schedule: undecided by name, at the place; or stuck."""

from __future__ import annotations

import pytest

from kcheck.check import equivalent, safe
from tests.semantics.litmus import Litmus

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
