// O = softmax(Q K^T / 8) V for 16 queries, 512 keys, head 64: one thread per row of O, its scores in
// local memory.
#include <cuda_fp16.h>

constexpr int KEYS = 512, HEAD = 64;

__device__ void load(float (&x)[HEAD], const __half* from) {
#pragma unroll
  for (int d = 0; d < HEAD; d += 8) {
    const uint4 eight = *reinterpret_cast<const uint4*>(from + d);
    const __half2* two = reinterpret_cast<const __half2*>(&eight);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 both = __half22float2(two[i]);
      x[d + 2 * i] = both.x, x[d + 2 * i + 1] = both.y;
    }
  }
}

extern "C" __global__ void __launch_bounds__(16)
    attention_rows(const __half* __restrict__ Q, const __half* __restrict__ K,
                   const __half* __restrict__ V, float* __restrict__ O) {
  const int row = threadIdx.x;
  float q[HEAD], x[HEAD], o[HEAD] = {}, scores[KEYS], top = -INFINITY, sum = 0;
  load(q, Q + row * HEAD);
#pragma unroll 1
  for (int k = 0; k < KEYS; ++k) {
    load(x, K + k * HEAD);
    float s = 0;
#pragma unroll
    for (int d = 0; d < HEAD; ++d) s = fmaf(q[d], x[d], s);
    scores[k] = s * 0.125f;
    top = fmaxf(top, scores[k]);
  }
#pragma unroll 1
  for (int k = 0; k < KEYS; ++k) {
    float p;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p) : "f"((scores[k] - top) * 1.44269504f));
    sum += p;
    load(x, V + k * HEAD);
#pragma unroll
    for (int d = 0; d < HEAD; ++d) o[d] = fmaf(p, x[d], o[d]);
  }
#pragma unroll
  for (int d = 0; d < HEAD; ++d) O[row * HEAD + d] = o[d] / sum;
}
