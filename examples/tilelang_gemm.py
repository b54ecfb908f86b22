"""A GEMM in TileLang, validated while it is compiled.

    kcheck tilelang examples/tilelang_gemm.py
    python examples/tilelang_gemm.py

Neither needs a GPU.
"""

import tilelang
import tilelang.language as T


@tilelang.jit(target={"kind": "cuda", "arch": "sm_80"}, execution_backend="tvm_ffi")
def gemm(m: int = 128, n: int = 128, k: int = 128, stages: int = 2):
    """C = A B, in blocks of 64 x 64 x 32, with asynchronous copies some stages ahead."""

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            As = T.alloc_shared((64, 32), "float16")
            Bs = T.alloc_shared((32, 64), "float16")
            Cl = T.alloc_fragment((64, 64), "float32")
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, 32), num_stages=stages):
                T.copy(A[by * 64, ko * 32], As)
                T.copy(B[ko * 32, bx * 64], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * 64, bx * 64])

    return gemm


def product(A, B):
    """What it is for."""
    return A @ B


if __name__ == "__main__":
    import kcheck
    import kcheck.tilelang  # teaches tilelang `validate`

    func = gemm.get_tir()
    options = {"target": gemm.target, "execution_backend": "tvm_ffi"}
    print("compiled and proved:", tilelang.compile(func, **options, validate=True))

    unsafe = {"tl.disable_thread_storage_sync": True}  # the compiler forgets the barriers
    try:
        tilelang.compile(func, **options, pass_configs=unsafe, validate=True)
    except kcheck.ValidationError as error:
        print("refused:", error)
