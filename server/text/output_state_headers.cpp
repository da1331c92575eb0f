// Headers in front of the parts of an answer: who is spoken to and on which channel. See output_state.hpp.
#include "server/text/output_state.hpp"

#include <algorithm>

namespace vigil::text {
namespace {

constexpr std::string_view message_mark = "<|message|>";

// Whether one text begins with the other, whichever is the longer one.
bool agree(std::string_view one, std::string_view other) {
  const size_t both = std::min(one.size(), other.size());
  return one.substr(0, both) == other.substr(0, both);
}

// The word that follows `key`; empty when there is none.
std::string_view word_behind(std::string_view header, std::string_view key) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = header.substr(found + key.size());
  return rest.substr(0, std::min(rest.find_first_of(" <\n\t"), rest.size()));
}

}  // namespace

void OutputParser::State::begin_header(size_t opener_bytes) {
  mode_ = Mode::header;
  start_ = at_;
  opener_bytes_ = opener_bytes;
  at_ += opener_bytes;
}

// Looks at one more character of the header.
bool OutputParser::State::header_step() {
  const bool lines = format_->headers == Headers::recipient_line;
  const std::string_view end = lines ? "\n" : message_mark;
  ++at_;
  if (piece(start_, at_).ends_with(end)) {
    take_header();
  } else if (!header_can_go_on()) {
    call_failed();
  }
  return true;
}

// A header that cannot be one must not hold back a model that writes plain text.
bool OutputParser::State::header_can_go_on() const {
  const std::string_view text = piece(start_, at_);
  if (text.size() > max_header_bytes) return false;
  if (format_->headers == Headers::recipient_line) {
    const std::string_view name = text.substr(opener_bytes_);
    return std::string_view("all").starts_with(name) || tools_.a_name_begins_with(name);
  }
  if (text.back() == '\n') return false;
  if (opener_bytes_ != 0) return true;
  for (const std::string_view begin : {std::string_view(" to="), std::string_view("to="), std::string_view("<|channel|>"), message_mark,
                                       std::string_view("<|constrain|>"), std::string_view("<|start|>")}) {
    if (agree(text, begin)) return true;
  }
  return false;
}

void OutputParser::State::take_header() {
  const std::string header(piece(start_ + opener_bytes_, at_));
  const std::string_view marker = piece(start_, start_ + opener_bytes_);
  mode_ = Mode::text;
  if (format_->headers == Headers::recipient_line) {
    const std::string_view name = std::string_view(header).substr(0, header.size() - 1);
    if (name != "all" && !call_by_header(name)) call_failed();
    return;
  }
  if (format_->headers == Headers::recipient) {
    const bool self = word_behind(header, "to=") == "self";
    leave_thinking({});
    if (self) enter_thinking(piece(start_, at_));
    return;
  }
  // harmony
  const std::string whole = std::string(marker) + header;
  const std::string_view channel = word_behind(whole, "<|channel|>");
  std::string_view recipient = word_behind(whole, "to=");
  const std::string_view functions = "functions.";
  if (recipient.starts_with(functions)) recipient.remove_prefix(functions.size());
  leave_thinking({});
  if (!recipient.empty() && recipient != "user" && recipient != "assistant") {
    if (!call_by_header(recipient)) {  // nobody there by that name: all of it is text
      emit(whole);
    }
  } else if (channel == "analysis") {
    enter_thinking(whole);
  }
}

// Begins a call whose name the header told.
bool OutputParser::State::call_by_header(std::string_view name) {
  if (!tools_.find(name) || format_->calls.empty()) return false;
  auto reader = make_arguments_reader(format_->calls.front(), std::string(name), tools_);
  if (!reader) return false;
  mode_ = Mode::call;
  reader_ = std::move(reader);
  call_ = {.name = std::string(name)};
  return true;
}

// The output ends inside a header.
void OutputParser::State::finish_header() {
  const bool all = piece(start_ + opener_bytes_, at_) == "all";
  if (format_->headers == Headers::recipient_line && !all) return call_failed();
  mode_ = Mode::text;  // what would follow never came
}

}  // namespace vigil::text
