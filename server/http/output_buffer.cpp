// The write buffer.
#include "server/http/output_buffer.hpp"

#include <utility>

namespace vigil::http {
namespace {
constexpr size_t kKeepCapacity = 64 * 1024;  // a string that grew beyond this is given back once it is written
constexpr size_t kBlock = 256 * 1024;
}  // namespace

std::string& OutputBuffer::tail() {
  if (waiting_.size() >= kBlock) {
    full_bytes_ += waiting_.size();
    full_.push_back(std::move(waiting_));
    waiting_ = std::string();
    waiting_.reserve(kBlock + kBlock / 8);
  }
  return waiting_;
}

std::string_view OutputBuffer::front() {
  if (done_ == flight_.size()) {
    flight_.clear();
    done_ = 0;
    if (flight_.capacity() > kKeepCapacity) flight_.shrink_to_fit();
    if (full_.empty()) {
      flight_.swap(waiting_);
    } else {
      flight_ = std::move(full_.front());
      full_.pop_front();
      full_bytes_ -= flight_.size();
    }
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
