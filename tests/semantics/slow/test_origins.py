"""An undefined value is followed to the load that it came from."""

from __future__ import annotations

import pytest

from kcheck.check import safe
from tests.semantics.litmus import Litmus

# the use of the value ends in `// A`, what it came from in `// B`
LOAD, STORE = "ld.shared.u32 r, [s]; // B\n", "st.global.u32 [x], r; // A\n"
BODIES = {
    "stored": ("output", LOAD + STORE),
    "mapped, then stored": ("output", LOAD + "add.u32 v, r, 1;\nmul.lo.u32 r, v, v;\n" + STORE),
    "an address": ("address", LOAD + "mad.lo.u32 s, r, 4, s;\nld.shared.u32 r, [s]; // A\n"),
    "a branch": ("branch", LOAD + "setp.eq.u32 p, r, 1;\n@p bra E; // A\nE:\n"),
    "a part of a vector": (
        "output",
        "and.b32 v, i, 31; mov.u32 s, t; mad.lo.u32 s, v, 16, s;\nst.shared.u32 [s], 1;\n"
        "bar.sync 0;\nld.shared.v2.u32 {v, r}, [s]; // B\n" + STORE,
    ),
    "a load that is guarded off": (
        "output",
        "setp.lt.u32 p, i, 64;\n" + LOAD + "@!p ld.shared.u32 r, [t];\n" + STORE,
    ),
    "the last round of a loop": (
        "output",
        "st.shared.u32 [s], 1; mov.u32 v, 0;\nL:\n" + LOAD
        + "add.u32 s, s, 256; add.u32 v, v, 1; setp.lt.u32 q, v, 2;\n@q bra L;\n" + STORE,
    ),
    "a lane that is not there": (
        "output",
        "setp.lt.u32 p, l, 16; @!p ret;\n"
        "shfl.sync.down.b32 r, i, 16, 31, 0xffff; // B\n" + STORE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_origin(name: str) -> None:
    kind, body = BODIES[name]
    litmus = Litmus(name, body, (f"undefined.{kind} A", f"undefined.{kind} B"))
    (_, (use,)), (_, (source,)) = sorted(litmus.wanted, key=lambda w: text_of(litmus, w[1][0]))
    verdict = safe(litmus.text, launch=litmus.launch, seed=1)
    assert verdict.verdict == "refuted"
    finding = next(f for f in verdict.findings if f.reason == f"undefined.{kind}")
    assert [place.line for place in finding.locations] == [use, source]
    assert finding.locations[0].thread in (None, finding.locations[1].thread)
    assert finding.message.endswith(f", by the value that line {source} got")


def text_of(litmus: Litmus, line: int) -> str:
    return litmus.text.splitlines()[line - 1].rpartition("// ")[2]


def test_a_register_that_nothing_wrote_has_no_origin() -> None:
    litmus = Litmus("", STORE)
    (finding,) = safe(litmus.text, launch=litmus.launch, seed=1).findings
    assert (finding.reason, len(finding.locations)) == ("undefined.output", 1)
