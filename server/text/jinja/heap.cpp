// See heap.hpp.
#include "server/text/jinja/heap.hpp"

#include <algorithm>

#include "server/text/jinja/failure.hpp"

namespace vigil::text::jinja {

namespace {

constexpr size_t large_bytes = 32 * 1024;    // pieces from here on have a block of their own, which can be given back
constexpr size_t max_block = 1u << 20;

}  // namespace

void Heap::refuse() const { fail("the template needs more than " + std::to_string(limit_ >> 20) + " MiB of memory (max_heap_bytes)"); }

void* Heap::take_block(size_t bytes) {
  const bool large = bytes >= large_bytes;
  const size_t size = large ? bytes : std::max(next_block_, bytes);
  if (bytes > limit_ || used_ + size > limit_) refuse();
  blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  used_ += size;
  char* memory = blocks_.back().memory.get();
  if (large) {
    large_.emplace(memory, blocks_.size() - 1);
    return memory;
  }
  next_block_ = std::min(next_block_ * 2, max_block);
  at_ = memory + bytes;
  end_ = memory + size;
  return memory;
}

void Heap::give_back(void* piece, size_t bytes) {
  if (((bytes + 15) & ~size_t{15}) < large_bytes) return;
  const auto found = large_.find(piece);
  if (found == large_.end()) return;  // it fitted into a block with others, or grew there
  used_ -= blocks_[found->second].bytes;
  blocks_[found->second] = {};
  large_.erase(found);
}

}  // namespace vigil::text::jinja
