// What emulated threads ask of the scheduler: barriers, exchanges within a warp, asynchronous copies; and the launch of a grid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/cuda_on_cpu/thread.hpp"

namespace cuda_on_cpu {

inline constexpr size_t exchange_bytes = 64;  // the most that a lane can hand over at once

void sync_block();
// Waits for every lane of `mask`, and orders memory between them.
void sync_warp(unsigned mask);
// Hands `bytes` of this lane to the warp and returns what lane `from` handed over. Orders no memory, as on the device.
void exchange(unsigned mask, const void* value, size_t bytes, unsigned from, void* out);
// The same for all lanes at once: lane i's value lies at i * exchange_bytes, until this lane's second next exchange.
const std::byte* gather(unsigned mask, const void* value, size_t bytes);

// The copy takes place when its group is waited for, as late as it may on the device.
void copy_async(void* to, const void* from, size_t bytes);
void commit_copies();
void wait_copies(unsigned groups_left);  // until at most so many committed groups are open

// Dynamic shared memory of the running block; all bits set when a block starts, which is NaN as float.
unsigned char* dynamic_shared();

// Runs the body once for every thread of the grid. Throws Error where a kernel does what a device would hang or fail on.
void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);

}  // namespace cuda_on_cpu
