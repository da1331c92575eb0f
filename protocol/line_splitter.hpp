// Bytes in, whole lines out, in bounded memory: a line over the cap is dropped to its end and reported once. "\r\n" and "\n" both end a
// line; NUL bytes are kept (a line is a span, not a C string).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vigil::protocol {

class LineSplitter {
 public:
  explicit LineSplitter(size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  struct Line {
    std::string_view text;   // without its end; valid until the next call of the callback
    bool overlong = false;   // then text is the first bytes of the dropped line
  };
  // Calls on_line(Line) for every line that is whole now. A partial line is kept (at most max_line_bytes).
  template <typename OnLine>
  void feed(std::string_view bytes, OnLine&& on_line) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (dropping_) {
        if (end != std::string_view::npos) dropping_ = false;
      } else if (pending_.size() + part.size() > max_line_bytes_) {
        pending_.append(part.substr(0, max_line_bytes_ - pending_.size()));
        on_line(Line{std::string_view(pending_).substr(0, 256), true});
        pending_.clear();
        pending_.shrink_to_fit();
        dropping_ = end == std::string_view::npos;
      } else if (end == std::string_view::npos) {
        pending_.append(part);
      } else if (pending_.empty()) {
        on_line(Line{without_cr(part), false});  // the common case: no copy
      } else {
        pending_.append(part);
        on_line(Line{without_cr(pending_), false});
        pending_.clear();
      }
      if (end == std::string_view::npos) break;
      bytes.remove_prefix(end + 1);
    }
  }
  // What came after the last line end; empty while an overlong line is being dropped.
  std::string_view partial() const { return pending_; }

 private:
  static std::string_view without_cr(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
  }
  size_t max_line_bytes_;
  std::string pending_;
  bool dropping_ = false;
};

}  // namespace vigil::protocol
