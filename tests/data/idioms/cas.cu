// CAS loops that apply one operation to a cell or to a half of one, as real kernels write them.
// nvcc -arch=sm_80 -ptx cas.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define K extern "C" __global__ void
#define I blockIdx.x * 64 + threadIdx.x

K largest(const float *A, float *O) {
    float v = A[I];
    int *p = (int *)O, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __float_as_int(fmaxf(v, __int_as_float(seen))));
    } while (seen != old);
}

K smallest(const double *A, double *O) {
    double v = A[I];
    unsigned long long *p = (unsigned long long *)O, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __double_as_longlong(fmin(v, __longlong_as_double(seen))));
    } while (seen != old);
}

K product(const float *A, float *O) {
    float v = A[I], w = A[blockIdx.x * 64];
    int *p = (int *)O, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __float_as_int(fmaf(v, w, __int_as_float(seen))));
    } while (seen != old);
}

K sixteen(const __half *A, __half *O) {
    __half v = A[I];
    unsigned short *p = (unsigned short *)O, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __half_as_ushort(__hadd(v, __ushort_as_half(seen))));
    } while (seen != old);
}

K wide(const float *A, __half *O) {
    float v = A[I];
    unsigned short *p = (unsigned short *)O, old = *p, seen;
    do {
        seen = old;
        float sum = v + __half2float(__ushort_as_half(seen));
        old = atomicCAS(p, seen, __half_as_ushort(__float2half(sum)));
    } while (seen != old);
}

// the word around a half, chosen by its address
K chosen(const __half *A, __half *O) {
    __half v = A[I], *a = O + (threadIdx.x & 7);
    unsigned *p = (unsigned *)((char *)a - ((size_t)a & 2)), old = *p, seen;
    do {
        seen = old;
        unsigned short h = ((size_t)a & 2) ? (old >> 16) : (old & 0xffff);
        h = __half_as_ushort(__hadd(__ushort_as_half(h), v));
        old = ((size_t)a & 2) ? (old & 0xffff) | (h << 16) : (old & 0xffff0000) | h;
        old = atomicCAS(p, seen, old);
    } while (seen != old);
}

// the same by shifts
K shifted(const __half *A, __half *O) {
    __half v = A[I], *a = O + (threadIdx.x & 7);
    size_t off = (size_t)a & 2;
    unsigned shift = off * 8, *p = (unsigned *)((char *)a - off), old = *p, seen;
    do {
        seen = old;
        __half h = __hadd(__ushort_as_half((unsigned short)(old >> shift)), v);
        unsigned word = (old & ~(0xffffu << shift)) | ((unsigned)__half_as_ushort(h) << shift);
        old = atomicCAS(p, seen, word);
    } while (seen != old);
}

// what the header makes of it for sm_80: a fma with 1
K brain(const __nv_bfloat162 *A, __nv_bfloat162 *O) {
    atomicAdd(O + (threadIdx.x & 7), A[I]);
}

K narrow(const float *A, __nv_bfloat16 *O) {
    float v = A[I];
    unsigned short *p = (unsigned short *)O, old = *p, seen;
    do {
        seen = old;
        __nv_bfloat16 b = *(__nv_bfloat16 *)&seen;
        __nv_bfloat16 sum = __float2bfloat16(__bfloat162float(b) + v);
        old = atomicCAS(p, seen, *(unsigned short *)&sum);
    } while (seen != old);
}

K both(const __half2 *A, __half2 *O) {
    __half2 v = A[I];
    unsigned *p = (unsigned *)O, old = *p, seen;
    do {
        seen = old;
        __half2 h = __hmax2(v, *(__half2 *)&seen);
        old = atomicCAS(p, seen, *(unsigned *)&h);
    } while (seen != old);
}

// no sum: what comes first counts less
K decayed(const float *A, float *O) {
    float v = A[I];
    int *p = (int *)O, old = *p, seen;
    do {
        seen = old;
        old = atomicCAS(p, seen, __float_as_int(0.5f * __int_as_float(seen) + v));
    } while (seen != old);
}

// only while the value is larger
K while_larger(const float *A, float *O) {
    float v = A[I];
    int *p = (int *)O, old = *p, seen;
    while (v > __int_as_float(old)) {
        seen = old;
        old = atomicCAS(p, seen, __float_as_int(v));
    }
}

K until_done(const double *A, double *O) {
    double v = A[I];
    unsigned long long *p = (unsigned long long *)O, old = *p, seen;
    do {
        seen = old;
        if (__longlong_as_double(seen) <= v)
            break;
        old = atomicCAS(p, seen, __double_as_longlong(v));
    } while (seen != old);
}

K looked_at_first(const float *A, float *O) {
    float v = A[I], first = *O;
    if (first >= v)
        return;
    int *p = (int *)O, old = __float_as_int(first), seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v)
            break;
        old = atomicCAS(p, seen, __float_as_int(v));
    } while (seen != old);
}

// two values, the second one against what was seen for the first
K carried(const float *A, float *O) {
    int *p = (int *)O, old = *p, seen;
    for (int i = 0; i < 2; i++) {
        float v = A[i * 64 + threadIdx.x];
        while (v > __int_as_float(old)) {
            seen = old;
            old = atomicCAS(p, seen, __float_as_int(v));
        }
    }
}
