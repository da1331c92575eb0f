// A prompt to its ids: a conversation through the model's chat template, or text as it is. Runs perhaps on a worker's thread: it sees no
// state and no clock. Not here: fields of a body, templates (server/text), the turn.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "server/api/api.hpp"
#include "server/text/conversation.hpp"
#include "server/turn/error.hpp"

namespace vigil::api {

// A prompt without a conversation: text that is tokenised as it is, or ids that somebody made. With a suffix the answer is what stands
// between the two, by the vocabulary's ids for that, which must be there.
struct TextPrompt {
  enum class Form : uint8_t { text, ids };
  Form form = Form::text;
  std::string text = {};
  std::vector<gguf::TokenId> ids = {};
  std::string suffix = {};
};

struct EncodedPrompt {
  std::vector<gguf::TokenId> ids;
  bool thinking_open = false;    // it ends inside a thinking block: the answer begins with thinking
};

using PromptResult = std::variant<EncodedPrompt, turn::RequestError>;

// `pictures`: how many the conversation holds; the image token stands once for each in the ids. `unix_seconds`: what templates that print a
// date take it from. Errors: `template_error` with the template's words, `image_invalid` when it has no place for pictures; `field` is their
// param. Throws nothing that a request's catch-all would not name.
PromptResult encode_conversation(const Model& model, const text::Conversation& conversation, const std::vector<turn::Picture>& pictures,
                                 int64_t unix_seconds, const std::string& field);
// In order: beginning id where the model has one, prefix id, text, suffix id, suffix, middle id.
EncodedPrompt encode_text(const Model& model, const TextPrompt& prompt);

// How much text templating and tokenising will go through.
size_t text_bytes(const text::Conversation& conversation);

}  // namespace vigil::api
