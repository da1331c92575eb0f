// Memory and threads of the reference backend; the ops are in reference_ops*.cpp.
#include "engine/compute/cpu/reference_backend.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t progress_bytes = size_t{16} << 20;

}  // namespace

ReferenceBackend::ReferenceBackend(int threads) : team_(threads), scratch_(static_cast<size_t>(threads)) {}
ReferenceBackend::~ReferenceBackend() = default;

void ReferenceBackend::Freed::operator()(std::byte* memory) const { std::free(memory); }

Result<Weight> ReferenceBackend::bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols,
                                      std::span<const std::byte> bytes, WeightUse) {
  const Result<size_t> row_bytes = row_bytes_of(tensor_name, type, rows, cols, bytes.size());
  if (!row_bytes) return Error{row_bytes.error()};
  bound_.push_back(bytes.first(*row_bytes * static_cast<size_t>(rows)));
  return Weight{type, rows, cols, *row_bytes, bytes.data()};
}

bool ReferenceBackend::prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>&) {
  size_t all = 0, done = 0;
  for (const std::span<const std::byte> bytes : bound_) all += bytes.size();
  volatile std::byte sink{};
  for (const std::span<const std::byte> bytes : bound_) {
    for (size_t at = 0; at < bytes.size(); at += page_bytes) {
      sink = bytes[at];
      if (at % progress_bytes == 0 && !progress(static_cast<double>(done + at) / static_cast<double>(all))) return false;
    }
    done += bytes.size();
  }
  (void)sink;
  return progress(1.0);
}

Rope ReferenceBackend::bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) {
  rope_tables_.emplace_back(frequencies.begin(), frequencies.end());
  Rope rope{kind, static_cast<int64_t>(2 * frequencies.size()), rope_tables_.back().data(), magnitude};
  if (!axes.empty()) {
    assert(axes.size() == frequencies.size());
    rope_axes_.emplace_back(axes.begin(), axes.end());
    rope.axes = rope_axes_.back().data();
  }
  return rope;
}

Result<std::byte*> ReferenceBackend::take(uint64_t bytes) {
  constexpr uint64_t alignment = 64;
  std::byte* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
  if (memory == nullptr) return Error{"no memory: " + std::to_string(bytes) + " bytes were asked for"};
  memory_.emplace_back(memory);
  return memory;
}

Result<Buffer> ReferenceBackend::allocate(int64_t floats) {
  Result<std::byte*> memory = take(static_cast<uint64_t>(floats) * sizeof(float));
  if (!memory) return Error{memory.error()};
  return Buffer{reinterpret_cast<float*>(*memory), floats};
}

Result<KvCache> ReferenceBackend::allocate_kv(const KvShape& shape) {
  if (is_quantised(shape.type) && shape.head_dim % 32 != 0) {
    return Error{"a KV cache of type " + std::string(name_of(shape.type)) + " needs heads of a multiple of 32 values, not " +
                 std::to_string(shape.head_dim) + "; use f16"};
  }
  Result<std::byte*> memory = take(shape.bytes());
  if (!memory) return Error{"KV cache: " + memory.error()};
  return KvCache{shape, *memory};
}

Result<StateCache> ReferenceBackend::allocate_states(const StateShape& shape) {
  Result<std::byte*> memory = take(shape.slot_bytes() * static_cast<uint64_t>(shape.slots));
  if (!memory) return Error{"recurrent state: " + memory.error()};
  return StateCache{shape, reinterpret_cast<float*>(*memory)};
}

bool ReferenceBackend::copy_block(const KvCache& cache, int32_t from, int32_t to) {
  const size_t bytes = cache.shape.block_bytes();
  std::copy_n(cache.address + static_cast<size_t>(from) * bytes, bytes, cache.address + static_cast<size_t>(to) * bytes);
  return true;
}

RunOutcome ReferenceBackend::run(const std::function<void(Ops&)>& forward, const RunKind&) {
  saw_abort_.store(false, std::memory_order_relaxed);
  team_.run([&](int index) { forward_on(index, forward); });
  return saw_abort_.load(std::memory_order_relaxed) ? RunOutcome::aborted : RunOutcome::finished;
}

void ReferenceBackend::forward_on(int index, const std::function<void(Ops&)>& forward) {
  ReferenceOps ops(*this, index);
  forward(ops);
}

void ReferenceBackend::read(Buffer from, int64_t offset, std::span<float> out) {
  assert(offset + static_cast<int64_t>(out.size()) <= from.floats);
  std::copy_n(from.address + offset, out.size(), out.begin());
}

void ReferenceBackend::write(Buffer to, int64_t offset, std::span<const float> values) {
  assert(offset + static_cast<int64_t>(values.size()) <= to.floats);
  std::copy(values.begin(), values.end(), to.address + offset);
}

}  // namespace vigil::compute::cpu
