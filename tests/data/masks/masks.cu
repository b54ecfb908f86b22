// Scores that a tensor masks with -inf, plain and fused, and with one defect each. Compiled by
//   nvcc -O3 -arch=sm_80 --use_fast_math -ptx masks.cu     (CUDA 13.0, nvcc V13.0.88)
#include <math_constants.h>
#define INF CUDART_INF_F
#define N 8
#define D 4
#define ATTENTION const float *q, const float *k, const float *v, const unsigned char *mask, float *o

__device__ __forceinline__ float score(const float *q, const float *k, int row, int j) {
  float x = 0.f;
#pragma unroll
  for (int d = 0; d < D; ++d) x += q[row * D + d] * k[j * D + d];
  return x * 0.125f;
}

// softmax(mask ? q k / 8 : -inf) v, one output element per thread
extern "C" __global__ void plain(ATTENTION) {
  int row = threadIdx.x / D, col = threadIdx.x % D;
  float s[N], m = -INF, l = 0.f, a = 0.f;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    s[j] = mask[j] ? score(q, k, row, j) : -INF;
    m = fmaxf(m, s[j]);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float p = exp2f(s[j] - m);
    l += p;
    a += p * v[j * D + col];
  }
  o[row * D + col] = a / l;
}

enum { GOOD, UNGUARDED, OFF_BY_ONE, OTHER_ROW, AFTER };
template <int WHAT>
__device__ void online(ATTENTION) {
  int row = threadIdx.x / D, col = threadIdx.x % D;
  float m = -INF, l = 0.f, a = 0.f;
#pragma unroll
  for (int j0 = 0; j0 < N; j0 += 4) {
    float s[4], top = m;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int j = j0 + i, at = WHAT == OFF_BY_ONE ? (j + 1) % N : WHAT == OTHER_ROW ? (row + j) % N : j;
      bool keep = mask[at];
      s[i] = WHAT == AFTER || keep ? score(q, k, row, j) : -INF;
      top = fmaxf(top, s[i]);
      if (WHAT == AFTER && !keep) s[i] = 0.f;
    }
    float base = WHAT != UNGUARDED && top == -INF ? 0.f : top;
    float c = exp2f(m - base);
    l *= c;
    a *= c;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float p = exp2f(s[i] - base);
      l += p;
      a += p * v[(j0 + i) * D + col];
    }
    m = top;
  }
  o[row * D + col] = a / l;
}
#define ONLINE(name, what) \
  extern "C" __global__ void name(ATTENTION) { online<what>(q, k, v, mask, o); }
ONLINE(online_good, GOOD)
ONLINE(online_unguarded, UNGUARDED)
ONLINE(online_off_by_one, OFF_BY_ONE)
ONLINE(online_other_row, OTHER_ROW)
ONLINE(online_after, AFTER)

// causal and masked rows of 32: a thread for each, or a warp for all
extern "C" __global__ void rows_plain(const float *x, const float *keep, float *o) {
  int r = threadIdx.x;
  float m = -INF, l = 0.f;
#pragma unroll 1
  for (int j = 0; j < 32; ++j) m = fmaxf(m, j <= r && keep[j] > 0.5f ? x[r * 32 + j] : -INF);
#pragma unroll 1
  for (int j = 0; j < 32; ++j) l += __expf((j <= r && keep[j] > 0.5f ? x[r * 32 + j] : -INF) - m);
#pragma unroll 1
  for (int j = 0; j < 32; ++j)
    o[r * 32 + j] = __expf((j <= r && keep[j] > 0.5f ? x[r * 32 + j] : -INF) - m) / l;
}
template <bool STRICT>
__device__ void rows(const float *x, const float *keep, float *o) {
  int j = threadIdx.x;
  bool k = keep[j] > 0.5f;
#pragma unroll 1
  for (int r = 0; r < 32; ++r) {
    float s = k ? x[r * 32 + j] : -INF;
    if (STRICT ? j && j >= r : j > r) s = -INF;
    float m = s;
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    float p = __expf(s - m), l = p;
    for (int d = 16; d; d >>= 1) l += __shfl_xor_sync(~0u, l, d);
    o[r * 32 + j] = p / l;
  }
}
extern "C" __global__ void rows_warp(const float *x, const float *keep, float *o) {
  rows<false>(x, keep, o);
}
extern "C" __global__ void rows_strict(const float *x, const float *keep, float *o) {
  rows<true>(x, keep, o);
}

// the least and the greatest that the mask leaves: of nothing, infinities
#define ENDS const float *x, const unsigned char *mask, float *o
template <int BACK, int SHARED>
__device__ void ends(ENDS, float none) {
  __shared__ float kept[8 * 32];
  int r = threadIdx.x;
  float m = -INF, n = INF;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int j = BACK ? 7 - i : i;
    float s = mask[j] ? x[r * 8 + j] : none;
    if (SHARED) kept[j * 32 + r] = s, s = kept[j * 32 + r];
    m = fmaxf(m, s);
    n = fminf(n, mask[j] ? x[r * 8 + j] : INF);
  }
  o[2 * r] = m;
  o[2 * r + 1] = n;
}
extern "C" __global__ void ends_plain(ENDS) { ends<0, 0>(x, mask, o, -INF); }
extern "C" __global__ void ends_back(ENDS) { ends<1, 1>(x, mask, o, -INF); }
extern "C" __global__ void ends_finite(ENDS) { ends<0, 0>(x, mask, o, -1e30f); }
