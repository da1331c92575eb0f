// Small model files in memory, good ones and ones that lie, for the tests of engine/gguf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/byte_letters.hpp"
#include "engine/gguf/characters.hpp"
#include "engine/gguf/file.hpp"
#include "engine/gguf/vocabulary.hpp"
#include "engine/gguf/writer.hpp"

namespace vigil::gguf::test {

inline Result<File> parse(std::vector<std::byte> bytes, const HeaderLimits& limits = {}) {
  return File::parse(*from_memory(std::move(bytes)), limits);
}

// The error text, or a text that matches nothing when it parsed after all.
inline std::string refusal(std::vector<std::byte> bytes, const HeaderLimits& limits = {}) {
  auto file = parse(std::move(bytes), limits);
  return file ? "(it was accepted)" : file.error();
}

inline ByteWriter header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
  ByteWriter out;
  out.raw(std::as_bytes(std::span("GGUF", 4)));
  out.number(version);
  out.number(tensors);
  out.number(pairs);
  return out;
}

// One tensor entry as it lies in a file; every number as given, never checked.
struct RawTensor {
  std::string name = "t";
  std::vector<uint64_t> dims = {32};
  uint32_t type = 0;
  uint64_t offset = 0;
};

// A file of these tensors and `data_bytes` bytes of zeros behind the aligned header.
inline std::vector<std::byte> tensor_file(const std::vector<RawTensor>& tensors, size_t data_bytes) {
  ByteWriter out = header(tensors.size(), 0);
  for (const RawTensor& tensor : tensors) {
    out.string(tensor.name);
    out.number(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t length : tensor.dims) out.number(length);
    out.number(tensor.type);
    out.number(tensor.offset);
  }
  out.pad_to(32);
  out.raw(std::vector<std::byte>(data_bytes));
  return out.bytes();
}

inline uint32_t number_of(ValueType type) { return static_cast<uint32_t>(type); }

struct PieceRow {
  std::string text;
  float score;
  TokenKind kind;
};

enum class ByteTokens { with, without };

inline void put_pieces(Writer& out, const std::vector<PieceRow>& rows) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const PieceRow& row : rows) {
    texts.push_back(row.text);
    scores.push_back(row.score);
    kinds.push_back(static_cast<int32_t>(row.kind));
  }
  out.put_string("tokenizer.ggml.model", "llama");
  out.put_strings("tokenizer.ggml.tokens", texts);
  out.put_f32s("tokenizer.ggml.scores", scores);
  out.put_i32s("tokenizer.ggml.token_type", kinds);
}

// <unk> 0, <s> 1, </s> 2, byte tokens from 3 (or none), then `more`.
inline std::vector<PieceRow> piece_rows(ByteTokens bytes, const std::vector<PieceRow>& more) {
  std::vector<PieceRow> rows = {{"<unk>", 0, TokenKind::unknown}, {"<s>", 0, TokenKind::control}, {"</s>", 0, TokenKind::control}};
  constexpr char digits[] = "0123456789ABCDEF";
  if (bytes == ByteTokens::with) {
    for (size_t byte = 0; byte < 256; ++byte) rows.push_back({std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", 0, TokenKind::byte});
  }
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

// A byte-level vocabulary without merges: byte b is id b, then `more` from 256; pieces in <brackets> are user-defined.
inline void put_byte_level(Writer& out, const std::vector<std::string>& more) {
  std::vector<std::string> texts;
  for (const uint32_t letter : byte_letters) append_utf8(texts.emplace_back(), letter);
  texts.insert(texts.end(), more.begin(), more.end());
  std::vector<int32_t> kinds;
  for (const std::string& text : texts) {
    const bool marker = text.size() > 2 && text.front() == '<' && text.back() == '>';
    kinds.push_back(static_cast<int32_t>(marker && text != "</s>" ? TokenKind::user_defined : TokenKind::normal));
  }
  out.put_string("tokenizer.ggml.model", "gpt2");
  out.put_strings("tokenizer.ggml.tokens", texts);
  out.put_i32s("tokenizer.ggml.token_type", kinds);
}

inline Writer byte_level(const std::vector<std::string>& more, const std::vector<std::string>& merges = {}) {
  Writer out;
  put_byte_level(out, more);
  out.put_strings("tokenizer.ggml.merges", merges);
  return out;
}

inline Result<Vocabulary> vocabulary_of(const Writer& writer) {
  auto file = parse(writer.bytes());
  if (!file) return Error{file.error()};
  return Vocabulary::from(*file);
}

}  // namespace vigil::gguf::test
