// C = A B with A[m][k], B[k][n] in f16 and C[m][n] in f32, by CTAs of 128 threads for 64 x 64 of C:
// each warp makes a 32 x 32 part of C with mma.sync, from tiles in shared memory.
#include <cuda_fp16.h>
#include <cstdint>

constexpr int N = 64, KT = 32;

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

extern "C" __global__ void __launch_bounds__(128)
    gemm_mma(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C, int n,
             int K) {
  __shared__ __align__(16) __half a[64][KT + 8], b[KT][N + 8];  // padded against bank conflicts
  A += blockIdx.y * 64 * K, B += blockIdx.x * 64, C += blockIdx.y * 64 * n + blockIdx.x * 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = 32 * (warp / 2), column = 32 * (warp % 2);
  float d[2][4][4] = {};
#pragma unroll 1
  for (int k = 0; k < K; k += KT) {
#pragma unroll
    for (int i = threadIdx.x * 8; i < 64 * KT; i += 128 * 8) {
      *(uint4*)&a[i / KT][i % KT] = *(const uint4*)&A[(i / KT) * K + k + i % KT];
      *(uint4*)&b[i / N][i % N] = *(const uint4*)&B[(k + i / N) * n + i % N];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < KT; j += 16) {
      uint32_t x[2][4], y[4][2];
#pragma unroll
      for (int r = 0; r < 2; ++r)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[r][0]), "=r"(x[r][1]), "=r"(x[r][2]), "=r"(x[r][3])
                     : "r"(shared_address(&a[row + 16 * r + lane % 16][j + 8 * (lane / 16)])));
#pragma unroll
      for (int c = 0; c < 4; ++c)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(y[c][0]), "=r"(y[c][1])
                     : "r"(shared_address(&b[j + lane % 16][column + 8 * c])));
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
              "{%8,%9}, {%0,%1,%2,%3};"
              : "+f"(d[r][c][0]), "+f"(d[r][c][1]), "+f"(d[r][c][2]), "+f"(d[r][c][3])
              : "r"(x[r][0]), "r"(x[r][1]), "r"(x[r][2]), "r"(x[r][3]), "r"(y[c][0]), "r"(y[c][1]));
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        *(float2*)&C[(row + 16 * r + lane / 4 + 8 * h) * n + column + 8 * c + 2 * (lane % 4)] =
            make_float2(d[r][c][2 * h], d[r][c][2 * h + 1]);
}
