// Sums of 256 floats per block by cooperative groups.
// nvcc -arch=sm_80 --ptx groups.cu -o groups.ptx
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

constexpr int N = 256;

extern "C" __global__ void reduce_tiles(const float* in, float* out) {
  __shared__ float part[N / 32];
  const cg::thread_block block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  const int t = block.thread_rank();
  const float sum = cg::reduce(warp, in[blockIdx.x * N + t], cg::plus<float>());
  if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
  cg::sync(block);
  if (t < N / 32) {
    const auto few = cg::tiled_partition<N / 32>(warp);
    const float all = cg::reduce(few, part[t], cg::plus<float>());
    if (t == 0) out[blockIdx.x] = all;
  }
}

extern "C" __global__ void shuffle_tiles(const float* in, float* out) {
  __shared__ float part[N / 16];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  const int t = block.thread_rank();
  float sum = in[blockIdx.x * N + t];
  for (int step = tile.size() / 2; step > 0; step /= 2) sum += tile.shfl_down(sum, step);
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = sum;
  block.sync();
  if (tile.meta_group_rank() == 0) {
    sum = part[tile.thread_rank()];
    for (int step = tile.size() / 2; step > 0; step /= 2) sum += tile.shfl_xor(sum, step);
    if (t == 0) out[blockIdx.x] = sum;
  }
}

// through shared memory, within tiles of 8
extern "C" __global__ void sync_tiles(const float* in, float* out) {
  __shared__ float part[N];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int t = block.thread_rank(), rank = tile.thread_rank();
  part[t] = in[blockIdx.x * N + t];
  tile.sync();
  for (int step = 4; step > 0; step /= 2) {
    if (rank < step) part[t] += part[t + step];
    tile.sync();
  }
  block.sync();
  if (t == 0) {
    float sum = 0;
    for (int i = 0; i < N; i += 8) sum += part[i];
    out[blockIdx.x] = sum;
  }
}

extern "C" __global__ void reduce_integers(const int* in, int* out) {
  __shared__ int part[N / 32];
  const cg::thread_block block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  const int t = block.thread_rank();
  const int sum = cg::reduce(warp, in[blockIdx.x * N + t], cg::plus<int>());
  if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
  cg::sync(block);
  if (t == 0) {
    int all = 0;
    for (int i = 0; i < N / 32; i++) all += part[i];
    out[blockIdx.x] = all;
  }
}
