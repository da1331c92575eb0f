// Reads and checks tokenizer.ggml.*: keys as written by the GGUF converters (ggml project, docs/gguf.md, "Tokenizer").
#include "engine/gguf/vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/gguf/printable.hpp"

namespace vigil::gguf {

namespace {

// Pieces that end a turn or a text in the chat formats in use, whatever the file's own ids say: files often name only one of several.
constexpr std::string_view end_pieces[] = {
    "</s>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<|END_OF_TURN_TOKEN|>",
    "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // full-width bars
};

// Pieces that stand for a picture or around it. Files sometimes call them user-defined, and then typed text would become them.
constexpr std::string_view picture_pieces[] = {
    "<image_soft_token>", "<start_of_image>", "<end_of_image>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|media_pad|>", "<|media_end|>",
    "<IMG_CONTEXT>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image|>", "<|image>", "<image|>", "<image>", "<fake_token_around_image>",
    "<|patch|>", "<|image_start|>", "<|image_end|>",
};

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

// An id key: absent is fine, outside the vocabulary is not.
Result<std::optional<TokenId>> read_id(const File& file, const char* key, size_t count) {
  if (!file.find(key)) return std::optional<TokenId>();
  auto id = file.integer(key);
  if (!id) return Error{id.error()};
  if (*id < 0 || static_cast<uint64_t>(*id) >= count) {
    return Error{std::string("key '") + key + "': id " + std::to_string(*id) + " is outside the vocabulary of " +
                 std::to_string(count) + " tokens"};
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

}  // namespace

Result<Vocabulary> Vocabulary::from(const File& file) {
  auto model = file.string("tokenizer.ggml.model");
  if (!model) return Error{model.error()};
  if (*model != "llama") {
    return Error{"key 'tokenizer.ggml.model': tokenizer " + printable(*model) + " is not supported yet; 'llama' (SentencePiece) is"};
  }
  auto pieces = file.strings("tokenizer.ggml.tokens");
  if (!pieces) return Error{pieces.error()};
  if (pieces->empty()) return Error{"key 'tokenizer.ggml.tokens' is empty"};
  const size_t count = pieces->size();
  auto scores = read_scores(file, count);
  if (!scores) return Error{scores.error()};
  auto kinds = read_kinds(file, count);
  if (!kinds) return Error{kinds.error()};

  Vocabulary vocabulary;
  vocabulary.pieces_ = std::move(*pieces);
  vocabulary.scores_ = std::move(*scores);
  vocabulary.kinds_ = std::move(*kinds);
  if (auto step = vocabulary.index_pieces(); !step) return Error{step.error()};
  if (auto step = vocabulary.read_special(file); !step) return Error{step.error()};
  return vocabulary;
}

Result<void> Vocabulary::index_pieces() {
  byte_ids_.fill(-1);
  ids_.reserve(pieces_.size());
  for (TokenId id = 0; id < size(); ++id) {
    ids_[piece(id)] = id;
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

Result<void> Vocabulary::read_special(const File& file) {
  const size_t count = pieces_.size();
  const auto add_end = [&](TokenId id) {
    if (std::find(end_ids_.begin(), end_ids_.end(), id) == end_ids_.end()) end_ids_.push_back(id);
  };
  const auto usual = [&](TokenId id, TokenKind wanted) { return id < size() && kind(id) == wanted ? std::optional(id) : std::nullopt; };

  const struct {
    const char* key;
    std::optional<TokenId>* place;
    std::optional<TokenId> fallback;
  } ids[] = {{"tokenizer.ggml.bos_token_id", &bos_, usual(1, TokenKind::control)},
             {"tokenizer.ggml.eos_token_id", &eos_, usual(2, TokenKind::control)},
             {"tokenizer.ggml.unknown_token_id", &unknown_, usual(0, TokenKind::unknown)}};
  for (const auto& entry : ids) {
    auto id = read_id(file, entry.key, count);
    if (!id) return Error{id.error()};
    *entry.place = *id ? *id : entry.fallback;
  }
  if (eos_) add_end(*eos_);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    auto id = read_id(file, key, count);
    if (!id) return Error{id.error()};
    if (*id) add_end(**id);
  }
  for (const std::string_view text : end_pieces) {
    if (const auto id = find(text)) add_end(*id);
  }
  ends_.assign(count, 0);
  for (const TokenId id : end_ids_) {
    if (kind(id) == TokenKind::byte) {
      return Error{"token " + std::to_string(id) + " ends a generation, but is the byte token " + printable(piece(id))};
    }
    ends_[static_cast<size_t>(id)] = 1;
    kinds_[static_cast<size_t>(id)] = TokenKind::control;
  }

  for (const std::string_view text : picture_pieces) {
    const auto id = find(text);
    if (id && kind(*id) == TokenKind::user_defined) kinds_[static_cast<size_t>(*id)] = TokenKind::control;
  }

  const struct {
    const char* key;
    bool* place;
  } flags[] = {{"tokenizer.ggml.add_bos_token", &add_bos_},
               {"tokenizer.ggml.add_eos_token", &add_eos_},
               {"tokenizer.ggml.add_space_prefix", &add_space_prefix_}};
  for (const auto& entry : flags) {
    auto flag = file.boolean_or(entry.key, *entry.place);
    if (!flag) return Error{flag.error()};
    *entry.place = *flag;
  }
  const bool all_bytes = std::none_of(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id < 0; });
  if (!all_bytes && !unknown_) {
    return Error{"key 'tokenizer.ggml.tokens': the vocabulary has neither all 256 byte tokens nor an unknown token, so some text has no ids"};
  }
  return {};
}

std::optional<TokenId> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> Vocabulary::byte_token(uint8_t byte) const {
  const TokenId id = byte_ids_[byte];
  if (id < 0) return std::nullopt;
  return id;
}

bool Vocabulary::ends(TokenId id) const { return id >= 0 && id < size() && ends_[static_cast<size_t>(id)] != 0; }

std::string Vocabulary::bytes(TokenId id, Control control) const {
  switch (kind(id)) {
    case TokenKind::byte: return std::string(1, static_cast<char>(byte_of(piece(id)).value_or(0)));
    case TokenKind::control:
    case TokenKind::unknown: return control == Control::show ? piece(id) : std::string();
    case TokenKind::user_defined: return piece(id);  // matched against the text as it is, so it stands for itself
    case TokenKind::normal:
    case TokenKind::unused: break;
  }
  return with_blanks(piece(id));
}

}  // namespace vigil::gguf
