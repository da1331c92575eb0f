// See chat_prompt.hpp.
#include "server/text/chat_prompt.hpp"

#include <optional>
#include <utility>

namespace vigil::text {

namespace {

using gguf::TokenId;
using gguf::Tokenizer;

constexpr std::string_view message_begin = "<|im_start|>";
constexpr std::string_view message_end = "<|im_end|>";

// Collects ids: text runs are gathered over the borders of parts and tokenised when a marker or the end comes.
class PromptEncoder {
 public:
  PromptEncoder(const Tokenizer& tokenizer, const gguf::Vocabulary& vocabulary) : tokenizer_(tokenizer), vocabulary_(vocabulary) {}

  void add_typed(std::string_view text) { run_.append(text); }

  void add_fixed(std::string_view text) {
    for (const Tokenizer::Fragment& fragment : tokenizer_.fixed_fragments(text)) {
      if (fragment.marker >= 0) {
        add_marker(fragment.marker);
      } else {
        run_.append(fragment.text);
      }
    }
  }

  void add_picture(const ImageMarkers& markers) {
    end_run();
    append_picture(ids_, markers);
  }

  std::vector<TokenId> finish() {
    end_run();
    const std::optional<TokenId> bos = vocabulary_.bos();
    if (vocabulary_.add_bos() && bos && (ids_.empty() || ids_.front() != *bos)) ids_.insert(ids_.begin(), *bos);
    return std::move(ids_);
  }

 private:
  void add_marker(TokenId id) {
    end_run();
    ids_.push_back(id);
  }

  void end_run() {
    if (run_.empty()) return;
    const std::vector<TokenId> ids = tokenizer_.encode(run_, Tokenizer::Markers::typed, Tokenizer::Bos::none);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    run_.clear();
  }

  const Tokenizer& tokenizer_;
  const gguf::Vocabulary& vocabulary_;
  std::string run_;
  std::vector<TokenId> ids_;
};

PromptPart fixed(std::string text) { return {PromptPart::Source::fixed, std::move(text)}; }
PromptPart typed(std::string text) { return {PromptPart::Source::typed, std::move(text)}; }

void append_text(std::vector<PromptPart>& parts, std::string text) {
  if (!parts.empty() && parts.back().source == PromptPart::Source::typed) {
    parts.back().text += text;
  } else {
    parts.push_back(typed(std::move(text)));
  }
}

std::string call_text(const ToolCall& call) {
  const std::string name = Json(call.name).dump(-1, ' ', false, Json::error_handler_t::replace);
  return "<tool_call>\n{\"name\": " + name + ", \"arguments\": " + (call.arguments.empty() ? "{}" : call.arguments) + "}\n</tool_call>";
}

void append_content(std::vector<PromptPart>& parts, const ChatMessage& message) {
  const size_t before = parts.size();
  for (const ContentPart& part : message.content) {
    if (part.kind == ContentPart::Kind::picture) {
      parts.push_back({PromptPart::Source::picture, ""});
    } else {
      append_text(parts, part.text);
    }
  }
  bool first = parts.size() == before || (parts.size() == before + 1 && parts.back().text.empty());
  for (const ToolCall& call : message.tool_calls) {
    append_text(parts, (first ? "" : "\n") + call_text(call));
    first = false;
  }
}

}  // namespace

PlainFormat plain_format(const gguf::Vocabulary& vocabulary) {
  return vocabulary.find(message_begin) && vocabulary.find(message_end) ? PlainFormat::chatml : PlainFormat::joined;
}

std::vector<PromptPart> chat_prompt(const Conversation& conversation, PlainFormat format) {
  std::vector<PromptPart> parts;
  const auto& messages = conversation.messages;
  if (format == PlainFormat::joined) {
    for (const ChatMessage& message : messages) {
      if (!parts.empty()) parts.push_back(fixed("\n"));
      append_content(parts, message);
    }
    return parts;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    parts.push_back(fixed(std::string(message_begin) + messages[i].role + "\n"));
    append_content(parts, messages[i]);
    if (conversation.continue_last && i + 1 == messages.size()) return parts;
    parts.push_back(fixed(std::string(message_end) + "\n"));
  }
  parts.push_back(fixed(std::string(message_begin) + "assistant\n"));
  return parts;
}

std::vector<gguf::TokenId> encode_prompt(const Tokenizer& tokenizer, const gguf::Vocabulary& vocabulary, const std::vector<PromptPart>& parts,
                                   const ImageMarkers& markers) {
  PromptEncoder encoder(tokenizer, vocabulary);
  for (const PromptPart& part : parts) {
    switch (part.source) {
      case PromptPart::Source::typed: encoder.add_typed(part.text); break;
      case PromptPart::Source::fixed: encoder.add_fixed(part.text); break;
      case PromptPart::Source::picture: encoder.add_picture(markers); break;
    }
  }
  return encoder.finish();
}

}  // namespace vigil::text
