// For tests of the output parser: a sink that remembers, and ways to cut an output into pushes. Not here: tests.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "server/text/output_format.hpp"
#include "server/text/output_parser.hpp"

namespace vigil::text::test {

struct ReadCall {
  std::string name, arguments;
  bool ended = false;
  bool operator==(const ReadCall&) const = default;
};

// Remembers what came, and that it came in the order that OutputSink promises.
struct Reading : OutputSink {
  std::string text, thinking;
  std::vector<ReadCall> calls;
  std::string order = {};     // one letter a run of events: c, r, or (a) for a call with arguments and end
  size_t pieces = 0;          // of arguments
  bool open = false;
  std::string cut_call;

  void note(char event) {
    if (order.empty() || order.back() != event) order += event;
  }
  void content(std::string_view piece) override {
    REQUIRE(!open);
    REQUIRE(!piece.empty());
    text += piece;
    note('c');
  }
  void reasoning(std::string_view piece) override {
    REQUIRE(!open);
    REQUIRE(!piece.empty());
    thinking += piece;
    note('r');
  }
  void call_begin(size_t index, std::string_view name) override {
    REQUIRE(!open);
    REQUIRE(index == calls.size());
    calls.push_back({std::string(name), "", false});
    open = true;
    order += '(';
  }
  void call_arguments(size_t index, std::string_view json) override {
    REQUIRE(open);
    REQUIRE(index + 1 == calls.size());
    REQUIRE(!json.empty());
    calls.back().arguments += json;
    ++pieces;
    note('a');
  }
  void call_end(size_t index) override {
    REQUIRE(open);
    REQUIRE(index + 1 == calls.size());
    calls.back().ended = true;
    open = false;
    order += ')';
  }
};

// The lengths, in bytes, of the pushes that an output of this many bytes is cut into.
using Cutter = std::function<size_t(size_t left)>;
inline size_t whole(size_t left) { return left; }
inline size_t one_byte(size_t) { return 1; }

// Reads an output; a cut never falls inside a character.
inline Reading read_output(const OutputFormat& format, const OutputParser::Options& options, std::string_view output,
                           OutputParser::End end = OutputParser::End::complete, const Cutter& cutter = one_byte) {
  Reading reading;
  OutputParser parser(std::make_shared<const OutputFormat>(format), options, reading);
  while (!output.empty()) {
    size_t length = std::min(std::max<size_t>(cutter(output.size()), 1), output.size());
    while (length < output.size() && (static_cast<unsigned char>(output[length]) & 0xC0) == 0x80) ++length;
    parser.push(output.substr(0, length), OutputParser::Source::text);
    output.remove_prefix(length);
  }
  parser.finish(end);
  REQUIRE(parser.calls() == reading.calls.size());
  reading.cut_call = parser.cut_call();
  return reading;
}

// Reads an output whole, one byte a push, and cut in two at every place, and insists on the same result each time.
inline Reading read_every_way(const OutputFormat& format, const OutputParser::Options& options, std::string_view output,
                              OutputParser::End end = OutputParser::End::complete) {
  const Reading first = read_output(format, options, output, end, whole);
  const size_t cuts = output.size() < 2000 ? output.size() : 0;
  for (size_t cut = 0; cut < cuts + 1; ++cut) {
    const Reading other = read_output(format, options, output, end, [&](size_t left) { return cut == 0 ? 1 : left == output.size() ? cut : left; });
    INFO("cut at " << cut << " of " << output);
    REQUIRE(other.text == first.text);
    REQUIRE(other.thinking == first.thinking);
    REQUIRE(other.calls == first.calls);
    REQUIRE(other.cut_call == first.cut_call);
    REQUIRE(other.order == first.order);
  }
  return first;
}

// Three tools: get_weather(city, days), write_file(path, content), get_time().
inline OutputParser::Options with_tools() {
  const auto parameters = [](const char* text) { return Json::parse(text); };
  OutputParser::Options options;
  options.tools = {
      {.name = "get_weather", .parameters = parameters(R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}})")},
      {.name = "write_file", .parameters = parameters(R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}}})")},
      {.name = "get_time", .parameters = parameters(R"({"type":"object","properties":{}})")},
      {.name = "set", .parameters = parameters(R"({"type":"object","properties":{"options":{"type":"object","properties":{"tags":{"type":"array"}}},
                                                  "flag":{"type":"boolean"},"ratio":{"type":"number"},"maybe":{"type":["string","null"]}}})")}};
  return options;
}

// A call that came whole: its arguments as JSON, and nothing where they are none.
inline Json arguments_of(const ReadCall& call) {
  CHECK(call.ended);
  const Json arguments = Json::parse(call.arguments, nullptr, false);
  CHECK(arguments.is_object());
  return arguments;
}

}  // namespace vigil::text::test
