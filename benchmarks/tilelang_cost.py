"""What `validate=True` costs beside the compile that it follows: CPU seconds, by what they go to.

    python benchmarks/tilelang_cost.py

CPU seconds, not wall time: nvcc's are those of its processes. "nvcc" is the user's own call (to a
binary), as tilelang makes it; the check is the lowering of the reference, execution and decision.
The PTX of both sides takes two more calls of nvcc, which run beside the user's. "again" is wall
time of the same compile when its verdict is known.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROW = "{:22} {:>5} {:>9} {:>6} {:>6} {:>7} {:>7}"


def spent(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `work` gives, and the CPU seconds of this process and of its children."""

    def now(who: int) -> float:
        usage = resource.getrusage(who)
        return usage.ru_utime + usage.ru_stime

    own, children = now(resource.RUSAGE_SELF), now(resource.RUSAGE_CHILDREN)
    found = work()
    return (
        found,
        now(resource.RUSAGE_SELF) - own,
        now(resource.RUSAGE_CHILDREN) - children,
    )


def measure(name: str, func: Any) -> str:
    """One line of the table."""
    import tilelang

    from kcheck.passes.tilelang.compiled import compiled_launch
    from kcheck.passes.tilelang.nvcc import ptx
    from kcheck.passes.tilelang.request import request
    from kcheck.passes.tilelang.validate import Validation
    from kcheck.passes.validation import Validate

    target = {"kind": "cuda", "arch": "sm_80"}
    options: dict[str, Any] = {"target": target, "execution_backend": "tvm_ffi"}
    kernel, _, nvcc = spent(lambda: tilelang.compile(func, **options))
    validation = Validation(request(func, target), Validate())
    first, lowering, _ = spent(lambda: validation.ladder.first)
    source, launch = kernel.get_kernel_source(), compiled_launch(validation.request, kernel)
    _, _, beside = spent(lambda: (first.ptx, ptx(source, validation.request)))
    outcome, proof, _ = spent(lambda: validation.outcome(source, launch))
    tilelang.compile(func, **options, validate=True)
    start = time.perf_counter()
    tilelang.compile(func, **options, validate=True)
    again = time.perf_counter() - start
    check = lowering + proof
    word = f"{outcome.verdict.verdict} {outcome.verdict.method}"
    figures = [f"{x:.1f}" for x in (nvcc, lowering, proof)]
    numbers = [*figures, f"{check / nvcc:.2f}", f"{beside:.1f}", f"{again * 1e3:.0f} ms"]
    return ROW.format(name, *numbers) + f" {word}"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="kcheck-cost-") as folder:
        os.environ["TILELANG_CACHE_DIR"] = f"{folder}/tilelang"
        os.environ["KCHECK_CACHE_DIR"] = f"{folder}/kcheck"
        import kcheck.tilelang  # noqa: F401 teaches tilelang `validate`
        from tests.passes.tilelang import kernels

        head = ("nvcc", "lowering", "proof", "ratio", "beside", "again")
        print(ROW.format("CPU seconds", *head))
        for name, func in (
            ("gemm, no stages", kernels.gemm(stages=0)),
            ("gemm, two stages", kernels.gemm()),
            ("gemm, three stages", kernels.gemm(stages=3)),
            ("gemm, 64 x 64 x 64", kernels.gemm(64, 64, 64)),
            ("gemm, bias and relu", kernels.gemm(bias_relu=True)),
            ("attention", kernels.flash()),
            ("attention, causal", kernels.flash(causal=True)),
            ("softmax", kernels.softmax()),
            ("layernorm", kernels.layer_norm()),
        ):
            print(measure(name, func), flush=True)


if __name__ == "__main__":
    main()
