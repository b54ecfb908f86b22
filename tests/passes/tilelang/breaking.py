"""Compilers that are wrong on purpose: passes put into tilelang's pipeline, and passes left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tilelang
from tilelang import tvm
from tilelang.instrumentation import (
    PassInstrumentationTool,
    register_pass_instrumentation_tool,
    unregister_pass_instrumentation_tool,
)

expr, functor = tvm.tirx, tvm.tirx.stmt_functor


def once(kind: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rewriter of a function's body that changes the first node of a kind that it can."""

    def rewrite(body: Any) -> Any:
        done: list[Any] = []

        def after(node: Any) -> Any:
            changed = None if done else change(node)
            if changed is not None:
                done.append(changed)
            return changed

        return functor.ir_transform(body, None, after, [kind])

    return rewrite


def wrong_index(node: Any) -> Any:
    """All lanes of a vector load of global memory read the element of the first."""
    index = node.indices[0]
    if node.buffer.scope() != "global" or not isinstance(index, expr.Ramp):
        return None
    return expr.BufferLoad(node.buffer, [expr.Broadcast(index.base, index.lanes)])


def wrong_sign(node: Any) -> Any:
    """A sum of floats becomes a difference."""
    return expr.Sub(node.a, node.b) if "float" in str(node.dtype) else None


def wrong_stage(node: Any) -> Any:
    """Of three stages, the one that is filled is one too early."""
    if not isinstance(node.a, expr.Add):
        return None
    return expr.FloorMod(node.a.a + 1, node.b) if modulus(node) == 3 else None


def everywhere(kind: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rewriter that changes all nodes of a kind that it can."""
    return lambda body: functor.ir_transform(body, None, change, [kind])


def modulus(node: Any) -> int:
    return int(node.b) if isinstance(node.b, expr.IntImm) else 0


def too_few_buffers(node: Any) -> Any:
    """Three stages go through two buffers, wherever they are written and read."""
    two = expr.IntImm(node.b.dtype, 2)
    return expr.FloorMod(node.a, two) if modulus(node) == 3 else None


def wrong_simplification(node: Any) -> Any:
    """`x % 32` is taken for x, as if x were known to be small."""
    return node.a if modulus(node) == 32 else None


def lost_barrier(body: Any) -> Any:
    """The barrier in the middle of the kernel is gone."""
    barriers: list[Any] = []

    def visit(node: Any) -> None:
        call = node.value if isinstance(node, expr.Evaluate) else None
        if isinstance(call, expr.Call) and "storage_sync" in str(getattr(call.op, "name", "")):
            barriers.append(node)

    functor.post_order_visit(body, visit)
    if not barriers:  # a function of the host
        return body

    def after(node: Any) -> Any:
        return expr.Evaluate(0) if node.same_as(barriers[len(barriers) // 2]) else None

    return functor.ir_transform(body, None, after, ["tirx.Evaluate"])


def half_grid(node: Any) -> Any:
    """Half of the CTAs are never launched; the kernel's own text does not say how many."""
    if node.attr_key != "thread_extent" or "blockIdx.x" not in str(node.node):
        return None
    half = expr.IntImm(node.value.dtype, int(node.value) // 2)
    return expr.AttrStmt(node.node, node.attr_key, half, node.body)


BREAKS = {
    "half_grid": everywhere("tirx.AttrStmt", half_grid),
    "too_few_buffers": everywhere("tirx.FloorMod", too_few_buffers),
    "wrong_simplification": everywhere("tirx.FloorMod", wrong_simplification),
    "lost_barrier": lost_barrier,
    "wrong_index": once("tirx.BufferLoad", wrong_index),
    "wrong_sign": once("tirx.Add", wrong_sign),
    "wrong_stage": once("tirx.FloorMod", wrong_stage),
}


@contextmanager
def added_pass(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """tilelang's pipeline with `test.<name>` behind its last change of statements."""
    before = tilelang.transform.MergeIfStmt

    def break_it(func: Any, mod: Any, context: Any) -> Any:
        return func.with_body(BREAKS[name](func.body))

    as_pass = tvm.tirx.transform.prim_func_pass(opt_level=0, name=f"test.{name}")
    wrong = as_pass(break_it)

    def merge_and_break() -> Any:
        return lambda mod: wrong(before()(mod))

    with monkeypatch.context() as patch:
        patch.setattr(tilelang.transform, "MergeIfStmt", merge_and_break)
        yield


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """tilelang told by a registered tool not to run a pass."""

    class Skip(PassInstrumentationTool):  # type: ignore[misc, unused-ignore]
        def create_pass_instrument(self) -> object:
            @tvm.ir.instrument.pass_instrument
            class Instrument:
                def should_run(self, _: Any, info: Any) -> bool:
                    return bool(info.name != name)

            return Instrument()

    register_pass_instrumentation_tool("test", Skip)
    try:
        yield
    finally:
        unregister_pass_instrumentation_tool("test")
