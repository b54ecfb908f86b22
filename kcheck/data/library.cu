// One kernel per function of the CUDA math library. Compiled by
//   nvcc -arch=sm_80 --ptx library.cu     (CUDA 13.0, nvcc V13.0.88)
// into library.ptx, which `kcheck/ptx_frontend/library.py` reads; `k_` is cut off the names. With
// -ftz=true powf has another shape: `powf_ftz`, appended. That of the others differs in .ftz only,
// as -fmad=false and sm_90 change nothing that is looked at.
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
