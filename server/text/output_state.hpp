// The output parser's inside: the text that is not yet decided, and the modes it is read in. Not here: how calls are read (output_call.hpp),
// white space at borders (output_flow.hpp).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/output_call.hpp"
#include "server/text/output_flow.hpp"
#include "server/text/output_parser.hpp"
#include "server/text/output_quotes.hpp"

namespace vigil::text {

// A call is sent only when it is complete, as what breaks must become content; a longer one is sent piece by piece from there on.
constexpr size_t held_call_bytes = 512;
// Text that may still become a call, or that is one inside thinking; longer text is none.
constexpr size_t max_held_bytes = 256 * 1024;
constexpr size_t max_header_bytes = 512;

class OutputParser::State {
 public:
  State(std::shared_ptr<const OutputFormat> format, Options options, OutputSink& sink);
  void push(std::string_view text, Source source);
  void finish(End end);
  bool inside_thinking() const;
  size_t calls() const { return calls_; }
  const std::string& cut_call() const { return cut_call_; }

 private:
  enum class Mode {
    text,       // content or thinking
    header,     // of a part of the answer
    call,       // a reader is at work
    after_call, // in thinking, behind a call: what follows decides whether it is one
    closed      // what follows is dropped
  };
  enum class Mark { think_open, think_close, dropped, wrapper_open, wrapper_close, header, section, call };
  struct Marker {
    std::string text;
    Mark mark;
    const CallSyntax* syntax = nullptr;
  };
  struct Found {
    const Marker* marker = nullptr;
    bool wait = false;  // more text could make one
  };

  void add_marker(std::string text, Mark mark, const CallSyntax* syntax = nullptr);
  void run(bool final);
  bool text_step(bool final);
  bool header_step();
  void call_step();
  bool after_call_step(bool final);
  Found marker_at(size_t position, bool final) const;
  bool active(const Marker& marker, size_t position) const;
  void take(const Marker& marker);
  void begin_call(const CallSyntax& syntax, bool section, size_t opener_bytes);
  void begin_header(size_t opener_bytes);
  bool header_can_go_on() const;
  void take_header();
  void take_recipient(std::string_view header);
  bool call_by_header(std::string_view name);
  void call_failed();
  void call_done();
  void send_call(bool ended);
  void deliver_thinking_calls();
  void thinking_calls_are_text();
  void enter_thinking(std::string_view tag);
  void leave_thinking(std::string_view tag);
  void emit(std::string_view text);
  void compact();
  void finish_header();
  bool finish_call(End end);
  std::string_view piece(size_t from, size_t to) const { return std::string_view(buffer_).substr(from, to - from); }

  const std::shared_ptr<const OutputFormat> format_;
  const Options options_;
  const DeclaredTools tools_;
  OutputSink& sink_;
  OutputFlow flow_;
  QuoteTracker quotes_;
  std::vector<Marker> markers_;
  std::array<bool, 256> may_begin_{};  // the first characters of markers
  const CallSyntax* at_start_ = nullptr;

  Mode mode_ = Mode::text;
  bool thinking_ = false, wrapped_ = false;
  std::string buffer_;                 // what is not decided, and what has not been looked at
  size_t at_ = 0;                      // the next character in the buffer
  size_t start_ = 0;                   // of the call or header being read, its opening text included
  size_t opener_bytes_ = 0;            // of that opening text; 0 behind the first call of several
  size_t thinking_calls_start_ = 0;    // of the first of the calls held in thinking
  std::vector<CallText> thinking_calls_;
  std::vector<size_t> control_starts_; // where in the buffer control tokens begin, ascending
  std::unique_ptr<CallReader> reader_;
  CallText call_;
  bool streaming_ = false;             // the call being read is sent as it comes
  bool begun_ = false;                 // call_begin was sent for it
  size_t calls_ = 0;
  std::string cut_call_;
  size_t pushed_bytes_ = 0, read_again_bytes_ = 0;
};

}  // namespace vigil::text
