"""prim_func -> CUDA text and launch, under given pass configs, with some passes skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcheck.launch import Launch
from kcheck.passes.tilelang.installed import tilelang, tvm
from kcheck.passes.tilelang.launches import launch_of
from kcheck.passes.tilelang.request import Request

LINES = "tl.emit_line_directives"
_DIRECTIVE = "#line "
# the first parts of the names of tilelang's own passes; a pass of another name can be skipped
OWN = ("tl.", "tir.", "tirx.", "s_tir.", "pass_fn", "sequential", "Sequential")


@dataclass(frozen=True)
class Lowered:
    """`source`: the CUDA text; `lines`: per line of it, the Python file and line, where known;
    `passes`: names of the passes that ran, in order; `host`: the text of the program that launches
    the kernel, if it was asked for.
    """

    source: str
    lines: tuple[tuple[str, int] | None, ...]
    launch: Launch
    passes: tuple[str, ...]
    host: str | None = None


def lower(
    request: Request,
    configs: Mapping[str, Any],
    skipped: frozenset[str] = frozenset(),
    foreign: bool = True,
    *,
    tools: bool = False,
    host: bool = False,
) -> Lowered:
    """Lower by tilelang's own pipeline.

    `configs`: instead of the request's. `skipped`: names of passes that do not run. `foreign`: do
    passes run that are not tilelang's own? `tools`: with the instrumentation tools that are
    registered with tilelang. `host`: make the text of the host's side too. Raises what tilelang
    raises, and Unsupported for a launch that can't be described.
    """
    package, instrument = tilelang(), tvm().ir.instrument
    from tilelang.instrumentation import compile_pass_instrumentation, create_pass_instruments

    ran: list[str] = []

    @instrument.pass_instrument
    class Watch:
        def should_run(self, _: Any, info: Any) -> bool:
            name = str(info.name)
            return name not in skipped and (foreign or name.startswith(OWN))

        def run_before_pass(self, _: Any, info: Any) -> None:
            ran.append(str(info.name))

    with compile_pass_instrumentation(include_default_tools=tools, reuse_existing=False):
        instruments = [*create_pass_instruments(context="kcheck"), Watch()]
        context = tvm().transform.PassContext(
            opt_level=3, config={**configs, LINES: True}, instruments=instruments
        )
        with context, request.target:
            made = package.lower(request.own, target=request.target, enable_host_codegen=host)
    source, lines = _without_directives(made.kernel_source)
    text = str(made.host_mod.inspect_source()) if host else None
    return Lowered(source, lines, launch_of(request, made.device_mod), tuple(ran), text)


def _without_directives(
    text: str,
) -> tuple[str, tuple[tuple[str, int] | None, ...]]:
    """The text as it is without `#line`, and where each of its lines comes from.

    A directive holds for the lines that follow it; it counts them on, TileLang's statements do
    not: the number stands for the statement until the next directive.
    """
    kept: list[str] = []
    lines: list[tuple[str, int] | None] = []
    now: tuple[str, int] | None = None
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith(_DIRECTIVE):
            number, _, name = bare[len(_DIRECTIVE) :].partition(" ")
            now = name.strip('"'), int(number)
            continue
        kept.append(line)
        lines.append(now)
    return "".join(kept), tuple(lines)
