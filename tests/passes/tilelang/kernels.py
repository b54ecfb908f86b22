"""TileLang programs that the tests compile: small shapes, every kind of kernel of the issue.

TileLang evaluates annotations as they stand: no `from __future__ import annotations` here.
"""

from typing import Any

import tilelang.language as T

F16, F32 = "float16", "float32"


def gemm(
    m: int = 128,
    n: int = 128,
    k: int = 128,
    block: tuple[int, int, int] = (64, 64, 32),
    stages: int = 2,
    *,
    threads: int = 128,
    trans_a: bool = False,
    trans_b: bool = False,
    panel: int = 0,
    bias_relu: bool = False,
) -> Any:
    bm, bn, bk = block
    a_shape = (k, m) if trans_a else (m, k)
    b_shape = (n, k) if trans_b else (k, n)
    a_block = (bk, bm) if trans_a else (bm, bk)
    b_block = (bn, bk) if trans_b else (bk, bn)
    if bias_relu:
        return _gemm_bias_relu(m, n, k, bm, bn, bk, stages, threads)

    @T.prim_func
    def gemm(A: T.Tensor(a_shape, F16), B: T.Tensor(b_shape, F16), C: T.Tensor((m, n), F32)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            As = T.alloc_shared(a_block, F16)
            Bs = T.alloc_shared(b_block, F16)
            Cl = T.alloc_fragment((bm, bn), F32)
            T.use_swizzle(panel, enable=panel > 0)
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if trans_a:
                    T.copy(A[ko * bk, by * bm], As)
                else:
                    T.copy(A[by * bm, ko * bk], As)
                if trans_b:
                    T.copy(B[bx * bn, ko * bk], Bs)
                else:
                    T.copy(B[ko * bk, bx * bn], Bs)
                T.gemm(As, Bs, Cl, transpose_A=trans_a, transpose_B=trans_b)
            T.copy(Cl, C[by * bm, bx * bn])

    return gemm


def _gemm_bias_relu(
    m: int, n: int, k: int, bm: int, bn: int, bk: int, stages: int, threads: int
) -> Any:
    @T.prim_func
    def gemm_bias_relu(
        A: T.Tensor((m, k), F16),
        B: T.Tensor((k, n), F16),
        bias: T.Tensor((n,), F32),
        C: T.Tensor((m, n), F32),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            As = T.alloc_shared((bm, bk), F16)
            Bs = T.alloc_shared((bk, bn), F16)
            Cl = T.alloc_fragment((bm, bn), F32)
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], As)
                T.copy(B[ko * bk, bx * bn], Bs)
                T.gemm(As, Bs, Cl)
            for i, j in T.Parallel(bm, bn):
                Cl[i, j] = T.max(Cl[i, j] + bias[bx * bn + j], 0.0)
            T.copy(Cl, C[by * bm, bx * bn])

    return gemm_bias_relu


def split_k(m: int = 64, n: int = 64, k: int = 128, split: int = 2) -> Any:
    part = k // split

    @T.prim_func
    def split_k(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), C: T.Tensor((m, n), F32)):
        with T.Kernel(n // 64, m // 64, split, threads=128) as (bx, by, bz):
            As = T.alloc_shared((64, 32), F16)
            Bs = T.alloc_shared((32, 64), F16)
            Cl = T.alloc_fragment((64, 64), F32)
            T.clear(Cl)
            for ko in T.Pipelined(part // 32, num_stages=2):
                T.copy(A[by * 64, bz * part + ko * 32], As)
                T.copy(B[bz * part + ko * 32, bx * 64], Bs)
                T.gemm(As, Bs, Cl)
            T.atomic_add(C[by * 64, bx * 64], Cl)

    return split_k


def add(n: int = 1000, block: int = 256) -> Any:
    """Elementwise, with a tail where n is no multiple of the block."""

    @T.prim_func
    def add(X: T.Tensor((n,), F32), Y: T.Tensor((n,), F32), Z: T.Tensor((n,), F32)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]

    return add


def sigmoid(n: int = 1000, block: int = 256, dtype: str = F16) -> Any:
    """Without fast math nvcc expands the exponential, and with float16 it rounds by compares."""

    @T.prim_func
    def sigmoid(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = T.sigmoid(X[bx * block + i])

    return sigmoid


def row_sum(m: int = 32, n: int = 256, threads: int = 128) -> Any:
    @T.prim_func
    def row_sum(X: T.Tensor((m, n), F32), Y: T.Tensor((m,), F32)):
        with T.Kernel(m // 4, threads=threads) as bx:
            x = T.alloc_fragment((4, n), F32)
            s = T.alloc_fragment((4,), F32)
            T.copy(X[bx * 4, 0], x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, Y[bx * 4])

    return row_sum


def softmax(m: int = 16, n: int = 256, rows: int = 1) -> Any:
    scale = 1.4426950408889634

    @T.prim_func
    def softmax(X: T.Tensor((m, n), F32), Y: T.Tensor((m, n), F32)):
        with T.Kernel(m // rows, threads=128) as bx:
            x = T.alloc_fragment((rows, n), F32)
            top = T.alloc_fragment((rows,), F32)
            total = T.alloc_fragment((rows,), F32)
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp2((x[i, j] - top[i]) * scale)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return softmax


def rms_norm(m: int = 16, n: int = 256) -> Any:
    @T.prim_func
    def rms_norm(X: T.Tensor((m, n), F32), W: T.Tensor((n,), F32), Y: T.Tensor((m, n), F32)):
        with T.Kernel(m, threads=128) as bx:
            x = T.alloc_fragment((1, n), F32)
            squares = T.alloc_fragment((1, n), F32)
            total = T.alloc_fragment((1,), F32)
            T.copy(X[bx, 0], x)
            for i, j in T.Parallel(1, n):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(1):
                total[i] = T.rsqrt(total[i] / n + 1e-5)
            for i, j in T.Parallel(1, n):
                Y[bx + i, j] = x[i, j] * total[i] * W[j]

    return rms_norm


def layer_norm(m: int = 16, n: int = 256) -> Any:
    @T.prim_func
    def layer_norm(
        X: T.Tensor((m, n), F32),
        W: T.Tensor((n,), F32),
        B: T.Tensor((n,), F32),
        Y: T.Tensor((m, n), F32),
    ):
        with T.Kernel(m, threads=128) as bx:
            x = T.alloc_fragment((1, n), F32)
            squares = T.alloc_fragment((1, n), F32)
            mean = T.alloc_fragment((1,), F32)
            variance = T.alloc_fragment((1,), F32)
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(1):
                mean[i] = mean[i] / n
            for i, j in T.Parallel(1, n):
                squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(squares, variance, dim=1)
            for i in T.Parallel(1):
                variance[i] = T.rsqrt(variance[i] / n + 1e-5)
            for i, j in T.Parallel(1, n):
                Y[bx + i, j] = (x[i, j] - mean[i]) * variance[i] * W[j] + B[j]

    return layer_norm


def conv2d(stages: int = 2) -> Any:
    """3 x 3, stride 1, padding 1, as a product over patches (im2col)."""
    batch, height, width, channels, filters = 1, 8, 8, 32, 64
    kernel, bm, bn, bk = 3, 64, 64, 32

    @T.prim_func
    def conv2d(
        data: T.Tensor((batch, height, width, channels), F16),
        weights: T.Tensor((kernel * kernel * channels, filters), F16),
        out: T.Tensor((batch * height * width, filters), F32),
    ):
        with T.Kernel(filters // bn, batch * height * width // bm, threads=128) as (bx, by):
            patch = T.alloc_shared((bm, bk), F16)
            taps = T.alloc_shared((bk, bn), F16)
            total = T.alloc_fragment((bm, bn), F32)
            T.clear(total)
            for ko in T.Pipelined(kernel * kernel * channels // bk, num_stages=stages):
                for i, j in T.Parallel(bm, bk):
                    at = by * bm + i
                    tap = ko * bk + j
                    y = at // width % height + tap // channels // kernel - 1
                    x = at % width + tap // channels % kernel - 1
                    inside = (y >= 0) and (x >= 0) and (y < height) and (x < width)
                    patch[i, j] = T.if_then_else(
                        inside, data[at // (height * width), y, x, tap % channels], 0
                    )
                T.copy(weights[ko * bk, bx * bn], taps)
                T.gemm(patch, taps, total)
            T.copy(total, out[by * bm, bx * bn])

    return conv2d


def flash(seq: int = 128, dim: int = 64, *, causal: bool = False, stages: int = 1) -> Any:
    """Attention of one head: online softmax over blocks of keys."""
    bm, bn = 64, 64
    scale = 1.4426950408889634 / dim**0.5

    @T.prim_func
    def flash(
        Q: T.Tensor((seq, dim), F16),
        K: T.Tensor((seq, dim), F16),
        V: T.Tensor((seq, dim), F16),
        O: T.Tensor((seq, dim), F32),
    ):
        with T.Kernel(seq // bm, threads=128) as bx:
            Qs = T.alloc_shared((bm, dim), F16)
            Ks = T.alloc_shared((bn, dim), F16)
            Vs = T.alloc_shared((bn, dim), F16)
            scores = T.alloc_fragment((bm, bn), F32)
            weights = T.alloc_fragment((bm, bn), F16)
            out = T.alloc_fragment((bm, dim), F32)
            top = T.alloc_fragment((bm,), F32)
            before = T.alloc_fragment((bm,), F32)
            shrink = T.alloc_fragment((bm,), F32)
            part = T.alloc_fragment((bm,), F32)
            total = T.alloc_fragment((bm,), F32)
            T.copy(Q[bx * bm, 0], Qs)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity(F32))
            blocks = bx + 1 if causal else seq // bn
            for k in T.Pipelined(blocks, num_stages=stages):
                T.copy(K[k * bn, 0], Ks)
                if causal:
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(
                            bx * bm + i >= k * bn + j, 0, -T.infinity(F32)
                        )
                else:
                    T.clear(scores)
                T.gemm(Qs, Ks, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[k * bn, 0], Vs)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    shrink[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * shrink[i] + part[i]
                for i, j in T.Parallel(bm, dim):
                    out[i, j] *= shrink[i]
                T.copy(scores, weights)
                T.gemm(weights, Vs, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                out[i, j] /= total[i]
            T.copy(out, O[bx * bm, 0])

    return flash


def scale_rows() -> Any:
    """A number of rows that is known at the call only."""
    m = T.dynamic("m")

    @T.prim_func
    def scale_rows(X: T.Tensor((m, 256), F32), Y: T.Tensor((m, 256), F32)):
        with T.Kernel(m, threads=128) as bx:
            for i in T.Parallel(256):
                Y[bx, i] = X[bx, i] * 2.0

    return scale_rows


def two_kernels() -> Any:
    @T.prim_func
    def two_kernels(X: T.Tensor((256,), F32), Y: T.Tensor((256,), F32)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                Y[i] = X[i]
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                Y[i] = X[i] + 1.0

    return two_kernels


def sum_of_two(n: int = 1000) -> Any:
    """What `add` computes, in another way and under other names."""

    @T.prim_func
    def sum_of_two(P: T.Tensor((n,), F32), Q: T.Tensor((n,), F32), R: T.Tensor((n,), F32)):
        with T.Kernel(n, threads=32) as bx:
            x = T.alloc_shared((1,), F32)
            x[0] = P[bx]
            R[bx] = Q[bx] + x[0]

    return sum_of_two


def divided(steps: int = 4) -> Any:
    """Half of the threads write what the other half reads, in a loop."""

    @T.prim_func
    def divided(X: T.Tensor((steps, 64), F32), Y: T.Tensor((64,), F32)):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64,), F32)
            acc = T.alloc_local((1,), F32)
            acc[0] = 0.0
            for k in range(steps):
                if tx >= 64:
                    S[tx - 64] = X[k, tx - 64]
                if tx < 64:
                    acc[0] = acc[0] + S[63 - tx]
            if tx < 64:
                Y[tx] = acc[0]

    return divided


def warp_sums(threads: int) -> Any:
    """The sum over two warps, each by shuffles of all its lanes."""

    @T.prim_func
    def warp_sums(X: T.Tensor((threads,), F32), Y: T.Tensor((1,), F32)):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            S = T.alloc_shared((2,), F32)
            s = T.warp_reduce_sum(X[tx])
            if tx % 32 == 0:
                S[tx // 32] = s
            T.sync_threads()
            if tx == 0:
                Y[0] = S[0] + S[1]

    return warp_sums


def all_reduce(width: int) -> Any:
    """The sum of the first lanes of a warp in all of them, by a butterfly of shuffles."""
    offsets = [width >> i for i in range(1, 6) if width >> i]

    @T.prim_func
    def all_reduce(X: T.Tensor((32,), F32), Y: T.Tensor((32,), F32)):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            acc = T.alloc_local((1,), F32)
            acc[0] = T.if_then_else(tx < width, X[tx], 0.0)
            for offset in offsets:
                acc[0] = acc[0] + T.call_extern(
                    F32, "__shfl_xor_sync", T.uint32(0xFFFFFFFF), acc[0], offset
                )
            Y[tx] = acc[0]

    return all_reduce


def twice_reversed() -> Any:
    """Two shared buffers; the second can have the place of the first, behind a barrier."""

    @T.prim_func
    def twice_reversed(X: T.Tensor((128,), F32), Y: T.Tensor((128,), F32)):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            first = T.alloc_shared((128,), F32)
            second = T.alloc_shared((128,), F32)
            x = T.alloc_local((1,), F32)
            first[tx] = X[tx]
            x[0] = first[127 - tx]
            second[tx] = x[0] * 2.0
            Y[tx] = second[127 - tx]

    return twice_reversed


def picked(m: int = 64, n: int = 100) -> Any:
    """One element of each row, by an index that is an input."""

    @T.prim_func
    def picked(X: T.Tensor((m, n), F32), L: T.Tensor((m,), "int32"), O: T.Tensor((m,), F32)):
        with T.Kernel(1, threads=m):
            for i in T.Parallel(m):
                O[i] = X[i, L[i]]

    return picked


def dequantized_gemm(m: int = 32, n: int = 32, k: int = 64, stages: int = 2) -> Any:
    """A product with 4-bit weights, two in a byte."""
    bk = 32

    @T.prim_func
    def dequantized(
        A: T.Tensor((m, k), F16),
        B: T.Tensor((n, k // 2), "uint8"),
        S: T.Tensor((n,), F16),
        C: T.Tensor((m, n), F16),
    ):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((m, bk), F16)
            Bs = T.alloc_shared((n, bk // 2), "uint8")
            Bl = T.alloc_fragment((n, bk // 2), "uint8")
            Bd = T.alloc_fragment((n, bk), F16)
            Bds = T.alloc_shared((n, bk), F16)
            Cl = T.alloc_fragment((m, n), F32)
            T.clear(Cl)
            for ko in T.Pipelined(k // bk, num_stages=stages):
                T.copy(A[0, ko * bk], As)
                T.copy(B[0, ko * bk // 2], Bs)
                T.copy(Bs, Bl)
                for i, j in T.Parallel(n, bk):
                    nibble = (Bl[i, j // 2] >> ((j % 2) * 4).astype("uint8")) & T.uint8(0xF)
                    Bd[i, j] = nibble.astype(F16) * S[i]
                T.copy(Bd, Bds)
                T.gemm(As, Bds, Cl, transpose_B=True)
            T.copy(Cl, C)

    return dequantized


def int8_gemm(m: int = 64, n: int = 64, k: int = 64, stages: int = 2) -> Any:
    @T.prim_func
    def int8_gemm(
        A: T.Tensor((m, k), "int8"), B: T.Tensor((n, k), "int8"), C: T.Tensor((m, n), "int32")
    ):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((m, 32), "int8")
            Bs = T.alloc_shared((n, 32), "int8")
            Cl = T.alloc_fragment((m, n), "int32")
            T.clear(Cl)
            for ko in T.Pipelined(k // 32, num_stages=stages):
                T.copy(A[0, ko * 32], As)
                T.copy(B[0, ko * 32], Bs)
                T.gemm(As, Bs, Cl, transpose_B=True)
            T.copy(Cl, C)

    return int8_gemm
