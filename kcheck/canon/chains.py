"""Random chains of primes: p0 = 2 p1 + 1, p1 = 2 p2 + 1, ..., with 2 of order p[k+1] modulo p[k].

If 2 has order p1 modulo p0, then x -> 2^x maps residues modulo p1 to residues modulo p0 and turns
sums into products: the exponential law holds exactly. For p0 = 2 p1 + 1 the order of 2 divides
2 p1; it is p1 exactly where 2 is a square, that is where p0 = 7 mod 8. So all but the last prime
are 7 mod 8, which holds throughout as soon as the last one is 3 mod 4. (These are Cunningham
chains of the first kind, read backwards.)

The pool for n levels is the set of all such chains with 2^30 <= p0 < 2^31: residues fit 31 bits
and products 62. A chain is fixed by p0 = 2^(n+1) m - 1. `canon.pools` says how many there are.

A prime number d is a square modulo p = 3 mod 4 exactly where -p is one modulo d (for d = 2: modulo
8), by quadratic reciprocity.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

LOW, HIGH = 1 << 30, 1 << 31

_SIEVE = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89)
_BATCH = {1: 256, 2: 4096, 3: 32768, 4: 131072}


def draw(
    rng: np.random.Generator, count: int, levels: int, roots: Collection[int] = ()
) -> NDArray[np.uint64]:
    """`count` chains drawn uniformly and independently from the pool; shape (levels, count).

    Row k holds p[k] of each chain. `roots`: primes that are squares modulo all of these; there
    must be such chains. Raises ValueError for a number of levels without a pool.
    """
    if levels not in _BATCH:
        raise ValueError(f"no pool of prime chains with {levels} levels (1 to {len(_BATCH)})")
    step = 1 << (levels + 1)
    found: list[int] = []
    while len(found) < count:
        m = rng.integers(LOW // step + 1, HIGH // step + 1, size=_BATCH[levels], dtype=np.uint64)
        p0 = _sieve(m * np.uint64(step) - np.uint64(1), levels)
        for d in roots:
            p0 = p0[has_root(p0, d, levels)]
        for p in p0.tolist():
            if all(is_prime(((p + 1) >> k) - 1) for k in range(levels)):
                found.append(p)
    return _primes(np.array(found[:count], np.uint64), levels)


def _primes(p0: NDArray[np.uint64], levels: int) -> NDArray[np.uint64]:
    """The chains of some first primes: p[k] in row k."""
    return np.stack([((p0 + np.uint64(1)) >> np.uint64(k)) - np.uint64(1) for k in range(levels)])


def has_root(p0: NDArray[np.uint64], d: int, levels: int) -> NDArray[np.bool_]:
    """Where the prime number d is a square modulo each prime of a chain."""
    modulus = 8 if d == 2 else d
    squares = {n * n % modulus for n in range(1, modulus, 1 + (d == 2))}
    good = np.array([-p % modulus in squares for p in range(modulus)])
    found: NDArray[np.bool_] = good[_primes(p0, levels) % np.uint64(modulus)].all(axis=0)
    return found


def _sieve(p0: NDArray[np.uint64], levels: int) -> NDArray[np.uint64]:
    """The candidates none of whose levels has a small factor; order is kept."""
    for q in _SIEVE:
        residues = np.arange(q)
        good = np.ones(q, bool)
        for k in range(levels):
            # p[k] = 0 mod q  <=>  p0 + 1 = 2^k mod q
            good &= (residues + 1) % q != pow(2, k, q)
        p0 = p0[good[(p0 % np.uint64(q)).astype(np.intp)]]
    return p0


def is_prime(n: int) -> bool:
    """Whether n < 3,215,031,751 is prime: Miller-Rabin, exact there with bases 2, 3, 5 and 7.

    Source: Jaeschke, On strong pseudoprimes to several bases, Math. Comp. 61 (1993).
    """
    if n >= 3_215_031_751:
        raise ValueError(f"{n} is beyond the range of the test")
    if n < 2:
        return False
    for q in (2, 3, 5, 7):
        if n % q == 0:
            return n == q
    shift = ((n - 1) & (1 - n)).bit_length() - 1
    return all(_strong_probable_prime(n, base, shift) for base in (2, 3, 5, 7))


def _strong_probable_prime(n: int, base: int, shift: int) -> bool:
    x = pow(base, (n - 1) >> shift, n)
    if x in (1, n - 1):
        return True
    for _ in range(shift - 1):
        x = x * x % n
        if x == n - 1:
            return True
    return False
