// One thread an element. Each function in forms that are equal over the reals (name_form), and
// wrong ones (name_bad_what): compared pairwise in tests/test_branches.py.
#define KERNEL(name) extern "C" __global__ void name(const float *x, float *out)
#define AT (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(relu_branch) { float v = x[AT], y; if (v > 0.f) y = v; else y = 0.f; out[AT] = y; }
KERNEL(relu_select) { float v = x[AT]; out[AT] = v > 0.f ? v : 0.f; }
KERNEL(relu_max) { out[AT] = fmaxf(x[AT], 0.f); }
KERNEL(relu_stores) { float v = x[AT]; if (v < 0.f) out[AT] = 0.f; else out[AT] = v; }
KERNEL(relu_bad_compare) { float v = x[AT], y; if (v < 0.f) y = v; else y = 0.f; out[AT] = y; }
KERNEL(relu_bad_constant) { float v = x[AT], y; if (v > 1.f) y = v; else y = 0.f; out[AT] = y; }

KERNEL(leaky_branch) { float v = x[AT]; if (v < 0.f) v *= 0.125f; out[AT] = v; }
KERNEL(leaky_select) { float v = x[AT]; out[AT] = v >= 0.f ? v : 0.125f * v; }
KERNEL(leaky_max) { float v = x[AT]; out[AT] = fmaxf(v, 0.125f * v); }
KERNEL(leaky_sum) { float v = x[AT]; out[AT] = fmaxf(v, 0.f) + 0.125f * fminf(v, 0.f); }
KERNEL(leaky_bad_constant) { float v = x[AT]; if (v < 0.f) v *= 0.25f; out[AT] = v; }
KERNEL(leaky_bad_arms) { float v = x[AT]; if (v >= 0.f) v *= 0.125f; out[AT] = v; }

KERNEL(clamp_branch) {
  float v = x[AT];
  if (v < -1.f) v = -1.f; else if (v > 1.f) v = 1.f;
  out[AT] = v;
}
KERNEL(clamp_select) { float v = x[AT]; v = v > 1.f ? 1.f : v; out[AT] = v < -1.f ? -1.f : v; }
KERNEL(clamp_max) { out[AT] = fminf(fmaxf(x[AT], -1.f), 1.f); }
KERNEL(clamp_stores) {
  float v = x[AT];
  if (v > 1.f) { out[AT] = 1.f; return; }
  if (v < -1.f) { out[AT] = -1.f; return; }
  out[AT] = v;
}
KERNEL(clamp_bad_constant) {
  float v = x[AT];
  if (v < -1.f) v = -1.f; else if (v > 2.f) v = 1.f;
  out[AT] = v;
}
KERNEL(clamp_bad_arms) {
  float v = x[AT];
  if (v < -1.f) v = 1.f; else if (v > 1.f) v = -1.f;
  out[AT] = v;
}

KERNEL(abs_branch) { float v = x[AT]; if (v < 0.f) v = -v; out[AT] = v; }
KERNEL(abs_select) { float v = x[AT]; out[AT] = v > 0.f ? v : -v; }
KERNEL(abs_max) { float v = x[AT]; out[AT] = fmaxf(v, -v); }
KERNEL(abs_call) { out[AT] = fabsf(x[AT]); }
KERNEL(abs_bad_compare) { float v = x[AT]; if (v > 0.f) v = -v; out[AT] = v; }
KERNEL(abs_bad_constant) { float v = x[AT]; if (v < -1.f) v = -v; out[AT] = v; }

KERNEL(step_branch) {
  float v = x[AT], y = 0.f;
  if (v > 0.f) y = 1.f; else if (v < 0.f) y = -1.f;
  out[AT] = y;
}
KERNEL(step_select) { float v = x[AT]; out[AT] = v > 0.f ? 1.f : v < 0.f ? -1.f : 0.f; }
KERNEL(step_integers) { float v = x[AT]; out[AT] = (v > 0.f) - (v < 0.f); }
KERNEL(step_bad_tie) { float v = x[AT]; out[AT] = (v >= 0.f) - (v < 0.f); }
KERNEL(step_bad_arms) { float v = x[AT]; out[AT] = (v < 0.f) - (v > 0.f); }

KERNEL(silu_branch) {
  float v = x[AT], y = 0.f;
  if (v > -80.f) { float e = exp2f(-1.4375f * v); y = __fdividef(v, 1.f + e); }
  out[AT] = y;
}
KERNEL(silu_select) {
  float v = x[AT], e = exp2f(-1.4375f * v);
  out[AT] = v <= -80.f ? 0.f : v * __fdividef(1.f, e + 1.f);
}
KERNEL(silu_bad_constant) {
  float v = x[AT], y = 0.f;
  if (v > -1.f) { float e = exp2f(-1.4375f * v); y = __fdividef(v, 1.f + e); }
  out[AT] = y;
}

KERNEL(huber_branch) {
  float v = x[AT], y;
  if (v > -1.f && v < 1.f) y = 0.5f * v * v; else if (v < 0.f) y = -v - 0.5f; else y = v - 0.5f;
  out[AT] = y;
}
KERNEL(huber_select) {
  float v = x[AT], a = fabsf(v);
  out[AT] = a < 1.f ? 0.5f * v * v : a - 0.5f;
}
KERNEL(huber_min) { float a = fabsf(x[AT]), c = fminf(a, 1.f); out[AT] = c * (a - 0.5f * c); }
KERNEL(huber_bad_constant) {
  float v = x[AT], a = fabsf(v);
  out[AT] = a < 2.f ? 0.5f * v * v : a - 0.5f;
}
KERNEL(huber_bad_arms) {
  float v = x[AT], a = fabsf(v);
  out[AT] = a >= 1.f ? 0.5f * v * v : a - 0.5f;
}

// the label is -1 or 1 by the sign of the neighbour
KERNEL(hinge_branch) {
  float v = x[AT], y = x[AT + 32], loss = 0.f;
  if (y > 0.f) { if (v < 1.f) loss = 1.f - v; } else { if (v > -1.f) loss = 1.f + v; }
  out[AT] = loss;
}
KERNEL(hinge_select) {
  float v = x[AT], margin = x[AT + 32] > 0.f ? 1.f - v : 1.f + v;
  out[AT] = margin > 0.f ? margin : 0.f;
}
KERNEL(hinge_max) {
  float v = x[AT], label = x[AT + 32] > 0.f ? 1.f : -1.f;
  out[AT] = fmaxf(1.f - label * v, 0.f);
}
KERNEL(hinge_bad_arms) {
  float v = x[AT], label = x[AT + 32] > 0.f ? -1.f : 1.f;
  out[AT] = fmaxf(1.f - label * v, 0.f);
}

// an arm with a loop, loads and an early exit; `out` is cleared by the host
KERNEL(sums_branch) {
  float v = x[AT], s = 0.f;
  if (!(v > 0.f)) return;
  for (int i = 0; i < 4; i++) s += x[AT + 32 * i];
  out[AT] = s;
}
KERNEL(sums_select) {
  float v = x[AT], s = v + x[AT + 32] + x[AT + 64] + x[AT + 96];
  out[AT] = v > 0.f ? s : 0.f;
}
KERNEL(sums_bad_compare) {
  float v = x[AT], s = 0.f;
  if (v > 0.f) return;
  for (int i = 0; i < 4; i++) s += x[AT + 32 * i];
  out[AT] = s;
}
