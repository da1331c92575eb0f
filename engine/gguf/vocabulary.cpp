// Reads and checks the lists of tokenizer.ggml.*: keys as written by the GGUF converters (ggml project, docs/gguf.md, "Tokenizer").
// Not here: special ids and flags (special_tokens.cpp).
#include "engine/gguf/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/gguf/byte_letters.hpp"
#include "engine/gguf/characters.hpp"
#include "engine/gguf/pre_tokenizer.hpp"
#include "engine/gguf/printable.hpp"

namespace vigil::gguf {

namespace {

constexpr std::string_view blank_mark = "\xE2\x96\x81";  // U+2581

// "<0x0A>" -> 10
std::optional<uint8_t> byte_of(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : piece.substr(3, 2)) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<unsigned>(c - 'A') + 10;
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

std::string with_blanks(std::string_view piece) {
  std::string text;
  for (size_t at = 0; at < piece.size();) {
    if (piece.substr(at, blank_mark.size()) == blank_mark) {
      text += ' ';
      at += blank_mark.size();
    } else {
      text += piece[at++];
    }
  }
  return text;
}

// A character that stands for no byte is left as it is: such pieces come from no text, but somebody may ask for their bytes.
std::string from_letters(std::string_view piece) {
  std::string text;
  for (const Character letter : characters_of(piece)) {
    const auto byte = letter.is(char_class::invalid) ? std::optional(static_cast<uint8_t>(letter.code())) : byte_of_letter(letter.code());
    if (byte) {
      text += static_cast<char>(*byte);
    } else {
      append_utf8(text, letter.code());
    }
  }
  return text;
}

bool is_blank_run(std::string_view piece) {
  return piece.find(blank_mark) == 0 && with_blanks(piece).find_first_not_of(' ') == std::string::npos;
}

Error wrong_length(const char* key, size_t has, size_t wanted) {
  return Error{std::string("key '") + key + "' has " + std::to_string(has) + " elements for " + std::to_string(wanted) + " tokens"};
}

Result<std::vector<float>> read_scores(const File& file, size_t count) {
  constexpr const char* key = "tokenizer.ggml.scores";
  auto scores = file.numbers(key);
  if (!scores) return Error{scores.error()};
  if (scores->size() != count) return wrong_length(key, scores->size(), count);
  std::vector<float> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto score = static_cast<float>((*scores)[i]);
    if (!std::isfinite(score)) return Error{std::string("key '") + key + "': element " + std::to_string(i) + " is not a finite number"};
    result.push_back(score);
  }
  return result;
}

Result<std::vector<TokenKind>> read_kinds(const File& file, size_t count) {
  constexpr const char* key = "tokenizer.ggml.token_type";
  auto kinds = file.integers(key);
  if (!kinds) return Error{kinds.error()};
  if (kinds->size() != count) return wrong_length(key, kinds->size(), count);
  std::vector<TokenKind> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t kind = (*kinds)[i];
    if (kind < 1 || kind > 6) {
      return Error{std::string("key '") + key + "': element " + std::to_string(i) + " is " + std::to_string(kind) + "; kinds are 1 to 6"};
    }
    result.push_back(static_cast<TokenKind>(kind));
  }
  return result;
}

}  // namespace

Result<Vocabulary> Vocabulary::from(const File& file) {
  Vocabulary vocabulary;
  if (auto step = vocabulary.read_model(file); !step) return Error{step.error()};
  if (auto step = vocabulary.read_pieces(file); !step) return Error{step.error()};
  if (auto step = vocabulary.index_bytes(); !step) return Error{step.error()};
  if (auto step = vocabulary.read_merges(file); !step) return Error{step.error()};
  if (auto step = vocabulary.read_special(file); !step) return Error{step.error()};
  return vocabulary;
}

Result<void> Vocabulary::read_model(const File& file) {
  auto name = file.string("tokenizer.ggml.model");
  if (!name) return Error{name.error()};
  if (*name == "llama") return {};
  if (*name == "bert") {
    model_ = TokenizerModel::wordpiece;
    add_space_prefix_ = false;
    add_separator_ = true;
    return {};
  }
  if (*name != "gpt2" && *name != "gemma4") {
    return Error{"key 'tokenizer.ggml.model': tokenizer " + printable(*name) +
                 " is not supported; 'llama' (SentencePiece), 'gpt2' and 'gemma4' (BPE) and 'bert' (WordPiece) are"};
  }
  // Files from before the key came in have none; "default" is what they are read with.
  auto pre = file.string_or("tokenizer.ggml.pre", *name == "gemma4" ? "gemma4" : "default");
  if (!pre) return Error{pre.error()};
  pre_tokenizer_ = find_pre_tokenizer(*pre);
  if (!pre_tokenizer_) {
    return Error{"key 'tokenizer.ggml.pre': the pre-tokenizer " + printable(*pre) + " is not known, and a wrong one would cut words where the model never "
                 "saw them cut; known are " + known_pre_tokenizers()};
  }
  model_ = TokenizerModel::bpe;
  form_ = pre_tokenizer_->byte_level ? PieceForm::byte_level : PieceForm::sentence;
  add_bos_ = pre_tokenizer_->add_bos;
  add_space_prefix_ = false;
  return {};
}

Result<void> Vocabulary::read_pieces(const File& file) {
  auto pieces = file.strings("tokenizer.ggml.tokens");
  if (!pieces) return Error{pieces.error()};
  if (pieces->empty()) return Error{"key 'tokenizer.ggml.tokens' is empty"};
  pieces_ = std::move(*pieces);
  if (model_ == TokenizerModel::spm) {
    auto scores = read_scores(file, pieces_.size());
    if (!scores) return Error{scores.error()};
    scores_ = std::move(*scores);
  }
  if (model_ != TokenizerModel::spm && !file.find("tokenizer.ggml.token_type")) {
    kinds_.assign(pieces_.size(), TokenKind::normal);
  } else {
    auto kinds = read_kinds(file, pieces_.size());
    if (!kinds) return Error{kinds.error()};
    kinds_ = std::move(*kinds);
  }
  index_.build(pieces_);
  return {};
}

Result<void> Vocabulary::index_bytes() {
  byte_ids_.fill(-1);
  if (form_ == PieceForm::byte_level) {
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      std::string letter;
      append_utf8(letter, byte_letters[byte]);
      const auto id = find(letter);
      if (!id) continue;
      const bool is_text = kind(*id) == TokenKind::normal || kind(*id) == TokenKind::unused || kind(*id) == TokenKind::byte;
      if (is_text) byte_ids_[byte] = *id;
    }
    return {};
  }
  for (TokenId id = 0; id < size(); ++id) {
    // A user-defined run of blanks is reached by merging typed blanks, as any piece is; as a marker it would only match a typed U+2581.
    if (kind(id) == TokenKind::user_defined && is_blank_run(piece(id))) kinds_[static_cast<size_t>(id)] = TokenKind::normal;
    if (kind(id) != TokenKind::byte) continue;
    const auto byte = byte_of(piece(id));
    if (!byte) {
      return Error{"key 'tokenizer.ggml.tokens': byte token " + std::to_string(id) + " is " + printable(piece(id)) +
                   "; it must look like '<0x0A>'"};
    }
    byte_ids_[*byte] = id;
  }
  return {};
}

// "left right": the blank that parts them is never a piece's first character, since pieces write blanks otherwise.
Result<void> Vocabulary::read_merges(const File& file) {
  constexpr const char* key = "tokenizer.ggml.merges";
  if (model_ != TokenizerModel::bpe) return {};
  auto lines = file.strings(key);
  if (!lines) return Error{lines.error()};
  merges_.reserve(lines->size());
  std::string joined;
  for (size_t i = 0; i < lines->size(); ++i) {
    const std::string& line = (*lines)[i];
    const auto wrong = [&](const std::string& what) { return Error{std::string("key '") + key + "': element " + std::to_string(i) + ", " + printable(line) + ", " + what}; };
    const size_t parting = line.find(' ', 1);
    if (parting == std::string::npos || parting + 1 == line.size()) return wrong("is not two pieces with a blank between them");
    const std::string_view left = std::string_view(line).substr(0, parting), right = std::string_view(line).substr(parting + 1);
    joined.assign(left).append(right);
    const auto left_id = find(left), right_id = find(right), joined_id = find(joined);
    if (!left_id || !right_id || !joined_id) {
      return wrong("names the piece " + printable(!left_id ? left : !right_id ? right : std::string_view(joined)) + ", which is not in the vocabulary");
    }
    merges_.push_back({*left_id, *right_id, *joined_id});
  }
  return {};
}

std::optional<TokenId> Vocabulary::byte_token(uint8_t byte) const {
  const TokenId id = byte_ids_[byte];
  if (id < 0) return std::nullopt;
  return id;
}

bool Vocabulary::ends(TokenId id) const { return id >= 0 && id < size() && ends_[static_cast<size_t>(id)] != 0; }

std::string Vocabulary::bytes(TokenId id, Control control) const {
  switch (kind(id)) {
    case TokenKind::byte:
      if (form_ == PieceForm::byte_level) break;
      return std::string(1, static_cast<char>(byte_of(piece(id)).value_or(0)));
    case TokenKind::control:
    case TokenKind::unknown: return control == Control::show ? piece(id) : std::string();
    case TokenKind::user_defined: return piece(id);  // matched against the text as it is, so it stands for itself
    case TokenKind::normal:
    case TokenKind::unused: break;
  }
  return form_ == PieceForm::byte_level ? from_letters(piece(id)) : with_blanks(piece(id));
}

}  // namespace vigil::gguf
