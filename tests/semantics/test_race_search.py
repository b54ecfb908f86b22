"""Which pairs are found, in how many looks, and how long a stamp is told apart from others."""

from __future__ import annotations

from typing import Any

import pytest

from kcheck.canon.field import FieldDomain
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import Execution, execute
from kcheck.semantics.race_search import LOOKS, Search
from kcheck.semantics.shadow import EPOCHS
from tests.semantics.litmus import Litmus

# each turn a store, a barrier (not in turn {missing}), and a load of the other warp's word
TURNS = """
mov.u32 v, 0;
xor.b32 r, i, 32; mov.u32 w, t; mad.lo.u32 w, r, 4, w;
setp.eq.u32 p, c, 0; selp.u32 u, {first}, {second}, p;
L:
setp.ne.u32 q, v, {missing};
st.shared.u32 [s], i; // A
@q bar.sync 0;
ld.shared.u32 r, [w]; // B
bar.sync 0;
add.u32 v, v, 1; setp.lt.u32 p, v, u; @p bra L;
"""
# `turns` stores and loads of two warps, unordered, to other cells each turn
SWEEP = """
mov.u32 v, 0;
and.b32 r, i, 31; mov.u32 w, t; mad.lo.u32 w, r, 4, w;
L:
st.shared.u32 [w], i; // A
ld.shared.u32 r, [w]; // B
add.u32 w, w, 8; add.u32 v, v, 1; setp.lt.u32 p, v, {turns}; @p bra L;
"""


def watched(litmus: Litmus) -> Execution:
    kernel = lower(parse(litmus.text))
    return execute(kernel, litmus.launch, FieldDomain(1), races=True)


def found(litmus: Litmus) -> set[tuple[str, tuple[int, ...]]]:
    run = watched(litmus)
    lines = [instr.span.line for instr in run.kernel.code]
    return {(r.reason, tuple(sorted((lines[r.first], lines[r.second])))) for r in run.races}


@pytest.mark.parametrize("missing", [0, EPOCHS // 2, *range(EPOCHS - 2, EPOCHS + 3), 62, 99])
@pytest.mark.parametrize(("first", "second"), [(100, 100), (3, 100), (100, 40)])
def test_a_missing_barrier_after_many(missing: int, first: int, second: int) -> None:
    """Two epochs a turn; CTAs that end early don't matter to the other."""
    races = ("race.read-write AB",) if missing < max(first, second) else ()
    body = TURNS.format(first=first, second=second, missing=missing)
    litmus = Litmus("", body, races, ctas=2)
    assert found(litmus) == litmus.wanted


def test_none_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no stamp of a former epoch makes anybody look for a pair."""

    def unwanted(*arguments: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Search, "_search", unwanted)
    assert found(Litmus("", TURNS.format(first=100, second=100, missing=200), ctas=2)) == set()


def test_pairs_are_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a racing loop is; all its pairs are found."""
    looks: list[int] = []
    meet = Search._meet

    def counted(*arguments: Any) -> Any:
        looks.append(1)
        return meet(*arguments)

    monkeypatch.setattr(Search, "_meet", counted)
    races = ("race.write-write AA", "race.read-write AB")
    counts, taken = [], []
    for turns in (8, 24, 48):
        litmus = Litmus("", SWEEP.format(turns=turns), races)
        looks.clear()
        assert found(litmus) == litmus.wanted
        taken.append(len(looks))
        counts.append(sum(race.count for race in watched(litmus).races))
    assert counts[0] < counts[1] < counts[2]
    assert taken[0] == taken[1] == taken[2] > LOOKS
