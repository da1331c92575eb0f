// Sorts the choices of routed rows by expert, so that tiles of inputs meet one expert's weights.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/product_parts.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr unsigned whole_warp = 0xffffffffu;

__device__ bool takes(const float* choice, int i, int choices, int expert) { return i < choices && static_cast<int>(choice[2 * i]) == expert; }

// A warp an expert.
__global__ void __launch_bounds__(32) count_choices(const float* choice, int choices, int* counts) {
  const int expert = blockIdx.x;
  int count = 0;
  for (int first = 0; first < choices; first += 32) count += __popc(__ballot_sync(whole_warp, takes(choice, first + threadIdx.x, choices, expert)));
  if (threadIdx.x == 0) counts[expert] = count;
}

// One block. starts[experts]: where each expert's choices begin in the sorted list.
__global__ void __launch_bounds__(256) cut_tiles(const int* counts, int experts, int* starts, RouteTile* tiles, int* tile_count) {
  int* held = dynamic_shared<int>();
  for (int i = threadIdx.x; i < experts; i += 256) held[i] = counts[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  int start = 0, tile = 0;
  for (int expert = 0; expert < experts; ++expert) {
    starts[expert] = start;
    for (int first = 0; first < held[expert]; first += tile_inputs) tiles[tile++] = {expert, start + first, min(tile_inputs, held[expert] - first)};
    start += held[expert];
  }
  *tile_count = tile;
}

// A warp an expert.
__global__ void __launch_bounds__(32) place_choices(const float* choice, int choices, const int* starts, int* sorted) {
  const int expert = blockIdx.x;
  int next = starts[expert];
  for (int first = 0; first < choices; first += 32) {
    const int i = first + threadIdx.x;
    const bool mine = takes(choice, i, choices, expert);
    const unsigned all = __ballot_sync(whole_warp, mine);
    if (mine) sorted[next + __popc(all & ((1u << threadIdx.x) - 1))] = i;
    next += __popc(all);
  }
}

int64_t tiles_at_most(int64_t choices, int64_t experts) { return choices / tile_inputs + (choices < experts ? choices : experts); }

}  // namespace

size_t route_scratch_bytes(int64_t choices, int64_t experts) {
  const int64_t ints = 2 * experts + choices + 1;
  return static_cast<size_t>(ints) * sizeof(int) + static_cast<size_t>(tiles_at_most(choices, experts)) * sizeof(RouteTile);
}

Routes sort_routes(cudaStream_t stream, const ExpertChoice& choice, std::byte* scratch) {
  const int choices = static_cast<int>(choice.rows * choice.used), experts = static_cast<int>(choice.experts);
  int* counts = reinterpret_cast<int*>(scratch);
  int* starts = counts + experts;
  int* sorted = starts + experts;
  int* tile_count = sorted + choices;
  RouteTile* tiles = reinterpret_cast<RouteTile*>(tile_count + 1);
  launch(count_choices, static_cast<unsigned>(experts), 32, 0, stream, choice.choice, choices, counts);
  launch(cut_tiles, 1, 256, static_cast<size_t>(experts) * sizeof(int), stream, counts, experts, starts, tiles, tile_count);
  launch(place_choices, static_cast<unsigned>(experts), 32, 0, stream, choice.choice, choices, starts, sorted);
  return {choice.choice, choices, choice.input_per_choice ? 1 : static_cast<int>(choice.used), sorted, tiles, tile_count,
          static_cast<int>(tiles_at_most(choices, experts))};
}

}  // namespace vigil::compute::cuda
