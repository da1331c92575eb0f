// Memory that is only reserved when it is taken and becomes real when written, in huge pages where the system has them: reading gigabytes of
// weights through small pages costs a third of the bandwidth. Given back as a whole.
#pragma once

#include <cstddef>
#include <vector>

namespace vigil::compute::cpu {

class HugeMemory {
 public:
  HugeMemory() = default;
  ~HugeMemory();
  HugeMemory(HugeMemory&& other) noexcept;
  HugeMemory& operator=(HugeMemory&& other) noexcept;
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;

  // `bytes` of zeros, aligned to a cache line; null when the system refuses.
  std::byte* take(size_t bytes);

 private:
  struct Area {
    std::byte* address;
    size_t bytes;
  };
  std::vector<Area> areas_;
  size_t used_ = 0;  // of the last area
};

}  // namespace vigil::compute::cpu
