// The greatest of N numbers a thread, and where it stands: the first of equals, or (bad) the last.
#define KERNEL(name) extern "C" __global__ void name(const float *x, int *index, float *best)
#define AT (blockIdx.x * blockDim.x + threadIdx.x)
#define LOOP(name, N, start, cmp)                        \
  KERNEL(name) {                                         \
    float m = x[N * AT];                                 \
    int at = start;                                      \
    for (int k = 1; k < N; k++) {                        \
      float v = x[N * AT + k];                           \
      if (v cmp m) { m = v; at = k; }                    \
    }                                                    \
    index[AT] = at;                                      \
    best[AT] = m;                                        \
  }
#define SELECT(name, N)                                  \
  KERNEL(name) {                                         \
    float m = x[N * AT];                                 \
    int at = 0;                                          \
    for (int k = 1; k < N; k++) {                        \
      float v = x[N * AT + k];                           \
      at = m >= v ? at : k;                              \
      m = m >= v ? m : v;                                \
    }                                                    \
    index[AT] = at;                                      \
    best[AT] = m;                                        \
  }
#define MAX(name, N)                                     \
  KERNEL(name) {                                         \
    float m = x[N * AT];                                 \
    int at = 0;                                          \
    for (int k = 1; k < N; k++) {                        \
      float v = x[N * AT + k];                           \
      if (v > m) at = k;                                 \
      m = fmaxf(m, v);                                   \
    }                                                    \
    index[AT] = at;                                      \
    best[AT] = m;                                        \
  }

LOOP(argmax8_branch, 8, 0, >)
SELECT(argmax8_select, 8)
MAX(argmax8_max, 8)
LOOP(argmax4_branch, 4, 0, >)
SELECT(argmax4_select, 4)
MAX(argmax4_max, 4)
LOOP(argmax4_bad_tie, 4, 0, >=)
LOOP(argmax4_bad_compare, 4, 0, <)
LOOP(argmax4_bad_start, 4, -1, >)
