// Calls: where they begin and end, when they are sent, and what becomes of those that are none. See output_state.hpp.
#include "server/text/output_state.hpp"

#include <algorithm>

namespace vigil::text {

void OutputParser::State::begin_call(const CallSyntax& syntax, bool section, size_t opener_bytes) {
  auto reader = make_call_reader(syntax, section, tools_);
  if (!reader) {
    emit(piece(at_, at_ + opener_bytes));
    at_ += opener_bytes;
    return;
  }
  mode_ = Mode::call;
  reader_ = std::move(reader);
  call_ = {};
  start_ = at_;
  if (thinking_ && thinking_calls_.empty()) thinking_calls_start_ = at_;
  opener_bytes_ = opener_bytes;
  at_ += opener_bytes;
}

void OutputParser::State::call_step() {
  switch (reader_->feed(buffer_[at_], call_)) {
    case CallReader::Step::more: {
      ++at_;
      if (thinking_) {
        if (at_ - thinking_calls_start_ > max_held_bytes) call_failed();
        return;
      }
      if (!streaming_ && at_ - start_ > max_held_bytes) return call_failed();
      streaming_ = streaming_ || (at_ - start_ > held_call_bytes && call_.name);
      if (streaming_) start_ = at_;
      return;
    }
    case CallReader::Step::settled:
      ++at_;
      start_ = at_;
      opener_bytes_ = 0;
      return;
    case CallReader::Step::call_done:
      ++at_;
      return call_done();
    case CallReader::Step::section_done:
      ++at_;
      start_ = at_;
      [[fallthrough]];
    case CallReader::Step::leave:
      at_ = start_;
      reader_.reset();
      mode_ = thinking_ && !thinking_calls_.empty() ? Mode::after_call : Mode::text;
      return;
    case CallReader::Step::bad: return call_failed();
  }
}

void OutputParser::State::call_done() {
  start_ = at_;
  opener_bytes_ = 0;
  if (thinking_) {
    thinking_calls_.push_back(std::move(call_));
    call_ = {};
    return;
  }
  send_call(true);
  if (!options_.parallel_calls) mode_ = Mode::closed;
}

// Sends what is known of the call being read.
void OutputParser::State::send_call(bool ended) {
  if (!begun_ && call_.name) {
    flow_.before_call();
    sink_.call_begin(calls_++, *call_.name);
    begun_ = true;
  }
  if (!call_.arguments.empty()) sink_.call_arguments(calls_ - 1, call_.arguments);
  call_.arguments.clear();
  if (!ended) return;
  sink_.call_end(calls_ - 1);
  flow_.after_call();
  call_ = {};
  begun_ = streaming_ = false;
}

// What was read is no valid call.
void OutputParser::State::call_failed() {
  const std::unique_ptr<CallReader> reader = std::move(reader_);
  mode_ = Mode::text;
  if (streaming_) {  // its beginning is sent already
    reader->close(call_);
    send_call(true);
    if (!options_.parallel_calls) mode_ = Mode::closed;
    return;
  }
  call_ = {};
  read_again_bytes_ += at_ - start_;
  at_ = start_;
  if (thinking_) thinking_calls_are_text();
  emit(piece(at_, at_ + opener_bytes_));
  at_ += opener_bytes_;
}

// In thinking, a call is one when nothing more is thought behind it: a model that talks about a call goes on talking.
bool OutputParser::State::after_call_step(bool final) {
  while (at_ < buffer_.size() && std::string_view(" \t\r\n").find(buffer_[at_]) != std::string_view::npos) ++at_;
  if (at_ == buffer_.size()) return true;
  const Found found = marker_at(at_, final);
  if (found.wait) return false;
  const bool call = found.marker && (found.marker->mark == Mark::call || found.marker->mark == Mark::section);
  if (found.marker && !call) {
    deliver_thinking_calls();
    mode_ = mode_ == Mode::closed ? mode_ : Mode::text;
    return true;
  }
  if (call) {
    begin_call(*found.marker->syntax, found.marker->mark == Mark::section, found.marker->text.size());
    return true;
  }
  thinking_calls_are_text();
  mode_ = Mode::text;
  return true;
}

void OutputParser::State::deliver_thinking_calls() {
  std::vector<CallText> calls = std::move(thinking_calls_);
  thinking_calls_.clear();
  for (CallText& call : calls) {
    call_ = std::move(call);
    send_call(true);
    if (options_.parallel_calls) continue;
    mode_ = Mode::closed;
    return;
  }
}

void OutputParser::State::thinking_calls_are_text() {
  if (!thinking_calls_.empty()) emit(piece(thinking_calls_start_, at_));
  thinking_calls_.clear();
}

// Behind a call that thinking ended with, an output that ends here has come to its answer.
bool OutputParser::State::inside_thinking() const {
  const bool behind_call = mode_ == Mode::after_call || (mode_ == Mode::call && !thinking_calls_.empty() && reader_->between_calls());
  return thinking_ && !behind_call;
}

// The output ends inside a call, or between calls; false when that is all.
bool OutputParser::State::finish_call(End end) {
  if (end == End::complete && reader_->finish(call_)) {
    call_done();
    return mode_ = thinking_ && !thinking_calls_.empty() ? Mode::after_call : Mode::text, false;
  }
  if (reader_->between_calls() && opener_bytes_ == 0) {
    at_ = buffer_.size();
    mode_ = thinking_ && !thinking_calls_.empty() ? Mode::after_call : Mode::text;
    return false;
  }
  if (streaming_) return false;
  if (end == End::complete || thinking_ || (!call_.name && opener_bytes_ <= 1)) return call_failed(), true;
  if (call_.name) cut_call_ = *call_.name;
  flow_.before_call();
  return false;
}

}  // namespace vigil::text
