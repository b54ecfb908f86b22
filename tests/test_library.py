"""Functions of the CUDA math library: their meaning, and proofs that rest on it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.canon.enclosure import EnclosureDomain
from kcheck.check import equivalent
from kcheck.launch import Launch, Param, Scalar, Tensor
from kcheck.ptx_frontend.dataflow import DataFlow
from kcheck.ptx_frontend.hoisted import moved_back
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.library import SNIPPETS, signatures
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.powers import HALVES, LITERALS, OF_SQUARES, POWER, WHOLE, as_bits
from kcheck.semantics.execution import execute
from kcheck.semantics.library_builders import MEANINGS
from kcheck.semantics.slow import Real, Rounded, SlowMachine
from kcheck.verdict import Verdict
from tests.test_soundness import told

DATA = Path(__file__).parent / "data" / "library"
N = 32


def kernels(path: Path) -> dict[str, Kernel]:
    module = parse(path.read_text(), str(path))
    return {entry.name: lower(module, entry.name) for entry in module.entries}


def launch_of(kernel: Kernel, n: int = N) -> Launch:
    params: list[Param] = []
    for param in kernel.params:
        if param.type == "u64":
            params.append(Tensor(param.name, "f32", (n,), "in"))
        else:
            params.append(Scalar(param.name, "u32", value=3))
    last = max(i for i, p in enumerate(params) if isinstance(p, Tensor))
    params[last] = Tensor(params[last].name, "f32", (n,), "out")
    return Launch(kernel.name, (1, 1, 1), (n, 1, 1), tuple(params))


def compared(reference: Kernel, subject: Kernel, **more: Any) -> Verdict:
    launch = launch_of(reference)
    return equivalent(reference, subject, launch=launch, safety=False, seed=1, **more)


# the meaning, against the expansion that the slow evaluator executes as hardware does

FUNCTIONS: dict[str, Callable[..., float]] = {
    "expf": math.exp,
    "exp10f": lambda x: 10.0**x,
    "expm1f": math.expm1,
    "logf": math.log,
    "log2f": math.log2,
    "log10f": math.log10,
    "log1pf": math.log1p,
    "tanhf": math.tanh,
    "erff": math.erf,
    "erfcf": math.erfc,
    "roundf": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
    "sinf": math.sin,
    "cosf": math.cos,
    "sinhf": math.sinh,
    "coshf": math.cosh,
    "tanf": math.tan,
    "atanf": math.atan,
    "powf": lambda x, y: x**y,
}
POSITIVE = (
    *("logf", "log2f", "log10f", "log1pf", "powf", "powf_ftz"),
    *("powf_part", "powf_overpart"),
)


def function_of(name: str) -> Callable[..., float]:
    literal = LITERALS.get(name)
    if name == "powf_positive":
        return lambda x, y: (x * x) ** y
    if literal is None:
        return FUNCTIONS[name.partition("_")[0]]
    given = literal.given
    if name in OF_SQUARES:
        return lambda x: (x * x) ** given
    return (lambda x: given**x) if literal.first else (lambda x: x**given)


def numbers(name: str, seed: int) -> list[list[float]]:
    rng = random.Random(seed)
    rows = []
    for _ in range(2 if name in ("powf", "powf_ftz", "powf_positive") else 1):
        row = [rng.uniform(-1, 1) for _ in range(N // 2)]
        row += [rng.uniform(-20, 20) for _ in range(N - len(row))]
        rows.append([float(np.float32(x)) for x in row])
    if name in OF_SQUARES:  # exact ones
        rows = [[float(np.float16(x)) for x in row] for row in rows]
        rows[1:] = [[x / 2 for x in row] for row in rows[1:]]
    if name in POSITIVE:
        rows[0] = [abs(x) + 2.0**-10 for x in rows[0]]
        rows[0] = [float(np.float32(x)) for x in rows[0]]
    return rows


@pytest.mark.parametrize("name", sorted(signatures()))
def test_the_expansion_computes_the_function(name: str) -> None:
    """Within a few units in the last place of f32 (CUDA C++ Programming Guide, accuracy table)."""
    kernel = kernels(SNIPPETS)[name]
    launch = launch_of(kernel)
    names = [p.name for p in launch.params]
    function = function_of(name)
    for seed in range(3):
        inputs = numbers(name, seed)
        given = dict(zip(names, inputs, strict=False))
        result = SlowMachine(kernel, launch, given, Rounded).run()
        for out, *xs in zip(result.outputs[names[-1]], *inputs, strict=True):
            assert isinstance(out, Real)
            value, expected = out.number.exact(), function(*xs)
            assert isinstance(value, Fraction)
            assert abs(float(value) - expected) <= 4 * np.spacing(np.float32(abs(expected)))


@pytest.mark.parametrize("name", sorted(signatures()))
def test_the_meaning_is_the_function(name: str) -> None:
    """The lane executor's enclosures hold what Python computes."""
    kernel = kernels(SNIPPETS)[name]
    launch = launch_of(kernel)
    names = [p.name for p in launch.params]
    inputs = numbers(name, 7)
    domain = EnclosureDomain(dict(zip(names, map(np.array, inputs), strict=False)))
    run = execute(kernel, launch, domain)
    assert len(run.idioms) == 1
    _, real = run.memories[names[-1]].contents(4, "f32")
    low, high = run.reals.value(real).ends
    function = function_of(name)
    for a, b, *xs in zip(low, high, *inputs, strict=True):
        slack = 1e-12 * abs(function(*xs))
        assert a - slack <= function(*xs) <= b + slack
        assert b - a <= 1e-9 * (1 + abs(a))


@pytest.mark.parametrize("name", sorted(kernels(DATA / "contexts.ptx")))
def test_the_meaning_among_other_code(name: str) -> None:
    """What stands in place of the expansions computes what these do, executed as they stand."""
    kernel = kernels(DATA / "contexts.ptx")[name]
    launch = launch_of(kernel)
    names = [p.name for p in launch.params if isinstance(p, Tensor)]
    rng = random.Random(3)
    inputs = [[float(np.float32(rng.uniform(0.1, 3))) for _ in range(N)] for _ in names[:-1]]
    given = dict(zip(names, inputs, strict=False))
    literal = SlowMachine(kernel, launch, given, Rounded).run().outputs[names[-1]]
    domain = EnclosureDomain({n: np.array(xs) for n, xs in given.items()})
    run = execute(kernel, launch, domain)
    _, real = run.memories[names[-1]].contents(4, "f32")
    low, high = run.reals.value(real).ends
    written = 0
    for a, b, out in zip(low, high, literal, strict=True):
        if isinstance(out, Real):
            value = out.number.exact()
            assert isinstance(value, Fraction)
            assert abs(float(value) - a) <= 1e-4 * (1 + abs(a))
            assert b - a <= 1e-4 * (1 + abs(a))
            written += 1
    assert written


STEPPED = [n for n in sorted(kernels(DATA / "contexts.ptx")) if n.startswith("log_")]


@pytest.mark.parametrize("name", STEPPED)
def test_steps_are_moved_without_a_difference(name: str) -> None:
    """Bit by bit, as hardware does it: of 0, denormals, infinity and negative numbers too."""
    kernel = kernels(DATA / "contexts.ptx")[name]
    moved = moved_back(DataFlow(kernel)).kernel
    assert (moved.code != kernel.code) == (name not in ("log_of_abs", "log_sum_exp"))
    launch = launch_of(kernel)
    names = [p.name for p in launch.params if isinstance(p, Tensor)]
    special = [0.0, -0.0, -1.0, 2.0**-140, 1.0, 2.0**127, math.inf, -2.0]
    rng = random.Random(5)
    values = [*special, *(float(np.float32(rng.uniform(0, 9))) for _ in range(N - len(special)))]
    given = {n: values for n in names[:-1]}
    one, two = (SlowMachine(k, launch, given, Rounded).run() for k in (kernel, moved))
    assert repr(one.outputs[names[-1]]) == repr(two.outputs[names[-1]])


def test_every_function_has_a_meaning() -> None:
    assert MEANINGS.keys() == {WHOLE, HALVES, *(name.partition("_")[0] for name in signatures())}


POWERS = kernels(DATA / "powers.ptx")


@pytest.mark.parametrize("name", sorted(POWERS))
def test_powers_with_other_literals(name: str) -> None:
    """The name says which: base_0p9 is 0.9^x."""
    kind, _, digits = name.partition("_")
    literal = float(np.float32(float(digits.replace("m", "-").replace("p", "."))))
    literal = float(np.float32(1 / 3)) if digits == "0p3333" else literal
    kernel = POWERS[name]
    ((idiom,), launch) = kernel.identified[1], launch_of(kernel)
    whole, halves = literal.is_integer(), (2 * literal).is_integer()
    exponent = WHOLE if whole else HALVES if halves else POWER
    assert idiom.name == (exponent if kind == "exponent" else POWER)
    inputs, out = numbers("powf_part", 11)[0], launch.params[-1].name
    inputs = [x if kind == "base" or not whole else -x for x in inputs]
    domain = EnclosureDomain({launch.params[0].name: np.array(inputs)})
    run = execute(kernel, launch, domain)
    _, real = run.memories[out].contents(4, "f32")
    low, high = run.reals.value(real).ends
    for a, b, x in zip(low, high, inputs, strict=True):
        # a literal stands for the number that it was rounded from
        expected = x**literal if kind == "exponent" else literal**x
        assert a - 1e-5 * abs(a) <= expected <= b + 1e-5 * abs(b)
        assert b - a <= 1e-9 * (1 + abs(a))


def test_only_literals_that_a_shape_fits() -> None:
    """An odd power's code with 1/2 more is no power that nvcc makes."""
    text = SNIPPETS.read_text()
    start = text.index(".visible .entry powf_whole(")
    stop = text.index("}", start)
    body = text[start:stop]
    for c, half, found in (("40A00000", "40200000", [WHOLE]), ("40B00000", "40300000", [])):
        changed = body.replace("0f40E00000", f"0f{c}").replace("0f40600000", f"0f{half}")
        kernel = lower(parse(text[:start] + changed + text[stop:], "changed.ptx"), "powf_whole")
        assert [idiom.name for idiom in kernel.identified[1]] == found


@pytest.mark.parametrize("name", ["powf_positive_up", "powf_positive_down"])
def test_an_exponent_0_is_of_no_shape(name: str) -> None:
    """What these compute at x = 0 is 0, or an infinity, and x^0 is 1."""
    text = SNIPPETS.read_text()
    start = text.index(f".visible .entry {name}(")
    stop = text.index("}", start)
    for c, found in ((0.0, []), (2.0 if name.endswith("up") else -2.0, [WHOLE])):
        body, literal = text[start:stop], LITERALS[name]
        for given, other in zip(literal.all(literal.given), literal.all(c), strict=True):
            body = body.replace(f"0f{as_bits(given):08X}", f"0f{as_bits(other):08X}")
        kernel = lower(parse(text[:start] + body + text[stop:], "changed.ptx"), name)
        assert [idiom.name for idiom in kernel.identified[1]] == found


# proofs


@pytest.mark.parametrize("name", sorted(kernels(DATA / "contexts.ptx")))
def test_fast_math_is_the_same_function(name: str) -> None:
    slow, fast = (kernels(DATA / f"contexts{kind}.ptx")[name] for kind in ("", "_fast"))
    assert told(compared(slow, fast)) == ("proved", None)


@pytest.mark.parametrize("flags", ["ftz", "nofma", "sm90"])
def test_flags_make_no_difference(flags: str) -> None:
    for name, kernel in kernels(DATA / f"flags_{flags}.ptx").items():
        assert told(compared(kernels(SNIPPETS)[name], kernel)) == ("proved", None)


def test_the_ledger_lists_the_functions() -> None:
    verdict = compared(*(kernels(DATA / f"contexts{k}.ptx")["softplus"] for k in ("", "_fast")))
    assert any(line.startswith("expf identified (lines reference ") for line in verdict.ledger)
    assert any(line.startswith("logf identified (lines reference ") for line in verdict.ledger)
    assert "arguments of lg2 positive" in verdict.ledger


# what is no library function


def mutated(old: str, new: str) -> Kernel:
    text = (DATA / "contexts.ptx").read_text()
    start = text.index(".visible .entry sigmoid(")
    stop = text.index("}", start)
    assert old in text[start:stop]
    changed = text[:start] + text[start:stop].replace(old, new, 1) + text[stop:]
    return lower(parse(changed, "mutated.ptx"), "sigmoid")


def test_one_constant_off_is_not_expf() -> None:
    """The code is executed as it stands, which over the reals is not understood."""
    kernel = mutated("0f32A57060", "0f32A57061")
    assert kernel.identified[1] == ()
    verdict = compared(kernels(DATA / "contexts_fast.ptx")["sigmoid"], kernel)
    assert told(verdict) == ("undecided", "unsupported.magic-rounding")
    (place,) = verdict.findings[0].locations
    assert "fma.rm.f32" in place.text


def test_another_function_of_expf_is_refuted() -> None:
    """The witness is confirmed by the expansion itself, executed as hardware does."""
    fast = kernels(DATA / "contexts_fast.ptx")
    for reference, subject in (
        (fast["sigmoid"], mutated("neg.f32", "abs.f32")),
        (mutated("neg.f32", "abs.f32"), fast["sigmoid"]),
        (fast["sigmoid"], mutated("0f3F800000", "0f40000000")),
    ):
        verdict = compared(reference, subject)
        assert told(verdict) == ("refuted", "value.mismatch")
        assert verdict.witness is not None


def test_a_factor_with_another_use_is_not_replaced() -> None:
    """2^f of expf's 2^n 2^f alone is no function of x that is known."""
    kernel = mutated("rcp.rn.f32", "add.f32 \t%f19, %f17, %f18;\n\trcp.rn.f32")
    assert kernel.identified[1] == ()
