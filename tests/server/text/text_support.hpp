// A small vocabulary in memory: <unk> 0, <s> 1, </s> 2, the byte tokens from 3, then pieces of the test's own.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/gguf/byte_source.hpp"
#include "engine/gguf/file.hpp"
#include "engine/gguf/tokenizer.hpp"
#include "engine/gguf/vocabulary.hpp"
#include "engine/gguf/writer.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text::test {

struct Piece {
  std::string text;
  float score = 0;
  gguf::TokenKind kind = gguf::TokenKind::normal;
};

enum class AddBos { no, yes };

inline std::shared_ptr<const gguf::Vocabulary> make_vocabulary(const std::vector<Piece>& more, AddBos add_bos = AddBos::yes) {
  std::vector<Piece> pieces = {{"<unk>", 0, gguf::TokenKind::unknown}, {"<s>", 0, gguf::TokenKind::control}, {"</s>", 0, gguf::TokenKind::control}};
  constexpr char digits[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    pieces.push_back({std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", 0, gguf::TokenKind::byte});
  }
  pieces.insert(pieces.end(), more.begin(), more.end());
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const Piece& piece : pieces) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    kinds.push_back(static_cast<int32_t>(piece.kind));
  }
  gguf::Writer writer;
  writer.put_string("tokenizer.ggml.model", "llama");
  writer.put_strings("tokenizer.ggml.tokens", texts);
  writer.put_f32s("tokenizer.ggml.scores", scores);
  writer.put_i32s("tokenizer.ggml.token_type", kinds);
  writer.put_bool("tokenizer.ggml.add_bos_token", add_bos == AddBos::yes);
  auto file = gguf::File::parse(*gguf::from_memory(writer.bytes()));
  if (!file) throw std::runtime_error(file.error());
  auto vocabulary = gguf::Vocabulary::from(*file);
  if (!vocabulary) throw std::runtime_error(vocabulary.error());
  return std::make_shared<const gguf::Vocabulary>(std::move(vocabulary).value());
}

inline std::shared_ptr<const gguf::Tokenizer> make_tokenizer_of(const gguf::Vocabulary& vocabulary) {
  auto tokenizer = gguf::make_tokenizer(vocabulary);
  if (!tokenizer) throw std::runtime_error(tokenizer.error());
  return std::move(tokenizer).value();
}

// A message as text with pictures at places of it (bytes before each, ascending).
inline ChatMessage said(std::string role, const std::string& text, const std::vector<size_t>& pictures = {}) {
  ChatMessage message{std::move(role)};
  size_t at = 0;
  for (const size_t place : pictures) {
    if (place > at) message.content.push_back({ContentPart::Kind::text, text.substr(at, place - at)});
    message.content.push_back({ContentPart::Kind::picture});
    at = place;
  }
  if (at < text.size()) message.content.push_back({ContentPart::Kind::text, text.substr(at)});
  return message;
}

inline Conversation talk(std::vector<ChatMessage> messages) {
  Conversation conversation;
  conversation.messages = std::move(messages);
  return conversation;
}

inline gguf::TokenId byte_id(unsigned char byte) { return 3 + byte; }
constexpr gguf::TokenId first_own = 3 + 256;  // the id of `more[0]`
constexpr char blank[] = "\xE2\x96\x81";      // U+2581

}  // namespace vigil::text::test
