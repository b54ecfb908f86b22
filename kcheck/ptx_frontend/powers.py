"""powf with a literal: nvcc folds the literal into its expansion, in a few shapes.

Each shape was compiled with one literal (`data/library.cu`); what stands for it in the code stands
for any other that the shape fits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# the bit of a word that is the sign
SIGN = 1 << 31
# functions that the expansions are: an integer exponent, a multiple of 1/2, another
WHOLE, HALVES, POWER = "powf(x, n)", "powf(x, n/2)", "powf"


@dataclass(frozen=True)
class Literal:
    """`given`: what the shape was compiled with; `others`: what else of a literal it holds.

    `function`: the function's name with a literal, or "" where the shape is not that literal's.
    `first`: it is the base.
    """

    given: float
    others: Callable[[float], tuple[float, ...]]
    function: Callable[[float], str]
    first: bool = False

    def all(self, literal: float) -> Iterator[float]:
        """The numbers that stand for a literal."""
        yield literal
        if math.isfinite(literal):
            yield from self.others(literal)


def as_bits(value: float) -> int:
    """A number rounded to f32, as a word."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


def as_float(bits: int) -> float:
    """A word as f32."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(value)


def _half(c: float) -> tuple[float, ...]:
    return (c / 2,)


def _apart(b: float) -> tuple[float, int]:
    """A base as m 2^e, with m as the expansion takes it: from 1/sqrt 2 (0f3F3504F3) on."""
    m, e = math.frexp(b)
    return (m, e) if m >= as_float(0x3F3504F3) else (2 * m, e - 1)


def _mantissa(b: float) -> tuple[float, ...]:
    m, _ = _apart(b)
    return m + 1, 2 * (m - 1), -2 * (m - 1), m - 1


def _split(b: float) -> tuple[float, ...]:
    return *_mantissa(b), _apart(b)[1] * 2.0**23


def _nothing(_: float) -> tuple[float, ...]:
    return ()


def _exponent(whole: bool, low: float, high: float) -> Callable[[float], str]:
    some = _any_exponent(low, high)
    return lambda c: some(c) if c.is_integer() == whole else ""


def _any_exponent(low: float, high: float) -> Callable[[float], str]:
    def function(c: float) -> str:
        if not low <= c <= high or c == 0:  # of 0 these shapes make 0, or an infinity, not 1
            return ""
        return WHOLE if c.is_integer() else HALVES if (2 * c).is_integer() else POWER

    return function


def _base(scaled: bool) -> Callable[[float], str]:
    def function(b: float) -> str:
        fits = 0 < b < math.inf and _apart(b)[0] != 1 and (_apart(b)[1] != 0) == scaled
        return POWER if fits else ""

    return function


def _only(literal: float, name: str) -> Callable[[float], str]:
    return lambda x: name if x == literal else ""


# integers up to here are told from others, and odd ones from even ones
_EXACT = 2.0**23
# snippets for a base that is known to be at least 0: a square there
OF_SQUARES = ("powf_positive", "powf_positive_up", "powf_positive_down")
# name of the snippet -> its literal
LITERALS = {
    "powf_square": Literal(2.0, _nothing, _only(2.0, WHOLE)),
    "powf_whole": Literal(7.0, _half, _exponent(True, 3, _EXACT)),
    "powf_over": Literal(-7.0, _half, _exponent(True, -_EXACT, -1)),
    "powf_part": Literal(2.75, _half, _exponent(False, 0, _EXACT)),
    "powf_overpart": Literal(-2.75, _half, _exponent(False, -_EXACT, 0)),
    "powf_positive_up": Literal(2.75, _half, _any_exponent(0, _EXACT)),
    "powf_positive_down": Literal(-2.75, _half, _any_exponent(-_EXACT, 0)),
    "powf_base": Literal(as_float(as_bits(7.3)), _split, _base(True), first=True),
    "powf_below": Literal(as_float(as_bits(0.9)), _mantissa, _base(False), first=True),
    "powf_two": Literal(2.0, _nothing, _only(2.0, POWER), first=True),
    "powf_half": Literal(0.5, _nothing, _only(0.5, POWER), first=True),
}
