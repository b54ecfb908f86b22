"""Hand-written kernels in pairs: bodies in, a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcheck.check import equivalent
from kcheck.launch import Param
from kcheck.verdict import Verdict
from tests.semantics.harness import entry, launch_of, out, symbol

FLOATS: Sequence[Param] = (symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32))
HALVES: Sequence[Param] = (symbol("x", "f16", 32), symbol("y", "f16", 32), out("z", "f16", 32))
BFLOATS: Sequence[Param] = (symbol("x", "bf16", 32), symbol("y", "bf16", 32), out("z", "bf16", 32))


def on_floats(body: str) -> str:
    """z[i] = %f3, where the body finds x[i] in %f1 and y[i] in %f2."""
    load = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y];"
    return f"{load}\n{body}\nst.global.f32 [%z], %f3;"


def on_halves(body: str) -> str:
    """z[i] = %h3, where the body finds x[i] in %h1 and y[i] in %h2; 16-bit floats."""
    load = "ld.global.b16 %h1, [%x]; ld.global.b16 %h2, [%y];"
    return f"{load}\n{body}\nst.global.b16 [%z], %h3;"


def compared(reference: str, subject: str, params: Sequence[Param], **more: Any) -> Verdict:
    """The verdict on two bodies of `tests.semantics.harness.entry`; races not looked for.

    `grid`, `block`: of the launch; `head`: declarations before both kernels; others as in
    `equivalent`.
    """
    launch = launch_of(params, more.pop("grid", 1), more.pop("block", 32))
    head = more.pop("head", "")
    kernels = [entry(body, params, head) for body in (reference, subject)]
    return equivalent(*kernels, launch=launch, safety=False, seed=1, **more)


def floats(reference: str, subject: str, **more: Any) -> Verdict:
    """The verdict on two bodies of `on_floats`; see `compared`."""
    return compared(on_floats(reference), on_floats(subject), FLOATS, **more)
