"""What a register holds, for all lanes at once (DESIGN.md 4).

Every array has the lanes on its last axis, or shape (1,) when all lanes agree.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.lanes import Real
from kcheck.semantics.words import Source, Word, whole

Array = NDArray[Any]
Bool = NDArray[np.bool_]

# bytes of the float formats a register can hold; a symbolic integer is moved, never computed with
FMT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
# bits of the fraction of a float
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
# integers below this are float64s
EXACT = 2.0**53
# Adding a constant this large to data is meant to round it (1.5 * 2^23 and its like).
MAGIC = {"f32": 2**22, "f64": 2**51, "f16": 2**10, "bf16": 2**7}
# values that one integer may be chosen from by predicates on tensor values
MOST_LEAVES = 128
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


class Rows:
    """A register as memory holds it: units of `width` bytes, lowest first."""

    __slots__ = ("units", "width")

    def __init__(self, units: list[Any], width: int) -> None:
        self.units = units
        self.width = width


class Part:
    """The lower (`index` 0) or upper 32 bits of an f64: shuffles move doubles in two halves."""

    __slots__ = ("index", "real")

    def __init__(self, real: Real[Any], index: int) -> None:
        self.real = real
        self.index = index


class Symbolic:
    """`size` bytes that depend on inputs, as an integer or as bits, plus the address `base`.

    `source`: an integer that is the register modulo 2^(8 size), and a multiple of `step`; `word`:
    its bits. One of the two is known at least. `base`: the concrete address that it is an offset
    from, or None. `u`: undefined lanes, or None.
    """

    __slots__ = ("base", "size", "source", "step", "u", "word")

    def __init__(
        self,
        size: int,
        source: Source | None,
        *,
        word: Word | None = None,
        step: int = 1,
        base: Int | None = None,
        u: Bool | None = None,
    ) -> None:
        self.size, self.source, self.word = size, source, word
        self.step, self.base, self.u = step, base, u

    @property
    def bits(self) -> Word:
        """The bits, of whichever is known."""
        if self.word is not None:
            return self.word
        assert self.source is not None
        return whole(self.source, 8 * self.size)


class Mixed:
    """Lanes of different kinds in one register: (mask, value) parts, later ones on top."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[Bool, Any]]) -> None:
        self.parts = parts


class Choice:
    """`yes` where a predicate on tensor values holds, else `no`: values that are no floats.

    An operation goes into both (`selection.cases`). `leaves`: how many values it chooses from.
    """

    __slots__ = ("leaves", "no", "p", "yes")

    def __init__(self, p: Pred, yes: Any, no: Any) -> None:
        self.p = p
        self.yes = yes
        self.no = no
        self.leaves: int = sum(x.leaves if type(x) is Choice else 1 for x in (yes, no))
        if self.leaves > MOST_LEAVES:
            raise Unsupported("symbolic-int", f"one of more than {MOST_LEAVES} values is chosen")


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
