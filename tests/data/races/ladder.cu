// Sums of 256 (or more) floats per block: the steps by which a reduction is usually made faster.
// `w*` kernels trust a warp to run in lockstep, which is a race; the others have the barriers.
// nvcc -arch=sm_80 --ptx ladder.cu -o ladder.ptx

constexpr int N = 256;   // elements per block; blocks of 256, or of 128 where a thread loads two
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void interleaved(const float* in, float* out) {
  __shared__ float part[N];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * N + t];
  __syncthreads();
  for (int step = 1; step < N; step *= 2) {
    if (t % (2 * step) == 0) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void sequential(const float* in, float* out) {
  __shared__ float part[N];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * N + t];
  __syncthreads();
  for (int step = N / 2; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void add_on_load(const float* in, float* out) {
  __shared__ float part[N / 2];
  const int t = threadIdx.x;
  const float* mine = in + blockIdx.x * N + t;
  part[t] = mine[0] + mine[N / 2];
  __syncthreads();
  for (int step = N / 4; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

// the last warp without barriers, in its variants

__device__ void last_plain(float* part, int t) {
#pragma unroll
  for (int step = 32; step > 0; step /= 2) part[t] += part[t + step];
}

__device__ void last_volatile(volatile float* part, int t) {
#pragma unroll
  for (int step = 32; step > 0; step /= 2) part[t] += part[t + step];
}

// one barrier a step is not enough: a lane may store before its neighbour has loaded
__device__ void last_half_synced(float* part, int t) {
#pragma unroll
  for (int step = 32; step > 0; step /= 2) {
    part[t] += part[t + step];
    __syncwarp();
  }
}

__device__ void last_synced(float* part, int t) {
  float sum = part[t];
#pragma unroll
  for (int step = 32; step > 0; step /= 2) {
    sum += part[t + step];
    __syncwarp();
    part[t] = sum;
    __syncwarp();
  }
}

__device__ void last_synced_volatile(volatile float* part, int t) {
  float sum = part[t];
#pragma unroll
  for (int step = 32; step > 0; step /= 2) {
    sum += part[t + step];
    __syncwarp();
    part[t] = sum;
    __syncwarp();
  }
}

template <void (*last)(float*, int)>
__device__ void with_last(const float* in, float* out) {
  __shared__ float part[N];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * N + t];
  __syncthreads();
  for (int step = N / 2; step > 32; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t < 32) last(part, t);
  if (t == 0) out[blockIdx.x] = part[0];
}

__device__ void via_volatile(float* part, int t) { last_volatile(part, t); }
__device__ void via_synced_volatile(float* part, int t) { last_synced_volatile(part, t); }

extern "C" __global__ void w_last_warp(const float* in, float* out) {
  with_last<last_plain>(in, out);
}
extern "C" __global__ void w_last_warp_volatile(const float* in, float* out) {
  with_last<via_volatile>(in, out);
}
extern "C" __global__ void w_last_warp_half_synced(const float* in, float* out) {
  with_last<last_half_synced>(in, out);
}
extern "C" __global__ void last_warp_synced(const float* in, float* out) {
  with_last<last_synced>(in, out);
}
extern "C" __global__ void last_warp_synced_volatile(const float* in, float* out) {
  with_last<via_synced_volatile>(in, out);
}

template <bool synced>
__device__ void unrolled(const float* in, float* out) {
  __shared__ float part[N];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * N + t];
  __syncthreads();
  if (t < 128) part[t] += part[t + 128];
  __syncthreads();
  if (t < 64) part[t] += part[t + 64];
  __syncthreads();
  if (t < 32) {
    if (synced) last_synced(part, t);
    else last_volatile(part, t);
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void w_unrolled(const float* in, float* out) { unrolled<false>(in, out); }
extern "C" __global__ void unrolled_synced(const float* in, float* out) { unrolled<true>(in, out); }

template <bool synced>
__device__ void several(const float* in, float* out) {
  __shared__ float part[64];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = t; i < N; i += 64) sum += in[blockIdx.x * N + i];
  part[t] = sum;
  __syncthreads();
  if (t < 32) {
    if (synced) last_synced(part, t);
    else last_volatile(part, t);
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void w_several(const float* in, float* out) { several<false>(in, out); }
extern "C" __global__ void several_synced(const float* in, float* out) { several<true>(in, out); }

template <bool synced>
__device__ void shuffled(const float* in, float* out) {
  __shared__ float part[N / 32];
  const int t = threadIdx.x;
  float sum = in[blockIdx.x * N + t];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(ALL, sum, step);
  if (t % 32 == 0) part[t / 32] = sum;
  if (synced) __syncthreads();
  if (t < 32) {
    sum = t < N / 32 ? part[t] : 0.0f;
#pragma unroll
    for (int step = 4; step > 0; step /= 2) sum += __shfl_down_sync(ALL, sum, step);
    if (t == 0) out[blockIdx.x] = sum;
  }
}

extern "C" __global__ void w_shuffled(const float* in, float* out) { shuffled<false>(in, out); }
extern "C" __global__ void shuffled_synced(const float* in, float* out) { shuffled<true>(in, out); }

// blocks of any size up to 512, and any number of elements for each block

extern "C" __global__ void any_interleaved(const float* in, float* out, int n) {
  __shared__ float part[512];
  const int t = threadIdx.x, threads = blockDim.x;
  float sum = 0;
  for (int i = t; i < n; i += threads) sum += in[blockIdx.x * n + i];
  part[t] = sum;
  __syncthreads();
  for (int step = 1; step < threads; step *= 2) {
    if (t % (2 * step) == 0 && t + step < threads) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

// two elements on load, the second only where there is one; then steps of odd size, too
extern "C" __global__ void any_sequential(const float* in, float* out, int n) {
  __shared__ float part[512];
  const int t = threadIdx.x, threads = blockDim.x;
  const float* mine = in + blockIdx.x * n;
  float sum = 0;
  for (int i = t; i < n; i += 2 * threads) {
    sum += mine[i];
    if (i + threads < n) sum += mine[i + threads];
  }
  part[t] = sum;
  __syncthreads();
  for (int count = threads; count > 1;) {
    const int half = (count + 1) / 2;
    if (t + half < count) part[t] += part[t + half];
    __syncthreads();
    count = half;
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

// blocks of a power of two from 64 on: the last warp alone
template <bool synced>
__device__ void any_last(const float* in, float* out, int n) {
  __shared__ float part[512];
  const int t = threadIdx.x, threads = blockDim.x;
  float sum = 0;
  for (int i = t; i < n; i += threads) sum += in[blockIdx.x * n + i];
  part[t] = sum;
  __syncthreads();
  for (int step = threads / 2; step > 32; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t < 32) {
    if (synced) last_synced(part, t);
    else last_volatile(part, t);
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void any_last_synced(const float* in, float* out, int n) {
  any_last<true>(in, out, n);
}
extern "C" __global__ void w_any_last(const float* in, float* out, int n) {
  any_last<false>(in, out, n);
}

// whole warps
extern "C" __global__ void any_shuffled(const float* in, float* out, int n) {
  __shared__ float part[16];
  const int t = threadIdx.x, threads = blockDim.x;
  float sum = 0;
  for (int i = t; i < n; i += threads) sum += in[blockIdx.x * n + i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(ALL, sum, step);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = t < threads / 32 ? part[t] : 0.0f;
    for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(ALL, sum, step);
    if (t == 0) out[blockIdx.x] = sum;
  }
}
