// Content and thinking on their way to the sink: white space at their borders is held back until it is known whether it belongs to them.
// Not here: what is content and what thinking.
#pragma once

#include <string>
#include <string_view>

#include "server/text/output_parser.hpp"

namespace vigil::text {

class OutputFlow {
 public:
  explicit OutputFlow(OutputSink& sink) : sink_(sink) {}

  void content(std::string_view text);
  void reasoning(std::string_view text);

  void begin_reasoning();  // white space in front of it goes, and at its beginning
  void end_reasoning();    // white space at its end goes, and in front of what follows
  void before_call();      // white space in front of a call goes
  void after_call();
  void finish();           // the end of the output

  bool fresh() const { return fresh_; }                // only white space since the beginning, thinking or a call
  bool content_sent() const { return content_sent_; }

 private:
  static constexpr size_t max_held_white_space_bytes = 4096;  // an endless run of line breaks must come out
  OutputSink& sink_;
  std::string space_ = {}, reasoning_space_ = {};
  bool fresh_ = true, content_sent_ = false, reasoning_sent_ = false, trim_content_ = false, trim_reasoning_ = true, after_call_ = false;
};

}  // namespace vigil::text
