// What a client of the engine wants: a continuation of some ids, or their vector. Not here: how it is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/sample/constraint.hpp"
#include "engine/sample/settings.hpp"
#include "engine/schedule/pictures.hpp"
#include "protocol/lines.hpp"

namespace vigil::schedule {

struct Request {
  std::optional<protocol::RequestTag> tag;
  int64_t max_new = 0;  // tokens; 0 = only read the prompt
  std::vector<TokenId> ids;
  sample::Settings settings = {};
  sample::ConstraintPlan constraint = {};
  std::shared_ptr<const Pictures> pictures = {};  // ids below 0 are rows of theirs
  std::optional<protocol::Pooling> embed = {};  // the vector of the ids instead of a continuation
};

// Whether the ids can be run at all: at least one, all in the vocabulary, and room in the context: for one token more, unless only a vector is wanted.
Result<void> check_ids(const Request& request, int64_t vocabulary, int64_t context);

}  // namespace vigil::schedule
