// How much memory this process may still take, and which context fits into it.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/result.hpp"

namespace vigil::schedule {

// Bytes: the machine's available memory, or less where a cgroup (v2 or v1) leaves less. 0 when nothing can be read.
// `root` stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

struct MemoryNeed {
  uint64_t weights = 0, scratch = 0;  // bytes
  uint64_t kv_block = 0;              // bytes of 64 positions
};
// At most this share of the available memory is planned for.
inline constexpr uint64_t memory_percent = 80;

// The context to run with. `asked` 0 = the largest up to `trained` that fits; a context that was asked for and does not fit is an error
// with the numbers, as is a model that does not fit at all. `available` 0 = unknown: everything fits.
Result<int64_t> fit_context(int64_t asked, int64_t trained, const MemoryNeed& need, uint64_t available);

}  // namespace vigil::schedule
