// Sorted texts, each laid down from where it parts from the one before.
#include "engine/sample/token_trie.hpp"

#include <algorithm>
#include <numeric>

namespace vigil::sample {

TokenTrie::TokenTrie(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (!texts_[id].empty() && texts_[id].size() <= max_token_bytes) tokens_.push_back(static_cast<int32_t>(id));
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](int32_t a, int32_t b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<uint32_t> open;  // the node of each byte of the text before
  std::string_view before;
  for (size_t t = 0; t < tokens_.size(); ++t) {
    const std::string_view now = text(tokens_[t]);
    const size_t shared = static_cast<size_t>(std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first - before.begin());
    while (open.size() > shared) {
      nodes_[open.back()].skip = static_cast<uint32_t>(nodes_.size());
      open.pop_back();
    }
    for (size_t i = shared; i < now.size(); ++i) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(t), static_cast<uint16_t>(i + 1), static_cast<uint8_t>(now[i])});
    }
    depth_ = std::max(depth_, now.size());
    before = now;
  }
  for (const uint32_t node : open) nodes_[node].skip = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({static_cast<uint32_t>(nodes_.size() + 1), static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace vigil::sample
