"""mma in true formats: fragments to matrices of bits, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.domain import NoRule
from kcheck.ptx_frontend.tree import Instr, Vec
from kcheck.semantics import fragments
from kcheck.semantics.decode import Decoder, put
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.pointers import keep_bits
from kcheck.semantics.values import Array, Bool, Int, Unsupported
from kcheck.semantics.warp_builders import spread, whole_warps


def mma(d: Decoder, instr: Instr, slots: dict[str, str]) -> Step:
    """The builder; Unsupported for shapes and architectures that aren't known."""
    shape = fragments.SHAPES.get((slots["shape"], slots["a"]))
    if shape is None:
        raise Unsupported(instr.name, "the shape is not supported")
    vectors = [op.items for op in instr.operands if isinstance(op, Vec)]
    if len(vectors) != 4:
        raise Unsupported("operand", "mma needs vectors of registers")
    dsts = [d.dest(op) for op in vectors[0]]
    a, b, c = ([d.integer(op, 4) for op in items] for items in vectors[1:])
    halves, out_halves = slots["a"] != "tf32", slots["d"] == "f16"
    arithmetic = d.machine.arithmetic
    assert arithmetic is not None
    try:
        multiply = arithmetic.matmul(slots["a"], slots["d"])
    except NoRule as error:
        raise Unsupported(instr.name, str(error)) from error
    # where (rows, columns) each accumulator element of a lane lies
    rows, cols = (np.stack([place[i] for place in shape.c]) for i in (0, 1))

    def run(m: Machine) -> None:
        whole_warps(m, "mma")
        warps = m.lanes // 32
        x, xbad = _matrix(m, a, halves, shape.a)
        y, ybad = _matrix(m, b, halves, shape.b)
        parts, zbad = _elements(m, c, out_halves)
        z = np.zeros((warps, 16, 8), parts.dtype)
        z[:, rows, cols] = parts.reshape(-1, warps, 32).swapaxes(0, 1)
        result = multiply(x, y, z)[:, rows, cols].swapaxes(0, 1).reshape(-1, m.lanes)
        bad = np.zeros(result.shape, bool) if zbad is None else zbad
        if xbad is not None or ybad is not None:
            reached = spread(xbad, ybad, (warps, 16, 8))
            bad = bad | reached[:, rows, cols].swapaxes(0, 1).reshape(-1, m.lanes)
        _deliver(m, dsts, result, bad, out_halves)

    return run


def _elements(m: Machine, slots: list[int], halves: bool) -> tuple[Array, Bool | None]:
    """The elements of a fragment as (number, lane), and which of them are undefined."""
    words: list[Array] = []
    flags: list[Bool] = []
    for s in slots:
        x = m.integer(m.regs[s], 4)
        keep_bits(m, [x], "multiplied")
        word = np.broadcast_to(x.a, (m.lanes,))
        parts = (word.astype(np.uint16), (word >> np.uint32(16)).astype(np.uint16))
        words += parts if halves else (word,)
        gone = np.zeros(1, bool) if x.u is None else x.u
        flags += [np.broadcast_to(gone, (m.lanes,))] * (2 if halves else 1)
    bad = np.stack(flags)
    return np.stack(words), bad if bad.any() else None


def _matrix(
    m: Machine, slots: list[int], halves: bool, index: tuple[Array, Array]
) -> tuple[Array, Any]:
    """A (warps, rows, columns) matrix of bits, and its undefined elements or None."""
    parts, bad = _elements(m, slots, halves)
    which, lanes = index
    warps = np.arange(m.lanes // 32)[:, None, None]

    def arranged(x: Array) -> Array:
        return x.reshape(len(parts), -1, 32)[which[None], warps, lanes[None]]

    return arranged(parts), None if bad is None else arranged(bad)


def _deliver(m: Machine, dsts: list[int], result: Array, bad: Bool, halves: bool) -> None:
    for i, dst in enumerate(dsts):
        if halves:
            low, high = result[2 * i : 2 * i + 2].astype(np.uint32)
            word, gone = low | high << np.uint32(16), bad[2 * i] | bad[2 * i + 1]
        else:
            word, gone = result[i], bad[i]
        put(m, dst, Int(word, None, gone if gone.any() else None))
