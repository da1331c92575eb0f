// See stderr_tail.hpp.
#include "server/process/stderr_tail.hpp"

#include "protocol/lines.hpp"

namespace vigil::process {

void StderrTail::feed(std::string_view bytes) {
  if (bytes.size() > limit_bytes_) bytes.remove_prefix(bytes.size() - limit_bytes_);
  kept_.append(bytes);
  if (kept_.size() > 2 * limit_bytes_) kept_.erase(0, kept_.size() - limit_bytes_);
}

std::string StderrTail::last_line(size_t limit) const {
  constexpr std::string_view blanks = " \t\r\n\0";
  std::string_view rest = kept_;
  while (!rest.empty()) {
    const size_t last = rest.find_last_not_of(blanks);
    if (last == std::string_view::npos) return {};
    rest = rest.substr(0, last + 1);
    const size_t start = rest.find_last_of("\r\n");
    const std::string_view line = rest.substr(start == std::string_view::npos ? 0 : start + 1);
    const size_t first = line.find_first_not_of(blanks);
    if (first != std::string_view::npos) return protocol::printable(line.substr(first), limit);
    rest = start == std::string_view::npos ? std::string_view{} : rest.substr(0, start);
  }
  return {};
}

}  // namespace vigil::process
