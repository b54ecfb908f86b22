// Layers as one writes them first: one thread for an element, or for a row of C. Compiled by
//   nvcc -arch=sm_80 --ptx plain.cu     (CUDA 13.0, nvcc V13.0.88)
constexpr int C = 8;
constexpr float EPS = 1e-5f;

#define POINTWISE(name, expr)                                        \
  extern "C" __global__ void name(const float* in, float* out) {     \
    float x = in[blockIdx.x * blockDim.x + threadIdx.x];             \
    out[blockIdx.x * blockDim.x + threadIdx.x] = expr;               \
  }
#define ROWS(name, ...) extern "C" __global__ void name(__VA_ARGS__, float* out)
#define ROW(x) const float* x = in + C * threadIdx.x

POINTWISE(gelu_erf, 0.5f * x * (1.0f + erff(x / 1.41421356237f)))
POINTWISE(gelu_tanh, 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))))
POINTWISE(silu, x / (1.0f + expf(-x)))
POINTWISE(sigmoid, x >= 0 ? 1.0f / (1.0f + expf(-x)) : expf(x) / (1.0f + expf(x)))
POINTWISE(softplus, logf(1.0f + expf(x)))
POINTWISE(mish, x * tanhf(log1pf(expf(x))))

// mean, then the mean of squared differences
ROWS(layernorm, const float* in, const float* scale, const float* shift) {
  ROW(x);
  float mean = 0, variance = 0;
  for (int j = 0; j < C; j++) mean += x[j];
  mean /= C;
  for (int j = 0; j < C; j++) variance += (x[j] - mean) * (x[j] - mean);
  variance /= C;
  for (int j = 0; j < C; j++)
    out[C * threadIdx.x + j] = (x[j] - mean) / sqrtf(variance + EPS) * scale[j] + shift[j];
}

ROWS(rmsnorm, const float* in, const float* scale) {
  ROW(x);
  float squares = 0;
  for (int j = 0; j < C; j++) squares += x[j] * x[j];
  for (int j = 0; j < C; j++)
    out[C * threadIdx.x + j] = x[j] / sqrtf(squares / C + EPS) * scale[j];
}

ROWS(log_softmax, const float* in) {
  ROW(x);
  float most = x[0], sum = 0;
  for (int j = 1; j < C; j++) most = fmaxf(most, x[j]);
  for (int j = 0; j < C; j++) sum += expf(x[j] - most);
  for (int j = 0; j < C; j++) out[C * threadIdx.x + j] = logf(expf(x[j] - most) / sum);
}

ROWS(cross_entropy, const float* in, const int* target) {
  ROW(x);
  float most = x[0], sum = 0;
  for (int j = 1; j < C; j++) most = fmaxf(most, x[j]);
  for (int j = 0; j < C; j++) sum += expf(x[j] - most);
  out[threadIdx.x] = -logf(expf(x[target[threadIdx.x]] - most) / sum);
}
