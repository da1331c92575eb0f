// Whether two models mean the same by their ids, so that one may guess for the other. Not here: what a vocabulary is (gguf/vocabulary.hpp).
#pragma once

#include "engine/model/files.hpp"
#include "protocol/result.hpp"

namespace vigil::schedule {

// Compared as the headers have them: rows of the embedding, the tokenizer's kind, the pieces one by one, and the ids that begin and end a text. An
// error says where they differ. Files without pieces are compared by the rest.
Result<void> check_same_vocabulary(const model::Files& files, const model::Files& draft);

}  // namespace vigil::schedule
