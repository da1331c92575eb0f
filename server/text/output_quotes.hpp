// Whether the text seen so far ends inside Markdown code, where markup is only talked about. Not here: any other Markdown.
#pragma once

#include <cstddef>
#include <string_view>

namespace vigil::text {

// A code span lasts until a run of as many backticks or the line's end; a fence (three or more at a line's beginning) until the next such line.
class QuoteTracker {
 public:
  void note(std::string_view text) {
    for (const char c : text) note(c);
  }
  bool quoted() const {
    if (run_ == 0) return fenced_ || open_run_ != 0;
    if (run_at_line_start_ && run_ >= 3) return !fenced_;
    return fenced_ || (open_run_ == 0 || open_run_ != run_);
  }

 private:
  void note(char c) {
    if (c == '`') {
      if (run_ == 0) run_at_line_start_ = line_start_;
      ++run_;
      line_start_ = false;
      return;
    }
    if (run_ != 0) {
      const bool was = quoted();
      if (run_at_line_start_ && run_ >= 3) fenced_ = was;
      else if (!fenced_) open_run_ = was ? (open_run_ != 0 ? open_run_ : run_) : 0;
      run_ = 0;
    }
    if (c == '\n') {
      line_start_ = true;
      open_run_ = 0;
    } else if (c != ' ' && c != '\t') {
      line_start_ = false;
    }
  }

  size_t run_ = 0;       // backticks just seen
  size_t open_run_ = 0;  // how many opened the span that the text is in
  bool run_at_line_start_ = false, line_start_ = true, fenced_ = false;
};

}  // namespace vigil::text
