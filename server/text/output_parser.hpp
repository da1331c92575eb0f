// What a model wrote, parted into what it means: content, thinking and tool calls, piece by piece as tokens come. Nothing is lost: markup that
// turns out to be no valid call comes out as content, in order. Not here: stop strings, tokens, shapes of a reply.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/vocabulary.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text {

// How a model family writes thinking and calls; immutable, made once per model, shared by threads.
struct OutputFormat;

// The family is told by its chat template's text and by the markers in its vocabulary. Never null: a model with neither is taken to write
// <think>…</think> at its beginning and <tool_call>{"name": …, "arguments": …}</tool_call>, when it writes such things at all.
std::shared_ptr<const OutputFormat> output_format(std::string_view template_source, const gguf::Vocabulary& vocabulary);

// Receives what was understood. Calls follow one another: call_begin, any number of call_arguments, call_end, then the next index. The
// arguments joined are a JSON object. Between begin and end of a call neither content nor thinking comes. A call without call_end is not
// complete: nothing comes after it, and nobody may act on it.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void content(std::string_view text) = 0;
  virtual void reasoning(std::string_view text) = 0;
  virtual void call_begin(size_t index, std::string_view name) = 0;
  virtual void call_arguments(size_t index, std::string_view json) = 0;
  virtual void call_end(size_t index) = 0;
};

class OutputParser {
 public:
  struct Options {
    std::vector<ToolDefinition> tools = {};  // the declared ones; with none, call markup is content
    bool thinking_open = false;              // the prompt ends inside a thinking block
    bool split_thinking = true;              // false: thinking and its tags are content
    bool parallel_calls = true;              // false: what follows the first call is dropped
  };
  OutputParser(std::shared_ptr<const OutputFormat> format, Options options, OutputSink& sink);
  ~OutputParser();

  // What the next token stands for, valid UTF-8. `control` text is a control token's piece (`<|channel|>`): the format's own are understood,
  // others have no text. Text may hold markers as well: models write them in ordinary tokens too.
  enum class Source { text, control };
  void push(std::string_view text, Source source);

  // The end of the output. `cut`: by a length limit, so an open call is not delivered as complete (call_end is not called for it).
  enum class End { complete, cut };
  void finish(End end);

  bool inside_thinking() const;
  size_t calls() const;                      // that have begun
  // After finish(cut): the name of a call that the cut left unfinished before any of it was sent; empty when there is none. Its text is gone:
  // half a call is neither a call nor something to read.
  const std::string& cut_call() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace vigil::text
