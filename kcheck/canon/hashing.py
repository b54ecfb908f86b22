"""Keyed pseudo-random functions over vectors of 64-bit words.

The bounds of docs/identity-testing.md treat them as random functions; the key is secret to the
run. A message of one block (two words) is permuted, so that different messages have different
digests; a longer one is hashed to 128 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_C1, _C2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # SplitMix64's finalizer
_S1, _S2, _S3 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(x: Words) -> Words:
    """A fixed permutation of 64-bit words in which each input bit reaches each output bit."""
    x = (x ^ (x >> _S1)) * _C1
    x = (x ^ (x >> _S2)) * _C2
    out: Words = x ^ (x >> _S3)
    return out


def derive(key: bytes, *parts: object, count: int) -> Words:
    """`count` key words from a secret key and what they are for."""
    digest = hashlib.shake_256(key + repr(parts).encode()).digest(8 * count)
    return np.frombuffer(digest, np.dtype("<u8")).astype(np.uint64)


class Permutation:
    """A keyed permutation of pairs of words (four Feistel rounds), chained over longer messages."""

    def __init__(self, key: bytes, *parts: object) -> None:
        self._keys = derive(key, "permutation", *parts, count=4)

    def digest(self, words: Sequence[Words]) -> tuple[Words, Words]:
        """The 128-bit digest of each lane's message; words[i] is word i of all lanes.

        All messages given to one Permutation must have one length.
        """
        a = np.zeros_like(words[0])
        b = np.zeros_like(words[0])
        for i in range(0, len(words), 2):
            a = a ^ words[i]
            if i + 1 < len(words):
                b = b ^ words[i + 1]
            a, b = self._permute(a, b)
        return a, b

    def _permute(self, a: Words, b: Words) -> tuple[Words, Words]:
        k0, k1, k2, k3 = self._keys
        b = b ^ mix(a + k0)
        a = a ^ mix(b + k1)
        b = b ^ mix(a + k2)
        return a ^ mix(b + k3), b


class Residues:
    """A keyed function from 128-bit digests to residues modulo each prime of a chain."""

    def __init__(self, key: bytes, primes: Words, *parts: object) -> None:
        """`primes` has shape (levels, trials)."""
        self._primes = primes
        shape = (2, *primes.shape)
        self._keys = derive(key, "residues", *parts, count=2 * primes.size).reshape(shape)

    def __call__(self, a: Words, b: Words) -> Words:
        """Residues of shape (levels, trials, *lanes); their bias is below 2^-33."""
        lanes = (1,) * a.ndim
        k0, k1 = self._keys.reshape(2, *self._primes.shape, *lanes)
        out = mix(mix(a + k0) + b ^ k1)
        out %= self._primes.reshape(*self._primes.shape, *lanes)
        return out


class Hash128:
    """A keyed function from 128-bit digests to two words."""

    def __init__(self, key: bytes, *parts: object) -> None:
        self._keys = derive(key, "hash", *parts, count=4)

    def __call__(self, a: Words, b: Words) -> Words:
        """Hashes of shape (2, *lanes)."""
        k0, k1, k2, k3 = self._keys
        return np.stack([mix(mix(a + k0) + b ^ k1), mix(mix(a + k2) + b ^ k3)])


def pack(top: Words) -> list[Words]:
    """Residues below 2^32 of shape (trials, *lanes) as words of two residues each: lossless."""
    shift = np.uint64(32)
    pairs = [top[i] | top[i + 1] << shift for i in range(0, len(top) - 1, 2)]
    return pairs + [top[-1]] * (len(top) % 2)
