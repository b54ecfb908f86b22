// Right uses of values that hang on the schedule, as kernels write them.
// nvcc -arch=sm_80 -ptx idioms.cu
#define K extern "C" __global__ void

__device__ float block_sum(float v) {
  __shared__ float s[64];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int n = 32; n; n /= 2) {
    if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
    __syncthreads();
  }
  return s[0];
}

// partial sums of a long dimension are added into an output that holds zeros
K split_k(const float *A, float *O) {
  float v = A[blockIdx.x * 64 + threadIdx.x];
  atomicAdd(&O[threadIdx.x], v);
}

// one thread fences and draws a ticket; the last block adds the partial sums
K ticket(const float *A, float *P, unsigned *C, float *O) {
  __shared__ bool last;
  float v = block_sum(A[blockIdx.x * 64 + threadIdx.x]);
  if (threadIdx.x == 0) {
    P[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(C, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    float w = threadIdx.x < gridDim.x ? P[threadIdx.x] : 0.0f;
    __syncthreads();
    w = block_sum(w);
    if (threadIdx.x == 0) O[0] = w;
  }
}

// every thread fences, then one draws; the others fence again before they read
K ticket_all(const float *A, float *P, int *C, float *O) {
  __shared__ bool last;
  P[blockIdx.x * 64 + threadIdx.x] = A[blockIdx.x * 64 + threadIdx.x] * 2.0f;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(C, 1) == (int)gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    float w = 0.0f;
    for (int i = 0; i < gridDim.x; i++) w += P[i * 64 + threadIdx.x];
    O[threadIdx.x] = w;
    if (threadIdx.x == 0) *C = 0;
  }
}

// block after block adds to the same tile, in the order of a semaphore
K semaphore(const float *A, int *S, float *O) {
  if (threadIdx.x == 0) {
    while (*(volatile int *)S != (int)blockIdx.x) {}
    __threadfence();
  }
  __syncthreads();
  float v = A[blockIdx.x * 64 + threadIdx.x];
  O[threadIdx.x] = blockIdx.x ? O[threadIdx.x] + v : v;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    *(volatile int *)S = blockIdx.x + 1 == gridDim.x ? 0 : blockIdx.x + 1;
  }
}

// the same with acquire and release, and all threads in the loop
K semaphore_acquire(const float *A, int *S, float *O) {
  int state = -1;
  if (threadIdx.x == 0) asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(state) : "l"(S) : "memory");
  while (__syncthreads_and(state != (int)blockIdx.x)) {
    if (threadIdx.x == 0) asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(state) : "l"(S) : "memory");
  }
  __syncthreads();
  float v = A[blockIdx.x * 64 + threadIdx.x];
  O[threadIdx.x] = blockIdx.x ? O[threadIdx.x] + v : v;
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(S), "r"(blockIdx.x + 1) : "memory");
}

// a float sum by compare-and-swap
K cas_add(const float *A, unsigned *O) {
  unsigned *p = &O[threadIdx.x % 4], old = *p, seen;
  float v = A[blockIdx.x * 64 + threadIdx.x];
  do {
    seen = old;
    old = atomicCAS(p, seen, __float_as_uint(v + __uint_as_float(seen)));
  } while (old != seen);
}

// a float maximum on the bits: of positive numbers as signed, of negative as unsigned integers
K float_max(const float *A, float *O) {
  float v = A[blockIdx.x * 64 + threadIdx.x];
  if (v >= 0.0f)
    atomicMax((int *)O, __float_as_int(v));
  else
    atomicMin((unsigned *)O, __float_as_uint(v));
}

// one lane adds for all lanes that are active
K aggregate(const float *A, unsigned *O) {
  if (A[blockIdx.x * 64 + threadIdx.x] > 0.0f) {
    unsigned mask = __activemask();
    int leader = __ffs(mask) - 1;
    if ((threadIdx.x & 31) == leader) atomicAdd(O, __popc(mask));
  }
}

// all blocks meet twice; the launch is a cooperative one
K grid_barrier(const float *A, float *P, unsigned *C, float *O) {
  P[blockIdx.x * 64 + threadIdx.x] = A[blockIdx.x * 64 + threadIdx.x];
  for (int round = 1; round <= 2; round++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
      __threadfence();
      unsigned old = atomicAdd(C, add);
      while (((old ^ *(volatile unsigned *)C) & 0x80000000u) == 0) {}
      __threadfence();
    }
    __syncthreads();
    int other = (blockIdx.x + 1) % gridDim.x;
    if (round == 1) O[other * 64 + threadIdx.x] = P[other * 64 + threadIdx.x] * 2.0f;
    else P[blockIdx.x * 64 + threadIdx.x] = O[blockIdx.x * 64 + threadIdx.x];
  }
}

// the ticket, but nothing fences the partial sums
K ticket_unfenced(const float *A, float *P, unsigned *C, float *O) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    P[blockIdx.x] = A[blockIdx.x * 64];
    last = atomicInc(C, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) O[threadIdx.x] = P[threadIdx.x];
}

// the ticket, but the last but one block is taken for the last
K ticket_early(const float *A, float *P, unsigned *C, float *O) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    P[blockIdx.x] = A[blockIdx.x * 64];
    __threadfence();
    last = atomicInc(C, gridDim.x - 1) == gridDim.x - 2;
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) O[threadIdx.x] = P[threadIdx.x];
}

// rows are handed out by a counter: the output hangs on who draws what
K compaction(const float *A, unsigned *C, float *O) {
  float v = A[blockIdx.x * 64 + threadIdx.x];
  if (v > 0.0f) O[atomicAdd(C, 1u)] = v;
}

// a lock: blocks add in any order
K lock(const float *A, int *L, float *O) {
  if (threadIdx.x == 0) {
    while (atomicCAS(L, 0, 1) != 0) {}
    __threadfence();
    O[0] = O[0] * 2.0f + A[blockIdx.x];
    __threadfence();
    atomicExch(L, 0);
  }
}
