"""What a kernel must equal: its own program without optimizations, or what the user gives."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcheck.launch import Tensor
from kcheck.launch_file import dump_launch
from kcheck.loading import load_kernel, load_one
from kcheck.passes.sides import Side
from kcheck.passes.tilelang.ladder import Ladder, Rung
from kcheck.passes.tilelang.launches import parameter_names, unlaunched
from kcheck.passes.tilelang.nvcc import normalized
from kcheck.passes.tilelang.request import Request, Unsupported, request
from kcheck.specification.function import specified
from kcheck.verdict import UsageError


@dataclass(frozen=True)
class Reference:
    """`rung`: where it is one of a ladder; `mapping`: its buffers' names -> the kernel's."""

    rung: Rung | None = None
    given: Side | None = None
    mapping: Mapping[str, str] | None = None


def _is_program(given: Any) -> bool:
    return hasattr(given, "buffer_map")


def key(given: Any, wanted: Request) -> str | None:
    """A text that tells one reference from another; None where that takes a lowered kernel."""
    if given is None:
        return ""
    if _is_program(given):
        return str(given.script(show_meta=True))
    if isinstance(given, (str, os.PathLike)):
        side = _file(given)
        return "\n".join(side.content)
    try:
        names = set(specification_arguments(given))
        tensors = unlaunched(wanted, names)
        ptx, launch = specified(given, tensors)
    except (UsageError, Unsupported):
        return None
    return "\n".join((ptx, dump_launch(launch)))  # which parameter is which, only that says


def specification_arguments(function: Any) -> list[str]:
    """The names of a function's parameters. UsageError for what is no function."""
    if not callable(function):
        raise UsageError(
            f"Validate: reference={function!r}: expected a prim_func, a path or a function"
        )
    return list(inspect.signature(function).parameters)


def reference(given: Any, wanted: Request, ladder: Ladder) -> Reference:
    """The reference of a compile. UsageError, Unsupported, or what lowering raises."""
    if given is None:
        return Reference(ladder.first)
    if _is_program(given):
        names, theirs = parameter_names(wanted.func), parameter_names(given)
        known = {
            b: wanted.inputs[a] for a, b in zip(names, theirs, strict=False) if a in wanted.inputs
        }
        other = request(given, wanted.target, shapes=wanted.shapes, inputs=known)
        if len(names) != len(theirs):
            raise UsageError(
                f"Validate: the reference `{other.name}` has {len(theirs)} buffers, "
                f"`{wanted.name}` has {len(names)}"
            )
        return Reference(Ladder(other).first, mapping=dict(zip(theirs, names, strict=True)))
    if isinstance(given, (str, os.PathLike)):
        return Reference(given=_file(given))
    specification_arguments(given)
    buffers = ladder.last.lowered.launch.buffers
    tensors: list[Tensor] = [buffers[n] for n in parameter_names(wanted.func) if n in buffers]
    ptx, launch = specified(given, tensors)
    return Reference(given=Side("reference", ptx, ptx, launch))


def _file(path: str | os.PathLike[str]) -> Side:
    """A PTX file with the launch file beside it."""
    kernel = load_kernel(path, None)
    text = Path(path).read_text(encoding="utf-8")
    return Side("reference", text, normalized(text), load_one(path, kernel, None))
