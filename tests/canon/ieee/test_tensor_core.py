from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kcheck.canon.domain import NoRule
from kcheck.canon.ieee.engine import Ieee
from kcheck.canon.ieee.formats import FORMATS, decode
from kcheck.canon.ieee.tensor_core import core
from tests.canon.ieee import model

# exact products of k columns at a time: (sm, type) -> (fraction bits, k)
MODEL = {
    (80, "f16"): (24, 8),
    (80, "bf16"): (24, 8),
    (80, "tf32"): (24, 4),
    (89, "f16"): (24, 8),
    (90, "f16"): (25, 16),
    (100, "bf16"): (25, 16),
    (90, "tf32"): (25, 8),
}


def exponent(x: Fraction, fmt: str) -> int:
    """As the format holds it: subnormal numbers have the smallest one."""
    size, e = abs(x), FORMATS[fmt].emin
    while size >= Fraction(2) ** (e + 1):
        e += 1
    return e


def number(x: model.Number) -> Fraction:
    return Fraction(0) if isinstance(x, str) else x


def block(pairs: list[tuple[Fraction, Fraction]], c: Fraction, fmt: str, out: str, f: int) -> Any:
    terms = [(x * y, exponent(x, fmt) + exponent(y, fmt)) for x, y in pairs if x * y]
    if c:
        terms.append((c, exponent(c, out)))
    if not terms:
        return Fraction(0)
    unit = Fraction(2) ** (max(e for _, e in terms) - f)
    total = sum((int(t / unit) for t, _ in terms), 0) * unit  # int truncates
    return model.rounded(total, out, "rz" if out == "f32" else "rn")


FORMS = [(*key, out) for key in MODEL for out in ("f32", "f16") if out == "f32" or key[1] == "f16"]


@pytest.mark.parametrize(("arch", "fmt", "out"), FORMS)
def test_a_dot_product_step_by_step(arch: int, fmt: str, out: str) -> None:
    fraction, step = MODEL[arch, fmt]
    k, n = 16 if fmt != "tf32" else 8, 60
    rng = np.random.default_rng(arch)
    spread = rng.integers(-6, 7, (2, n, k))
    x, y = np.ldexp(rng.standard_normal((2, n, k)), spread)
    engine = Ieee({}, arch)
    a, b = engine.patterns(x, fmt), engine.patterns(y, fmt)
    c = engine.patterns(rng.standard_normal(n) * 100, out)
    a[:4], c[2:6] = 0, 0
    a[6, ::2] = 1 if fmt != "tf32" else 1 << 13  # subnormal
    got = engine.matmul(fmt, out)(a[:, None, :], b[:, :, None], c[:, None, None])[:, 0, 0]
    for i in range(n):
        pairs = [
            (number(model.value(int(p), fmt)), number(model.value(int(q), fmt)))
            for p, q in zip(a[i], b[i], strict=True)
        ]
        total: Any = number(model.value(int(c[i]), out))
        for at in range(0, k, step):
            total = number(block(pairs[at : at + step], total, fmt, out, fraction))
        assert int(got[i]) == model.pattern(total, out)


def product(arch: int, x: list[float], y: list[float], c: float, out: str = "f32") -> float:
    engine = Ieee({}, arch)
    a, b = (engine.patterns(np.array(v + [0.0] * (16 - len(v))), "f16") for v in (x, y))
    word = engine.matmul("f16", out)(a[None], b[:, None], engine.patterns([[c]], out))
    return float(decode(word, out)[0, 0])


def test_truncation_is_seen() -> None:
    # 1 + 2^-24 + 2^-24: hardware aligned to the largest exponent keeps 24 or 25 bits, rounds to 0
    small = [2.0**-12] * 2
    assert product(80, [1.0, *small], [1.0, *small], 0.0) == 1 + 2.0**-23
    assert product(80, [1.0, 2.0**-12], [1.0, 2.0**-12], 0.0) == 1.0
    assert product(80, [1.0, 2.0**-13] * 1, [1.0, 2.0**-12] * 1, 0.0) == 1.0
    tiny = [2.0**-13] * 4
    other = [2.0**-12] * 4
    assert product(80, [1.0, *tiny], [1.0, *other], 0.0) == 1.0  # each below the 24 bits
    assert product(90, [1.0, *tiny], [1.0, *other], 0.0) == 1 + 2.0**-23  # 4 x 2^-25


def test_the_accumulator_of_f16_rounds_to_nearest() -> None:
    assert product(80, [1.0], [0.75 * 2.0**-10], 1.0, "f16") == 1 + 2.0**-10
    assert product(80, [1.0], [0.75 * 2.0**-10], 1.0, "f32") == 1 + 0.75 * 2.0**-10


def test_specials() -> None:
    inf = float("inf")
    assert product(80, [inf], [1.0], 3.0) == inf
    assert np.isnan(product(80, [inf], [0.0], 3.0))
    assert np.isnan(product(80, [inf, -inf], [1.0, 1.0], 3.0))
    assert product(80, [65504.0], [65504.0], 3e38) == pytest.approx(3e38)
    assert product(80, [65504.0] * 8, [65504.0] * 8, float(np.finfo(np.float32).max)) < inf
    assert product(80, [60000.0], [60000.0], 0.0, "f16") == inf


def test_old_tensor_cores_are_refused() -> None:
    assert core(75) is None
    with pytest.raises(NoRule, match="sm_75"):
        Ieee({}, 75).matmul("f16", "f32")
