"""Families of inputs on which kernels that differ show it (DESIGN.md 6).

Each number of `draws` is exact in every float format down to bf16 (at most 8 significant bits) and,
but for "beyond f16", within the range of f16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator
Family = Callable[[Random, int], Floats]


def _integers(rng: Random, n: int) -> Floats:
    return rng.integers(-4, 5, n).astype(np.float64)


def _positive(rng: Random, n: int) -> Floats:
    return rng.integers(1, 9, n).astype(np.float64)


def _fractions(rng: Random, n: int) -> Floats:
    return rng.integers(-127, 128, n) / 64.0


def _one_hot(rng: Random, n: int) -> Floats:
    x = np.zeros(n)
    if n:
        x[rng.integers(n)] = 1
    return x


def _sparse(rng: Random, n: int) -> Floats:
    return np.where(rng.random(n) < 0.1, rng.integers(1, 5, n), 0).astype(np.float64)


def _negative(rng: Random, n: int) -> Floats:
    return -rng.integers(1, 9, n).astype(np.float64)


def _very_negative(rng: Random, n: int) -> Floats:
    # -20480 and below; equal steps of 128 keep 8 bits
    return (-20480 - 128 * rng.integers(0, 3, n)).astype(np.float64)


def _huge(rng: Random, n: int) -> Floats:
    return rng.choice([-1.0, 1.0], n) * 128.0 * rng.integers(64, 256, n)


def _beyond_f16(rng: Random, n: int) -> Floats:
    return (rng.choice([-1, 1], n) * 2**17 * rng.integers(1, 128, n)).astype(np.float64)


def _scales(rng: Random, n: int) -> Floats:
    return rng.choice([-1.0, 1.0], n) * np.exp2(rng.integers(-10, 11, n).astype(np.float64))


def _late(rng: Random, n: int) -> Floats:
    return (np.arange(n) >= n // 2).astype(np.float64)


def _ties(rng: Random, n: int) -> Floats:
    return rng.integers(0, 2, n).astype(np.float64)


def _ramp(rng: Random, n: int) -> Floats:
    return (np.arange(n) % 127 - 63).astype(np.float64)


def _halves(rng: Random, n: int) -> Floats:
    # neither to even nor away from 0 alone: both parities and both signs among any 4 in a row
    return ((np.arange(n) + rng.integers(n + 1)) * 3 % 16 - 8).astype(np.float64) + 0.5


FAMILIES: dict[str, Family] = {
    "small integers": _integers,
    "small fractions": _fractions,
    "positive": _positive,
    "ramp": _ramp,
    "zeros": lambda rng, n: np.zeros(n),
    "ones": lambda rng, n: np.ones(n),
    "all negative": _negative,
    "very negative": _very_negative,
    "mixed scales": _scales,
    "huge of both signs": _huge,
    "ties": _ties,
    "sparse": _sparse,
    "one-hot": _one_hot,
    "late": _late,
    "half-integers": _halves,
}
# numbers near which many functions bend, or round to either side
BENDS = (0.0, 1.0, -1.0, *(k + 0.5 for k in range(-3, 3)))
# how far a number is moved to either side, relatively: formats of 24 bits, of 8 bits hold it
ASIDE = (2.0**-20, 2.0**-6)


def draws(
    sizes: Mapping[str, int], seed: int, wide: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(family, inputs by name): each family for all inputs, then one input at a time.

    `wide`: inputs whose format holds more than f16 does.
    """
    rng = np.random.default_rng(seed)
    for name, family in FAMILIES.items():
        yield name, {buffer: family(rng, n) for buffer, n in sizes.items()}
    if wide:
        yield (
            "beyond f16",
            {b: (_beyond_f16 if b in wide else _integers)(rng, n) for b, n in sizes.items()},
        )
    if len(sizes) < 2:
        return
    for name in ("very negative", "huge of both signs", "all negative", "zeros", "late"):
        for chosen in sizes:
            yield (
                f"{name} in {chosen}",
                {
                    buffer: (FAMILIES[name] if buffer == chosen else _integers)(rng, n)
                    for buffer, n in sizes.items()
                },
            )


def beside(numbers: Iterable[float]) -> Floats:
    """Numbers and `BENDS`: at, just beside and between neighbours of these; ascending."""
    given = {float(x) for x in (*BENDS, *numbers)}
    known = np.array(sorted(x for x in given if np.isfinite(x)))
    between = known[1:] / 2 + known[:-1] / 2
    with np.errstate(over="ignore"):
        sides = [known * (1 + sign * part) for part in ASIDE for sign in (1, -1)]
    near = np.concatenate([known, between, *sides])
    return np.unique(near[np.isfinite(near)])
