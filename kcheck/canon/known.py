"""Irrational constants that kernels are written with: products of a rational and known symbols.

The symbols are log2 e, log2 10, the root of pi, and roots of small primes; ln 2, pi, log10 e and
the like are products of their powers. Squares of roots of primes are folded, so equal products
are equal objects. That different products are different reals is not known for all of them (pi
and log2 e might be dependent); nothing is called equal because of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

# binary digits of the symbols; a product of them is right to 2^-CLOSE, relatively
_DIGITS = 352
CLOSE = 256
# exponents and rationals beyond these are left to the domain
MAX_POWER, MAX_BITS = 16, 1 << 12
# bits of the random integer that stands for a symbol modulo primes
RANDOM_BITS = 128

LOG2E, LOG2_10, SQRT_PI = "log2 e", "log2 10", "sqrt pi"
ROOTS = {f"sqrt {p}": Fraction(p) for p in (2, 3, 5, 7, 11, 13)}
SYMBOLS = (LOG2E, LOG2_10, SQRT_PI, *ROOTS)
# symbol -> what its inverse is called
_INVERSES = {LOG2E: "ln 2", LOG2_10: "log10 2"}


@dataclass(frozen=True)
class Known:
    """`factor` times symbols to integer powers: sorted, none of them 0, those of roots 1."""

    factor: Fraction
    powers: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """As in `3/8 log2 e`, `pi ln 2`."""
        names = [_name(symbol, power) for symbol, power in self.powers]
        return " ".join(names if self.factor == 1 else [str(self.factor), *names])


Number = Fraction | Known


def _name(symbol: str, power: int) -> str:
    if symbol == SQRT_PI and power % 2 == 0:
        symbol, power = "pi", power // 2
    if power < 0 and symbol in _INVERSES:
        symbol, power = _INVERSES[symbol], -power
    return symbol if power == 1 else f"{symbol}^{power}"


def known(factor: Fraction | int, powers: Mapping[str, int]) -> Number:
    """The product in its normal form: a Fraction where no symbol is left."""
    factor = Fraction(factor)
    left = {}
    for symbol, power in powers.items():
        if symbol in ROOTS:
            factor *= ROOTS[symbol] ** (power // 2)
            power %= 2
        if power:
            left[symbol] = power
    return Known(factor, tuple(sorted(left.items()))) if factor and left else factor


def _parts(number: Number) -> tuple[Fraction, tuple[tuple[str, int], ...]]:
    return (number.factor, number.powers) if isinstance(number, Known) else (number, ())


def times(a: Number, b: Number, power: int = 1) -> Number | None:
    """a times b to `power` (1 or -1; b is not 0); None if the product grows too large."""
    (x, first), (y, second) = _parts(a), _parts(b)
    powers = dict(first)
    for symbol, n in second:
        powers[symbol] = powers.get(symbol, 0) + power * n
    factor = x * y if power == 1 else x / y
    if any(abs(n) > MAX_POWER for n in powers.values()):
        return None
    if powers and max(factor.numerator.bit_length(), factor.denominator.bit_length()) > MAX_BITS:
        return None
    return known(factor, powers)


def plus(a: Number, b: Number) -> Number | None:
    """The sum, if it is a rational or a multiple of one product of symbols."""
    (x, first), (y, second) = _parts(a), _parts(b)
    return known(x + y, dict(first)) if first == second else None


def root(value: Fraction) -> Number | None:
    """The square root of a rational >= 0, if it is a rational times roots of the primes."""
    if not value:
        return value
    up, down = value.numerator * value.denominator, value.denominator
    if up.bit_length() > MAX_BITS:
        return None
    powers = {}
    for symbol, prime in ROOTS.items():
        count, p = 0, prime.numerator
        while up % p == 0:
            up, count = up // p, count + 1
        powers[symbol] = count
    whole = math.isqrt(up)
    return known(Fraction(whole, down), powers) if whole * whole == up else None


def approximation(number: Number) -> Fraction:
    """A rational within 2^-CLOSE of the number, relatively; the number itself if it is one."""
    factor, powers = _parts(number)
    for symbol, power in powers:
        factor *= digits(symbol) ** power
    return factor


def close(a: Fraction, b: Fraction) -> bool:
    """Two approximations that don't tell which number is larger."""
    return abs(a - b) * 2 ** (CLOSE - 8) <= abs(a) + abs(b)


@cache
def digits(symbol: str) -> Fraction:
    """A symbol to `_DIGITS` binary digits."""
    one = 1 << _DIGITS + 16
    ln2 = 2 * _artanh(3, one)
    if symbol == LOG2E:
        value = one * one // ln2
    elif symbol == LOG2_10:  # ln 10 = 3 ln 2 + ln 5/4
        value = (3 * ln2 + 2 * _artanh(9, one)) * one // ln2
    elif symbol == SQRT_PI:  # Machin's formula
        value = math.isqrt((16 * _arctan(5, one) - 4 * _arctan(239, one)) * one)
    else:
        value = math.isqrt(ROOTS[symbol].numerator * one * one)
    return Fraction(value, one)


def _artanh(n: int, one: int) -> int:
    """artanh(1/n): sum of 1 / (k n^k) over odd k."""
    return _odd_powers(n, one, 1)


def _arctan(n: int, one: int) -> int:
    return _odd_powers(n, one, -1)


def _odd_powers(n: int, one: int, sign: int) -> int:
    total, power, k, s = 0, one // n, 1, 1
    while power:
        total += s * (power // k)
        power, k, s = power // (n * n), k + 2, s * sign
    return total


class RandomSymbols:
    """Numbers with a random integer of `RANDOM_BITS` bits for each symbol, fixed by the key.

    A polynomial in the symbols that is not zero as such is zero there with probability at most
    its degree / 2^(RANDOM_BITS - 1) (Schwartz and Zippel).

    Those of `primes`, at which the roots in `related` are squares, get longer integers that are
    such roots modulo each of these primes (3 mod 4); the rest of them is as random.
    """

    def __init__(
        self, key: bytes, related: Collection[str] = (), primes: Collection[int] = ()
    ) -> None:
        self._random = {symbol: self._draw(key, symbol) for symbol in SYMBOLS}
        self._values = dict(self._random)
        modulus = math.prod(set(primes))
        for symbol in related:
            root = _common_root(ROOTS[symbol].numerator, primes)
            self._values[symbol] = root + modulus * self._random[symbol]

    @staticmethod
    def _draw(key: bytes, symbol: str) -> Fraction:
        word = hashlib.sha256(key + b"symbol" + symbol.encode()).digest()
        top = 1 << RANDOM_BITS - 1
        return Fraction(int.from_bytes(word, "big") % top + top)

    def rational(self, number: Number) -> Fraction:
        """What stands for a number; a rational for itself."""
        return self._put(number, self._values)

    def length(self, number: Number) -> Fraction:
        """The same, as long as it counts in a bound: there a root is a number above 1."""
        return self._put(number, self._random)

    @staticmethod
    def _put(number: Number, values: Mapping[str, Fraction]) -> Fraction:
        factor, powers = _parts(number)
        for symbol, power in powers:
            factor *= values[symbol] ** power
        return factor


def _common_root(square: int, primes: Collection[int]) -> int:
    """A number whose square is a given one modulo each of some primes, and itself a square there.

    So the root of 2 is 2^(1/2) of the field engine.
    """
    root, modulus = 0, 1
    for p in set(primes):
        here = pow(square, (p + 1) // 4, p)
        root += modulus * ((here - root) * pow(modulus, -1, p) % p)
        modulus *= p
    return root
