// What the files behind products.hpp share: how prepared inputs lie in the scratch, which inputs meet which matrix, and a launcher for each family of
// weight types. Private to them.
#pragma once

#include <cuda_runtime.h>

#include "engine/compute/cuda/arrangement.hpp"
#include "engine/compute/cuda/products.hpp"

namespace vigil::compute::cuda {

// Input rows in one of three forms. Rows are filled up to whole parts of 32 columns.
struct Inputs {
  const std::byte* values = nullptr;
  const std::byte* factors = nullptr;
  int rows = 0, parts = 0;
};
// bytes   values [rows][parts][8 words], a word being four codes, in the order 0 4 1 5 2 6 3 7 so that words t and t + 4, which a lane of a tensor
//         core wants together, are neighbours; factors [parts][rows] pairs of floats: the scale, and the scale times the sum of the codes
// halves  values [rows][parts][64 bytes: 32 halves, then 64 bytes: 32 halves, what the first left]; factors [rows] floats, powers of two
// floats  values [rows][parts][32 floats]
constexpr size_t value_bytes(InputForm form) { return form == InputForm::bytes ? 32 : 128; }  // of a part
inline int input_parts(int64_t cols) { return static_cast<int>((cols + part_columns - 1) / part_columns); }
inline Inputs inputs_in(const std::byte* scratch, InputForm form, int64_t rows, int64_t cols) {
  const int parts = input_parts(cols);
  return {scratch, scratch + static_cast<size_t>(rows) * static_cast<size_t>(parts) * value_bytes(form), static_cast<int>(rows), parts};
}

// Inputs of one expert that are next to each other in the sorted list.
struct RouteTile {
  int expert, first, count;
};

// Which choice takes which expert: null pointers where there are no experts. Choice i reads input row i / inputs_shared_by and writes output row i.
struct Routes {
  const float* choice = nullptr;      // [choices, 2]
  int choices = 0, inputs_shared_by = 1;
  const int* sorted = nullptr;        // the choices, by expert
  const RouteTile* tiles = nullptr;
  const int* tile_count = nullptr;
  int tiles_at_most = 0;
};

// A product to be launched. Without experts there is one matrix: out_cols = its rows.
struct ProductCall {
  cudaStream_t stream;
  gguf::TensorType type;
  const std::byte* weight;
  int64_t weight_rows;  // of all experts
  int64_t out_cols;
  Inputs inputs;
  Routes routes;
  float* out;
};

// Up to so many input rows are multiplied while the weights stream by, few_inputs at a time; tensor cores take tiles of more. Both round alike, so this
// is a matter of speed: a tile of 64 weight rows leaves most processors idle where a matrix has a few thousand.
inline constexpr int64_t few_rows = 16;
inline constexpr int few_inputs = 8;
// Inputs in a tile, of the kernels that take many.
inline constexpr int tile_inputs = 64;

// Groups of 8 rows that a matrix of out_cols rows can touch wherever it begins.
inline unsigned groups_touched(const ProductCall& call) {
  const bool aligned = call.routes.choice == nullptr || call.out_cols % 8 == 0;
  return static_cast<unsigned>((call.out_cols + (aligned ? 7 : 14)) / 8);
}

// Blocks along the inputs or choices, for kernels that take few.
inline unsigned few_blocks(const ProductCall& call) {
  return static_cast<unsigned>(call.routes.choice != nullptr ? call.routes.choices : (call.inputs.rows + few_inputs - 1) / few_inputs);
}
// The same for kernels that take tiles.
inline unsigned input_tiles(const ProductCall& call) {
  return static_cast<unsigned>(call.routes.tiles != nullptr ? call.routes.tiles_at_most : (call.inputs.rows + tile_inputs - 1) / tile_inputs);
}

void launch_plain_product(const ProductCall& call);  // Q4_0, Q8_0
void launch_k_product(const ProductCall& call);      // Q4_K, Q5_K, Q6_K
void launch_named_product(const ProductCall& call);  // IQ4_XS, IQ3_XXS, MXFP4
void launch_half_product(const ProductCall& call);   // F16, BF16
void launch_float_product(const ProductCall& call);  // F32

// Sorts the choices by expert, equal ones in ascending order, and cuts them into tiles; `scratch`: route_scratch_bytes(choices, experts).
size_t route_scratch_bytes(int64_t choices, int64_t experts);
Routes sort_routes(cudaStream_t stream, const ExpertChoice& choice, std::byte* scratch);

}  // namespace vigil::compute::cuda
