// One kernel per function of the CUDA math library. Compiled by
//   nvcc -arch=sm_80 --ptx library.cu     (CUDA 13.0, nvcc V13.0.88)
// into library.ptx, which `kcheck/ptx_frontend/library.py` reads; `k_` is cut off the names. With
// -ftz=true powf has another shape: `powf_ftz`, appended. That of the others differs in .ftz only,
// as -fmad=false and sm_90 change nothing that is looked at. A negative goes into the last steps of
// two functions: `neglogf` and `neglog2f`, appended too, as are powers with a literal exponent.
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
static __device__ float neglogf(float x) { return -logf(x); }
static __device__ float neglog2f(float x) { return -log2f(x); }
UNARY(neglogf)
UNARY(neglog2f)
static __device__ float pow2f(float x) { return powf(x, 2.0f); }
static __device__ float pow3f(float x) { return powf(x, 3.0f); }
UNARY(pow2f)
UNARY(pow3f)
static __device__ float powm1f(float x) { return powf(x, -1.0f); }
static __device__ float powhalff(float x) { return powf(x, 0.5f); }
static __device__ float powmhalff(float x) { return powf(x, -0.5f); }
static __device__ float pow3halff(float x) { return powf(x, 1.5f); }
UNARY(powm1f)
UNARY(powhalff)
UNARY(powmhalff)
UNARY(pow3halff)
// `_indexed`, appended: the same with the loop over the table as nvcc writes it in some loops
// sincosf, appended as `sinf_sincos` and `cosf_sincos`: what leads to one of its results each
extern "C" __global__ void k_sincosf(const float* __restrict__ a, float* __restrict__ o,
                                     float* __restrict__ p)
{ sincosf(a[threadIdx.x], o + threadIdx.x, p + threadIdx.x); }
