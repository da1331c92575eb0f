// Memory of one rendering: given out in order, freed all at once, counted against a limit. For trivially destructible things only.
// Not here: values (value.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vigil::text::jinja {

class Heap {
 public:
  explicit Heap(size_t limit_bytes) : limit_(limit_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void* take(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (bytes > static_cast<size_t>(end_ - at_)) return take_block(bytes);
    void* out = at_;
    at_ += bytes;
    return out;
  }
  // Makes the piece that was taken last longer where it lies; false when that cannot be.
  bool extend(void* piece, size_t old_bytes, size_t new_bytes) {
    old_bytes = (old_bytes + 15) & ~size_t{15};
    new_bytes = (new_bytes + 15) & ~size_t{15};
    if (static_cast<char*>(piece) + old_bytes != at_ || new_bytes - old_bytes > static_cast<size_t>(end_ - at_)) return false;
    at_ += new_bytes - old_bytes;
    return true;
  }
  // What nobody looks at any more. Only large pieces really go.
  void give_back(void* piece, size_t bytes);

  template <typename T, typename... Arguments>
  T* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (take(sizeof(T))) T{std::forward<Arguments>(arguments)...};
  }
  template <typename T>
  T* array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count > limit_ / sizeof(T)) refuse();
    return static_cast<T*>(take(count * sizeof(T)));
  }
  size_t used_bytes() const { return used_; }

 private:
  struct Block {
    std::unique_ptr<char[]> memory;
    size_t bytes = 0;
  };
  void* take_block(size_t bytes);
  [[noreturn]] void refuse() const;  // throws Failure

  std::vector<Block> blocks_;
  std::unordered_map<const void*, size_t> large_;  // pieces that are a block of their own, and which
  char* at_ = nullptr;
  char* end_ = nullptr;
  size_t used_ = 0, limit_;
  size_t next_block_ = 16 * 1024;
};

}  // namespace vigil::text::jinja
