"""Expressions over elements of buffers, and the stages that fill these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Buffer:
    """`root`: the positions of its elements, in order; a view of it is a view of the buffer."""

    name: str
    root: Positions


@dataclass(frozen=True, eq=False)
class Leaf:
    """Elements of a buffer, by their positions."""

    buffer: Buffer
    at: Positions


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers (or flags, as 1 and 0) of an array that is no input."""

    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Take:
    """Elements of a buffer: at positions `at`, and `stride` times an unknown index below `extent`
    beyond.
    """

    buffer: Buffer
    at: Positions
    stride: int
    extent: int
    index: Node


@dataclass(frozen=True, eq=False)
class Apply:
    """An operation (a key of `program.OPERATIONS`) on expressions of one shape."""

    operation: str
    arguments: tuple[Node, ...]


Node: TypeAlias = Leaf | Known | Take | Apply


@dataclass(frozen=True, eq=False)
class Stage:
    """`target` gets, at each of `at`, the `reduction` (sum, max, min, or "": nothing to reduce)
    of an expression over its last axis.
    """

    target: Buffer
    at: Positions
    reduction: str
    node: Node
    length: int = 1


def moved(node: Node, move: Callable[[Any], Any]) -> Node:
    """The expression with the same move made in the arrays of all leaves."""
    if isinstance(node, Leaf):
        return Leaf(node.buffer, move(node.at))
    if isinstance(node, Known):
        return Known(move(node.values))
    if isinstance(node, Take):
        return replace(node, at=move(node.at), index=moved(node.index, move))
    return Apply(node.operation, tuple(moved(a, move) for a in node.arguments))
