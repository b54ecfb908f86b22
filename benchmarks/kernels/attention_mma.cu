// O = softmax(Q K^T / 8) V for 16 queries, 512 keys, head 64: one warp on tensor cores, online
// softmax over blocks of 16 keys, sums rescaled whenever the maximum of a row grows.
#include <cuda_fp16.h>

constexpr int KEYS = 512, HEAD = 64;
using word = unsigned;

__device__ word pair(__half low, __half high) {
  __half2 both = __halves2half2(low, high);
  return *reinterpret_cast<word*>(&both);
}

__device__ void mma(float (&c)[4], const word (&a)[4], word b0, word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

extern "C" __global__ void __launch_bounds__(32)
    attention_mma(const __half* __restrict__ Q, const __half* __restrict__ K,
                  const __half* __restrict__ V, float* __restrict__ O) {
  const int lane = threadIdx.x, row = lane / 4, column = 2 * (lane % 4);
  word q[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const __half* at = Q + (row + 8 * (j & 1)) * HEAD + 16 * i + column + 8 * (j >> 1);
      q[i][j] = *reinterpret_cast<const word*>(at);
    }
  float o[8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const float scale = 0.125f * 1.44269504f;
#pragma unroll 1
  for (int block = 0; block < KEYS; block += 16) {
    float s[2][4] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __half* at = K + (block + 8 * n + row) * HEAD + 16 * i + column;
        mma(s[n], q[i], *reinterpret_cast<const word*>(at), *reinterpret_cast<const word*>(at + 8));
      }
    word p[4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float next = fmaxf(top[r], most), shrink = exp2_of((top[r] - next) * scale);
      top[r] = next;
      float e[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) e[j] = exp2_of((s[j / 2][2 * r + j % 2] - next) * scale);
      sum[r] = sum[r] * shrink + (e[0] + e[1]) + (e[2] + e[3]);
      p[r] = pair(__float2half_rn(e[0]), __float2half_rn(e[1]));
      p[r + 2] = pair(__float2half_rn(e[2]), __float2half_rn(e[3]));
#pragma unroll
      for (int d = 0; d < 8; ++d) o[d][2 * r] *= shrink, o[d][2 * r + 1] *= shrink;
    }
#pragma unroll
    for (int d = 0; d < 8; ++d) {
      const __half* at = V + (block + column) * HEAD + 8 * d + row;
      mma(o[d], p, pair(at[0], at[HEAD]), pair(at[8 * HEAD], at[9 * HEAD]));
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
#pragma unroll
    for (int d = 0; d < 8; ++d)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        O[(row + 8 * r) * HEAD + 8 * d + column + j] = o[d][2 * r + j] / sum[r];
  }
}
