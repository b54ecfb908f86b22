"""Every `undecided` says what to try next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kcheck
from kcheck.check import equivalent, safe
from kcheck.launch import Scalar
from kcheck.undecided import ADVICE, advice
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, launch_of, out, symbol
from tests.snippets import FLOATS, compared, floats, on_floats

COPY = "mov.f32 %f3, %f1;"
SOURCES = [*Path(kcheck.__file__).parent.rglob("*.py")]


def told(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.verdict, verdict.reason


def test_each_reason_in_the_code_has_advice() -> None:
    reasons = set(re.findall(r'undecided\(\s*f?"([a-z-]+(?:\.[a-z-]+)?)', _code()))
    reasons |= set(re.findall(r'Verdict\(\s*"undecided",\s*f?"([a-z-]+)', _code()))
    reasons |= {f"budget.{what}" for what in re.findall(r'BudgetError\("(\w+)"', _code())}
    reasons |= {f"unsupported.{form}" for form in re.findall(r'Unsupported\("([a-z-]+)', _code())}
    assert {"budget.levels", "opaque", "constants", "budget.memory"} <= reasons
    assert len(reasons) > 20
    for reason in reasons - {"budget"}:  # `budget.{what}`: collected above
        assert advice(reason), reason
    for reason, steps in ADVICE.items():
        assert steps == advice(reason) == advice(f"{reason}.more")
    assert advice("no-such-reason") == ()


def _code() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)


# a kernel for each reason, and a word of its next step
UNDECIDED = {
    "unsupported.infinity": (COPY, "mul.f32 %f3, %f1, 0f7F800000;"),
    "unsupported.symbolic-int": (COPY, "cvt.rzi.s32.f32 %r1, %f1; add.cc.s32 %r1, %r1, %r1;"
                                "cvt.rn.f32.s32 %f3, %r1;"),
    "unsupported.predicated": (COPY, "setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra L; bar.sync 0;"
                               "L: mov.f32 %f3, %f1;"),
    "unsupported.magic-rounding": (COPY, "add.f32 %f3, %f1, 0f4B400000;"),
}  # fmt: skip
STEPS = {
    "unsupported.infinity": "keep unknown values from being multiplied by inf",
    "unsupported.symbolic-int": "values: in the launch file",
    "unsupported.predicated": "values: in the launch file",
    "unsupported.magic-rounding": "rewrite or isolate the instruction at",
}


@pytest.mark.parametrize("reason", STEPS)
def test_the_step_of_a_reason(reason: str) -> None:
    verdict = floats(*UNDECIDED[reason])
    assert told(verdict) == ("undecided", reason)
    assert any(STEPS[reason] in step for step in verdict.next_steps)


def test_tested_equal_and_levels_and_degree() -> None:
    deep = "".join("ex2.approx.f32 %f1, %f1;" for _ in range(5)) + COPY
    verdict = floats(deep, deep, engine="field")
    assert told(verdict) == ("undecided", "budget.levels")
    assert verdict.next_steps[0].startswith("--engine auto")
    square = "".join("mul.f32 %f1, %f1, %f1;" for _ in range(40)) + COPY
    verdict = compared(on_floats(square), on_floats(square), FLOATS, engine="field")
    assert told(verdict) == ("undecided", "budget.degree")
    assert verdict.next_steps[0].startswith("--engine term")
    nested = "ex2.approx.f32 %f4, %f1; mul.f32 %f5, %f4, %f4; ex2.approx.f32 %f3, %f5;"
    verdict = compared(on_floats(nested), on_floats(nested), FLOATS, engine="field")
    assert told(verdict) == ("undecided", "tested-equal")
    assert verdict.next_steps[0].startswith("--engine auto")


def test_one_cta_is_not_the_grid() -> None:
    body = entry(on_floats(COPY), FLOATS)
    verdict = equivalent(body, body, launch=launch_of(FLOATS), cta=0, seed=1)
    assert told(verdict) == ("proved-for-cta", "one CTA is not the grid")
    assert verdict.next_steps == ("no --cta", "--accept cta, if one CTA is enough")


def test_all_forms_that_are_not_executed_are_counted() -> None:
    tma = "mbarrier.init.shared.b64 [%r1], 1; mbarrier.inval.shared.b64 [%r1];"
    body = f"{COPY}\nwgmma.fence.sync.aligned;\n{tma}\n{tma}\nbarrier.cluster.arrive;"
    verdict = floats(COPY, body)
    assert verdict.verdict == "undecided"
    assert verdict.reason == "unsupported.wgmma.fence.sync.aligned"
    (line,) = (step for step in verdict.next_steps if step.startswith("not executed in"))
    first = verdict.findings[0].locations[0].line
    assert line == (
        f"not executed in the subject: wgmma.fence.sync.aligned (1, first in line {first}), "
        f"mbarrier.init.shared.b64 (2, first in line {first + 1}), "
        f"mbarrier.inval.shared.b64 (2, first in line {first + 1}), "
        f"barrier.cluster.arrive (1, first in line {first + 3})"
    )
    alone = safe(entry(on_floats(body), FLOATS), launch=launch_of(FLOATS))
    assert line.replace("the subject", "the kernel") in alone.next_steps


def test_a_symbolic_integer_scalar_wants_a_number() -> None:
    params = (*FLOATS[:1], Scalar("n", "s32", None), out("z", "f32", 32))
    body = "ld.param.s32 %r1, [n]; ld.global.f32 %f1, [%x]; st.global.f32 [%z], %f1;"
    assert told(compared(body, body, params)) == ("proved", None)
    carried = body.replace("ld.global", "add.cc.s32 %r2, %r1, %r1; ld.global")
    verdict = compared(body, carried, params)
    assert told(verdict) == ("undecided", "unsupported.symbolic-int")
    assert "a number as the scalar's value:" in verdict.next_steps


def test_an_output_that_is_not_understood() -> None:
    params = (symbol("x", "f32", 32), out("z", "f16", 64))
    body = "ld.global.f32 %f1, [%x]; mad.lo.u64 %d1, %wide, 4, %pz; st.global.f32 [%d1], %f1;"
    for verdict in (
        compared(body, body, params),
        safe(entry(body, params), launch=launch_of(params)),
    ):
        assert told(verdict) == ("undecided", "unsupported.reinterpret")
        assert any("compare: false" in step for step in verdict.next_steps)
