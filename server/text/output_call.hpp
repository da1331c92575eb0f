// How one family's way of writing calls is read, a character at a time: the interface that the output parser drives, and what its readers
// share. Not here: when a call begins to be looked for, what becomes of text that is none (output_parser.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/output_format.hpp"
#include "server/text/output_parser.hpp"

namespace vigil::text {

constexpr size_t max_call_name_bytes = 256;      // a name, or a key of arguments written as tags
constexpr size_t max_call_depth = 128;           // objects and lists inside one another in arguments
constexpr size_t max_call_value_bytes = 256 * 1024;  // an argument that cannot be sent before it is whole

// One call as far as it is read. `arguments` grows by pieces that begin a JSON object and are never taken back.
struct CallText {
  std::optional<std::string> name = {};
  std::string arguments = {};
};

class CallReader {
 public:
  enum class Step {
    more,          // the character is part of the call, or of what stands around calls
    settled,       // it ends something that stands around calls: what `leave` gives back begins behind it
    call_done,     // and it is the last of a call
    section_done,  // and it is the last of all that belongs to calls
    leave,         // it belongs to what follows: the calls ended before it, or before white space in front of it
    bad            // there is no valid call here
  };
  virtual ~CallReader() = default;
  virtual Step feed(char c, CallText& call) = 0;
  // Whether what was read ends between calls, so that nothing of it is lost when the output ends here.
  virtual bool between_calls() const = 0;
  // The output ends: a call whose end is the output's end is completed.
  virtual bool finish(CallText& call) { return (void)call, false; }
  // Ends arguments that broke off, so that together with what was given before they are valid JSON.
  virtual void close(CallText& call) = 0;
};

// The tools that may be called.
class DeclaredTools {
 public:
  explicit DeclaredTools(const std::vector<ToolDefinition>& tools) : tools_(tools) {}
  bool any() const { return !tools_.empty(); }
  const ToolDefinition* find(std::string_view name) const;
  bool a_name_begins_with(std::string_view text) const;
  bool begins_with_a_name(std::string_view text) const;
 private:
  const std::vector<ToolDefinition>& tools_;
};

// `section`: the text that opened it was section_open, so call_open is yet to come. Null for a kind that has no reader.
std::unique_ptr<CallReader> make_call_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools);
// The reader of a call whose name stood in a header: the arguments come next.
std::unique_ptr<CallReader> make_arguments_reader(const CallSyntax& syntax, std::string name, const DeclaredTools& tools);

}  // namespace vigil::text
