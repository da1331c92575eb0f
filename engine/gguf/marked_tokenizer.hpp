// What all tokenizers share: markers come out of the text first, and what is between them goes to the model's own algorithm.
#pragma once

#include "engine/gguf/marker_matcher.hpp"
#include "engine/gguf/tokenizer.hpp"

namespace vigil::gguf {

class MarkedTokenizer : public Tokenizer {
 public:
  explicit MarkedTokenizer(const Vocabulary& vocabulary);

  std::vector<TokenId> encode(std::string_view text, Markers markers, Bos bos) const final;
  std::vector<Fragment> fixed_fragments(std::string_view text) const final;
  std::string decode(const std::vector<TokenId>& ids) const override;  // the bytes of the ids, one behind the other

 protected:
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of markers and texts, in order. Texts are not empty.
  virtual void append(const std::vector<Fragment>& fragments, std::vector<TokenId>& ids) const = 0;

 private:
  std::vector<Fragment> fragments(std::string_view text, const MarkerMatcher& matcher) const;

  const Vocabulary& vocabulary_;
  MarkerMatcher typed_, plain_, special_, fixed_;
};

std::unique_ptr<Tokenizer> make_spm_tokenizer(const Vocabulary& vocabulary);
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const Vocabulary& vocabulary);
std::unique_ptr<Tokenizer> make_wordpiece_tokenizer(const Vocabulary& vocabulary);

}  // namespace vigil::gguf
