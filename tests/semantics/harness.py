"""Both evaluators on one kernel: the lane executor, and the slow one that is its oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import CASED, FINITE, NINF, PINF, SYMBOLIC, UNDEF, UNKNOWN
from kcheck.canon.domain import Domain
from kcheck.canon.enclosure import EnclosureDomain
from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, Param, Scalar, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.semantics.execution import Execution, Refused, execute
from kcheck.semantics.slow import UNDEF as SLOW_UNDEF
from kcheck.semantics.slow import (
    UNWRITTEN,
    Enclosure,
    Number,
    SlowMachine,
    Unevaluated,
)

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<100>; .reg .b64 %d<40>; "
    ".reg .f32 %f<100>; .reg .f64 %g<40>; .reg .b32 %gid; .reg .b64 %wide;"
)

# an element of an output: a number, the ends of an enclosure, or a word
Element = int | Fraction | tuple[float, float] | str
Inputs = Mapping[str, NDArray[Any]]


@dataclass
class Outcome:
    """What a run left: elements per output; (reason, line) of findings; why it stopped."""

    outputs: dict[str, list[Element]] = field(default_factory=dict[str, list[Element]])
    findings: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    stopped: tuple[str, str] | None = None

    @property
    def reasons(self) -> set[str]:
        """The findings without their places."""
        return {reason for reason, _ in self.findings}


def known(name: str, dtype: str, values: Any) -> Tensor:
    """An input with known contents."""
    flat = np.asarray(values)
    return Tensor(name, dtype, flat.shape, "in", values=flat)


def symbol(name: str, dtype: str, n: int) -> Tensor:
    """An input that only the domain knows."""
    return Tensor(name, dtype, (n,), "in")


def out(name: str, dtype: str, *shape: int, **more: Any) -> Tensor:
    """An output."""
    return Tensor(name, dtype, shape, "out", **more)


def entry(body: str, params: Sequence[Param], head: str = "") -> str:
    """A kernel `k`. For each tensor A: `%pA` its address, `%A` that of the thread's element.

    `%gid` is the thread's number in the grid, `%tid.x` in its CTA.
    """
    listed, lines = [], []
    for p in params:
        if isinstance(p, Scalar):
            listed.append(f".param .{p.dtype} {p.name}")
            continue
        listed.append(f".param .u64 {p.name}")
        width = DTYPE_BYTES[p.dtype] if isinstance(p, Tensor) else 1
        lines.append(
            f".reg .b64 %{p.name}, %p{p.name}; ld.param.u64 %p{p.name}, [{p.name}];"
            f" mad.lo.u64 %{p.name}, %wide, {width}, %p{p.name};"
        )
    start = "mov.u32 %gid, %ctaid.x; mad.lo.u32 %gid, %gid, %ntid.x, %tid.x;"
    prologue = "\n".join([REGISTERS, start, "cvt.u64.u32 %wide, %gid;", *lines])
    return f"{HEAD}{head}\n.visible .entry k({', '.join(listed)})\n{{\n{prologue}\n{body}\n}}\n"


def kernel_of(text: str) -> Kernel:
    """The lowered kernel `k` of a text."""
    return lower(parse(text), "k")


def launch_of(params: Sequence[Param], grid: int = 1, block: int = 32, **more: Any) -> Launch:
    """A launch in one dimension."""
    return Launch("k", (grid, 1, 1), (block, 1, 1), tuple(params), **more)


def fast(
    kernel: Kernel, launch: Launch, domain: Domain[Any], batch: int = 4096
) -> tuple[Outcome, Execution | None]:
    """Run the lane executor."""
    try:
        run = execute(kernel, launch, domain, batch=batch)
    except Refused as error:
        return Outcome(stopped=(error.form, error.instr.span.text)), None
    outcome = Outcome(
        findings={(fault.reason, kernel.code[fault.at].span.text) for fault in run.faults}
    )
    for tensor in launch.params:
        if isinstance(tensor, Tensor) and tensor.role != "in":
            outcome.outputs[tensor.name] = _fast_elements(run, tensor)
    return outcome, run


def _fast_elements(run: Execution, tensor: Tensor) -> list[Element]:
    width = DTYPE_BYTES[tensor.dtype]
    unwritten, real = run.memories[tensor.name].contents(width, tensor.dtype)
    ids = np.broadcast_to(run.reals.ids(real, unwritten.shape), unwritten.shape)
    value = run.reals.value(real)
    ends = [np.zeros(0), np.zeros(0)]
    if hasattr(value, "low"):
        ends = [np.broadcast_to(end, unwritten.shape) for end in (value.low, value.high)]
    wrap = None if tensor.dtype in FLOATS else 1 << 8 * width
    words = {UNDEF: "undef", UNKNOWN: "unknown", PINF: "inf", NINF: "-inf"}
    elements: list[Element] = []
    for i, ident in enumerate(ids.tolist()):
        if unwritten[i]:
            elements.append("unwritten")
        elif ident == SYMBOLIC:
            elements.append((float(ends[0][i]), float(ends[1][i])) if len(ends[0]) else "symbol")
        elif ident >= CASED:
            elements.append("on a condition")
        elif ident >= FINITE:
            number = run.reals.constants.values[ident]
            elements.append(number if wrap is None else int(number) % wrap)
        else:
            elements.append(words.get(ident, "nan"))
    return elements


def slow(
    kernel: Kernel,
    launch: Launch,
    inputs: Inputs,
    numbers: type[Number] = Enclosure,
    seed: int | None = None,
) -> Outcome:
    """Run the slow evaluator; findings about output elements are left out (see `outputs`)."""
    given = {name: values.ravel().tolist() for name, values in inputs.items()}
    try:
        result = SlowMachine(kernel, launch, given, numbers, seed=seed).run()
    except Unevaluated as error:
        reason = error.reason.removeprefix("unsupported.")
        return Outcome(stopped=(reason, error.instr.span.text if error.instr else ""))
    findings = {
        (f.reason, f.instr.span.text if f.instr else "")
        for f in result.findings
        if not f.reason.startswith("value.") and f.reason != "undefined.output"
    }
    outputs = {name: [_plain(e) for e in es] for name, es in result.outputs.items()}
    return Outcome(outputs, findings)


def _plain(element: Any) -> Element:
    if isinstance(element, int):
        return element
    if element is SLOW_UNDEF or element is UNWRITTEN:
        return "undef" if element is SLOW_UNDEF else "unwritten"
    exact = element.number.exact()
    if exact is None:
        low, high = element.number.bounds()
        return float(low), float(high)
    if isinstance(exact, Fraction):
        return exact
    return "nan" if math.isnan(exact) else "inf" if exact > 0 else "-inf"


# comparison --------------------------------------------------------------------------------------

WIDE = 1e-6  # an enclosure wider than this (relative) shows nothing
TINY = 1e-12  # absolute, for sums that cancel
HUGE = 1e300  # ends beyond this may be infinite


def agree(a: Element, b: Element) -> bool:
    """One element of both runs: equal, or narrow enclosures that overlap."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return a == b
    one, other = (x if isinstance(x, tuple) else (x, x) for x in (a, b))
    return _narrow(*one) and _narrow(*other) and one[0] <= other[1] and other[0] <= one[1]


def _narrow(low: Any, high: Any) -> bool:
    size = max(abs(low), abs(high))
    return low == high or min(abs(low), abs(high)) > HUGE or high - low <= WIDE * size + TINY


def disagreements(a: Outcome, b: Outcome) -> list[str]:
    """Where two outcomes differ, in words."""
    lines = []
    if a.stopped or b.stopped:
        if a.stopped != b.stopped:
            lines.append(f"stopped: {a.stopped} / {b.stopped}")
        return lines
    if a.findings != b.findings:
        lines.append(f"findings: {a.findings - b.findings} / {b.findings - a.findings}")
    if a.outputs.keys() != b.outputs.keys():
        lines.append(f"outputs: {list(a.outputs)} / {list(b.outputs)}")
    for name, elements in a.outputs.items():
        for i, (x, y) in enumerate(zip(elements, b.outputs[name], strict=True)):
            if not agree(x, y):
                lines.append(f"{name}[{i}]: {x!r} / {y!r}")
    return lines


def same(
    text: str,
    launch: Launch,
    inputs: Inputs | None = None,
    *,
    numbers: type[Number] = Enclosure,
    batch: int = 4096,
    seed: int | None = None,
    outputs: bool = True,
    places: bool = True,
) -> Outcome:
    """Run both machines, require the same outcome, and return it (the fast one's).

    `outputs`: compare them too; after some findings the slow machine gives a CTA up. `places`:
    findings are the same; else the slow ones (one a deadlock) must be among the fast ones.
    """
    kernel = kernel_of(text)
    given = {} if inputs is None else dict(inputs)
    outcome, _ = fast(kernel, launch, EnclosureDomain(given), batch)
    expected = slow(kernel, launch, given, numbers, seed)
    if not outputs:
        outcome.outputs, expected.outputs = {}, {}
    if not places:
        assert expected.findings <= outcome.findings, (expected.findings, outcome.findings)
        expected.findings = outcome.findings
    assert not disagreements(outcome, expected), "\n".join(disagreements(outcome, expected)[:20])
    return outcome


def body_same(
    body: str, params: Sequence[Param], inputs: Inputs | None = None, **more: Any
) -> Outcome:
    """`same` for a body (of `entry`); launch options and `head` by name."""
    head = more.pop("head", "")
    launch = {k: more.pop(k) for k in ("grid", "block", "dynamic_shared") if k in more}
    return same(entry(body, params, head), launch_of(params, **launch), inputs, **more)
