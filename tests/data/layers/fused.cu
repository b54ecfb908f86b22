// The same layers as they are made fast: other formulas, one pass over a row, a warp for a row, and
// fast math. WRONG compiles one defect into each. Compiled by
//   nvcc -arch=sm_80 --ptx -O3 --use_fast_math fused.cu              (CUDA 13.0, nvcc V13.0.88)
//   nvcc -arch=sm_80 --ptx -O3 --use_fast_math -DWRONG fused.cu -o wrong.ptx
#ifdef WRONG
#define RIGHT(right, wrong) wrong
#else
#define RIGHT(right, wrong) right
#endif
constexpr int C = 8;
constexpr float EPS = 1e-5f;
constexpr unsigned ALL = 0xffffffffu;

#define POINTWISE(name, expr)                                        \
  extern "C" __global__ void name(const float* __restrict__ in, float* __restrict__ out) { \
    float x = in[blockIdx.x * blockDim.x + threadIdx.x];             \
    out[blockIdx.x * blockDim.x + threadIdx.x] = expr;               \
  }
// a lane for an element, or a thread for a row
#define ROWS(name, ...) \
  extern "C" __global__ void name(__VA_ARGS__, float* __restrict__ out)
#define IN const float* __restrict__ in

__device__ float logistic(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <class F>
__device__ float all_lanes(float x, F combine) {
  for (int far = C / 2; far; far /= 2) x = combine(x, __shfl_xor_sync(ALL, x, far));
  return x;
}
__device__ float total(float x) {
  return all_lanes(x, [](float a, float b) { return a + b; });
}
__device__ float greatest(float x) {
  return all_lanes(x, [](float a, float b) { return fmaxf(a, b); });
}

POINTWISE(gelu_erf, 0.5f * x * RIGHT(erfcf(-0.70710678118f * x), erfcf(0.70710678118f * x)))
POINTWISE(gelu_tanh,
          x * logistic(1.5957691216f * x * (1.0f + RIGHT(0.044715f, 0.44715f) * x * x)))
POINTWISE(silu, RIGHT(0.5f, 1.0f) * x * (1.0f + tanhf(0.5f * x)))
POINTWISE(sigmoid, fmaf(tanhf(RIGHT(0.5f, 1.0f) * x), 0.5f, 0.5f))
POINTWISE(softplus, fmaxf(RIGHT(x, -x), 0.0f) + __logf(1.0f + __expf(-fabsf(x))))
__device__ float mish_of(float x) {
  float e = __expf(x), n = e * (e + RIGHT(2.0f, 1.0f));
  return x * __fdividef(n, n + 2.0f);
}
POINTWISE(mish, mish_of(x))

// one thread for a row, by Welford's recurrence
ROWS(layernorm, IN, const float* __restrict__ scale, const float* __restrict__ shift) {
  const float* x = in + C * threadIdx.x;
  float mean = 0, squares = 0;
#pragma unroll
  for (int j = 0; j < C; j++) {
    float step = x[j] - mean;
    mean += step * (1.0f / (j + 1));
    squares += step * (x[j] - RIGHT(mean, 0));
  }
  float by = rsqrtf(squares / C + EPS);
#pragma unroll
  for (int j = 0; j < C; j++)
    out[C * threadIdx.x + j] = fmaf((x[j] - mean) * by, scale[j], shift[j]);
}

ROWS(rmsnorm, IN, const float* __restrict__ scale) {
  float x = in[threadIdx.x];
  float by = RIGHT(rsqrtf(total(x * x) * (1.0f / C) + EPS), rsqrtf(total(x * x) / C) + EPS);
  out[threadIdx.x] = x * by * scale[threadIdx.x % C];
}

// one pass: the sum is scaled whenever the maximum grows
ROWS(log_softmax, IN) {
  const float* x = in + C * threadIdx.x;
  float most = x[0], sum = 1;
#pragma unroll
  for (int j = 1; j < C; j++) {
    float old = RIGHT(most, fmaxf(most, x[j]));
    most = fmaxf(most, x[j]);
    sum = sum * __expf(old - most) + __expf(x[j] - most);
  }
  float all = most + __logf(sum);
#pragma unroll
  for (int j = 0; j < C; j++) out[C * threadIdx.x + j] = x[j] - all;
}

ROWS(cross_entropy, IN, const int* __restrict__ target) {
  int row = threadIdx.x / C, j = threadIdx.x % C;
  float x = in[threadIdx.x], most = greatest(x);
  float all = __logf(total(__expf(x - most))) + RIGHT(most, 0);
  if (j == target[row]) out[row] = all - x;
}
