"""Every float row executed in true formats, against rationals, lane by lane."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kcheck.canon.ieee.approximate import BOUNDS, Choice, approximate
from kcheck.canon.ieee.engine import Ieee
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.forms import FORMS
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.format_builders import TRUE_FORMATS
from tests.canon.ieee import model
from tests.semantics import sheets
from tests.semantics.harness import entry, kernel_of, known, launch_of, out, symbol
from tests.semantics.test_instructions_float import CONVERT, FLOAT

MOST = 60
WIDTH = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


class NoDomain:
    """The domain of a run that must not ask it for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the domain is asked for {name}")


@pytest.fixture(autouse=True)
def no_reals(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a real arises")

    monkeypatch.setattr(Real, "__init__", refuse)


def run(text: str, params: Any, grid: int, block: int, **more: Any) -> Execution:
    domain: Any = NoDomain()
    inputs = more.pop("inputs", {})
    engine = more.pop("engine", None) or Ieee(inputs, 80)
    launch = launch_of(params, grid, block, **more)
    return execute(kernel_of(text), launch, domain, arithmetic=engine)


# what is expected --------------------------------------------------------------------------------


def flushed(bits: int, fmt: str) -> int:
    x = model.value(bits, fmt)
    emin = 2 - 2 ** (model.LAYOUT[fmt][0] - 1)
    if isinstance(x, str) or not 0 < abs(x) < Fraction(2) ** emin:
        return bits
    return model.pattern("-0" if x < 0 else Fraction(0), fmt)


def clamped(bits: int, fmt: str, slots: dict[str, str]) -> int:
    """.sat and .relu."""
    x = model.value(bits, fmt)
    if slots.get("sat") and (x in ("nan", "-inf", "-0") or (not isinstance(x, str) and x < 0)):
        return 0
    if slots.get("sat") and (x == "inf" or (not isinstance(x, str) and x > 1)):
        return model.pattern(Fraction(1), fmt)
    if slots.get("relu") and (x in ("-inf", "-0") or (not isinstance(x, str) and x < 0)):
        return 0
    return bits


def place(bits: int, fmt: str) -> Any:
    """A key that orders numbers, -0 before 0."""
    x = model.value(bits, fmt)
    if isinstance(x, str):
        return {"inf": (10**400, 0), "-inf": (-(10**400), 0), "-0": (0, -1)}[x]
    return (x, 0)


def arithmetic(op: str, bits: list[int], fmt: str, slots: dict[str, str]) -> int:
    """One instruction on one number of each operand."""
    sign, nan = 1 << (8 * WIDTH[fmt] - 1), model.LAYOUT[fmt][3]
    ftz = bool(slots.get("ftz"))
    given = [flushed(b, fmt) if ftz else b for b in bits]
    if op in ("neg", "abs"):
        result = given[0] ^ sign if op == "neg" else given[0] & ~sign
    elif op == "copysign":
        result = given[1] & ~sign | given[0] & sign
    elif op[:3] in ("min", "max"):
        a, b = given
        if op.endswith("xorsign"):
            a, b = a & ~sign, b & ~sign
        gone = [model.value(x, fmt) == "nan" for x in (a, b)]
        if all(gone) or (any(gone) and slots.get("NaN")):
            return nan
        if any(gone):
            result = b if gone[0] else a
        else:
            result = sorted((a, b), key=lambda x: place(x, fmt))[op[:3] == "max"]
        if op.endswith("xorsign"):
            result |= (given[0] ^ given[1]) & sign
    else:
        rounded = slots.get("rnd") or ("rn" if op in ("add", "sub", "mul", "fma") else "")
        if rounded:
            result = model.operate(op, tuple(given), fmt, rounded)
        else:
            name = f"{op}.{slots['mode']}" if slots.get("mode") else op
            fn = approximate(name, fmt, False, Choice())
            with np.errstate(all="ignore"):
                result = int(fn(*[model.words([b], fmt) for b in given])[0])
    return clamped(flushed(result, fmt) if ftz else result, fmt, slots)


ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def compared(cmp: str, bits: list[int], fmt: str, ftz: bool) -> bool:
    a, b = [flushed(x, fmt) if ftz else x for x in bits]
    if "nan" in (model.value(a, fmt), model.value(b, fmt)):
        return cmp == "nan" or (cmp != "num" and cmp.endswith("u"))
    if cmp in ("num", "nan"):
        return cmp == "num"
    return ORDERED[cmp[:2]](place(a, fmt)[0], place(b, fmt)[0])


JOIN: dict[str, Callable[[bool, bool], bool]] = {
    "": lambda p, q: p,
    "and": lambda p, q: p and q,
    "or": lambda p, q: p or q,
    "xor": lambda p, q: p != q,
}


def halves(word: int) -> tuple[int, int]:
    return word & 0xFFFF, word >> 16


def expected(name: str, slots: dict[str, str], words: list[int]) -> list[int]:
    """The results of one lane as bits; `words`: the operands'."""
    kind, _, op = name.partition(".")
    t = slots.get("type", "")
    fmt = t.removesuffix("x2")
    if kind == "cvt":
        return [converted(name, slots, words)]
    if op.startswith("testp"):
        x = model.value(words[0], fmt)
        small = not isinstance(x, str) and flushed(words[0], fmt) != words[0]
        inf, nan = x in ("inf", "-inf"), x == "nan"
        answer = {
            "finite": not (inf or nan),
            "infinite": inf,
            "number": not nan,
            "notanumber": nan,
            "normal": not (inf or nan or small),
            "subnormal": small,
        }
        return [answer[slots["test"]]]
    if "set" in op:
        extra = bool(words[2]) if "bool" in op else False
        pairs = [words[:2]]
        if t.endswith("x2"):
            pairs = [list(p) for p in zip(halves(words[0]), halves(words[1]), strict=True)]
        boolean, flags = slots.get("bool", ""), []
        for pair in pairs:
            flags.append(compared(slots["cmp"], pair, fmt, bool(slots.get("ftz"))))
        if "setp" in op:
            second = not flags[0] if len(flags) == 1 else flags[1]
            return [JOIN[boolean](flags[0], extra), JOIN[boolean](second, extra)]
        return [numbered([JOIN[boolean](f, extra) for f in flags], slots["dtype"])]
    if t.endswith("x2"):
        low, high = ([halves(w)[i] for w in words] for i in (0, 1))
        parts = [arithmetic(op, part, fmt, slots) for part in (low, high)]
        return [parts[0] | parts[1] << 16]
    return [arithmetic(op, words, fmt, slots)]


def numbered(flags: list[bool], dtype: str) -> int:
    """What `set` makes of predicates."""
    fmt = dtype.removesuffix("x2")
    bits = 16 if len(flags) == 2 else int(dtype.lstrip("usbf"))
    one = model.pattern(Fraction(1), fmt) if fmt in WIDTH else 2**bits - 1
    return sum((one if flag else 0) << (16 * i) for i, flag in enumerate(flags))


def converted(name: str, slots: dict[str, str], words: list[int]) -> int:
    source, target, rnd = slots["s"], slots["d"], slots.get("rnd", "")
    if name == "cvt.half2":
        one = {**slots, "d": target.removesuffix("x2")}
        low, high = (converted("cvt.float", one, [w]) for w in (words[1], words[0]))
        return low | high << 16
    bits = words[0]
    if source not in WIDTH:  # from an integer
        width = int(source[1:])
        n = bits & (2**width - 1)
        n -= 2**width if source[0] == "s" and n >> (width - 1) else 0
        x = model.rounded(Fraction(n), target, rnd)
        return clamped(model.pattern(x, target), target, slots)
    if slots.get("ftz") and source == "f32":
        bits = flushed(bits, source)
    x = model.value(bits, source)
    if rnd.endswith("i") and not isinstance(x, str):
        whole = model.rounded(x * Fraction(2) ** -1074, "f64", rnd[:2])  # in units of 2^-1074
        x = whole if isinstance(whole, str) else whole * 2**1074
    if target not in WIDTH and target != "tf32":
        return whole_number(x, source, target)
    x = model.rounded(x, target, "rn" if rnd.endswith("i") or not rnd else rnd)
    if slots.get("satfinite") and x in ("inf", "-inf"):
        x = model.largest(target) * (1 if x == "inf" else -1)
    out_bits = model.pattern(x, target)
    if slots.get("ftz") and target == "f32":
        out_bits = flushed(out_bits, target)
    return clamped(out_bits, target, slots)


def whole_number(x: model.Number, source: str, target: str) -> int:
    width, signed = int(target[1:]), target[0] == "s"
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    if x == "nan":
        n = 2 ** (width - 1) if source == "f64" or width == 64 else 0
    elif isinstance(x, str):
        n = {"inf": high, "-inf": low, "-0": 0}[x]
    else:
        n = min(max(int(x), low), high)
    return n & (2 ** max(width, 16) - 1)


# the rows ----------------------------------------------------------------------------------------


def bits_in(run: Execution, name: str, width: int) -> list[int]:
    unwritten, word = run.memories[name].elements(width)
    assert not unwritten.any()
    assert word.u is None
    return [int(b) for b in np.broadcast_to(word.a, unwritten.shape)]


@pytest.mark.parametrize("name", FLOAT + CONVERT)
def test_known_bits(name: str) -> None:
    sheet = sheets.Sheet(n=64, seed=5)
    rows = []
    for form in sheets.forms(name):
        for opcode, slots in sheets.thinned(sheets.opcodes(form), MOST):
            op, fmt = form.name.partition(".")[2], slots.get("type", "").removesuffix("x2")
            if op in ("rcp", "rsqrt") and fmt == "f64" and not slots.get("rnd"):
                continue  # no documented error: refused below
            sheets.add(sheet, form, opcode, slots)
            rows.append((form, opcode, slots))
    text = sheet.text()
    left = run(text, sheet.all_params, 2, sheet.n // 2)
    given = {p.name: [int(b) for b in p.values] for p in sheet.params if p.values is not None}
    taken = {output: 0 for output in sheet.results}
    results = {
        output: bits_in(left, output, sheets.WIDTHS[output[2:]] if "x2" not in output else 2)
        for output in sheet.results
    }
    for form, opcode, slots in rows:
        kinds, sources = sheets.signature(form, slots)
        buffers = [given[f"b_{sheets._canonical(k)}_{i}"] for i, k in enumerate(sources)]
        lanes = [expected(name, slots, [b[lane] for b in buffers]) for lane in range(sheet.n)]
        for i, kind in enumerate(kinds):
            shown = "u32" if kind == "pred" else kind
            width = sheets.WIDTHS[shown]
            output = f"o_{shown}" if sheets.is_float(shown) else f"o_u{8 * width}"
            pair = 2 if shown.endswith("x2") else 1
            start = taken[output]
            taken[output] += sheet.n * pair
            for lane, want in enumerate(lanes):
                got = results[output][start + lane * pair : start + lane * pair + pair]
                value = got[0] | got[1] << 16 if pair == 2 else got[0]
                want_bits = int(want[i]) & (1 << (8 * width)) - 1
                operands = [hex(b[lane]) for b in buffers]
                assert value == want_bits, (opcode, operands, hex(value), hex(want_bits))


def test_every_row_is_executed_or_refused() -> None:
    """A row that is missing from the table is refused, whatever it does over the reals."""
    ends = {"bra", "brx.idx", "ret", "exit", "trap"}
    ends |= {"bar.sync", "bar.arrive", "bar.warp", "bar.red"}
    assert {form.name for form in FORMS} - set(TRUE_FORMATS) == ends


def refused(body: str, arch: int = 80) -> str:
    params = [out("O", "f32", 32)]
    with pytest.raises(Refused) as error:
        run(entry(body, params), params, 1, 32, engine=Ieee({}, arch))
    return error.value.form


def test_what_has_no_rule_is_refused() -> None:
    assert refused("rcp.approx.ftz.f64 %g1, %g2; ret;") == "rcp.approx.ftz.f64"
    assert refused("rsqrt.approx.f64 %g1, %g2; ret;") == "rsqrt.approx.f64"
    mma = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
    body = f"{mma} {{%f1,%f2,%f3,%f4}}, {{%r1,%r2}}, {{%r3}}, {{%f1,%f2,%f3,%f4}}; ret;"
    assert refused(body, arch=75) == mma
    assert ("rcp", "f64") not in BOUNDS


# what only bits can do ---------------------------------------------------------------------------


def on_floats(body: str, x: Any, **more: Any) -> Any:
    """z[i] of a body that finds x[i] in %f1 and leaves %f3."""
    x = np.asarray(x, np.float32)
    params = [symbol("x", "f32", x.size), out("z", "f32", x.size)]
    text = entry(f"ld.global.f32 %f1, [%x]; {body} st.global.f32 [%z], %f3; ret;", params)
    left = run(text, params, 1, x.size, inputs={"x": x}, **more)
    return np.array(bits_in(left, "z", 4), np.uint32).view(np.float32)


def test_magic_rounding_and_exponent_bits() -> None:
    """2^round(x) by the sum with 1.5 * 2^23, whose low bits go into the exponent."""
    body = """
    add.f32 %f2, %f1, 0f4B40007F; mov.b32 %r1, %f2; shl.b32 %r2, %r1, 23; mov.b32 %f3, %r2;
    """
    x = [0.4, 1.6, -3.2, 7, -126.4, 100.7, 0, 3]
    assert on_floats(body, x).tolist() == [2.0 ** round(v) for v in x]


def test_signed_zeros_and_branches_on_data() -> None:
    body = """
    neg.f32 %f2, %f1; mul.f32 %f3, %f2, 0f00000000; mov.b32 %r1, %f3; setp.lt.s32 %p1, %r1, 0;
    mov.f32 %f3, 0f3F800000; @%p1 bra DONE; mov.f32 %f3, 0f80000000; DONE:
    """
    got = on_floats(body, [1, -1, 2, -2])
    assert got.tolist() == [1, 0, 1, 0]
    assert np.signbit(got).tolist() == [False, True, False, True]


def test_a_loop_until_it_converges() -> None:
    """Newton's square root: the number of steps depends on the data."""
    body = """
    mov.f32 %f3, %f1;
    L: mov.f32 %f4, %f3; div.rn.f32 %f5, %f1, %f3; add.f32 %f5, %f5, %f3;
    mul.f32 %f3, %f5, 0f3F000000; setp.lt.f32 %p1, %f3, %f4; @%p1 bra L; mov.f32 %f3, %f4;
    """
    x = np.array([2, 3, 10, 1e10], np.float32)
    np.testing.assert_allclose(on_floats(body, x), np.sqrt(x), rtol=2e-7)


def test_atomic_sums_are_rounded_in_the_order_of_the_lanes() -> None:
    params = [symbol("x", "f32", 64), out("z", "f32", 1, init="zero")]
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    text = entry("ld.global.f32 %f1, [%x]; red.global.add.f32 [%pz], %f1; ret;", params)
    left = run(text, params, 2, 32, inputs={"x": x})
    total = np.float32(0)
    for v in x:
        total = total + v
    assert bits_in(left, "z", 4) == [int(total.view(np.uint32))]


def test_atomics_flush_in_global_memory_only() -> None:
    tiny = "mov.f32 %f1, 0f00000001;"
    params = [out("z", "f32", 32)]
    shared = ".reg .b64 %s; mov.u64 %s, acc; st.shared.f32 [%s], 0f00000000; red.shared.add.f32"
    body = f".shared .f32 acc; {tiny} {shared} [%s], %f1; ld.shared.f32 %f2, [%s]; "
    left = run(entry(f"{body} st.global.f32 [%z], %f2; ret;", params), params, 1, 1)
    assert int(left.memories["z"].elements(4)[1].a[0]) == 1
    params = [out("z", "f32", 1, init="zero")]
    left = run(entry(f"{tiny} red.global.add.f32 [%pz], %f1; ret;", params), params, 1, 1)
    assert bits_in(left, "z", 4) == [0]


def test_undefined_stays_undefined() -> None:
    params = [known("A", "u32", range(32)), out("z", "f32", 32)]
    body = "setp.lt.u32 %p1, %gid, 4; @%p1 mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, %f1;"
    left = run(entry(f"{body} st.global.f32 [%z], %f2; ret;", params), params, 1, 32)
    _, word = left.memories["z"].elements(4)
    assert word.u.tolist() == [i >= 4 for i in range(32)]
    assert word.a[:4].view(np.float32).tolist() == [2.0] * 4


def test_approximate_instructions_take_the_chosen_error() -> None:
    x = np.linspace(-3, 3, 64)
    got = [
        on_floats("ex2.approx.f32 %f3, %f1;", x, engine=Ieee({"x": x}, 80, choice))
        for choice in (Choice(-1.0), Choice(), Choice(1.0))
    ]
    assert (got[0] <= got[1]).all()
    assert (got[1] <= got[2]).all()
    assert (got[0] < got[2]).mean() > 0.9
