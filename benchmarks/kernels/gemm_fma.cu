// C = A B with A[m][k], B[k][n] in f16 and C[m][n] in f32, by CTAs of 128 threads for 64 x 64 of C:
// each thread sums 32 elements of C with scalar fma, from tiles in shared memory.
#include <cuda_fp16.h>

constexpr int M = 64, N = 64, KT = 32;

extern "C" __global__ void __launch_bounds__(128)
    gemm_fma(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C, int n,
             int K) {
  __shared__ float a[M][KT], b[KT][N];
  A += blockIdx.y * 64 * K, B += blockIdx.x * 64, C += blockIdx.y * 64 * n + blockIdx.x * 64;
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  float sum[4][8] = {};
  for (int k = 0; k < K; k += KT) {
    for (int i = threadIdx.x; i < M * KT; i += 128) {
      a[i / KT][i % KT] = __half2float(A[(i / KT) * K + k + i % KT]);
      b[i / N][i % N] = __half2float(B[(k + i / N) * n + i % N]);
    }
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < KT; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 8; ++c) sum[r][c] = fmaf(a[row + 16 * r][j], b[j][column + 8 * c], sum[r][c]);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 8; ++c) C[(row + 16 * r) * n + column + 8 * c] = sum[r][c];
}
