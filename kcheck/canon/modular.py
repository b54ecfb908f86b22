"""Arithmetic of residues modulo one prime per row, without overflow of 64 bits."""

from __future__ import annotations

import numpy as np

from kcheck.canon.hashing import Words

DIGIT = 10  # bits of one window of the tables of powers
WINDOWS = 3  # cover an exponent below 2^30

_CHUNK = 1 << 16  # longest exact inner product of matmul
_CACHE = 1 << 16  # residues that one step of matmul takes up


def matmul(x: Words, y: Words, primes: Words) -> Words:
    """Batched products: (rows, ..., M, K) times (rows, ..., K, N) modulo primes (rows,).

    Exact: 16-bit limbs of residues below 2^31 in float64, with sums below 2^53.
    """
    rows = len(primes)
    p = primes.reshape(rows, *(1,) * (x.ndim - 1))
    # a few rows at a time, so that temporaries stay in the cache
    step = max(1, _CACHE * rows // (x.size + y.size + 1))
    parts = [slice(start, start + step) for start in range(0, rows, step)]
    return np.concatenate([_long_product(x[i], y[i], p[i]) for i in parts])


def _long_product(x: Words, y: Words, p: Words) -> Words:
    out = _limb_product(x[..., :_CHUNK], y[..., :_CHUNK, :], p)
    for start in range(_CHUNK, x.shape[-1], _CHUNK):
        part = slice(start, start + _CHUNK)
        out += _limb_product(x[..., part], y[..., part, :], p)
        np.minimum(out, out - p, out=out)
    return out


def _limb_product(x: Words, y: Words, p: Words) -> Words:
    """(..., M, K) times (..., K, N) modulo p, for K up to 2^16 and residues below 2^31."""
    m, n = x.shape[-2], y.shape[-1]
    low, shift = np.uint64(0xFFFF), np.uint64(16)
    left = np.empty((*x.shape[:-2], 2 * m, x.shape[-1]))
    left[..., :m, :], left[..., m:, :] = x >> shift, x & low
    right = np.empty((*y.shape[:-1], 2 * n))
    right[..., :n], right[..., n:] = y >> shift, y & low
    parts = (left @ right).astype(np.uint64)
    high: Words = parts[..., :m, :n] << shift  # below 2^62
    high += parts[..., :m, n:]
    high += parts[..., m:, :n]
    high %= p
    high <<= shift
    high += parts[..., m:, n:]
    high %= p
    return high


def inverse(y: Words, primes: Words) -> Words:
    """Inverses of nonzero residues (rows, n): a tree of products, one inversion at its root."""
    p = primes[:, None]
    tree = [y]
    while tree[-1].shape[1] > 1:
        row = tree[-1]
        if row.shape[1] % 2:
            row = tree[-1] = np.concatenate([row, np.ones_like(row[:, :1])], axis=1)
        tree.append(row[:, ::2] * row[:, 1::2] % p)
    roots = zip(tree[-1].ravel().tolist(), primes.tolist(), strict=True)
    out = np.array([pow(v, -1, q) for v, q in roots], np.uint64)[:, None]
    for row in reversed(tree[:-1]):
        up = out[:, : row.shape[1] // 2]
        out = np.empty_like(row)
        out[:, ::2] = row[:, 1::2] * up % p
        out[:, 1::2] = row[:, ::2] * up % p
    return out[:, : y.shape[1]]


def power_tables(primes: Words) -> list[Words]:
    """Per window w a flat table over (level, trial, digit) of 2^(digit << 10 w) modulo p."""
    tables = []
    for w in range(WINDOWS):
        p = primes[:-1, :, None]
        base = [[pow(2, 1 << (DIGIT * w), q) for q in row] for row in primes[:-1].tolist()]
        step = np.array(base, np.uint64)[:, :, None]
        table = np.ones((*p.shape[:2], 1), np.uint64)
        for _ in range(DIGIT):
            table = np.concatenate([table, table * step % p], axis=2)
            step = step * step % p
        tables.append(table.reshape(-1))
    return tables
