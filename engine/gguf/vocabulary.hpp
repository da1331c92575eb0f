// The vocabulary of a model file: pieces, scores, kinds, merges and special ids. Not here: how text becomes ids (tokenizer.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/file.hpp"
#include "engine/gguf/piece_index.hpp"

namespace vigil::gguf {

using TokenId = int32_t;

// tokenizer.ggml.token_type
enum class TokenKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// tokenizer.ggml.model: "llama", "gpt2" (and "gemma4"), "bert"
enum class TokenizerModel { spm, bpe, wordpiece };

// How the text of a normal piece stands for bytes.
enum class PieceForm {
  sentence,    // U+2581 is a blank; byte tokens are "<0x0A>"
  byte_level,  // one visible character a byte (byte_letters.hpp)
};

struct PreTokenizer;

// A step of BPE: the neighbours `left` and `right` become `joined`. Its rank is its place in the list, the lowest goes first.
struct Merge {
  TokenId left = 0, right = 0, joined = 0;
};

// Ids for completing in the middle of a text ("FIM"), where the vocabulary has them.
struct InfillIds {
  std::optional<TokenId> prefix, suffix, middle;  // in front of what stands before, of what stands behind, and of the answer
  std::optional<TokenId> pad, repository, file_separator;
  bool complete() const { return prefix && suffix && middle; }
};

class Vocabulary {
 public:
  // Reads tokenizer.ggml.*; errors name the key. Array lengths, ids, scores (finite) and merges are checked; a merge's three pieces must be in
  // the vocabulary. Without keys for them, bos, eos and unknown of "llama" are 1, 2 and 0 (SentencePiece's places) when those pieces are of
  // that kind. A piece that comes twice is found as its last id. A piece that ends a generation counts as control even if the file calls it
  // normal or user-defined, one for completing in the middle does too, and one that stands for a picture does if the file calls it
  // user-defined: typed text must never become them.
  static Result<Vocabulary> from(const File& file);

  TokenizerModel model() const { return model_; }
  PieceForm form() const { return form_; }
  const PreTokenizer* pre_tokenizer() const { return pre_tokenizer_; }  // of model bpe, else nullptr
  const std::vector<Merge>& merges() const { return merges_; }          // of model bpe
  bool lower_case() const { return lower_case_; }                       // of model wordpiece: text is folded before it is looked up
  bool strip_accents() const { return strip_accents_; }

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  const std::string& piece(TokenId id) const { return pieces_[static_cast<size_t>(id)]; }  // as stored, see form()
  float score(TokenId id) const { return scores_.empty() ? 0 : scores_[static_cast<size_t>(id)]; }
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id)]; }
  std::optional<TokenId> find(std::string_view piece) const { return index_.find(piece, pieces_); }
  std::optional<TokenId> byte_token(uint8_t byte) const;
  // Whether white space behind the token belongs to it where a template writes it (Phi-3).
  bool takes_space_behind(TokenId id) const { return !takes_space_.empty() && takes_space_[static_cast<size_t>(id)] != 0; }

  std::optional<TokenId> bos() const { return bos_; }  // of model wordpiece the classifier's id
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> eot() const { return eot_; }
  std::optional<TokenId> eom() const { return eom_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  std::optional<TokenId> separator() const { return separator_; }
  std::optional<TokenId> padding() const { return padding_; }
  std::optional<TokenId> mask() const { return mask_; }
  const InfillIds& infill() const { return infill_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_separator() const { return add_separator_; }
  bool add_space_prefix() const { return add_space_prefix_; }
  // Every id that ends a generation: eos, eot, eom and pieces such as <|im_end|>, <|eot_id|>, <end_of_turn>, <|endoftext|>.
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  bool ends(TokenId id) const;

  // The raw bytes that a token stands for: blanks restored, byte tokens as one byte; empty for control and unknown tokens unless `show`.
  enum class Control { hide, show };
  std::string bytes(TokenId id, Control control = Control::hide) const;

 private:
  Result<void> read_model(const File& file);
  Result<void> read_pieces(const File& file);
  Result<void> read_merges(const File& file);
  Result<void> index_bytes();
  Result<void> read_special(const File& file);
  Result<void> read_ids(const File& file);
  Result<void> read_flags(const File& file);
  Result<void> mark_ends();
  void mark_space_takers(const File& file);
  void make_control(TokenId id) { kinds_[static_cast<size_t>(id)] = TokenKind::control; }

  TokenizerModel model_ = TokenizerModel::spm;
  PieceForm form_ = PieceForm::sentence;
  const PreTokenizer* pre_tokenizer_ = nullptr;
  std::vector<std::string> pieces_;
  std::vector<float> scores_;  // of model spm
  std::vector<TokenKind> kinds_;
  std::vector<Merge> merges_;
  PieceIndex index_;
  std::array<TokenId, 256> byte_ids_{};  // -1 where the vocabulary has no token for the byte
  std::vector<uint8_t> ends_;            // per id, whether it is in end_ids_
  std::vector<uint8_t> takes_space_;     // per id; empty when none does
  std::optional<TokenId> bos_, eos_, eot_, eom_, unknown_, separator_, padding_, mask_;
  InfillIds infill_;
  bool add_bos_ = true, add_eos_ = false, add_separator_ = false, add_space_prefix_ = true, lower_case_ = true, strip_accents_ = true;
  std::vector<TokenId> end_ids_;
};

}  // namespace vigil::gguf
