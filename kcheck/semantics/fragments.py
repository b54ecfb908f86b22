"""Where each matrix element lies in the registers of a warp (PTX ISA 9.7.14, mma fragments)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcheck.semantics.values import Array


@dataclass(frozen=True)
class Shape:
    """`a`, `b`: (element number, lane) of each matrix element; `c`: (row, column) of each
    element number, one entry a lane.
    """

    a: tuple[Array, Array]
    b: tuple[Array, Array]
    c: tuple[tuple[Array, Array], ...]


_LANE = np.arange(32)
GROUP, MEMBER = _LANE // 4, _LANE % 4


def _a(k: int, per: int) -> tuple[Array, Array]:
    """A is 16 x k; a lane holds `per` neighbours of a row at a time.

    Element number: neighbour, then rows +8, then columns + 4 `per`.
    """
    row, col = np.meshgrid(np.arange(16), np.arange(k), indexing="ij")
    block, inside = col // (4 * per), col % (4 * per)
    number = block * 2 * per + row // 8 * per + inside % per
    return number, row % 8 * 4 + inside // per


def _b(k: int, per: int) -> tuple[Array, Array]:
    """B is k x 8; a lane holds `per` neighbours of a column at a time."""
    row, col = np.meshgrid(np.arange(k), np.arange(8), indexing="ij")
    block, inside = row // (4 * per), row % (4 * per)
    return block * per + inside % per, col * 4 + inside // per


_C = tuple((GROUP + 8 * (i // 2), 2 * MEMBER + i % 2) for i in range(4))

SHAPES: dict[tuple[str, str], Shape] = {
    **{("m16n8k16", t): Shape(_a(16, 2), _b(16, 2), _C) for t in ("f16", "bf16")},
    **{("m16n8k8", t): Shape(_a(8, 2), _b(8, 2), _C) for t in ("f16", "bf16")},
    ("m16n8k8", "tf32"): Shape(_a(8, 1), _b(8, 1), _C),
    ("m16n8k4", "tf32"): Shape(_a(4, 1), _b(4, 1), _C),
    ("m16n8k32", "s8"): Shape(_a(32, 4), _b(32, 4), _C),
    ("m16n8k16", "s8"): Shape(_a(16, 4), _b(16, 4), _C),
}
