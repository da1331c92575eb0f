// A model's chat template: compiled once when the model is read, then a conversation in, the parts of its prompt out. Not here: the Jinja
// language (jinja/), prompts of models without a template (chat_prompt.hpp), ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/gguf/vocabulary.hpp"
#include "protocol/result.hpp"
#include "server/text/chat_prompt.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text {

// The prompt of one conversation. What the template wrote itself is fixed; what came from the conversation is typed, wherever it went on its
// way; a picture stands where the template would have put a marker but has none (templates with a marker of their own write it as fixed text).
struct RenderedPrompt {
  std::vector<PromptPart> parts;
  bool thinking_open = false;   // the prompt ends inside a thinking block: the answer begins with thinking
  std::string thinking_tag;     // what opened it, "<think>"; empty when thinking_open is false
};

// Why there is no prompt. refusal: the template itself says so (raise_exception), `message` is its words; failure: it cannot do what it was
// asked (a value of a wrong kind, a limit), `message` says what and on which line.
struct TemplateError {
  enum class Kind { refusal, failure };
  Kind kind = Kind::failure;
  std::string message;
};

// What a template was found to do with small conversations; what it lacks is done for it (docs/templates.md).
struct TemplateTraits {
  bool system = false;             // prints a system message; else its text goes in front of the first user message
  bool tools = false;              // prints the tools; else they are listed in the system message
  bool tool_calls = false;         // prints an assistant's calls; else they are written as text
  bool tool_results = false;       // prints a tool's message; else it goes as a user's
  bool arguments_object = false;   // wants a call's arguments as an object, not as JSON text
  bool content_parts = false;      // wants content as a list of parts, not as text
  bool reasoning = false;          // prints the thinking of earlier turns (reasoning_content)
  bool enable_thinking = false;    // the variable enable_thinking changes the prompt
  bool opens_thinking = false;     // the prompt of a user's turn ends inside a thinking block by default
  bool pictures = false;           // writes something for a picture
};

class ChatTemplate {
 public:
  // `source`: at most max_template_bytes. The error names the line and what was not understood. bos_token and eos_token are the vocabulary's.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string source, const gguf::Vocabulary& vocabulary);
  ~ChatTemplate();

  // `unix_seconds`: what strftime_now prints, in UTC. Safe from several threads at once.
  std::variant<RenderedPrompt, TemplateError> render(const Conversation& conversation, int64_t unix_seconds) const;

  const TemplateTraits& traits() const;
  const std::string& source() const;

 private:
  class Compiled;
  explicit ChatTemplate(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace vigil::text
