import importlib.util
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import sympy

from kcheck.canon import chains, pools


@pytest.fixture(scope="module")
def counter() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "count_chains.py"
    spec = importlib.util.spec_from_file_location("count_chains", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_chain_has_its_shape(levels: int) -> None:
    primes = chains.draw(np.random.default_rng(levels), 12, levels)
    assert primes.shape == (levels, 12)
    for chain in primes.T.tolist():
        assert chains.LOW <= chain[0] < chains.HIGH
        assert all(sympy.isprime(p) for p in chain)
        assert chain[-1] % 4 == 3
        for p, q in pairwise(chain):
            assert p == 2 * q + 1
            assert sympy.n_order(2, p) == q


def test_draws_follow_the_seed() -> None:
    first = chains.draw(np.random.default_rng(1), 8, 2)
    assert (first == chains.draw(np.random.default_rng(1), 8, 2)).all()
    assert (first != chains.draw(np.random.default_rng(2), 8, 2)).any()
    assert len(set(first[0].tolist())) > 1


def test_there_is_no_pool_of_five_levels() -> None:
    with pytest.raises(ValueError, match="5 levels"):
        chains.draw(np.random.default_rng(1), 1, 5)


def test_is_prime_agrees_with_sympy() -> None:
    low = [n for n in range(2000) if chains.is_prime(n)]
    assert low == list(sympy.primerange(2000))
    high = [n for n in range(2**31 - 2000, 2**31) if chains.is_prime(n)]
    assert high == list(sympy.primerange(2**31 - 2000, 2**31))
    # strong pseudoprimes to bases 2; 2 and 3; 2, 3 and 5
    assert not any(chains.is_prime(n) for n in (2047, 1_373_653, 25_326_001))
    with pytest.raises(ValueError, match="range"):
        chains.is_prime(3_215_031_751)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_count_is_exact_on_a_part(levels: int, counter: ModuleType) -> None:
    low, high = 1_200_000_000, 1_200_000_000 + 40_000 * levels**2
    expected = 0
    for p in sympy.primerange(low, high):
        chain = [((p + 1) >> k) - 1 for k in range(levels)]
        divides = (p + 1) % (1 << (levels + 1)) == 0
        expected += divides and all(sympy.isprime(q) for q in chain)
    assert expected > 0
    assert counter.count(levels, low, high)[0] == expected


@pytest.mark.parametrize("roots", [(2,), (2, 5), (3, 7, 13)])
def test_chains_with_roots_are_counted(roots: tuple[int, ...], counter: ModuleType) -> None:
    low, high, levels = 1_200_000_000, 1_200_200_000, 2
    chained = [
        p
        for p in sympy.primerange(low, high)
        if p % 8 == 7
        and sympy.isprime(p // 2)
        and all(sympy.legendre_symbol(d, q) == 1 for d in roots for q in (p, p // 2))
    ]
    at = sum(1 << pools.ROOTS.index(d) for d in roots)
    assert counter.count(levels, low, high)[at] == len(chained)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("roots", [(2,), (3,), (2, 7), (5, 11)])
def test_drawn_chains_have_the_roots(levels: int, roots: tuple[int, ...]) -> None:
    primes = chains.draw(np.random.default_rng(levels), 8, levels, roots)
    assert all(sympy.legendre_symbol(d, p) == 1 for d in roots for p in primes.ravel().tolist())


def test_pool_of_four_levels_is_as_counted(counter: ModuleType) -> None:
    sets = ([d for i, d in enumerate(pools.ROOTS) if k >> i & 1] for k in range(64))
    assert counter.count(4) == [pools.pool(4, roots) for roots in sets]


def test_pool_is_as_large_as_the_density_of_draws_says() -> None:
    # candidates p0 = 8 m - 1: the share that survives is POOL / candidates
    rng = np.random.default_rng(0)
    step = 8
    m = rng.integers(chains.LOW // step + 1, chains.HIGH // step + 1, size=60_000)
    hits = sum(
        chains.is_prime(step * n - 1) and chains.is_prime(step * n // 2 - 1) for n in m.tolist()
    )
    share = pools.POOL[2] / ((chains.HIGH - chains.LOW) // step)
    assert hits / len(m) == pytest.approx(share, rel=0.25)
