// The vocabulary of a model file: pieces, scores, kinds and special ids. Not here: how text becomes ids (tokenizer.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/gguf/file.hpp"

namespace vigil::gguf {

using TokenId = int32_t;

// tokenizer.ggml.token_type
enum class TokenKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

enum class TokenizerModel { spm };  // tokenizer.ggml.model "llama"; others come with their own issue

class Vocabulary {
 public:
  // Reads tokenizer.ggml.*; errors name the key. Array lengths, ids and scores (finite) are checked.
  static Result<Vocabulary> from(const File& file);

  TokenizerModel model() const { return model_; }
  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  const std::string& piece(TokenId id) const { return pieces_[static_cast<size_t>(id)]; }  // as stored: U+2581 for a blank, "<0x0A>" for a byte
  float score(TokenId id) const { return scores_[static_cast<size_t>(id)]; }
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id)]; }
  std::optional<TokenId> find(std::string_view piece) const;
  std::optional<TokenId> byte_token(uint8_t byte) const;

  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; }
  // Every id that ends a generation: eos, eot, eom and pieces such as <|im_end|>, <|eot_id|>, <end_of_turn>, <|endoftext|>.
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  bool ends(TokenId id) const;

  // The raw bytes that a token stands for: blanks restored, byte tokens as one byte; empty for control tokens unless `show_control`.
  enum class Control { hide, show };
  std::string bytes(TokenId id, Control control = Control::hide) const;

 private:
  TokenizerModel model_ = TokenizerModel::spm;
  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  std::vector<TokenKind> kinds_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<TokenId> byte_ids_;  // 256 entries or none
  std::optional<TokenId> bos_, eos_, unknown_;
  bool add_bos_ = true, add_eos_ = false, add_space_prefix_ = true;
  std::vector<TokenId> end_ids_;
};

}  // namespace vigil::gguf
