// Float maxima by integer atomics on the bits, as real kernels write them.
// nvcc -arch=sm_80 -ptx extremes.cu

__device__ __forceinline__ float atomic_max(float *p, float v) {
    return v >= 0 ? __int_as_float(atomicMax((int *)p, __float_as_int(v)))
                  : __uint_as_float(atomicMin((unsigned *)p, __float_as_uint(v)));
}

extern "C" __global__ void ternary(const float *A, float *O) {
    atomic_max(O, A[blockIdx.x * blockDim.x + threadIdx.x]);
}

extern "C" __global__ void less(const float *A, float *O) {
    float v = A[blockIdx.x * blockDim.x + threadIdx.x];
    if (v < 0)
        atomicMin((unsigned *)O, __float_as_uint(v));
    else
        atomicMax((int *)O, __float_as_int(v));
}

extern "C" __global__ void sign(const float *A, float *O) {
    float v = A[blockIdx.x * blockDim.x + threadIdx.x];
    if (!signbit(v))
        atomicMax((int *)O, __float_as_int(v));
    else
        atomicMin((unsigned *)O, __float_as_uint(v));
}

extern "C" __global__ void smallest(const float *A, float *O) {
    float v = A[blockIdx.x * blockDim.x + threadIdx.x];
    if (v >= 0)
        atomicMin((int *)O, __float_as_int(v));
    else
        atomicMax((unsigned *)O, __float_as_uint(v));
}

extern "C" __global__ void doubles(const double *A, double *O) {
    double v = A[blockIdx.x * blockDim.x + threadIdx.x];
    if (v >= 0)
        atomicMax((long long *)O, __double_as_longlong(v));
    else
        atomicMin((unsigned long long *)O, (unsigned long long)__double_as_longlong(v));
}

extern "C" __global__ void block(const float *A, float *O) {
    __shared__ float most;
    if (threadIdx.x == 0)
        most = -INFINITY;
    __syncthreads();
    atomic_max(&most, A[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0)
        atomic_max(O, most);
}

extern "C" __global__ void leader(const float *A, float *O) {
    float v = A[blockIdx.x * blockDim.x + threadIdx.x];
    for (int k = 16; k; k >>= 1)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, k));
    if (threadIdx.x % 32 == 0)
        atomic_max(O, v);
}
