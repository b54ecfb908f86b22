"""Runs a few instructions in many threads at once, one set of operands per thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcheck.launch import FLOATS, Launch, Tensor
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.tree import type_bytes
from kcheck.semantics.slow import Exact, Number, Real, SlowMachine, SlowResult

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
Columns = Mapping[str, tuple[str, Sequence[Any]]]


def launch_of(text: str, tensors: Sequence[Tensor], threads: int, **more: Any) -> Launch:
    """One CTA of `threads` threads for the only kernel of a text."""
    name = parse(text).entries[0].name
    grid = more.pop("grid", (1, 1, 1))
    return Launch(name, grid, (threads, 1, 1), tuple(tensors), **more)


def run(
    text: str,
    tensors: Sequence[Tensor],
    inputs: Mapping[str, Sequence[Any]],
    threads: int,
    numbers: type[Number] = Exact,
    seed: int | None = None,
    **more: Any,
) -> SlowResult:
    """Run a whole module."""
    launch = launch_of(text, tensors, threads, **more)
    return SlowMachine(lower(parse(text)), launch, inputs, numbers, seed=seed).run()


def module(params: Sequence[str], body: str, head: str = "") -> str:
    """A kernel `k` with pointer parameters, each in a register of its own name."""
    listed = ", ".join(f".param .u64 p_{name}" for name in params)
    loads = "".join(f".reg .b64 {n}; ld.param.u64 {n}, [p_{n}];\n" for n in params)
    return f"{HEAD}{head}\n.visible .entry k({listed})\n{{\n{loads}{body}\n}}\n"


def evaluate(
    code: str, inputs: Columns, outputs: Mapping[str, str], numbers: type[Number] = Exact
) -> dict[str, list[Any]]:
    """Run `code` in one thread per row of the inputs; operands are registers by name.

    inputs: name -> (type, one value per thread); outputs: name -> type. The values of the
    outputs come back as ints, rationals (or floats for infinities and nan), or units.
    """
    threads = len(next(iter(inputs.values()))[1])
    lines = [".reg .b32 idx; mov.u32 idx, %tid.x; .reg .b64 adr; .reg .pred p, q;"]
    tensors, values = [], {}
    for name, (kind, column) in inputs.items():
        lines += _moved(name, kind, f"ld.global.{_move(kind)} {name}, [adr];")
        tensors.append(Tensor(f"in_{name}", kind, (threads,), "in"))
        values[f"in_{name}"] = column
    stores = []
    for name, kind in outputs.items():
        declared, *move = _moved(name, kind, f"st.global.{_move(kind)} [adr], {name};", "out")
        lines.append(declared)
        stores += move
        tensors.append(Tensor(f"out_{name}", kind, (threads,), "out"))
    body = "\n".join([*lines, "{", code, "}", *stores, "ret;"])
    result = run(module([t.name for t in tensors], body), tensors, values, threads, numbers)
    return {name: [plain(unit) for unit in result.outputs[f"out_{name}"]] for name in outputs}


def plain(unit: Any) -> Any:
    """The number of a real, anything else as it is."""
    return unit.number.exact() if isinstance(unit, Real) else unit


def _moved(name: str, kind: str, access: str, way: str = "in") -> list[str]:
    """The declaration of a register, and the instructions that load or store it."""
    width = type_bytes(kind)
    register = f"b{8 * max(width, 2)}" if kind not in ("f32", "f64") else kind
    return [f".reg .{register} {name};", f"mad.wide.u32 adr, idx, {width}, {way}_{name};", access]


def _move(kind: str) -> str:
    return f"b{8 * type_bytes(kind)}" if kind in FLOATS else kind
