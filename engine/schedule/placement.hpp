// Which part of a model is computed where: on the CPU, or on which of several GPUs. Decided from sizes alone, before anything is read or taken.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::schedule {

// Bytes that the parts of a model take on a GPU.
struct LayerNeed {
  uint64_t weights = 0;
  uint64_t kv_block = 0;  // of 64 positions; 0 = the layer has no KV cache, or one with a window
  uint64_t state = 0;     // of one recurrent state; 0 = the layer has none
  uint64_t experts = 0;   // of all its experts, which are part of the weights
  uint64_t window_block = 0;  // of 64 positions; 0 = the layer has no window
};
struct PartsNeed {
  uint64_t embedding = 0;  // the table that ids are looked up in
  uint64_t output = 0;     // norm and matrix behind the last layer
  bool tied = false;       // one tensor is both: where they are in one place it is there once
  std::vector<LayerNeed> layers;
  uint64_t scratch = 0;    // activations of the largest step, on every GPU that has a part
  int64_t experts = 0;     // of each layer; 0 = the model has none
};

struct GpuRoom {
  std::string name;
  uint64_t free = 0;     // bytes
  uint64_t reserve = 0;  // of these that stay free
};
// What stays free of a GPU when nothing is said: this share of what is free.
inline constexpr uint64_t gpu_reserve_percent = 5;

inline constexpr int on_cpu = -1;
struct Placement {
  std::vector<int> layers;  // the GPU of each layer, or on_cpu; ascending, the CPU first
  int embedding = on_cpu, output = on_cpu;
  std::vector<uint64_t> taken;  // of each GPU
  // Where the experts of layers on GPUs are on the CPU: how many of a layer's experts have a copy on each GPU, beside its layers; else empty.
  std::vector<int64_t> expert_copies;
  bool experts_apart() const { return !expert_copies.empty(); }
  int64_t gpu_layers() const;
  bool whole_on(int gpu) const;
};

struct PlacementWish {
  int64_t gpu_layers = -1;      // -1 = as many as fit
  bool all_needed = false;      // with -1: an error unless every layer and the output are on GPUs
  int64_t gpu_experts = -1;     // of each layer on a GPU: -1 = all where its layers fit with them, else on the CPU with as many copies as fit
  std::vector<double> shares;   // of the GPUs' parts, in their order; empty = one GPU if the model fits on it, else by what is free
  int64_t blocks = 0;           // KV blocks that there shall be room for
  int64_t states = 0;           // recurrent states
  int64_t window_blocks = 0;    // KV blocks of layers with a window
};

// A model is on one GPU whole if it fits. Else the last layers are on GPUs, in the order of these, and the first ones on the CPU, so that a row crosses
// every border once; then the embedding is the CPU's unless every layer is on a GPU. Where that leaves layers to the CPU and more fit on GPUs without
// their experts, these are on the CPU, and some have copies on the GPUs: a token passes every layer's other parts, and few of its experts. Errors have
// numbers: what was asked for and does not fit. No layer that fits is no error unless layers were asked for.
Result<Placement> place_layers(const PartsNeed& need, std::span<const GpuRoom> gpus, const PlacementWish& wish);

// "layers 20 to 31 and the output on GPU0 (5000 of 8000 MiB), layers 0 to 19 and the embedding on the CPU". `experts`: of each layer.
std::string describe(const Placement& placement, std::span<const GpuRoom> gpus, int64_t experts = 0);

}  // namespace vigil::schedule
