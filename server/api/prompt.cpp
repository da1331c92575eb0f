// See prompt.hpp.
#include "server/api/prompt.hpp"

#include <utility>

#include "server/text/output_format.hpp"
#include "server/text/chat_prompt.hpp"
#include "server/text/chat_template.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

turn::RequestError no_place(const turn::Picture& first) {
  return {turn::ErrorCode::image_invalid,
          first.part + " is a picture, and the model's chat template has no place for it (vision.image_token says what stands there).", first.part, 1};
}

// What a template that was not made for these messages says of them, in its own words.
turn::RequestError refused(const text::TemplateError& error, const std::string& field) {
  constexpr size_t most_bytes = 1000;  // its words may hold the conversation's own
  const bool refusal = error.kind == text::TemplateError::Kind::refusal;
  return {turn::ErrorCode::template_error,
          (refusal ? "The model's chat template refuses the conversation: " : "The model's chat template failed on the conversation: ") +
              std::string(text::clip_utf8(text::valid_utf8(error.message), most_bytes)),
          field, 1};
}

}  // namespace

PromptResult encode_conversation(const Model& model, const text::Conversation& conversation, const std::vector<turn::Picture>& pictures,
                                 int64_t unix_seconds, const std::string& field) {
  text::RenderedPrompt rendered;
  if (model.chat) {
    auto result = model.chat->render(conversation, unix_seconds);
    if (const auto* error = std::get_if<text::TemplateError>(&result)) return refused(*error, field);
    rendered = std::move(std::get<text::RenderedPrompt>(result));
  } else {
    rendered.parts = text::chat_prompt(conversation, text::plain_format(*model.vocabulary));
  }
  EncodedPrompt out;
  out.thinking_open = rendered.thinking_open || (model.output && text::prompt_opens_thinking(*model.output, rendered.parts));
  out.ids = text::encode_prompt(*model.tokenizer, *model.vocabulary, rendered.parts, model.image.value_or(text::ImageMarkers{}));
  if (!pictures.empty() && !text::place_pictures(out.ids, *model.image, pictures.size())) return no_place(pictures.front());
  return out;
}

namespace {

std::vector<gguf::TokenId> encode_infill(const Model& model, const TextPrompt& prompt) {
  const gguf::Vocabulary& vocabulary = *model.vocabulary;
  const gguf::InfillIds& infill = vocabulary.infill();
  std::vector<gguf::TokenId> ids;
  const auto add = [&](const std::vector<gguf::TokenId>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  const auto plain = [&](const std::string& text) {
    return model.tokenizer->encode(text, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::none);
  };
  if (vocabulary.add_bos() && vocabulary.bos()) ids.push_back(*vocabulary.bos());
  ids.push_back(*infill.prefix);
  add(prompt.form == TextPrompt::Form::ids ? prompt.ids : plain(prompt.text));
  ids.push_back(*infill.suffix);
  add(plain(prompt.suffix));
  ids.push_back(*infill.middle);
  return ids;
}

}  // namespace

EncodedPrompt encode_text(const Model& model, const TextPrompt& prompt) {
  if (!prompt.suffix.empty()) return {encode_infill(model, prompt), false};
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
