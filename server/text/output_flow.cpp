// See output_flow.hpp.
#include "server/text/output_flow.hpp"

namespace vigil::text {
namespace {

constexpr std::string_view white_space = " \t\r\n";

}  // namespace

void OutputFlow::content(std::string_view text) {
  if (trim_content_) text.remove_prefix(std::min(text.find_first_not_of(white_space), text.size()));
  if (text.empty()) return;
  trim_content_ = false;
  size_t end = text.find_last_not_of(white_space) + 1;
  if (end == 0 && space_.size() + text.size() > max_held_white_space_bytes) end = text.size();
  if (end != 0) {
    space_.append(text.substr(0, end));
    sink_.content(space_);
    space_.clear();
    fresh_ = after_call_ = false;
    content_sent_ = true;
  }
  space_.append(text.substr(end));
}

void OutputFlow::reasoning(std::string_view text) {
  if (trim_reasoning_) text.remove_prefix(std::min(text.find_first_not_of(white_space), text.size()));
  if (text.empty()) return;
  if (trim_reasoning_ && reasoning_sent_) reasoning_space_ = "\n";  // a second block of thinking
  trim_reasoning_ = false;
  size_t end = text.find_last_not_of(white_space) + 1;
  if (end == 0 && reasoning_space_.size() + text.size() > max_held_white_space_bytes) end = text.size();
  if (end != 0) {
    reasoning_space_.append(text.substr(0, end));
    sink_.reasoning(reasoning_space_);
    reasoning_space_.clear();
    reasoning_sent_ = true;
  }
  reasoning_space_.append(text.substr(end));
}

void OutputFlow::begin_reasoning() {
  if (fresh_) space_.clear();
  reasoning_space_.clear();
  trim_reasoning_ = true;
}

void OutputFlow::end_reasoning() {
  reasoning_space_.clear();
  fresh_ = trim_content_ = true;
}

void OutputFlow::before_call() {
  space_.clear();
  reasoning_space_.clear();
}

void OutputFlow::after_call() {
  fresh_ = after_call_ = true;
  trim_content_ = !content_sent_;
}

void OutputFlow::finish() {
  if (!space_.empty() && !after_call_) sink_.content(space_);
  space_.clear();
  reasoning_space_.clear();
}

}  // namespace vigil::text
