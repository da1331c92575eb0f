// What a CUDA thread knows of itself when it runs on the CPU, and the options of the emulation. Every CUDA thread is a fiber; all fibers of a
// launch run on the host thread that launched it, so a run is a function of its order and seed alone. No timing is emulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace cuda_on_cpu {

inline constexpr unsigned warp_lanes = 32;

struct Thread {
  uint3 index{}, block{};
  unsigned lane = 0, warp = 0;
};

struct Shape {
  dim3 grid, block;
};

// In which order the runnable threads of a block, and the blocks of a grid, take their turns. A warp runs as far ahead of the others as it can.
enum class Order { forward, reverse, random };

struct Options {
  Order order = Order::forward;
  unsigned seed = 1;  // of the random order
  size_t stack_bytes = 64 << 10;
  size_t max_shared_bytes = 227 << 10;  // of dynamic shared memory
  int compute_capability = 90;          // major * 10 + minor; what device properties say and which matrix instructions the kernels use
};
inline Options options;

// A fault in a kernel or a launch: a deadlock, a wrong mask, a copy that nobody waited for. Thrown by launch().
struct Error : std::runtime_error {
  using runtime_error::runtime_error;
};

inline constinit thread_local Thread* current = nullptr;
inline constinit thread_local Shape shape{};

// Fibers resumed so far on this host thread, for those who ask what a test costs.
inline constinit thread_local uint64_t switches = 0;

}  // namespace cuda_on_cpu
