// Functions of the math library without fast math, which nvcc expands into bits and polynomials.
// nvcc -arch=sm_80 -ptx mathlib.cu
#define F(name) extern "C" __global__ void k_##name(const float *x, float *z) { \
    int t = blockIdx.x * blockDim.x + threadIdx.x; \
    z[t] = name(x[t]); }
F(expf) F(logf) F(tanhf) F(erff) F(expm1f)
