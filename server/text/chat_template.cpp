// See chat_template.hpp.
#include "server/text/chat_template.hpp"

#include <utility>

namespace vigil::text {

// What a template has become. So far its text alone: the language is not read yet, and compile says so.
class ChatTemplate::Compiled {
 public:
  std::string source;
  TemplateTraits traits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string, const gguf::Vocabulary&) {
  return Error{"chat template: this build cannot read templates"};
}

std::variant<RenderedPrompt, TemplateError> ChatTemplate::render(const Conversation&, int64_t) const {
  return TemplateError{TemplateError::Kind::failure, "this build cannot read templates"};
}

const TemplateTraits& ChatTemplate::traits() const { return compiled_->traits; }
const std::string& ChatTemplate::source() const { return compiled_->source; }

}  // namespace vigil::text
