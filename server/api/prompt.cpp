// See prompt.hpp.
#include "server/api/prompt.hpp"

#include <utility>

#include "server/text/chat_prompt.hpp"

namespace vigil::api {

namespace {

turn::RequestError no_place(const turn::Picture& first) {
  return {turn::ErrorCode::image_invalid,
          first.part + " is a picture, and the model's chat template has no place for it (vision.image_token says what stands there).", first.part, 1};
}

}  // namespace

PromptResult encode_conversation(const Model& model, const text::Conversation& conversation, const std::vector<turn::Picture>& pictures,
                                 int64_t /*unix_seconds*/, const std::string& /*field*/) {
  EncodedPrompt out;
  const std::vector<text::PromptPart> parts = text::chat_prompt(conversation, text::plain_format(*model.vocabulary));
  out.ids = text::encode_prompt(*model.tokenizer, *model.vocabulary, parts, model.image.value_or(text::ImageMarkers{}));
  if (!pictures.empty() && !text::place_pictures(out.ids, *model.image, pictures.size())) return no_place(pictures.front());
  return out;
}

EncodedPrompt encode_text(const Model& model, const TextPrompt& prompt) {
  if (prompt.form == TextPrompt::Form::ids) return {prompt.ids, false};
  return {model.tokenizer->encode(prompt.text, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::as_model), false};
}

size_t text_bytes(const text::Conversation& conversation) {
  size_t bytes = 0;
  for (const text::ChatMessage& message : conversation.messages) {
    bytes += message.role.size() + message.reasoning.size();
    for (const text::ContentPart& part : message.content) bytes += part.text.size();
    for (const text::ToolCall& call : message.tool_calls) bytes += call.name.size() + call.arguments.size();
  }
  for (const text::ToolDefinition& tool : conversation.tools) {
    // A schema's own text is bounded by its body's; its names and values make up most of it.
    bytes += tool.name.size() + tool.description.size() + tool.parameters.dump(-1, ' ', false, text::Json::error_handler_t::replace).size();
  }
  return bytes;
}

}  // namespace vigil::api
