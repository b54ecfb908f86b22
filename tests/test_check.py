"""The Python API: what may be named, how buffers are matched, what a refutation leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcheck
from kcheck.check import equivalent, safe
from kcheck.launch import Launch, Scalar, Tensor
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.running import run
from kcheck.semantics.orders import Orders
from kcheck.verdict import UsageError, Verdict
from tests.corpus import CASES, TILELANG
from tests.semantics.harness import entry, launch_of, out, symbol

X, Y, Z = symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32)
PARAMS = (X, Y, Z)
LAUNCH = launch_of(PARAMS)
LOADS = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y]; "
ADD = LOADS + "add.f32 %f3, %f1, %f2; st.global.f32 [%z], %f3;"
SUB = ADD.replace("add.f32", "sub.f32")
SWAPPED = ADD.replace("%f1, %f2;", "%f2, %f1;")
FIRST = "ld.global.f32 %f3, [%x]; st.global.f32 [%z], %f3;"


def text(body: str, *params: kcheck.Tensor | kcheck.Scalar) -> str:
    return entry(body, params or PARAMS)


def launch(*params: kcheck.Tensor | kcheck.Scalar) -> Launch:
    return launch_of(params)


def check(reference: str, subject: str, **more: Any) -> Verdict:
    options: dict[str, Any] = {"launch": LAUNCH, "safety": False, "seed": 1, **more}
    return equivalent(reference, subject, **options)


# what may be named


def test_text_kernel_and_path_are_one(tmp_path: Path) -> None:
    one, other = text(ADD), text(SWAPPED)
    paths = [tmp_path / "a.ptx", tmp_path / "b.ptx"]
    for path, body in zip(paths, (one, other), strict=True):
        path.write_text(body)
    kernels = [lower(parse(body)) for body in (one, other)]
    forms: list[Any] = [(one, other), kernels, paths, map(str, paths)]
    for reference, subject in forms:
        verdict = equivalent(reference, subject, launch=LAUNCH, safety=False, seed=1)
        assert verdict.verdict == "proved"
        assert verdict.outputs == (32, 32)
        assert verdict.kernels == ("k", "k")
    assert kcheck.equivalent is equivalent


def test_text_needs_a_launch() -> None:
    with pytest.raises(UsageError, match="no launch file beside it; give --launch"):
        equivalent(text(ADD), text(ADD))


def test_launch_beside_the_ptx_and_the_references_for_the_subject(tmp_path: Path) -> None:
    source = TILELANG / "kernels/sum"
    reference = source / "sm_80_t32.ptx"
    alone = tmp_path / "alone.ptx"
    alone.write_text(reference.read_text())
    assert equivalent(reference, alone, safety=False, seed=1).verdict == "proved"
    # with 128 threads the subject would need its own launch: the reference's has 32
    other = tmp_path / "other.ptx"
    other.write_text((source / "sm_80_t128.ptx").read_text())
    own = source / "sm_80_t128.launch.yaml"
    verdict = equivalent(reference, other, subject_launch=own, safety=False, seed=1)
    assert verdict.verdict == "proved"
    assert any(line.startswith("subject's launch") for line in verdict.ledger)
    (tmp_path / "other.launch.yaml").write_text(own.read_text())
    assert equivalent(reference, other, safety=False, seed=1).verdict == "proved"


def test_kernel_is_chosen_by_name() -> None:
    two = text(ADD).replace(" k(", " first(") + text(SUB).split(".address_size 64")[1]
    two = two.replace(" k(", " second(")
    named = replace(LAUNCH, kernel="first")
    with pytest.raises((UsageError, kcheck.KernelChoiceError), match="first, second"):
        equivalent(two, two, launch=named, safety=False, seed=1)
    with pytest.raises(UsageError, match="nowhere"):
        equivalent(two, two, launch=named, kernel="nowhere", safety=False, seed=1)
    same = equivalent(two, two, launch=named, kernel="first", safety=False, seed=1)
    assert (same.verdict, same.kernels) == ("proved", ("first", "first"))
    other = equivalent(
        two, two, launch=named, kernel="first", subject_kernel="second",
        subject_launch=replace(LAUNCH, kernel="second"), safety=False, seed=1,
    )  # fmt: skip
    assert (other.verdict, other.kernels) == ("refuted", ("first", "second"))


# how buffers are matched


def test_map_renames() -> None:
    theirs = (symbol("b", "f32", 32), symbol("a", "f32", 32), out("c", "f32", 32))
    body = ADD.replace("%x]", "%a]").replace("%y]", "%b]").replace("%z]", "%c]")
    straight = {"x": "a", "y": "b", "z": "c"}
    crossed = {"x": "b", "y": "a", "z": "c"}
    for mapping, subject, verdict in (
        (straight, body, "proved"),
        (crossed, body, "proved"),  # a sum
        (straight, body.replace("add", "sub"), "refuted"),
    ):
        got = check(
            text(ADD), text(subject, *theirs), subject_launch=launch(*theirs), mapping=mapping
        )
        assert got.verdict == verdict
    minus = body.replace("add", "sub")
    for mapping, verdict in ((straight, "proved"), (crossed, "refuted")):
        got = check(
            text(SUB), text(minus, *theirs), subject_launch=launch(*theirs), mapping=mapping
        )
        assert got.verdict == verdict
    assert "`x` is the subject's `b` (--map)" in got.ledger


def test_names_that_cross_stay_apart() -> None:
    """The subject's own `x` is not the reference's when that one is mapped to another."""
    theirs = (symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32))
    got = check(text(SUB), text(SUB, *theirs), mapping={"x": "y", "y": "x"})
    assert (got.verdict, got.reason) == ("refuted", "value.mismatch")
    turned = SUB.replace("%f1, %f2;", "%f2, %f1;")
    assert check(text(SUB), text(turned, *theirs), mapping={"x": "y", "y": "x"}).verdict == "proved"


def test_input_of_one_side_only() -> None:
    """Allowed: the value does not hang on it, or it does and there is a witness."""
    mine = (X, Z)
    unused = check(text(FIRST), text(FIRST, *mine), subject_launch=launch(*mine))
    assert unused.verdict == "proved"
    assert "in `y` only in the reference" in unused.ledger
    used = check(text(ADD), text(FIRST, *mine), subject_launch=launch(*mine))
    assert (used.verdict, used.reason) == ("refuted", "value.mismatch")


def test_output_of_one_side_only() -> None:
    more = (*PARAMS, out("w", "f32", 32))
    body = ADD + "st.global.f32 [%w], %f1;"
    with pytest.raises(UsageError, match="only the subject has an output `w`"):
        check(text(ADD), text(body, *more), subject_launch=launch(*more))
    quiet = (*PARAMS, out("w", "f32", 32, compare=False))
    verdict = check(text(ADD), text(body, *quiet), subject_launch=launch(*quiet))
    assert (verdict.verdict, verdict.outputs) == ("proved", (32, 32))


def test_nothing_to_compare() -> None:
    quiet = (X, Y, out("z", "f32", 32, compare=False))
    with pytest.raises(UsageError, match="no output in common"):
        check(text(ADD, *quiet), text(ADD, *quiet), launch=launch(*quiet))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (symbol("x", "f32", 64), r"x.*32.*64"),
        (Tensor("x", "s32", (32,), "in"), "x.*f32.*s32"),
        (Tensor("x", "f32", (32,), "inout"), "x.*in.*inout"),
        (Tensor("x", "f32", (32,), "in", values=np.zeros(32)), "x.*values"),
        (Tensor("x", "f32", (8, 4), "in"), "x.*32.*8"),
    ],
)
def test_buffers_that_do_not_fit(other: Tensor, message: str) -> None:
    theirs = (other, Y, Z)
    with pytest.raises(UsageError, match=message) as caught:
        check(text(ADD), text(ADD, *theirs), subject_launch=launch(*theirs))
    assert "\n" not in str(caught.value)


def test_float_formats_may_differ() -> None:
    theirs = (Tensor("x", "f16", (32,), "in"), Y, Z)
    body = ADD.replace("ld.global.f32 %f1, [%x];", "ld.global.b16 %h1, [%x]; cvt.f32.f16 %f1, %h1;")
    verdict = check(text(ADD), text(body, *theirs), subject_launch=launch(*theirs))
    assert verdict.verdict == "proved"
    assert "`x` is f32 in the reference, f16 in the subject" in verdict.ledger


def test_scalars_are_what_the_launches_say() -> None:
    body = (
        "ld.param.u32 %r1, [n]; setp.lt.u32 %p1, %gid, %r1;"
        "ld.global.f32 %f3, [%x]; @%p1 st.global.f32 [%z], %f3;"
    )
    mine, theirs = (X, Scalar("n", "u32", 32), Z), (X, Scalar("n", "u32", 16), Z)
    kernel = text(body, *mine)
    assert check(kernel, kernel, launch=launch(*mine)).verdict == "proved"
    verdict = check(kernel, kernel, launch=launch(*mine), subject_launch=launch(*theirs))
    assert (verdict.verdict, verdict.reason) == ("refuted", "value.unwritten")
    assert "`n` is 32, in the subject 16" in verdict.ledger


def test_launch_that_does_not_fit() -> None:
    with pytest.raises(UsageError, match="parameter"):
        check(text(ADD), text(ADD), launch=launch(X, Z))
    with pytest.raises(UsageError, match=r"--cta 1: the grid has 1 CTA"):
        check(text(ADD), text(ADD), cta=1)


# safety, seeds, witnesses


# each lane hands its sum to the next one
HANDED = (
    LOADS + "add.f32 %f3, %f1, %f2; mov.u32 %r2, tile; mad.lo.u32 %r3, %gid, 4, %r2;"
    "st.shared.f32 [%r3], %f3; {0} xor.b32 %r4, %gid, 1; mad.lo.u32 %r3, %r4, 4, %r2;"
    "ld.shared.f32 %f4, [%r3]; st.global.f32 [%z], %f4;"
)


def handed(between: str) -> str:
    return entry(HANDED.format(between), PARAMS, ".shared .align 4 .b8 tile[128];")


def test_both_sides_are_safe() -> None:
    good, bad = handed("bar.warp.sync -1;"), handed("")
    proved = check(good, handed("bar.sync 0;"), safety=True)
    assert (proved.verdict, proved.reason) == ("proved", None)
    assert not any("NOT CHECKED" in line for line in proved.ledger)
    for sides, side in (((good, bad), "subject"), ((bad, good), "reference")):
        verdict = check(*sides, safety=True)
        assert (verdict.verdict, verdict.reason) == ("refuted", "race.read-write")
        (finding,) = verdict.findings
        assert finding.side == side
        assert [place.text.split()[0] for place in finding.locations] == [
            "st.shared.f32",
            "ld.shared.f32",
        ]
        waived = check(*sides)
        assert waived.verdict == "proved"
        assert "race freedom NOT CHECKED (--no-safety)" in waived.ledger


def test_one_kernel_is_safe_or_not() -> None:
    good, bad = (safe(handed(b), launch=LAUNCH, seed=1) for b in ("bar.sync 0;", ""))
    assert (good.verdict, good.method, good.kernels) == ("proved", "happens-before", ("", "k"))
    assert (bad.verdict, bad.reason, len(bad.findings)) == ("refuted", "race.read-write", 1)
    assert bad.findings[0].count == 32


def test_equal_values_at_one_address() -> None:
    """No race, but the ledger says so; with `strict` a race."""
    body = "mov.u32 %r2, 5; mov.u32 %r3, tile; st.shared.u32 [%r3], %r2; bar.sync 0;" + ADD
    kernel = entry(body, PARAMS, ".shared .align 4 .b8 tile[128];")
    verdict = check(kernel, text(ADD), safety=True)
    assert verdict.verdict == "proved"
    assert "lanes store equal values to one address in the reference (line" in " ".join(
        verdict.ledger
    )
    for strict in (
        check(kernel, text(ADD), safety=True, strict=True),
        safe(kernel, launch=LAUNCH, seed=1, strict=True),
    ):
        assert (strict.verdict, strict.reason) == ("refuted", "race.write-write")
        (finding,) = strict.findings
        assert len({place.line for place in finding.locations}) == 1


def test_a_race_names_the_last_barriers() -> None:
    verdict = safe(handed("bar.sync 0; st.shared.f32 [%r3], %f1;"), launch=LAUNCH, seed=1)
    (finding,) = verdict.findings
    line = next(i for i, t in enumerate(handed("bar.sync 0;").splitlines(), 1) if "bar.sync" in t)
    assert finding.message.endswith(
        f"; the last that each had passed: bar.sync at line {line}, bar.sync at line {line}"
    )


def essence(verdict: Verdict) -> object:
    witness = verdict.witness
    inputs = {n: v.tolist() for n, v in witness.inputs.items()} if witness else None
    place = witness and (witness.buffer, witness.index, witness.reference, witness.subject)
    return replace(verdict, seconds=0, witness=None), place, inputs


def test_places_name_the_line_that_they_were_compiled_from() -> None:
    """`.loc`, as nvcc -lineinfo writes it; line 0 is no line."""
    head = '\n.file 1 "k.cu"\n'

    def body(factor: str) -> str:
        return (
            "\n.loc 1 3 5\n ld.global.f32 %f1, [%x];"
            f"\n.loc 1 4 5\n mul.f32 %f2, %f1, {factor};"
            "\n.loc 1 0 0\n st.global.f32 [%z], %f2;"
        )

    params = [symbol("x", "f32", 32), out("z", "f32", 32)]
    texts = [entry(body(factor), params, head) for factor in ("0f40000000", "0f40400000")]
    verdict = equivalent(*texts, launch=launch_of(params, 1, 32), seed=1)
    (finding,) = verdict.findings
    assert [place.source for place in finding.locations] == [(), ()]
    assert finding.first_difference is not None
    for place in (finding.first_difference.reference_at, finding.first_difference.subject_at):
        assert place is not None
        assert place.source == ("k.cu:4",)
    refused = entry(
        body("%f1").replace("mul.f32 %f2, %f1, %f1;", "tanh.approx.f32x9 %f2, %f1;"), params, head
    )
    verdict = equivalent(texts[0], refused, launch=launch_of(params, 1, 32), seed=1)
    assert verdict.findings[0].locations[0].source == ("k.cu:4",)


def test_seed_reproduces_the_verdict() -> None:
    case = CASES / "09-tree-reduce-non-pow2"
    pairs: list[Any] = [(text(ADD), text(SUB), LAUNCH), (case / "ref.ptx", case / "bug.ptx", None)]
    for reference, subject, given in pairs:
        first, second = (
            equivalent(reference, subject, launch=given, safety=False, seed=7) for _ in range(2)
        )
        assert essence(first) == essence(second)
        assert first.verdict == "refuted"
        assert first.statistics["seed"] == 7
    drawn = [check(text(ADD), text(ADD), seed=None).statistics["seed"] for _ in range(2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("case", ["09-tree-reduce-non-pow2", "19-ldmatrix-trans-omitted"])
def test_saved_witness_shows_the_difference(case: str, tmp_path: Path) -> None:
    """The file alone, with `run`, gives the two values of the witness."""
    paths = [CASES / case / f"{side}.ptx" for side in ("ref", "bug")]
    verdict = equivalent(*paths, safety=False, seed=1, witness_dir=tmp_path / "new")
    witness = verdict.witness
    assert witness is not None
    assert witness.path is not None
    buffers = load_launch(CASES / case / "ref.launch.yaml").buffers
    with np.load(witness.path) as file:
        arrays = dict(file)
    assert {name: a.shape for name, a in arrays.items()} == {
        name: tensor.shape for name, tensor in buffers.items() if tensor.role == "in"
    }
    for path, (low, high) in zip(paths, (witness.reference, witness.subject), strict=True):
        value = run(path, inputs=arrays).outputs[witness.buffer][witness.index]
        assert low <= value <= high


def test_no_file_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verdict = check(text(ADD), text(SUB))
    assert verdict.witness is not None
    assert verdict.witness.path is None
    assert not list(tmp_path.iterdir())


# one kernel


def test_run_gives_the_outputs() -> None:
    given = {"x": np.arange(32.0), "y": np.full(32, 0.5)}
    result = run(text(ADD), launch=LAUNCH, inputs=given)
    assert result.outputs["z"].tolist() == (np.arange(32) + 0.5).tolist()
    assert result.findings == ()
    drawn = [run(text(ADD), launch=LAUNCH, seed=3).outputs["z"].tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_run_refuses_wrong_inputs() -> None:
    with pytest.raises(UsageError, match="input `w`: the kernel's open inputs are x, y"):
        run(text(ADD), launch=LAUNCH, inputs={"w": np.zeros(32)})
    with pytest.raises(UsageError, match="input `x` has 31 elements; expected 32"):
        run(text(ADD), launch=LAUNCH, inputs={"x": np.zeros(31)})


def test_order_that_only_the_slow_evaluator_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `bar.arrive` one warp passes on what it waited for; if the monitor did not see it, that
    would be undecided, never an error.
    """
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r4, %tid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra C;
        setp.ne.u32 %p1, %r4, 0; @%p1 ret;
        st.global.u32 [%pA], 7; st.release.gpu.global.u32 [%pF], 1; ret;
        C: setp.lt.u32 %p1, %r4, 32; @%p1 bra D; bar.sync 1, 64; bra E;
        D:
        W: ld.acquire.gpu.global.u32 %r2, [%pF]; setp.ne.u32 %p2, %r2, 1; @%p2 bra W;
        bar.arrive 1, 64; ret;
        E: setp.ne.u32 %p2, %r4, 32; @%p2 ret;
        ld.global.u32 %r3, [%pA]; st.global.u32 [%pA+4], %r3; ret;
    """
    params = (out("A", "u32", 2, init="zero"), out("F", "u32", 1, init="zero"))
    launch = launch_of(params, grid=2, block=64)
    assert safe(entry(body, params), launch=launch, seed=1).verdict == "proved"
    monkeypatch.setattr(Orders, "receive", lambda *known: None)
    verdict = safe(entry(body, params), launch=launch, seed=1)
    assert (verdict.verdict, verdict.reason) == ("undecided", "unsupported.memory-order")
    assert [at.text.split(".")[0] for at in verdict.findings[0].locations] == ["st", "ld"]


@pytest.mark.parametrize("flag", ["release.gpu. acquire.gpu.", "volatile. volatile.", " "])
def test_a_flag_between_two_ctas(flag: str) -> None:
    """Release and acquire order what lies before and after; anything less is a race."""
    write, _, read = flag.partition(" ")
    body = f"""
        mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra W; st.global.u32 [%pA], 7;
        st.{write}global.u32 [%pF], 1; ret;
        W: ld.{read}global.u32 %r2, [%pF]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W;
        ld.global.u32 %r3, [%pA]; st.global.u32 [%pA+4], %r3; ret;
    """
    params = (out("A", "u32", 2, init="zero"), out("F", "u32", 1, init="zero"))
    verdict = safe(entry(body, params), launch=launch_of(params, grid=2, block=1), seed=1)
    if "acquire" in flag:
        assert (verdict.verdict, verdict.findings) == ("proved", ())
        return
    assert (verdict.verdict, verdict.reason) == ("refuted", "race.global")
    assert [at.text.split(".")[0] for at in verdict.findings[0].locations] == ["st", "ld"]
