// C = A + B, one element a thread.
extern "C" __global__ void add_scalar(const float* __restrict__ A, const float* __restrict__ B,
                                      float* __restrict__ C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  C[i] = A[i] + B[i];
}
