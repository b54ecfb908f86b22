"""Counts the pool of prime chains of each number of levels exactly (kcheck.canon.pools).

    python benchmarks/count_chains.py [--low L --high H]

A segmented sieve over m, where p0 = 2^(levels+1) m - 1 and p[k] = 2^(levels+1-k) m - 1.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.chains import HIGH, LOW, has_root
from kcheck.canon.pools import ROOTS, pool

SEGMENT = 1 << 22


def odd_primes(limit: int) -> NDArray[np.int64]:
    """The odd primes up to `limit`."""
    sieve = np.ones(limit + 1, bool)
    sieve[:2] = False
    for q in range(2, int(limit**0.5) + 1):
        if sieve[q]:
            sieve[q * q :: q] = False
    return np.flatnonzero(sieve)[1:].astype(np.int64)


def count(levels: int, low: int = LOW, high: int = HIGH) -> list[int]:
    """Chains of `levels` primes with low <= p0 < high; low must exceed 2^16 * 2^levels.

    Those whose primes all have the roots of a set, for each set of `ROOTS`, by its bits.
    """
    step = 1 << (levels + 1)
    first, last = (low + step) // step, (high + step) // step
    primes = [int(q) for q in odd_primes(int(high**0.5) + 1)]
    # p[k] = 0 mod q  <=>  m = 2^-(levels+1-k) mod q
    strides = [(q, pow(pow(2, levels + 1 - k, q), -1, q)) for q in primes for k in range(levels)]
    exactly = np.zeros(1 << len(ROOTS), np.int64)
    for start in range(first, last, SEGMENT):
        alive = np.ones(min(SEGMENT, last - start), bool)
        for q, residue in strides:
            alive[(residue - start) % q :: q] = False
        p0 = (np.flatnonzero(alive).astype(np.uint64) + np.uint64(start)) * np.uint64(step)
        codes = np.zeros(p0.size, np.int64)
        for i, d in enumerate(ROOTS):
            codes |= has_root(p0 - np.uint64(1), d, levels).astype(np.int64) << i
        exactly += np.bincount(codes, minlength=exactly.size)
    sets = np.arange(exactly.size)
    return [int(exactly[sets & roots == roots].sum()) for roots in sets.tolist()]


def main() -> None:
    """Print the counts for 1 to 4 levels, and whether the code has the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--low", type=int, default=LOW)
    parser.add_argument("--high", type=int, default=HIGH)
    arguments = parser.parse_args()
    for levels in (4, 3, 2, 1):
        found = count(levels, arguments.low, arguments.high)
        sets = ([d for i, d in enumerate(ROOTS) if k >> i & 1] for k in range(len(found)))
        same = found == [pool(levels, roots) for roots in sets]
        print(f"levels {levels}: {found} chains (in the code: {same})", flush=True)


if __name__ == "__main__":
    main()
