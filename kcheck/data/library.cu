// One kernel per function of the CUDA math library. Compiled by
//   nvcc -arch=sm_80 --ptx library.cu     (CUDA 13.0, nvcc V13.0.88)
// into library.ptx, which `kcheck/ptx_frontend/library.py` reads; `k_` is cut off the names. With
// -ftz=true powf has another shape: `powf_ftz`, appended. That of the others differs in .ftz only,
// as -fmad=false and sm_90 change nothing that is looked at. Powers with a literal are appended too.
#define UNARY(name) \
  extern "C" __global__ void k_##name(const float* __restrict__ a, float* __restrict__ o) \
  { o[threadIdx.x] = name(a[threadIdx.x]); }
#define BINARY(name) \
  extern "C" __global__ void k_##name(const float* __restrict__ a, const float* __restrict__ b, \
                                      float* __restrict__ o) \
  { o[threadIdx.x] = name(a[threadIdx.x], b[threadIdx.x]); }

UNARY(expf)
UNARY(exp10f)
UNARY(expm1f)
UNARY(logf)
UNARY(log2f)
UNARY(log10f)
UNARY(log1pf)
UNARY(tanhf)
UNARY(erff)
UNARY(erfcf)
UNARY(roundf)
UNARY(sinf)
UNARY(cosf)
BINARY(powf)
// powf with a literal, one for each shape that nvcc makes of it (`ptx_frontend/powers.py`)
#define EXPONENT(name, literal) \
  static __device__ float powf_##name(float x) { return powf(x, literal); } UNARY(powf_##name)
#define BASE(name, literal) \
  static __device__ float powf_##name(float x) { return powf(literal, x); } UNARY(powf_##name)
EXPONENT(square, 2.0f)
EXPONENT(whole, 7.0f)
EXPONENT(over, -7.0f)
EXPONENT(part, 2.75f)
EXPONENT(overpart, -2.75f)
BASE(base, 7.3f)
BASE(below, 0.9f)
BASE(two, 2.0f)
BASE(half, 0.5f)
// the same, appended, of a number that nvcc knows to be at least 0: a square
static __device__ float powf_positive(float x, float y) { return powf(x * x, y); }
static __device__ float powf_positive_up(float x) { return powf(x * x, 2.75f); }
static __device__ float powf_positive_down(float x) { return powf(x * x, -2.75f); }
BINARY(powf_positive)
UNARY(powf_positive_up)
UNARY(powf_positive_down)
// appended too
UNARY(sinhf)
UNARY(coshf)
UNARY(tanf)
UNARY(atanf)
// `_indexed`, appended: the same with the loop over the table as nvcc writes it in some loops
// sincosf, appended as `sinf_sincos` and `cosf_sincos`: what leads to one of its results each
extern "C" __global__ void k_sincosf(const float* __restrict__ a, float* __restrict__ o,
                                     float* __restrict__ p)
{ sincosf(a[threadIdx.x], o + threadIdx.x, p + threadIdx.x); }
