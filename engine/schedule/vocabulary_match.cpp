// Keys: ggml project, docs/gguf.md, tokenizer.ggml.*. The pre-tokenizer is no part of it: a draft model never sees text.
#include "engine/schedule/vocabulary_match.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace vigil::schedule {
namespace {

constexpr const char* id_keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                   "tokenizer.ggml.unknown_token_id"};

Result<std::vector<std::string>> pieces_of(const gguf::File& file) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return std::vector<std::string>();
  return file.strings("tokenizer.ggml.tokens");
}

Error differ(const std::string& what, const std::string& drafts, const std::string& models) {
  return Error{"it has another vocabulary: " + what + " is " + drafts + ", the model's is " + models};
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

Result<void> check_same_vocabulary(const model::Files& files, const model::Files& draft) {
  const gguf::File& theirs = files.metadata();
  const gguf::File& mine = draft.metadata();
  const Result<std::string> their_kind = theirs.string_or("tokenizer.ggml.model", ""), kind = mine.string_or("tokenizer.ggml.model", "");
  for (const auto* read : {&their_kind, &kind}) {
    if (!*read) return Error{read->error()};
  }
  if (*kind != *their_kind) return differ("tokenizer.ggml.model", quoted(*kind), quoted(*their_kind));

  const Result<int64_t> their_rows = model::vocabulary_size(files), rows = model::vocabulary_size(draft);
  for (const auto* read : {&their_rows, &rows}) {
    if (!*read) return Error{read->error()};
  }
  if (*rows != *their_rows) return differ("the number of tokens", std::to_string(*rows), std::to_string(*their_rows));

  const Result<std::vector<std::string>> their_pieces = pieces_of(theirs), pieces = pieces_of(mine);
  for (const auto* read : {&their_pieces, &pieces}) {
    if (!*read) return Error{read->error()};
  }
  if (pieces->size() != their_pieces->size()) {
    return differ("the number of pieces", std::to_string(pieces->size()), std::to_string(their_pieces->size()));
  }
  const auto [piece, their_piece] = std::mismatch(pieces->begin(), pieces->end(), their_pieces->begin());
  if (piece != pieces->end()) return differ("token " + std::to_string(piece - pieces->begin()), quoted(*piece), quoted(*their_piece));

  for (const char* key : id_keys) {
    const Result<int64_t> their_id = theirs.integer_or(key, -1), id = mine.integer_or(key, -1);
    for (const auto* read : {&their_id, &id}) {
      if (!*read) return Error{read->error()};
    }
    const auto named = [](int64_t value) { return value < 0 ? std::string("absent") : std::to_string(value); };
    if (*id != *their_id) return differ(key, named(*id), named(*their_id));
  }
  return {};
}

}  // namespace vigil::schedule
