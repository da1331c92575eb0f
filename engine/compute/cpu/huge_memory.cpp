// Areas of anonymous memory, filled one after the other.
#include "engine/compute/cpu/huge_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace vigil::compute::cpu {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t area_bytes = size_t{256} << 20;  // of address space; untouched pages take no memory
constexpr size_t line = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

HugeMemory::~HugeMemory() {
  for (const Area& area : areas_) ::munmap(area.address, area.bytes);
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept : areas_(std::exchange(other.areas_, {})), used_(std::exchange(other.used_, 0)) {}

HugeMemory& HugeMemory::operator=(HugeMemory&& other) noexcept {
  std::swap(areas_, other.areas_);
  std::swap(used_, other.used_);
  return *this;
}

std::byte* HugeMemory::take(size_t bytes) {
  const size_t wanted = round_up(bytes, line);
  if (areas_.empty() || areas_.back().bytes - used_ < wanted) {
    const size_t size = round_up(std::max(wanted, area_bytes), huge_page);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    ::madvise(memory, size, MADV_HUGEPAGE);  // without huge pages it is merely slower
    areas_.push_back({static_cast<std::byte*>(memory), size});
    used_ = 0;
  }
  std::byte* taken = areas_.back().address + used_;
  used_ += wanted;
  return taken;
}

}  // namespace vigil::compute::cpu
