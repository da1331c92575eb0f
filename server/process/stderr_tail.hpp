// The last bytes of a child's stderr, for error texts. Not here: where the log goes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vigil::process {

class StderrTail {
 public:
  explicit StderrTail(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  void feed(std::string_view bytes);
  // The last line that is not blank, printable, at most `limit` bytes of its beginning; empty when there is none.
  std::string last_line(size_t limit = 240) const;
  size_t size() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  size_t limit_bytes_;
  std::string kept_;  // up to twice the limit, so that bytes move once for each limit's worth
};

}  // namespace vigil::process
