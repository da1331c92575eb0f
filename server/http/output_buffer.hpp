// Bytes on their way to a client: what is being written and what waits behind it, and when that is too much. Pure. Not here: the socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace vigil::http {

class OutputBuffer {
 public:
  enum class Pressure : uint8_t { unchanged, blocked, ready };

  std::string& tail();  // append here; valid until the next call of any function
  // The bytes to write now, one run for everything that has gathered up to kBlock or so; valid until the next call of sent().
  std::string_view front();
  void sent(size_t bytes);
  size_t size() const { return flight_.size() - done_ + full_bytes_ + waiting_.size(); }
  bool empty() const { return size() == 0; }

  // Says once that the buffer holds more than `limit` bytes (0 = no limit), and once that it fell below half of that.
  Pressure pressure(size_t limit);
  bool blocked() const { return blocked_; }

 private:
  std::string flight_, waiting_;
  std::deque<std::string> full_;  // between them, oldest first: one string of everything would double, and be copied, while it grows
  size_t full_bytes_ = 0;
  size_t done_ = 0;
  bool blocked_ = false;
};

}  // namespace vigil::http
