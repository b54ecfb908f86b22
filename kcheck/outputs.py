"""The outputs of two runs beside each other, element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck.canon.constants import CASED, FINITE, NAN, NAN_DIV, SYMBOLIC, UNDEF, UNKNOWN
from kcheck.canon.domain import Bool, Domain
from kcheck.canon.lanes import Ids
from kcheck.launch import DTYPE_BYTES, Tensor
from kcheck.semantics.execution import Execution

# elements that are compared at once, so that memory does not grow with copies of the outputs
PART = 1 << 19


@dataclass
class Output:
    """One buffer after a run: `v` counts where `ids` is SYMBOLIC or a finite constant.

    From `CASED` on it counts where no condition of `ids` holds.
    """

    unwritten: Bool
    ids: Ids
    v: Any
    # an output in the buffer of an input: elements that hold what was there before, or None
    kept: Bool | None = None


@dataclass
class Comparison:
    """Flags per element of one pair of buffers.

    `unwritten`: -1 only the reference wrote, 1 only the subject, 0 neither or both. `constant`:
    no element depends on an input. `partial`: of the reference no number for some inputs, for which
    nothing is compared where it is NaN.
    """

    reference: Tensor
    subject: Tensor
    equal: Bool
    different: Bool
    idle: Bool
    unwritten: Any
    nan: tuple[Bool, Bool]
    undefined: tuple[Bool, Bool]
    unknown: Bool
    constant: bool
    partial: Bool


def parts_of(tensor: Tensor) -> list[slice]:
    """The elements of a buffer in parts; one part at least."""
    starts = range(0, max(tensor.elements, 1), PART)
    return [slice(start, start + PART) for start in starts]


def read_output(execution: Execution, tensor: Tensor, part: slice = slice(None)) -> Output:
    """The elements of a buffer, from the first to the last that its shape reaches."""
    memory = execution.memories[tensor.name]
    fmt = {"tf32": "f32", "e4m3": "u8", "e5m2": "u8"}.get(tensor.dtype, tensor.dtype)
    unwritten, real = memory.contents(DTYPE_BYTES[tensor.dtype], fmt, part)
    real = execution.reals.settled(real)
    ids = np.broadcast_to(execution.reals.ids(real, unwritten.shape), unwritten.shape)
    value = execution.reals.value(real)
    if tensor.role != "out" or memory.source is None:
        return Output(unwritten, ids, value)
    kept = (ids == SYMBOLIC) & execution.reals.domain.equal(value, memory.source[part])
    return Output(unwritten, ids, value, kept)


def compare(
    reference: Execution, subject: Execution, pair: tuple[Tensor, Tensor], domain: Domain[Any]
) -> Comparison:
    """Both runs share their constants (`execute(reals=...)`)."""
    parts = [_compare(reference, subject, pair, domain, part) for part in parts_of(pair[0])]
    if len(parts) == 1:
        return parts[0]

    def join(flags: Callable[[Comparison], Any]) -> Any:
        return np.concatenate([flags(part) for part in parts])

    return Comparison(
        *pair,
        equal=join(lambda c: c.equal),
        constant=all(part.constant for part in parts),
        different=join(lambda c: c.different),
        idle=join(lambda c: c.idle),
        unwritten=join(lambda c: c.unwritten),
        nan=(join(lambda c: c.nan[0]), join(lambda c: c.nan[1])),
        undefined=(join(lambda c: c.undefined[0]), join(lambda c: c.undefined[1])),
        unknown=join(lambda c: c.unknown),
        partial=join(lambda c: c.partial),
    )


def _compare(
    reference: Execution,
    subject: Execution,
    pair: tuple[Tensor, Tensor],
    domain: Domain[Any],
    part: slice,
) -> Comparison:
    a, b = read_output(reference, pair[0], part), read_output(subject, pair[1], part)
    # what one side alone leaves as it was, the other may leave so too
    for x, other in ((a, b), (b, a)):
        if x.kept is not None:
            x.unwritten = x.unwritten | (x.kept & other.unwritten)
    idle = a.unwritten & b.unwritten
    both = ~a.unwritten & ~b.unwritten
    numbers = [(x.ids == SYMBOLIC) | (x.ids >= FINITE) for x in (a, b)]
    cased = (a.ids >= CASED) | (b.ids >= CASED)
    same = np.where(numbers[0] & numbers[1], domain.equal(a.v, b.v), a.ids == b.ids)
    exact = (a.ids >= FINITE) & (b.ids >= FINITE) & ~cased
    same = np.where(exact, a.ids == b.ids, same)
    if cased.any():
        pairs, index = np.unique(np.stack([a.ids, b.ids]), axis=1, return_inverse=True)
        agree = [reference.reals.cases.agree(x, y) for x, y in pairs.T.tolist()]
        same = same & (~cased | np.array(agree)[index.reshape(-1)])
    undefined = tuple((x.ids == UNDEF) & ~x.unwritten for x in (a, b))
    nan = tuple(np.isin(x.ids, (NAN, NAN_DIV)) for x in (a, b))
    unknown = (a.ids == UNKNOWN) | (b.ids == UNKNOWN)
    bad = undefined[0] | undefined[1] | nan[0] | nan[1] | unknown
    return Comparison(
        *pair,
        equal=both & same & ~bad,
        different=both & ~same & ~bad,
        idle=idle,
        unwritten=b.unwritten.astype(np.int8) * -1 + a.unwritten.astype(np.int8),
        nan=(nan[0], nan[1]),
        undefined=(undefined[0], undefined[1]),
        unknown=unknown,
        constant=bool((idle | ((a.ids >= 0) & (b.ids >= 0) & ~cased)).all()),
        partial=both & (a.ids >= CASED),
    )


def separation(
    reference: Execution, subject: Execution, pair: tuple[Tensor, Tensor], domain: Any
) -> Any:
    """How far apart the two enclosures of each element are, relative to their size; 0 if not.

    An infinity against anything else counts as 1.
    """
    a, b = read_output(reference, pair[0]), read_output(subject, pair[1])
    apart = domain.distinct(a.v, b.v)
    gap = np.maximum(b.v.low - a.v.high, a.v.low - b.v.high)
    size = np.maximum(np.maximum(abs(a.v.low), abs(a.v.high)), abs(b.v.low)) + 1e-300
    with np.errstate(all="ignore"):
        relative = np.where(apart, np.minimum(gap / size, 1), 0.0)
    finite = [(x.ids == SYMBOLIC) | (x.ids >= FINITE) for x in (a, b)]
    infinite = (finite[0] != finite[1]) | (~finite[0] & ~finite[1] & (a.ids != b.ids))
    exact = (a.ids >= FINITE) & (b.ids >= FINITE)  # float64 has not all integers
    relative = np.where(exact, np.where(a.ids != b.ids, np.maximum(relative, 1e-9), 0.0), relative)
    return np.where(infinite, 1.0, np.broadcast_to(relative, infinite.shape))
