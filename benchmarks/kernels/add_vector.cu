// C = A + B, four elements a thread.
extern "C" __global__ void add_vector(const float4* __restrict__ A, const float4* __restrict__ B,
                                      float4* __restrict__ C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 a = A[i], b = B[i];
  C[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
