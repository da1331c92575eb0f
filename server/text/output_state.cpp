// Text, thinking and their markers. See output_state.hpp; calls are in output_state_calls.cpp, headers in output_state_headers.cpp.
#include "server/text/output_state.hpp"

#include <algorithm>

namespace vigil::text {

OutputParser::State::State(std::shared_ptr<const OutputFormat> format, Options options, OutputSink& sink)
    : format_(std::move(format)), options_(std::move(options)), tools_(options_.tools), sink_(sink), flow_(sink) {
  const OutputFormat& form = *format_;
  if (form.headers == Headers::none) add_marker(form.thinking.open, Mark::think_open);
  add_marker(form.thinking.close, Mark::think_close);
  for (const std::string& text : form.dropped) add_marker(text, Mark::dropped);
  add_marker(form.wrapper_open, Mark::wrapper_open);
  add_marker(form.wrapper_close, Mark::wrapper_close);
  if (form.headers == Headers::harmony) add_marker("<|channel|>", Mark::header);
  if (form.headers == Headers::harmony || form.headers == Headers::recipient) add_marker("<|start|>", Mark::header);
  if (form.headers == Headers::recipient_line) add_marker(">>>", Mark::header);
  for (const CallSyntax& syntax : form.calls) {
    if (!tools_.any()) break;
    add_marker(syntax.section_open, Mark::section, &syntax);
    add_marker(syntax.call_open, Mark::call, &syntax);
    if (syntax.at_start) at_start_ = &syntax;
  }
  if (at_start_) may_begin_[static_cast<unsigned char>('{')] = true;
  if (options_.thinking_open) enter_thinking({});
  else if (form.headers != Headers::none) begin_header(0);
}

void OutputParser::State::add_marker(std::string text, Mark mark, const CallSyntax* syntax) {
  if (text.empty()) return;
  may_begin_[static_cast<unsigned char>(text[0])] = true;
  markers_.push_back({std::move(text), mark, syntax});
}

void OutputParser::State::push(std::string_view text, Source source) {
  if (mode_ == Mode::closed || text.empty()) return;
  if (source == Source::control) {
    // A family's own markers may be several tokens, so a piece of one is enough. Markers inside calls are in no list here, but their readers know them.
    const auto holds = [&](const std::string& whole) { return whole.find(text) != std::string::npos; };
    bool known = std::any_of(markers_.begin(), markers_.end(), [&](const Marker& marker) { return holds(marker.text); });
    for (const CallSyntax& syntax : format_->calls) {
      for (const std::string* part : {&syntax.section_open, &syntax.section_close, &syntax.call_open, &syntax.call_close, &syntax.arguments_open,
                                      &syntax.name_after, &syntax.name_until, &syntax.name_end, &syntax.name_close, &syntax.parameter_open,
                                      &syntax.key_end, &syntax.value_open, &syntax.parameter_close}) {
        known = known || holds(*part);
      }
      if (syntax.kind == CallSyntax::Kind::bare_keys) known = known || text == "<|\"|>";
    }
    if (format_->headers != Headers::none) known = known || text == "<|message|>" || text == "<|constrain|>";
    if (!known) return;
    control_starts_.push_back(buffer_.size());
  }
  buffer_.append(text);
  pushed_bytes_ += text.size();
  run(false);
}

void OutputParser::State::run(bool final) {
  while (at_ < buffer_.size() && mode_ != Mode::closed) {
    bool moved = true;
    switch (mode_) {
      case Mode::text: moved = text_step(final); break;
      case Mode::header: moved = header_step(); break;
      case Mode::call: call_step(); break;
      case Mode::after_call: moved = after_call_step(final); break;
      case Mode::closed: break;
    }
    if (!moved) break;
  }
  if (streaming_) send_call(false);
  compact();
}

void OutputParser::State::compact() {
  size_t keep = at_;
  if (mode_ == Mode::closed) keep = buffer_.size();
  if (mode_ == Mode::header || mode_ == Mode::call) keep = start_;
  if (mode_ == Mode::after_call || (mode_ == Mode::call && thinking_)) keep = thinking_calls_start_;
  if (keep == 0) return;
  buffer_.erase(0, keep);
  at_ = mode_ == Mode::closed ? 0 : at_ - keep;
  start_ -= std::min(start_, keep);
  thinking_calls_start_ -= std::min(thinking_calls_start_, keep);
  std::erase_if(control_starts_, [&](size_t position) { return position < keep; });
  for (size_t& position : control_starts_) position -= keep;
}

// What a marker at this place would be told as. Where one could still become whole, nothing is decided.
OutputParser::State::Found OutputParser::State::marker_at(size_t position, bool final) const {
  Found found;
  for (const Marker& marker : markers_) {
    const size_t there = std::min(marker.text.size(), buffer_.size() - position);
    if (buffer_.compare(position, there, marker.text, 0, there) != 0 || !active(marker, position)) continue;
    if (there < marker.text.size()) found.wait = !final;
    else if (!found.marker || found.marker->text.size() < there) found.marker = &marker;
  }
  if (found.marker) found.wait = false;
  return found;
}

bool OutputParser::State::active(const Marker& marker, size_t position) const {
  const bool control = std::binary_search(control_starts_.begin(), control_starts_.end(), position);
  switch (marker.mark) {
    case Mark::think_open: return !thinking_ && (control || flow_.fresh());
    case Mark::think_close: return thinking_;
    case Mark::dropped: return !thinking_;
    case Mark::wrapper_open: return !thinking_ && flow_.fresh();
    case Mark::wrapper_close: return wrapped_ && !thinking_;
    case Mark::header: return true;
    case Mark::section:
    case Mark::call: return (control || !quotes_.quoted()) && read_again_bytes_ <= 4 * pushed_bytes_ + max_held_bytes;
  }
  return false;
}

// Emits up to the next marker and takes it; false when more text is needed to tell.
bool OutputParser::State::text_step(bool final) {
  size_t next = at_;
  while (next < buffer_.size() && !may_begin_[static_cast<unsigned char>(buffer_[next])]) ++next;
  emit(piece(at_, next));
  at_ = next;
  if (next == buffer_.size()) return true;
  const Found found = marker_at(next, final);
  if (found.wait) return false;
  if (found.marker) {
    take(*found.marker);
  } else if (at_start_ && buffer_[next] == '{' && !thinking_ && calls_ == 0 && !flow_.content_sent() && !quotes_.quoted()) {
    begin_call(*at_start_, false, 1);
    --at_;  // the brace is the call's own
  } else {
    emit(piece(next, next + 1));
    at_ = next + 1;
  }
  return true;
}

void OutputParser::State::take(const Marker& marker) {
  const std::string& text = marker.text;
  switch (marker.mark) {
    case Mark::think_open:
      at_ += text.size();
      return enter_thinking(text);
    case Mark::think_close:
      at_ += text.size();
      return leave_thinking(text);
    case Mark::wrapper_open:
    case Mark::wrapper_close:
      wrapped_ = marker.mark == Mark::wrapper_open;
      at_ += text.size();
      return;
    case Mark::dropped: at_ += text.size(); return;
    case Mark::header: return begin_header(text.size());
    case Mark::section:
    case Mark::call: return begin_call(*marker.syntax, marker.mark == Mark::section, text.size());
  }
}

void OutputParser::State::enter_thinking(std::string_view tag) {
  if (thinking_) return;
  if (options_.split_thinking) flow_.begin_reasoning();
  else emit(tag);
  thinking_ = true;
  quotes_ = {};
  if (options_.split_thinking) flow_.reasoning(format_->thinking.lead);
}

void OutputParser::State::leave_thinking(std::string_view tag) {
  if (!thinking_) return;
  thinking_ = false;
  quotes_ = {};
  if (options_.split_thinking) flow_.end_reasoning();
  else emit(tag);
}

void OutputParser::State::emit(std::string_view text) {
  if (text.empty()) return;
  quotes_.note(text);
  if (thinking_ && options_.split_thinking) flow_.reasoning(text);
  else flow_.content(text);
}

void OutputParser::State::finish(End end) {
  run(true);
  // A call that fails at the end gives its text back, which may hold another one; each round starts behind the last opening text.
  while (mode_ == Mode::header || mode_ == Mode::call) {
    if (mode_ == Mode::header) finish_header();
    else if (!finish_call(end)) break;
    run(true);
  }
  if (mode_ == Mode::after_call) {
    deliver_thinking_calls();
    thinking_ = false;
  }
  if (!begun_) flow_.finish();
  mode_ = Mode::closed;
}

}  // namespace vigil::text
