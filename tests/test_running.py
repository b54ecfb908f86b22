"""One kernel on given inputs: what its outputs are shown as."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.running import run
from tests.semantics.harness import entry, launch_of, out, symbol


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32"])
def test_an_integer_output_holds_integers(dtype: str) -> None:
    """A rounding that an enclosure leaves open is shown as one of both, not as their middle."""
    params = (symbol("x", "f32", 4), out("z", dtype, 4))
    size = "b32" if dtype == "s32" else "u8"
    third = "div.rn.f32 %f1, %f1, 0f40400000; mul.f32 %f1, %f1, 0f40400000;"
    kernel = entry(
        f"ld.global.f32 %f1, [%x]; {third} cvt.rni.s32.f32 %r1, %f1; st.global.{size} [%z], %r1;",
        params,
    )
    given = [63.5, 100.5, 126.0, 0.5]
    result = run(kernel, launch=launch_of(params, block=4), inputs={"x": given}, seed=1)
    shown = result.outputs["z"]
    assert np.issubdtype(shown.dtype, np.integer)
    assert (np.abs(shown - np.array(given)) <= 1).all()
