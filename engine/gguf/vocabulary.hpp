// The vocabulary of a model file: pieces, scores, kinds and special ids. Not here: how text becomes ids (tokenizer.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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
  // Reads tokenizer.ggml.*; errors name the key. Array lengths, ids and scores (finite) are checked. Without keys for them, bos, eos and
  // unknown are 1, 2 and 0 (SentencePiece's places) when those pieces are of that kind. A piece that comes twice is found as its last id.
  // A piece that ends a generation counts as control even if the file calls it normal or user-defined, and one that stands for a picture
  // does if the file calls it user-defined: typed text must never become them.
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

  // The raw bytes that a token stands for: blanks restored, byte tokens as one byte; empty for control and unknown tokens unless `show`.
  enum class Control { hide, show };
  std::string bytes(TokenId id, Control control = Control::hide) const;

 private:
  Result<void> index_pieces();
  Result<void> read_special(const File& file);

  TokenizerModel model_ = TokenizerModel::spm;
  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  std::vector<TokenKind> kinds_;
  struct TextHash {  // lets a string_view be looked up without a copy
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> ids_;
  std::array<TokenId, 256> byte_ids_{};  // -1 where the vocabulary has no token for the byte
  std::vector<uint8_t> ends_;            // per id, whether it is in end_ids_
  std::optional<TokenId> bos_, eos_, unknown_;
  bool add_bos_ = true, add_eos_ = false, add_space_prefix_ = true;
  std::vector<TokenId> end_ids_;
};

}  // namespace vigil::gguf
