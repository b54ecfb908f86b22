"""What a register holds, for all lanes at once (DESIGN.md 4).

Every array has the lanes on its last axis, or shape (1,) when all lanes agree.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.real import Real

Array = NDArray[Any]
Bool = NDArray[np.bool_]

# bytes of the float formats a register can hold; a symbolic integer is moved, never computed with
FMT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
# Adding a constant this large to data is meant to round it (1.5 * 2^23 and its like).
MAGIC = {"f32": 2**22, "f64": 2**51, "f16": 2**10, "bf16": 2**7}
UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Unsupported(Exception):
    """What kcheck does not understand; `form` completes `unsupported.<form>`."""

    def __init__(self, form: str, message: str) -> None:
        self.form = form
        self.message = message
        super().__init__(f"unsupported.{form}: {message}")


class Int:
    """Concrete bits per lane: `a` is unsigned, of the register's width.

    `p`: region that an address was made from: None, an id, or one id per lane (-1: none).
    `u`: lanes that are undefined, or None.
    """

    __slots__ = ("a", "p", "u")

    def __init__(self, a: Array, p: int | Array | None = None, u: Bool | None = None) -> None:
        self.a = a
        self.p = p
        self.u = u


class Pred:
    """A predicate: `b` is concrete where `s` is False (`s` None: everywhere).

    `v`: the domain's indicator for the symbolic lanes. `u`: undefined lanes, or None.
    """

    __slots__ = ("b", "s", "u", "v")

    def __init__(
        self, b: Bool, s: Bool | None = None, v: Any = None, u: Bool | None = None
    ) -> None:
        self.b = b
        self.s = s
        self.v = v
        self.u = u


class Packed:
    """Two 16-bit halves of a 32-bit register, each an `Int` of 16 bits or a `Real`."""

    __slots__ = ("hi", "lo", "u")

    def __init__(self, lo: Half, hi: Half) -> None:
        self.lo = lo
        self.hi = hi
        self.u: Bool | None = None


class Part:
    """The lower (`index` 0) or upper 32 bits of an f64: shuffles move doubles in two halves."""

    __slots__ = ("index", "real")

    def __init__(self, real: Real[Any], index: int) -> None:
        self.real = real
        self.index = index


class Symbolic:
    """An integer that depends on inputs: `n`, a signed number of `size` bytes, plus `base`.

    `n` is a real that is an integer, and a multiple of `step`. `base`: the concrete address that
    it is an offset from, or None. `u`: undefined lanes, or None.
    """

    __slots__ = ("base", "n", "size", "step", "u")

    def __init__(
        self, n: Real[Any], step: int, size: int, base: Int | None, u: Bool | None
    ) -> None:
        self.n, self.step, self.size, self.base, self.u = n, step, size, base, u


class Mixed:
    """Lanes of different kinds in one register: (mask, value) parts, later ones on top."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[Bool, Any]]) -> None:
        self.parts = parts


class Unstable:
    """A value that depends on the schedule (DESIGN.md 5); `at`: the instruction it came from."""

    __slots__ = ("at", "what")

    def __init__(self, what: str, at: int) -> None:
        self.what = what
        self.at = at


Half = Union[Int, "Real[Any]"]


def join(p: int | Array | None, q: int | Array | None) -> int | Array | None:
    """The region of a sum of two addresses; two different regions give none."""
    if p is None:
        return q
    if q is None:
        return p
    if isinstance(p, int) and isinstance(q, int):
        return p if p == q else None
    a, b = np.asarray(p), np.asarray(q)
    return np.where(a < 0, b, np.where((b < 0) | (a == b), a, -1))


def minus(p: int | Array | None, q: int | Array | None) -> int | Array | None:
    """The region of a difference: a pointer less an offset; of two pointers, none."""
    if q is None:
        return p
    return None if p is not None else q


def either(u: Bool | None, w: Bool | None) -> Bool | None:
    """The union of two masks of undefined lanes."""
    if u is None:
        return w
    return u if w is None else u | w
