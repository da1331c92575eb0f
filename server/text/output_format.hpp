// How model families write thinking and tool calls, as plain data: what the output parser reads by, and what a grammar for a forced call or a
// forced end of thinking is made of. Not here: the reading itself (output_parser.hpp), prompts.
// Source of the forms: the families' chat templates and what such models are seen to write; docs/tool-calls.md lists them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/text/chat_prompt.hpp"

namespace vigil::text {

struct Thinking {
  std::string open = {};       // empty, and close too: the family does not think aloud
  std::string close = {};
  std::string close_text = {}; // what to make the model write to end its thinking and begin its answer; holds control tokens' pieces as text
  std::string lead = {};       // the beginning of the thinking that the prompt already wrote; the reader gets it as thinking
};

// One way in which a family writes calls. An empty string is a part that the way does not have.
struct CallSyntax {
  enum class Kind {
    json,            // {"name": "f", "arguments": {…}}, alone, several, or in a list
    name_then_json,  // f … {…}
    xml_parameters,  // a tag or key for each argument, values raw
    nested_tags,     // a tag for each argument; objects and lists are tags again
    bare_keys,       // call:f{key:<|"|>text<|"|>,n:1}
    python_calls,    // [f(a=1, b="x"), g()]
    python_tag,      // {"name": …} or f.call(a="x") behind <|python_tag|>: tools that the template itself offers
    python_code      // everything that follows is the code of a tool named python
  };
  Kind kind = Kind::json;
  std::string section_open = {}, section_close = {};  // around all calls
  std::string call_open = {}, call_close = {};        // around one call
  // json
  std::string name_key = "name", arguments_key = "arguments";
  bool name_is_key = false;         // {"f": {…}}
  bool at_start = false;            // no opening text: a brace at the very beginning of the answer
  // name_then_json: call_open HEAD arguments_open {…} call_close; the name stands in HEAD behind name_after and before name_until
  std::string arguments_open = {}, name_after = {}, name_until = {};
  // xml_parameters: call_open NAME name_end (parameter_open KEY key_end … value_open VALUE parameter_close)* call_close.
  // What stands between key_end and value_open, or behind name_end up to name_close, is attributes.
  std::string name_end = {}, name_close = {}, parameter_open = {}, key_end = {}, value_open = {}, parameter_close = {};
  bool strip_newlines = false;      // one line break at each end of a value is not part of it
  bool cdata = false;               // a value may stand in <![CDATA[…]]>
};

// How a grammar writes calls: begin call (between call)* end, where call = before_name NAME after_name ARGUMENTS after_arguments.
struct CallForm {
  enum class Arguments {
    none,  // calls of this family cannot be described this way
    json,  // a JSON object
    xml    // (before_key KEY after_key VALUE after_value)*; a string value is raw text that does not hold after_value, others are JSON
  };
  Arguments arguments = Arguments::none;
  std::string begin = {}, before_name = {}, after_name = {}, after_arguments = {}, between = {}, end = {};
  bool several = true;  // false: one call an answer
  std::string before_key = {}, after_key = {}, after_value = {};
};

// Text in front of each part of an answer that says what it is.
enum class Headers {
  none,
  harmony,         // <|start|>assistant to=functions.f<|channel|>commentary<|message|>
  recipient,       // <|start|>assistant to=self<|message|>
  recipient_line   // >>>f\n
};

struct OutputFormat {
  std::string name = {};                   // of the form, for logs
  Thinking thinking = {};
  Headers headers = Headers::none;
  std::vector<std::string> dropped = {};   // markers without a meaning for a reader
  std::string wrapper_open = {}, wrapper_close = {};  // around the answer, when it begins with the first
  std::vector<CallSyntax> calls = {};
  CallForm form = {};
};

// Whether the prompt's end leaves thinking open, so that what the model writes first is thinking (OutputParser::Options::thinking_open).
bool prompt_opens_thinking(const OutputFormat& format, std::string_view prompt);
bool prompt_opens_thinking(const OutputFormat& format, const std::vector<PromptPart>& prompt);

}  // namespace vigil::text
