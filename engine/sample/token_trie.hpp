// The texts of a vocabulary's tokens as a trie in walking order: tokens that begin alike are looked at together. Immutable once made, shared
// by threads. Not here: which tokens a grammar allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::sample {

class TokenTrie {
 public:
  // One node, in the order of a walk that goes down first. A node's children follow it; `skip` is the first node that is not below it.
  struct Node {
    uint32_t skip = 0;
    uint32_t first_token = 0;  // its tokens are tokens()[first_token] up to the next node's first_token
    uint16_t depth = 0;        // bytes read with this node, from 1
    uint8_t byte = 0;
  };
  static constexpr size_t max_token_bytes = 4096;  // longer ones are left out: no grammar needs them

  // `texts[id]` is what token `id` adds to a text, empty for tokens that no grammar may choose by their text (control tokens).
  explicit TokenTrie(std::vector<std::string> texts);

  const std::vector<Node>& nodes() const { return nodes_; }  // a last one, of depth 0, ends the tokens of the one before
  const std::vector<int32_t>& tokens() const { return tokens_; }
  size_t depth() const { return depth_; }          // bytes of the longest token
  size_t size() const { return texts_.size(); }    // ids run from 0 to size() - 1
  std::string_view text(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < texts_.size() ? std::string_view(texts_[static_cast<size_t>(id)]) : ""; }

 private:
  std::vector<std::string> texts_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t depth_ = 0;
};

}  // namespace vigil::sample
