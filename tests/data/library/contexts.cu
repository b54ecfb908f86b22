// Library functions among other code. Compiled by
//   nvcc -arch=sm_80 --ptx contexts.cu -o contexts.ptx                      (CUDA 13.0, V13.0.88)
//   nvcc -arch=sm_80 --ptx -use_fast_math contexts.cu -o contexts_fast.ptx
// flags_*.ptx: kcheck/data/library.cu with -arch=sm_90, -ftz=true, -fmad=false.
#define UNARY(name, expr) \
  extern "C" __global__ void name(const float* __restrict__ a, float* __restrict__ o) \
  { float x = a[threadIdx.x]; o[threadIdx.x] = expr; }
#define BINARY(name, expr) \
  extern "C" __global__ void name(const float* __restrict__ a, const float* __restrict__ b, \
                                  float* __restrict__ o) \
  { float x = a[threadIdx.x], y = b[threadIdx.x]; o[threadIdx.x] = expr; }

UNARY(plain, x * 0.1f + 1.0f)
UNARY(sigmoid, 1.0f / (1.0f + expf(-x)))
UNARY(silu, x / (1.0f + expf(-x)))
BINARY(exp_of_a_difference, expf(x - y))
BINARY(exp_used_twice, expf(x - y) * y + expf(x - y))
BINARY(two_exps, expf(x) + expf(y))
UNARY(exp_scaled, expf(x * 0.125f))
UNARY(softplus, logf(1.0f + expf(x)))
UNARY(softplus_log1p, log1pf(expf(x)))
UNARY(gelu_tanh, 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))))
UNARY(gelu_of_powf, 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * powf(x, 3.0f)))))
UNARY(squared_by_powf, powf(x - 1.0f, 2.0f) * 0.25f)
UNARY(gelu_erf, 0.5f * x * (1.0f + erff(x * 0.70710678118f)))
UNARY(gauss, expf(-x * x))
// steps behind a logarithm that nvcc moves into its last select
BINARY(log_sum, x + log2f(y) * 0.69314718f)
UNARY(log_halved, logf(x) * 0.5f)
UNARY(log_negative, -log2f(x))
UNARY(log_negative_third, -logf(x) * 0.33333333f)
UNARY(log_one_more, logf(x) * 0.25f + 1.0f)
UNARY(log_one_minus, 1.0f - logf(x))
BINARY(log_steps, (1.0f - logf(x) * 3.0f) * -0.25f * y + log10f(y) * 20.0f)
UNARY(log_divided, logf(x + 2.0f) / 3.0f)
UNARY(log_inverse, 1.0f / logf(x + 2.0f))
UNARY(log_of_log, logf(logf(x + 2.0f) * 0.5f))
BINARY(log_root, expf(logf(x) * 0.5f) + logf(y) * 2.0f)
// the negative of an argument that nvcc folds into the first steps
UNARY(tanh_negative, tanhf(-x))
UNARY(tanh_negative_abs, tanhf(-fabsf(x)))
UNARY(erf_negative, -0.5f * x * erff(-x))
UNARY(erfc_negative, erfcf(-x))
UNARY(log1p_negative, log1pf(-0.25f * x) + log1pf(-x * 0.125f - -0.5f))
UNARY(log1p_minus, log1pf(-(x / (x + 1.0f))))
UNARY(expm1_negative, expm1f(-x))
UNARY(sine_negative, sinf(-x))
UNARY(cosine_negative, cosf(-x))
BINARY(powf_negative, powf(x, -y))
BINARY(powf_base_negative, powf(10000.0f, -x) * y)
UNARY(powf_two_negative, powf(2.0f, -x))
UNARY(cube_negative, powf(-x, 3.0f))
BINARY(both_signs, tanhf(x) * y + tanhf(-x) * erff(-y) - erff(y))
BINARY(rotary, cosf(x * powf(10000.0f, -y / 64.0f)))
extern "C" __global__ void negatives_in_a_loop(const float* __restrict__ a, float* __restrict__ o) {
  float r = 0;
  for (int k = 0; k < blockDim.x / 8; k++) r = r * 0.5f + tanhf(-a[threadIdx.x ^ k % 2]) + sinf(-r);
  o[threadIdx.x] = r;
}
// powers of what is known to be at least 0
BINARY(powf_of_a_square, powf(x * x, y))
BINARY(powf_of_a_square_negative, powf(x * x, -y))
UNARY(square_to_a_part, powf(x * x, 1.3f))
UNARY(square_to_a_half, powf(x * x + 1.0f, 0.5f) * x)
BINARY(norm_of_two, x * powf(x * x * 0.25f + y * y * 0.25f + 1e-5f, -0.5f))
UNARY(square_cubed, powf(x * x, 3.0f))
UNARY(square_inverse, powf(x * x, -2.0f))
UNARY(sinh_scaled, sinhf(x * 0.5f) * 2.0f)
UNARY(cosh_of_negative, 1.0f / coshf(-x))
BINARY(sinh_and_cosh, sinhf(x) * y + coshf(x))
UNARY(tan_scaled, tanf(x * 0.25f) + 1.0f)
UNARY(atan_scaled, atanf(x) * 0.6366197724f)
UNARY(atan_of_negative, atanf(-x))
UNARY(log_of_abs, logf(fabsf(x) + 1e-6f))
UNARY(tanh_of_abs, tanhf(fabsf(x)))
UNARY(tanh_and_abs, tanhf(x) * fabsf(x) + x * x)
UNARY(quantize, roundf(x * 16.0f) * 0.0625f)
UNARY(one_minus_exp, 1.0f - expf(x))
UNARY(exp_of_exp, expf(-expf(x)))
UNARY(sin_and_cos, sinf(x) * cosf(x))
BINARY(norm_by_powf, x * powf(y * 0.25f + 1e-5f, -0.5f))
UNARY(inverse_by_powf, powf(x - 1.0f, -1.0f) * 2.0f)
UNARY(three_halves_by_powf, powf(x + 1.0f, 1.5f) - x)
UNARY(root_by_powf, powf(x + 1.0f, 0.5f) * 0.25f)
BINARY(rotated, ([&] { float s, c; sincosf(x * 0.5f, &s, &c); return s * y + c; })())
extern "C" __global__ void softmax(const float* __restrict__ a, float* __restrict__ o) {
  float m = a[0], s = 0, e[4];
  for (int j = 0; j < 4; j++) m = fmaxf(m, a[j]);
  for (int j = 0; j < 4; j++) s += e[j] = expf(a[j] - m);
  for (int j = 0; j < 4; j++) o[j] = e[j] / s;
}
extern "C" __global__ void log_sum_exp(const float* __restrict__ a, float* __restrict__ o, int n) {
  float s = 0;
  for (int j = 0; j < n; j++) s += expf(a[j]);
  o[0] = logf(s);
}
// two functions of one angle: what leads to the second stands before the first
BINARY(rotated_apart, ([&] { float c = cosf(y), s = sinf(y); return x * c - s; })())
BINARY(sine_in_a_branch, ([&] { float r = cosf(x); if (threadIdx.x < 16) r += sinf(x) * y; return r; })())
BINARY(either_function, threadIdx.x < 16 ? sinf(x) * y : cosf(x))
extern "C" __global__ void rotated_in_a_loop(const float* __restrict__ a, float* __restrict__ o) {
  float r = 0;
  for (int k = 0; k < blockDim.x / 8; k++) {
    float f = a[threadIdx.x] * (k + 1), c = cosf(f), s = sinf(f);
    r = r * c - s;
  }
  o[threadIdx.x] = r;
}
extern "C" __global__ void turns(const float* __restrict__ a, float* __restrict__ o) {
  float r = 0;
  for (int k = 0; k < 4; k++) {
    float s, c;
    sincosf(a[threadIdx.x] * (k + 1), &s, &c);
    r += s * c;
  }
  o[threadIdx.x] = r;
}
