// The one writer of protocol lines: whole lines, from any thread, each handed to the system at once.
#pragma once

#include <functional>
#include <mutex>
#include <string_view>

#include "protocol/lines.hpp"

namespace vigil::engine {

class Output {
 public:
  // `on_broken` is called once, from the writing thread, when nobody can read any more.
  Output(int fd, std::function<void()> on_broken) : fd_(fd), on_broken_(std::move(on_broken)) {}
  void line(const protocol::EngineLine& line);

 private:
  const int fd_;
  const std::function<void()> on_broken_;
  std::mutex mutex_;
  bool broken_ = false;
};

}  // namespace vigil::engine
