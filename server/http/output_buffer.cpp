// The write buffer.
#include "server/http/output_buffer.hpp"

namespace vigil::http {
namespace {
constexpr size_t kKeepCapacity = 64 * 1024;  // a string that grew beyond this is given back once it is written
}

std::string_view OutputBuffer::front() {
  if (done_ == flight_.size()) {
    flight_.clear();
    done_ = 0;
    if (flight_.capacity() > kKeepCapacity) flight_.shrink_to_fit();
    flight_.swap(waiting_);
  }
  return std::string_view(flight_).substr(done_);
}

void OutputBuffer::sent(size_t bytes) { done_ += bytes; }

OutputBuffer::Pressure OutputBuffer::pressure(size_t limit) {
  if (limit == 0) return Pressure::unchanged;
  if (!blocked_ && size() > limit) {
    blocked_ = true;
    return Pressure::blocked;
  }
  if (blocked_ && size() < limit / 2) {
    blocked_ = false;
    return Pressure::ready;
  }
  return Pressure::unchanged;
}

}  // namespace vigil::http
